//go:build gpu

// Command cudnn asks cuDNN 9 with which engines, and with how much memory, it would compute the
// convolutions of the program's networks on GPUs that are not there.
//
//	export CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags)
//	export VOXSAW_CUDNN=$(python3 scripts/cuda-toolchain.py --cudnn)
//	go run -tags gpu ./scripts/cudnn >scripts/cudnn/plans.md
//
// It plans the graphs that the device runs, made by the same code (internal/device/cuda), at each
// precision, for every convolution that each kind of network with its default settings asks a
// device for. docs/gpu-engine.md counts them: run internal/device/cuda/kernels/table.py after it.
// cuDNN plans for the properties of a device instead of for a device: h200.json and a100.json were
// written by hand from the data sheets. A kernel that no engine serves ends the program with 1. A
// part of cuDNN is linked with libcuda.so.1: where there is no driver, that of Debian's package
// libcuda1 does, on LD_LIBRARY_PATH.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	_ "github.com/voxsaw/voxsaw/internal/backbone/all"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cuda"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/tuning"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cudnn:", err)
		os.Exit(1)
	}
}

// gpus are the properties that are planned for.
var gpus = []string{"h200", "a100"}

// precisions are those of --precision, with the type of the activations.
var precisions = []struct {
	name       string
	activation device.Type
	says       string
}{
	{"bf16", device.BFloat16, "bfloat16"},
	{"tf32", device.Float32, "float32, products of 10 bits"},
	{"fp32", device.Float32, "float32"},
}

// A workload is what a network is run for: images of a batch, and their side.
type workload struct {
	name         string
	network      voxsaw.Network
	images, side int
	decoder      bool
}

func workloads() (list []workload) {
	for _, kind := range backbone.Kinds() {
		network := voxsaw.DefaultNetwork()
		network.Kind = kind
		// nnunet has no default settings: it is as its plans.json says
		if _, err := backbone.Of(network); err != nil {
			fmt.Fprintf(os.Stderr, "%s is left out: %v\n", kind, err)
			continue
		}
		list = append(list, workload{kind + ", 16 puzzles of 3^3", network, 432, 32, false},
			workload{kind + ", segment 128^3, batch 2", network, 2, 128, true})
	}
	return list
}

func run() error {
	p := planner{library: os.Getenv("VOXSAW_CUDNN")}
	for _, gpu := range gpus {
		text, err := os.ReadFile(filepath.Join("scripts", "cudnn", gpu+".json"))
		if err != nil {
			return fmt.Errorf("%w: run this in the repository's root", err)
		}
		p.properties = append(p.properties, string(text))
	}
	fmt.Println("# What cuDNN would compute the networks' convolutions with")
	for _, precision := range precisions {
		p.precision, p.rows = precision.name, nil
		for _, w := range workloads() {
			list, err := convolutions(w)
			if err != nil {
				return err
			}
			for _, c := range list {
				c.Spec.Type = precision.activation
				if err := p.plan(w.name, c); err != nil {
					return err
				}
			}
		}
		fmt.Printf("\n## %s\n\ncuDNN %d, planned without a device: %s, channels innermost.\n\n| convolution | kernel "+
			"| use | H200: engine | workspace, MiB | A100: engine | workspace, MiB "+
			"|\n|---|---|---|---|---:|---|---:|\n%s\n",
			precision.name, p.version, precision.says, strings.Join(p.rows, "\n"))
	}
	if p.failed > 0 {
		return fmt.Errorf("%d kernels are not planned", p.failed)
	}
	return nil
}

// convolutions are those of a workload in training.
func convolutions(w workload) ([]tuning.Convolution, error) {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	return tuning.Convolutions(dev, func(dev device.Device) error {
		network, err := backbone.Of(w.network)
		if err != nil {
			return err
		}
		g := nn.NewGraph(nn.Train, device.Float32)
		stages := network.Encoder(g, g.Input("image", w.images, 1, w.side, w.side, w.side))
		if g.Err() != nil {
			return g.Err()
		}
		var loss *nn.Node
		if w.decoder {
			loss = backbone.Supervise(g, network.Decoder(g, stages), w.images, [3]int{w.side, w.side, w.side},
				nn.LossOptions{CE: 1, Dice: 1}).Loss
		} else {
			features := g.Flatten(stages[len(stages)-1])
			loss, _ = g.Loss(g.Linear("head", features, 2, true), g.Input("truth", w.images), nn.LossOptions{CE: 1})
		}
		_, err = nn.Compile(dev, g, nn.NewParams(dev, 0), nn.Options{Loss: loss})
		return err
	})
}

// A planner asks for plans, and keeps the lines of a precision's table.
type planner struct {
	library    string
	properties []string // of each of gpus
	precision  string
	rows       []string
	version    int // of cuDNN
	failed     int // kernels of a convolution that cuDNN cannot make in any way on one of gpus
}

// plan adds a line for each use of cuDNN for a kernel of a convolution.
func (p *planner) plan(workload string, c tuning.Convolution) error {
	s := c.Spec
	name := fmt.Sprintf("%s: %d to %d at %d^3, %d^3", workload, s.In, s.Out, s.Size[0], s.Kernel[0])
	if s.Stride[0] > 1 {
		name += fmt.Sprintf(" stride %d", s.Stride[0])
	}
	var uses []string
	cells := map[string][]string{} // of a use: engines and workspaces, device by device
	for i, properties := range p.properties {
		plans, version, err := cuda.PlanWithout(properties, p.library, p.precision, s, c.Kind)
		if err != nil {
			return err
		}
		p.version = version
		planned := false
		for _, plan := range plans {
			if i == 0 && plan.Graph == 0 {
				uses = append(uses, plan.Use)
			}
			cells[plan.Use] = add(cells[plan.Use], plan, 2*i)
			planned = planned || plan.Engine != ""
		}
		if !planned {
			fmt.Fprintf(os.Stderr, "%s, %s, %s, %s: no plan\n", p.precision, name, c.Kind, gpus[i])
			p.failed++
		}
	}
	for _, use := range uses {
		p.rows = append(p.rows, fmt.Sprintf("| %s | %s | %s | %s |", name, c.Kind, use,
			strings.Join(cells[use], " | ")))
	}
	return nil
}

// add puts a plan into the cells of its use, from the one at a number on. The graphs of slices
// share them.
func add(cells []string, p cuda.Plan, at int) []string {
	engine, workspace := "`"+p.Engine+"`", fmt.Sprintf("%.1f", float64(p.Workspace)/(1<<20))
	if p.Engine == "" {
		engine, workspace = "none", "-"
	}
	if p.Graph == 0 {
		return append(cells, engine, workspace)
	}
	if !strings.HasSuffix(cells[at], engine) {
		cells[at] += ", " + engine
	}
	cells[at+1] += ", " + workspace
	return cells
}
