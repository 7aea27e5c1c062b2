package cpu

import (
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// chooseKernels returns the best table of kernels that the machine can run, or the one that the
// environment variable VOXSAW_CPU asks for: avx512, avx2, neon or generic.
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
	return nil, fmt.Errorf("VOXSAW_CPU=%s: this machine has %s", want, strings.Join(names, ", "))
}

// MeasuredOn implements [device.Chooser].
func (c *CPU) MeasuredOn() string {
	return fmt.Sprintf("%s, %s kernels, %s", processor(), c.kernels.name, numbers.Count(c.opt.Threads, "thread"))
}

// Describe implements [device.Device].
func (c *CPU) Describe() string {
	text := c.MeasuredOn()
	if n := len(c.opt.Choices); n > 0 {
		sum := crc32.NewIEEE()
		for _, key := range slices.Sorted(maps.Keys(c.opt.Choices)) {
			fmt.Fprintln(sum, key, c.opt.Choices[key])
		}
		// another choice rounds differently: who compares machines must see it
		text += fmt.Sprintf(", %d convolutions chosen (%08x)", n, sum.Sum32())
	}
	return text
}

// processor is the model name where the system tells it, the architecture elsewhere.
func processor() string {
	info, _ := smallfile.Read("/proc/cpuinfo", smallfile.Record) // Linux
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t: "))
		}
	}
	return runtime.GOARCH
}
