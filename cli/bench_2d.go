package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// bench2DOptions are what docs/peers/peer_puzzle2d.py takes, too.
type bench2DOptions struct {
	Backbone    string  `yaml:"backbone" help:"network" oneof:"alexnet resnet18 resnet50"`
	Width       float64 `yaml:"width" help:"multiplies all numbers of channels" range:"(0,)"`
	Grid        int     `yaml:"grid" help:"cells along each axis" range:"[1,)" most:"4096"`
	Patch       int     `yaml:"patch" help:"side of a patch in pixels" range:"[1,)" most:"4096"`
	Batch       int     `yaml:"batch" help:"puzzles in a step" range:"[1,)" most:"4096"`
	Binary      bool    `yaml:"binary" help:"binary terms and the search with them, as well; the peer has none"`
	benchTiming `yaml:",inline"`
}

func newBench2D() *cobra.Command {
	o := &bench2DOptions{Backbone: photonet.ResNet18, Width: 1, Grid: 3, Patch: 64, Batch: 8,
		benchTiming: defaultBenchTiming()}
	return verb("2d", "One pretraining step on photographs: encoder, head, solver, gradients, SGD", "",
		"  voxsaw bench 2d --backbone resnet18", cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error {
			return runBench2D(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), *o)
		})
}

// bench2DLine has the keys of the peer's line.
type bench2DLine struct {
	Impl     string  `json:"impl"`
	Backbone string  `json:"backbone"`
	Width    float64 `json:"width"`
	Grid     int     `json:"grid"`
	Patch    int     `json:"patch"`
	Batch    int     `json:"batch"`
	CPU      float64 `json:"cpu_s"`
	Solve    float64 `json:"solve_s"` // the puzzles of a step, with binary terms, on one thread
	timedStep
}

func runBench2D(ctx context.Context, w, log io.Writer, o bench2DOptions) error {
	n, err := photonet.New(photonet.Config{Kind: o.Backbone, Width: o.Width, Size: [2]int{o.Patch, o.Patch}})
	if err != nil {
		return config.Mistaken(err)
	}
	game := jigsaw.Config{Grid: puzzle.Grid{o.Grid, o.Grid}, Shuffles: 1, Puzzle: voxsaw.Puzzle{Head: jigsaw.Paper,
		Features: 1024, Hidden: 256, Rounds: 1, Binary: o.Binary, Distance: 3, Batch: o.Batch}}
	work := bench.Puzzle{Game: game, Encoder: n, Memory: o.Memory.limitAll()}
	t, failed := o.time(log, bench.Options{CPU: cpuTime},
		func(d device.Device, b bench.Options) (bench.Timing, error) {
			return work.Run(ctx, d, o.Warmup, o.Steps, b)
		})
	if t.Device == "" {
		return failed
	}
	solve, err := work.Solving()
	return errors.Join(printJSONLine(w, bench2DLine{"voxsaw " + voxsaw.Version(), o.Backbone, o.Width, o.Grid, o.Patch,
		o.Batch, t.CPU, round(solve.Seconds(), 7), t}), failed, err)
}

// cpuTime is the CPU time of the process, in all threads; 0 where the system does
// not say.
func cpuTime() time.Duration {
	const ticks = 100 // a second: Linux tells programs no others
	stat, err := smallfile.Read("/proc/self/stat", smallfile.Record)
	if err != nil {
		return 0
	}
	// the name may hold spaces
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if len(fields) < 13 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / ticks
}
