package train

import (
	"io"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

// writeAtomic writes a file of the run's folder: whatever happens, the name holds the old content or the new one, whole.
func writeAtomic(path string, write func(io.Writer) error) error {
	return atomicfile.Write(path, write)
}
