package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/photonet"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// bench2DOptions are what docs/peers/peer_puzzle2d.py takes, too.
type bench2DOptions struct {
	Backbone string        `yaml:"backbone" help:"network" oneof:"alexnet resnet18 resnet50"`
	Width    float64       `yaml:"width" help:"multiplies all numbers of channels" range:"(0,)"`
	Grid     int           `yaml:"grid" help:"cells along each axis" range:"[1,)"`
	Patch    int           `yaml:"patch" help:"side of a patch in pixels" range:"[1,)"`
	Batch    int           `yaml:"batch" help:"puzzles in a step" range:"[1,)"`
	Binary   bool          `yaml:"binary" help:"binary terms and the search with them, as well; the peer has none"`
	Steps    int           `yaml:"steps" help:"steps that are timed" range:"[1,)"`
	Warmup   int           `yaml:"warmup" help:"steps before them"`
	Memory   gibibytes     `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
	Profile  bool          `yaml:"profile" help:"show where the time goes: a table on standard error, and the key profile in the line"`
	Samples  string        `yaml:"samples" help:"file for a CPU profile of the timed steps, which go tool pprof reads"`
	Machine  deviceOptions `yaml:"machine"`
}

func newBench2D() *cobra.Command {
	o := &bench2DOptions{Backbone: photonet.ResNet18, Width: 1, Grid: 3, Patch: 64, Batch: 8, Steps: 5, Warmup: 2,
		Machine: defaultDevice()}
	return verb("2d", "One pretraining step on photographs: encoder, head, solver, gradients, SGD", "",
		"  voxsaw bench 2d --backbone resnet18", cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error {
			return runBench2D(cmd.OutOrStdout(), cmd.ErrOrStderr(), *o)
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
	Device   string  `json:"device"`
	Median   float64 `json:"median_s"`
	Min      float64 `json:"min_s"`
	CPU      float64 `json:"cpu_s"` // of the process, a step
	GFLOP    float64 `json:"gflop_step"`
	GFLOPs   float64 `json:"gflops"`
	PeakMiB  int64   `json:"peak_mib"`
	PlanMiB  int64   `json:"plan_mib"`
	Solve    float64 `json:"solve_s"` // the puzzles of a step, with binary terms, on one thread

	Profile *bench.Profile `json:"profile,omitempty"`
}

func runBench2D(w, log io.Writer, o bench2DOptions) (err error) {
	n, err := photonet.New(photonet.Config{Kind: o.Backbone, Width: o.Width, Size: [2]int{o.Patch, o.Patch}})
	if err != nil {
		return &usageError{err}
	}
	opened, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	dev, err := device.From(opened)
	if err != nil {
		return err
	}
	measure := bench.Options{Profile: o.Profile, CPU: cpuTime}
	if o.Samples != "" {
		f, err := os.Create(o.Samples)
		if err != nil {
			return fmt.Errorf("the CPU profile: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		measure.Samples = f
	}
	game := jigsaw.Config{Grid: puzzle.Grid{o.Grid, o.Grid}, Shuffles: 1, Puzzle: voxsaw.Puzzle{Head: jigsaw.Paper,
		Features: 1024, Hidden: 256, Rounds: 1, Binary: o.Binary, Distance: 3, Batch: o.Batch}}
	work := bench.Puzzle{Game: game, Encoder: n, Memory: o.Memory.limitAll()}
	t, err := work.Run(dev, o.Warmup, o.Steps, measure)
	if err != nil {
		return err
	}
	solve, failed := work.Solving()
	line := bench2DLine{
		Impl: "voxsaw " + voxsaw.Version(), Backbone: o.Backbone, Width: o.Width, Grid: o.Grid, Patch: o.Patch,
		Batch: o.Batch, Device: opened.Name(),
		Median: round(t.Median.Seconds(), 5), Min: round(t.Min.Seconds(), 5), CPU: round(t.CPU.Seconds(), 5),
		GFLOP: round(t.FLOPs/1e9, 1), GFLOPs: round(t.FLOPs/1e9/t.Median.Seconds(), 1),
		PeakMiB: mostMemory(dev) >> 20, PlanMiB: t.Bytes >> 20, Solve: round(solve.Seconds(), 7), Profile: t.Profile,
	}
	if t.Profile != nil {
		failed = errors.Join(failed, writeProfile(log, t.Profile))
	}
	return errors.Join(printJSONLine(w, line), failed)
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
