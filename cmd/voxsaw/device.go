package main

import (
	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/tuning"
)

// deviceOptions choose the machine that a network runs on.
type deviceOptions struct {
	Device    string    `yaml:"device" help:"what to compute on" oneof:"cpu cuda"`
	Precision string    `yaml:"precision,omitempty" help:"how a GPU multiplies: bf16, tf32 or fp32 (exact); empty: bf16"`
	GPUMemory gibibytes `yaml:"gpu_memory,omitempty" help:"limit in GiB of what is taken of the GPU's memory; 0: 95 % of what is free"`
	Threads   int       `yaml:"threads" help:"CPU threads; 0: all cores"`
	Conv      string    `yaml:"conv" help:"convolution algorithms: auto (the fastest for each layer) or direct" oneof:"auto direct"`
	Tuning    string    `yaml:"tuning,omitempty" help:"file of voxsaw tune: which algorithms were measured to be the fastest here; empty: a cost model chooses"`
	Choices   []string  `yaml:"choices,omitempty" flag:"-" help:"convolution = algorithm, from the tuning file"`
}

func defaultDevice() deviceOptions { return deviceOptions{Device: "cpu", Conv: "auto"} }

// open makes the device; release gives its threads back. A tuning file is read here, and its
// choices become part of the settings: so a run's folder has them, and the run cannot be resumed
// with others.
func (o *deviceOptions) open() (dev voxsaw.Device, release func(), err error) {
	if o.Device == "cuda" {
		if dev, err = voxsaw.Open("cuda", voxsaw.DeviceOptions{Precision: o.Precision, Memory: o.GPUMemory.bytes()}); err != nil {
			return nil, nil, withHint(err, "compute on the processor: --device cpu")
		}
		return dev, func() { dev.Close() }, nil
	}
	if o.Tuning != "" {
		plain, err := voxsaw.Open(o.Device, voxsaw.DeviceOptions{Threads: o.Threads})
		if err != nil {
			return nil, nil, err
		}
		processor := plain.Describe()
		plain.Close()
		file, err := tuning.Load(o.Tuning, processor)
		if err != nil {
			return nil, nil, withHint(err, "measure here: voxsaw tune --out FILE")
		}
		o.Choices = file.Choices
	}
	choices, err := tuning.Parse(o.Choices)
	if err != nil {
		return nil, nil, &usageError{err}
	}
	if dev, err = voxsaw.Open(o.Device, voxsaw.DeviceOptions{Threads: o.Threads, Conv: o.Conv, Choices: choices}); err != nil {
		return nil, nil, err
	}
	return dev, func() { dev.Close() }, nil
}
