package voxsaw

import (
	"fmt"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cuda"
)

// A Device is a machine that networks run on, opened by [Open]. The packages of this module take no
// other.
type Device interface {
	// Name is the word by which the device was opened.
	Name() string
	// Describe is a line for a person: processor, features in use, threads.
	Describe() string
	// Close gives back what the device holds. What was made with it cannot be used afterwards.
	Close() error
}

// DeviceOptions say how a device is used. The zero value is the best that the machine has.
type DeviceOptions struct {
	// Threads is how many CPU cores are used; 0: all that the process may use.
	Threads int
	// Conv is how convolutions are computed on a CPU: "" or "auto" takes the fastest algorithm for
	// each layer, "direct" no fast transforms.
	Conv string
	// Choices are algorithms that were measured to be the fastest on this machine, by convolution,
	// as voxsaw tune writes them. They overrule the cost model. They are looked up whenever a
	// network is made for the device: the map may be filled until then.
	Choices map[string]string
	// Precision is how a GPU multiplies: "" or "bf16", "tf32", or "fp32", which is exact.
	Precision string
	// Process is the number of this process, from 0, among those of a job that compute on this
	// machine's GPUs: each takes a GPU of its own as far as there are any. 0, as for a process that
	// works alone, is the first GPU that the driver shows.
	Process int
	// Memory limits the bytes that a GPU may take of its memory; 0: all that is free.
	Memory int64
}

// Devices lists the names that [Open] takes in this build.
func Devices() []string {
	if cuda.Compiled {
		return []string{"cpu", "cuda"}
	}
	return []string{"cpu"}
}

// Open opens a device: "cpu", on every machine, or "cuda", an NVIDIA GPU, in builds under the tag
// gpu.
func Open(name string, o DeviceOptions) (Device, error) {
	switch name {
	case "cpu", "":
		return cpu.New(cpu.Options{Threads: o.Threads, Conv: o.Conv, Choices: o.Choices})
	case "cuda":
		return cuda.Open(cuda.Options{Precision: o.Precision, Memory: o.Memory, Choices: o.Choices, Process: o.Process})
	}
	return nil, fmt.Errorf("there is no device %q in this build: choose one of %v", name, strings.Join(Devices(), ", "))
}
