//go:build gpu

// Command cudnn asks cuDNN 9 with which engines, and with how much memory, it would compute the
// convolutions of the program's networks on GPUs that are not there.
//
//	export CGO_CFLAGS=$(python3 scripts/cuda-toolchain.py --cflags)
//	export VOXSAW_CUDNN=$(python3 scripts/cuda-toolchain.py --cudnn)
//	go run -tags gpu ./scripts/cudnn >scripts/cudnn/plans.md
//
// It plans the graphs that the device runs, made by the same code (internal/device/cuda), for every
// convolution that the networks below ask a device for. cuDNN plans for the properties of a device
// instead of for a device: h200.json and a100.json were written by hand from the data sheets. A
// kernel that no engine serves ends the program with 1. A part of cuDNN is linked with
// libcuda.so.1: where there is no driver, that of Debian's package libcuda1 does, on
// LD_LIBRARY_PATH.
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cuda"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/tuning"
	_ "github.com/voxsaw/voxsaw/vnet"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "cudnn:", err)
		os.Exit(1)
	}
}

// gpus are the properties that are planned for.
var gpus = []string{"h200", "a100"}

// workloads are what the networks are run for: images of a batch, and their side.
var workloads = []struct {
	name         string
	images, side int
	decoder      bool
}{{"16 puzzles of 3^3", 432, 32, false}, {"segment 128^3, batch 2", 2, 128, true}}

func run() error {
	var properties []string
	for _, gpu := range gpus {
		text, err := os.ReadFile(filepath.Join("scripts", "cudnn", gpu+".json"))
		if err != nil {
			return fmt.Errorf("%w: run this in the repository's root", err)
		}
		properties = append(properties, string(text))
	}
	failed, rows := 0, []string{}
	version := 0
	for _, w := range workloads {
		list, err := convolutions(w.images, w.side, w.decoder)
		if err != nil {
			return err
		}
		for _, c := range list {
			c.Spec.Type = device.BFloat16
			got, v, bad, err := row(w.name, c, properties)
			if err != nil {
				return err
			}
			rows, version, failed = append(rows, got...), max(version, v), failed+bad
		}
	}
	fmt.Printf("cuDNN %d, planned without a device: bfloat16, channels innermost.\n\n| convolution | kernel | use | H200: engine | workspace, MiB | A100: engine | workspace, MiB |\n|---|---|---|---|---:|---|---:|\n%s\n", version, strings.Join(rows, "\n"))
	if failed > 0 {
		return fmt.Errorf("%d kernels are not planned", failed)
	}
	return nil
}

// convolutions are those of the default network.
func convolutions(images, side int, decoder bool) ([]tuning.Convolution, error) {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		return nil, err
	}
	defer dev.Close()
	return tuning.Convolutions(dev, func(dev device.Device) error {
		network, err := backbone.Of(voxsaw.DefaultNetwork())
		if err != nil {
			return err
		}
		g := nn.NewGraph(nn.Train, device.Float32)
		stages := network.Encoder(g, g.Input("image", images, 1, side, side, side))
		if g.Err() != nil {
			return g.Err()
		}
		var loss *nn.Node
		if decoder {
			loss = backbone.Supervise(g, network.Decoder(g, stages), images, [3]int{side, side, side}, nn.LossOptions{CE: 1, Dice: 1}).Loss
		} else {
			features := g.Flatten(stages[len(stages)-1])
			loss, _ = g.Loss(g.Linear("head", features, 2, true), g.Input("truth", images), nn.LossOptions{CE: 1})
		}
		_, err = nn.Compile(dev, g, nn.NewParams(dev, 0), nn.Options{Loss: loss})
		return err
	})
}

// row is a line for each use of cuDNN for a kernel of a convolution. A kernel that cuDNN cannot
// plan in any way is counted as failed.
func row(workload string, c tuning.Convolution, properties []string) (rows []string, version, failed int, err error) {
	s := c.Spec
	name := fmt.Sprintf("%s: %d to %d at %d^3, %d^3", workload, s.In, s.Out, s.Size[0], s.Kernel[0])
	var uses []string
	cells := map[string][]string{} // of a use: engines and workspaces, device by device
	for i, p := range properties {
		plans, v, err := cuda.PlanWithout(p, os.Getenv("VOXSAW_CUDNN"), "bf16", s, c.Kind)
		if err != nil {
			return nil, 0, 0, err
		}
		version = v
		planned := false
		for _, p := range plans {
			if i == 0 && p.Graph == 0 {
				uses = append(uses, p.Use)
			}
			cells[p.Use] = add(cells[p.Use], p, 2*i)
			planned = planned || p.Engine != ""
		}
		if !planned {
			fmt.Fprintf(os.Stderr, "%s, %s, %s: no plan\n", name, c.Kind, gpus[i])
			failed++
		}
	}
	for _, use := range uses {
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", name, c.Kind, use, strings.Join(cells[use], " | ")))
	}
	return rows, version, failed, nil
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
