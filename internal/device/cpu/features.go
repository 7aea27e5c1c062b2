package cpu

import (
	"fmt"
	"os"
)

// chooseKernels returns the best table of kernels that the machine can run, or the one that the environment variable VOXSAW_CPU asks for: avx512, avx2 or generic.
func chooseKernels() (*kernels, error) {
	tables := availableKernels()
	want := os.Getenv("VOXSAW_CPU")
	if want == "" {
		return tables[0], nil
	}
	var names []string
	for _, ks := range tables {
		if ks.name == want {
			return ks, nil
		}
		names = append(names, ks.name)
	}
	return nil, fmt.Errorf("VOXSAW_CPU=%s: this machine has %v", want, names)
}

// Describe implements [device.Device].
func (c *CPU) Describe() string {
	return fmt.Sprintf("%s, %s kernels, %d threads", processor(), c.kernels.name, c.opt.Threads)
}
