//go:build !gpu

package cuda

import (
	"errors"

	"github.com/voxsaw/voxsaw/internal/device"
)

// Compiled says whether this build can compute on a GPU.
const Compiled = false

// Open says that the program was built without CUDA.
func Open(Options) (device.Device, error) {
	return nil, errors.New("this program was built without CUDA: take the archive of a release whose name ends in " +
		"linux_amd64_gpu, or build with -tags gpu (scripts/cuda-toolchain.py says how)")
}
