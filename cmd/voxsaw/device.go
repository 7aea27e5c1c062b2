package main

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
)

// deviceOptions choose the machine that a network runs on. Only this package knows which devices there are.
type deviceOptions struct {
	Device  string `yaml:"device" help:"what to compute on" oneof:"cpu"`
	Threads int    `yaml:"threads" help:"CPU threads; 0: all cores"`
	Conv    string `yaml:"conv" help:"convolution algorithms: auto (the fastest for each layer) or direct" oneof:"auto direct"`
}

func defaultDevice() deviceOptions { return deviceOptions{Device: "cpu", Conv: "auto"} }

// open makes the device; close gives its threads back.
func (o deviceOptions) open() (dev device.Device, close func(), err error) {
	c, err := cpu.New(cpu.Options{Threads: o.Threads, Conv: o.Conv})
	if err != nil {
		return nil, nil, err
	}
	return c, c.Close, nil
}
