package cli

import (
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/tuning"
)

// deviceOptions choose the machine that a network runs on.
type deviceOptions struct {
	Device    string    `yaml:"device" help:"what to compute on" oneof:"cpu cuda"`
	Precision string    `yaml:"precision,omitempty" help:"how a GPU multiplies: bf16, tf32 or fp32 (exact); empty: bf16"`
	GPUMemory gibibytes `yaml:"gpu_memory,omitempty" help:"limit of what is taken of the GPU's memory: 16GiB, 512MiB, or a number of GiB; 0: 95 % of what is free"`
	Threads   int       `yaml:"threads" help:"CPU threads; 0: all cores" range:"[0,4096]"`
	Conv      string    `yaml:"conv" help:"convolution algorithms: auto (the fastest for each layer) or direct" oneof:"auto direct"`
	Tuning    string    `yaml:"tuning,omitempty" help:"file of voxsaw tune: which algorithms were measured to be the fastest here; empty: what comes with the program for this GPU, or else the shape of each convolution, decides"`
	Choices   []string  `yaml:"choices,omitempty" flag:"-" help:"convolution = algorithm, from the tuning file"`
}

// gpuProcess is the number of this rank of an MPI job among those on this machine, which share its
// GPUs; 0 where the process works alone.
var gpuProcess int

func defaultDevice() deviceOptions { return deviceOptions{Device: "cpu", Conv: "auto"} }

// open makes the device; release gives its threads back. A tuning file is read here. For a CPU its
// choices become part of the settings: so a run's folder has them, and the run cannot be resumed
// with others. A GPU may refuse some: those that it follows stand in the checkpoint.
func (o *deviceOptions) open() (dev voxsaw.Device, release func(), err error) {
	choices := map[string]string{}
	if dev, err = voxsaw.Open(o.Device, voxsaw.DeviceOptions{
		Threads: o.Threads, Conv: o.Conv, Precision: o.Precision, Memory: o.GPUMemory.bytes(), Choices: choices,
		Process: gpuProcess,
	}); err != nil {
		if o.Device == "cuda" {
			err = withHint(err, "compute on the processor: --device cpu")
		}
		return nil, nil, err
	}
	if err := o.choose(dev, choices); err != nil {
		dev.Close()
		return nil, nil, err
	}
	return dev, func() { dev.Close() }, nil
}

// choose fills the choices of a device that was opened with them.
func (o *deviceOptions) choose(dev voxsaw.Device, choices map[string]string) error {
	chooser, ok := dev.(device.Chooser)
	if !ok {
		return nil
	}
	taken := o.Choices
	if o.Tuning != "" {
		file, err := tuning.Load(o.Tuning, chooser.MeasuredOn())
		if err != nil {
			command := "voxsaw tune --out FILE"
			if o.Device == "cuda" {
				command = "voxsaw tune --device cuda --out FILE"
			}
			return withHint(err, "measure here: %s", command)
		}
		taken = file.Choices
	}
	if o.Device != "cuda" {
		o.Choices = taken
	}
	parsed, err := tuning.Parse(taken)
	if err != nil {
		return config.Mistaken(err)
	}
	maps.Copy(choices, parsed)
	return nil
}

// idle says which settings of a GPU do nothing, because a CPU computes; "" where there are none.
func (o deviceOptions) idle() string {
	var set []string
	if o.Precision != "" {
		set = append(set, "precision "+o.Precision)
	}
	if o.GPUMemory != 0 {
		set = append(set, "gpu_memory")
	}
	if o.Device != "cpu" || len(set) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: of a GPU, and does nothing here, for the CPU computes (device: cpu), in float32: add "+
		"--device cuda, or leave it out", strings.Join(set, " and "))
}

// amp is the precision as the peers in PyTorch name it: "none" is float32 throughout.
func (o deviceOptions) amp() string {
	switch {
	case o.Device == "cpu" || o.Precision == "fp32":
		return "none"
	case o.Precision == "":
		return "bf16"
	}
	return o.Precision
}

// idleOnCPU says which settings of a GPU among those of a verb do nothing, because a CPU computes;
// "" where there are none.
func idleOnCPU(cfg any) string { return idleIn(reflect.Indirect(reflect.ValueOf(cfg))) }

func idleIn(v reflect.Value) string {
	if v.Kind() != reflect.Struct {
		return ""
	}
	switch v.Type() {
	case reflect.TypeFor[deviceOptions]():
		return v.Interface().(deviceOptions).idle()
	case reflect.TypeFor[tuneOptions]():
		o := v.Interface().(tuneOptions)
		return deviceOptions{Device: o.Device, Precision: o.Precision}.idle()
	}
	for n := range v.NumField() {
		if v.Type().Field(n).IsExported() || v.Type().Field(n).Anonymous {
			if text := idleIn(v.Field(n)); text != "" {
				return text
			}
		}
	}
	return ""
}
