package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

func newBench() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Time training steps, inference, convolutions, the solver and reading",
		Long: `Times the same work as a peer in another framework, so that both can be run one after the
other and their lines compared: median and minimum seconds of a step, its arithmetic (that of direct
convolution), peak memory.`,
		Example: `  voxsaw bench segment --crop 96 --norm instance
  voxsaw bench pretrain --grid 3 --batch 1
  voxsaw bench infer --crop 96 --profile
  voxsaw bench layers --crop 96x96x96
  voxsaw bench 2d --backbone resnet18
  voxsaw bench predict scan.nii.gz
  voxsaw bench solver
  voxsaw bench read scan.nii.gz
  voxsaw bench photos imagenette`,
		Args: verbMistake,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	for _, v := range [][2]string{
		{"pretrain", "One pretraining step: encoder, head, solver, gradients, SGD"},
		{"segment", "One step of the whole VNet: cross-entropy and Dice, gradients, SGD"},
		{"infer", "One forward pass of the whole VNet"},
	} {
		task, short := v[0], v[1]
		o := &benchOptions{Grid: 3, Crop: 96, Batch: 1, benchNetwork: defaultBenchNetwork(),
			benchTiming: defaultBenchTiming()}
		cmd.AddCommand(verb(task, short, "", "  voxsaw bench "+task+" --norm instance", cobra.NoArgs, o,
			func(cmd *cobra.Command, _ []string) error {
				return runBench(cmd, task, *o)
			}))
	}
	cmd.AddCommand(newBench2D(), newBenchLayers(), newBenchPhotos())
	predict := &predictBenchOptions{benchNetwork: defaultBenchNetwork(), Inference: segment.DefaultInference(),
		Read: dataset.DefaultReadOptions(), Machine: defaultDevice()}
	predict.Inference.Window = [3]int{96, 96, 96}
	cmd.AddCommand(verb("predict SCAN", "Inference in windows over a whole scan",
		"Reads and prepares a scan, and times what follows: windows over all of it, the Gaussian sums, the decision.",
		"  voxsaw bench predict scan.nii.gz --norm instance", cobra.ExactArgs(1), predict,
		func(cmd *cobra.Command, args []string) error {
			return runBenchPredict(cmd, args[0], *predict)
		}))
	solver := &solverBenchOptions{Sizes: []int{8, 27, 64}, Batch: 1000}
	cmd.AddCommand(verb("solver", "Assignment problems, single and in batches", "",
		"  voxsaw bench solver --sizes 8,27,64", cobra.NoArgs, solver, func(cmd *cobra.Command, _ []string) error {
			return runBenchSolver(cmd.Context(), cmd.OutOrStdout(), *solver)
		}))
	read := &readBenchOptions{Repeat: 3, Read: dataset.DefaultReadOptions()}
	cmd.AddCommand(verb("read PATH", "Reading a NIfTI file or a DICOM series",
		"Of a folder and all below it, the only scan is read, or the DICOM series that prepare would take.",
		"  voxsaw bench read scan.nii.gz",
		cobra.ExactArgs(1), read, func(cmd *cobra.Command, args []string) error {
			return runBenchRead(cmd.Context(), cmd.OutOrStdout(), args[0], *read)
		}))
	return cmd
}

// benchNetwork is the network that is timed: by default the paper's VNet, as in the peers.
type benchNetwork struct {
	Kind     string `yaml:"kind" flag:"network" help:"kind of network, or plans.json of nnU-Net"`
	Channels int    `yaml:"channels" help:"channels of the first stage; 0: the network's own"`
	Norm     string `yaml:"norm" help:"normalisation" oneof:"none batch instance group"`
	Preset   string `yaml:"preset" help:"vnet: paper, caffe or monai"`
}

func defaultBenchNetwork() benchNetwork {
	return benchNetwork{Kind: backbone.Default, Norm: "none"}
}

// network is the one that the flags say, with its plan where nnU-Net planned it: then it has its
// own norm.
func (b benchNetwork) network() (voxsaw.Network, *nnunet.Plan, error) {
	n := voxsaw.DefaultNetwork()
	n.Kind, n.Channels, n.Norm, n.Preset = b.Kind, b.Channels, b.Norm, b.Preset
	p, err := planned(&n, "")
	if p != nil && n.Norm == defaultBenchNetwork().Norm {
		n.Norm = backbone.NormInstance
	}
	return n, p, err
}

// benchTiming is how a step is timed.
type benchTiming struct {
	Steps   int           `yaml:"steps" help:"steps that are timed" range:"[1,)"`
	Warmup  int           `yaml:"warmup" help:"steps before them"`
	Memory  gibibytes     `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has. Where a step needs more, it computes again what it cannot keep"`
	Profile bool          `yaml:"profile" help:"show where the time goes: a table on standard error, and the key profile in the line"`
	Samples string        `yaml:"samples" help:"file for a CPU profile of the timed steps, which go tool pprof reads"`
	Machine deviceOptions `yaml:"machine"`
}

func defaultBenchTiming() benchTiming {
	return benchTiming{Steps: 5, Warmup: 2, Machine: defaultDevice()}
}

// timedStep is what was measured, with the keys of the peers' lines.
type timedStep struct {
	Device  string  `json:"device"`
	Median  float64 `json:"median_s"`
	Min     float64 `json:"min_s"`
	CPU     float64 `json:"-"` // of the process, a step; 0 where nobody asks
	GFLOP   float64 `json:"gflop_step"`
	GFLOPs  float64 `json:"gflops"`
	PeakMiB int64   `json:"peak_mib"` // of the process, or of a GPU's memory, as the peers report
	PlanMiB int64   `json:"plan_mib"` // of the programs and the parameters, known before they run

	Profile *bench.Profile `json:"profile,omitempty"`
}

// time times a step on the machine's device.
func (b benchTiming) time(log io.Writer, o bench.Options,
	run func(device.Device, bench.Options) (bench.Timing, error)) (line timedStep, err error) {
	opened, closeDevice, err := b.Machine.open()
	if err != nil {
		return line, err
	}
	defer closeDevice()
	d, err := device.From(opened)
	if err != nil {
		return line, err
	}
	o.Profile = b.Profile
	if b.Samples != "" {
		f, err := os.OpenFile(b.Samples, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			return line, withHint(usagef("--samples %s is there already, and would be written over", b.Samples),
				"choose another name, or remove it")
		}
		if err != nil {
			return line, fmt.Errorf("the CPU profile: %w", err)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		o.Samples = f
	}
	t, err := run(d, o)
	if err != nil {
		return line, err
	}
	line = timedStep{Device: opened.Name(), Median: round(t.Median.Seconds(), 5), Min: round(t.Min.Seconds(), 5),
		CPU: round(t.CPU.Seconds(), 5), GFLOP: round(t.FLOPs/1e9, 1),
		GFLOPs: round(t.FLOPs/1e9/t.Median.Seconds(), 1), PlanMiB: t.Bytes >> 20, PeakMiB: mostMemory(d) >> 20,
		Profile: t.Profile}
	if t.Profile != nil {
		err = writeProfile(log, t.Profile)
	}
	return line, err
}

type benchOptions struct {
	benchNetwork `yaml:",inline"`
	Grid         int    `yaml:"grid" help:"pretrain: cells along an axis, 3 or 2" range:"[1,)" most:"4096"`
	Crop         int    `yaml:"crop" help:"segment, infer: side of a crop" range:"[1,)" most:"4096"`
	Batch        int    `yaml:"batch" help:"crops, or puzzles, in a step" range:"[1,)" most:"4096"`
	Inputs       int    `yaml:"inputs,omitempty" help:"channels of a scan; 0: 1" range:"[0,16]"`
	Head         string `yaml:"head" help:"pretrain: head" oneof:"paper symmetric both"`
	benchTiming  `yaml:",inline"`
}

// benchLine has the keys of the peers' lines.
type benchLine struct {
	Impl  string `json:"impl"`
	Task  string `json:"task"`
	Grid  int    `json:"grid"`
	Crop  int    `json:"crop"`
	Batch int    `json:"batch"`
	AMP   string `json:"amp"`
	Norm  string `json:"norm"`

	Inputs int   `json:"inputs,omitempty"` // where a scan has several channels
	Patch  []int `json:"patch,omitempty"`  // of nnU-Net's plan, (D, H, W), in place of a crop
	timedStep
}

// benchOnly are the settings of one task's bench that another one would not look at.
var benchOnly = map[string][]string{"pretrain": {"crop"}, "segment": {"grid", "head"}, "infer": {"grid", "head"}}

func runBench(cmd *cobra.Command, task string, o benchOptions) error {
	for _, name := range benchOnly[task] {
		if f := cmd.Flags().Lookup(name); givenNow(cmd, f) {
			of, _, _ := strings.Cut(f.Usage, ":")
			return withHint(usagef("--%s is of bench %s: bench %s does not look at it", name, of, task), "leave it out")
		}
	}
	network, plan, err := o.network()
	if err != nil {
		return err
	}
	network.Inputs = o.Inputs
	crop := cube(o.Crop)
	var patch []int
	if cropOfPlan(cmd, plan, &crop); plan != nil {
		o.Norm, o.Crop, patch = network.Norm, 0, []int{crop[2], crop[1], crop[0]}
	}
	step := bench.Network{Settings: network, Crop: crop, Batch: o.Batch, Infer: task == "infer",
		Memory: o.Memory.limitAll()}.Run
	if task == "pretrain" {
		side, ok := map[int]int{2: 48, 3: 32}[o.Grid]
		if !ok {
			return usagef("--grid %d: the paper's puzzles are 2 and 3", o.Grid)
		}
		b, err := backbone.Of(network)
		if err != nil {
			return config.Mistaken(err)
		}
		// the peer has the paper's head and looks once
		game := jigsaw.Config{Grid: puzzle.Grid{o.Grid, o.Grid, o.Grid}, Shuffles: 1,
			Puzzle: voxsaw.Puzzle{Head: cmp.Or(o.Head, jigsaw.Paper), Features: 1024, Hidden: 256, Rounds: 1,
				Distance: 2, Batch: o.Batch}}
		step = bench.Puzzle{Game: game, Encoder: backbone.Patches{Backbone: b, Size: cube(side)},
			Memory: o.Memory.limitAll()}.Run
	}
	t, err := o.time(cmd.ErrOrStderr(), bench.Options{}, func(d device.Device, b bench.Options) (bench.Timing, error) {
		return step(cmd.Context(), d, o.Warmup, o.Steps, b)
	})
	if t.Device == "" {
		return err
	}
	return errors.Join(printJSONLine(cmd.OutOrStdout(), benchLine{"voxsaw " + voxsaw.Version(), task, o.Grid, o.Crop,
		o.Batch, o.Machine.amp(), o.Norm, o.Inputs, patch, t}), err)
}

func cube(n int) [3]int { return [3]int{n, n, n} }

// writeProfile shows where the time of a step goes, by kind of kernel and then kernel by kernel.
func writeProfile(w io.Writer, p *bench.Profile) error {
	rows := func(entries []bench.Entry) (rows [][]string) {
		for _, e := range entries {
			rate := ""
			if e.FLOPs > 0 && e.Seconds > 1e-6 { // what does nothing has no rate
				rate = fmt.Sprintf("%.0f", e.FLOPs/e.Seconds/1e9)
			}
			moved := ""
			if e.Bytes > 0 && e.Seconds > 1e-6 {
				moved = fmt.Sprintf("%.1f", e.Bytes/e.Seconds/1e9)
			}
			rows = append(rows, []string{e.Name, e.Phase, strconv.Itoa(e.Calls),
				fmt.Sprintf("%.2f", 1e3*e.Seconds), fmt.Sprintf("%.1f", 100*e.Seconds/p.Seconds), rate, moved})
		}
		return rows
	}
	header := []string{"", "phase", "calls", "ms", "%", "GFLOP/s", "GB/s"}
	right := []bool{false, false, true, true, true, true, true}
	if err := terminal.Table(w, terminal.TableData{Title: "Kernels", Header: header, Right: right,
		Rows: rows(p.Entries)}); err != nil {
		return err
	}
	return terminal.Table(w, terminal.TableData{
		Title: "Kinds of kernels", Header: header, Right: right, Rows: rows(p.Kinds),
		Notes: []string{
			fmt.Sprintf("%.1f %% of a step of %.1f ms is accounted for; the "+
				"rest is the host's work between the kernels", 100*p.Accounted(), 1e3*p.Seconds),
			"GFLOP/s counts the arithmetic of direct convolution; GB/s counts every operand as read or written once, " +
				"the optimiser's values and velocities twice",
		},
	})
}

func round(v float64, digits int) float64 {
	f := math.Pow10(digits)
	return math.Round(v*f) / f
}

// mostMemory is the most that was taken of a device's own memory, or else of the process's.
func mostMemory(d device.Device) int64 {
	if meter, ok := d.(device.MemoryMeter); ok {
		return meter.MostTaken()
	}
	return peakMemory()
}

// peakMemory is the most that the process has held in memory, in bytes; 0 where the system does not
// say.
func peakMemory() int64 {
	status, err := smallfile.Read("/proc/self/status", smallfile.Record)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "VmHWM:" {
			kib, _ := strconv.ParseInt(fields[1], 10, 64)
			return kib << 10
		}
	}
	return 0
}

type predictBenchOptions struct {
	benchNetwork `yaml:",inline"`
	Inference    segment.Inference   `yaml:"inference"`
	Windows      int                 `yaml:"windows" help:"windows that are run, the rest taken to be as fast; 0: all"`
	Memory       gibibytes           `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
	Read         dataset.ReadOptions `yaml:"read"`
	Machine      deviceOptions       `yaml:"machine"`
}

func runBenchPredict(cmd *cobra.Command, path string, o predictBenchOptions) error {
	if f := cmd.Flags().Lookup("components"); f != nil && givenNow(cmd, f) {
		return withHint(usagef("--components: bench predict times the windows, and not what comes after them"),
			"leave it out")
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	scan, _, err := dataset.ReadImage(path, o.Read)
	if err != nil {
		return err
	}
	d, err := device.From(dev)
	if err != nil {
		return err
	}
	how := volume.DefaultPreparation()
	prepared, err := how.Apply(scan, scan.Whole())
	if err != nil {
		return err
	}
	windows := sliding.Options{Size: o.Inference.Window, Batch: o.Inference.Batch, Overlap: o.Inference.Overlap,
		Mirror: o.Inference.Mirror}
	network, plan, err := o.network()
	if err != nil {
		return err
	}
	if plan != nil {
		return usagef("--network %s: windows of a whole scan are timed with networks of our own; "+
			"voxsaw bench infer takes plans of nnU-Net", o.Kind)
	}
	b := bench.Windows{Settings: network, Options: windows, Limit: o.Windows, Memory: o.Memory.limitAll()}
	t, err := b.Run(cmd.Context(), d, sliding.Hold(scan, prepared.Volume, how.Intensities(prepared.Levels)), scan.Len())
	if err != nil {
		return err
	}
	return printJSONLine(cmd.OutOrStdout(), map[string]any{
		"impl": "voxsaw " + voxsaw.Version(), "task": "predict", "shape": scan.Shape, "window": o.Inference.Window,
		"overlap": o.Inference.Overlap, "batch": o.Inference.Batch, "norm": o.Norm,
		"mirror": o.Inference.Mirror, "windows": t.Windows, "timed_windows": t.Timed,
		"seconds":  round(t.Elapsed.Seconds(), 3),
		"voxels_s": math.Round(t.Rate()), "plan_mib": t.Bytes >> 20, "peak_mib": mostMemory(d) >> 20,
	})
}

type solverBenchOptions struct {
	Sizes []int `yaml:"sizes" help:"rows of the cost matrices" range:"[1,4096]"`
	Batch int   `yaml:"batch" help:"matrices in a batch" range:"[1,)" most:"4096"`
}

func runBenchSolver(ctx context.Context, w io.Writer, o solverBenchOptions) error {
	for _, n := range o.Sizes {
		if n < 1 || n > 4096 || o.Batch < 1 {
			return usagef("sizes must be from 1 to 4096, batch at least 1")
		}
		r := seed.Rand(0, "benchmark", uint64(n))
		costs := make([]float64, o.Batch*n*n)
		for i := range costs {
			costs[i] = r.Float64()
		}
		answers := make([]int, o.Batch*n)
		var s solver.Solver
		var single, batch []time.Duration
		for range 7 {
			if err := ctx.Err(); err != nil {
				return err
			}
			start := time.Now()
			for k := range o.Batch {
				if _, err := s.Assign(answers[k*n:(k+1)*n], costs[k*n*n:(k+1)*n*n]); err != nil {
					return err
				}
			}
			single = append(single, time.Since(start))
			start = time.Now()
			if err := solver.AssignBatch(answers, costs, n); err != nil {
				return err
			}
			batch = append(batch, time.Since(start))
		}
		slices.Sort(single)
		slices.Sort(batch)
		us := func(d time.Duration) float64 { return round(d.Seconds()*1e6/float64(o.Batch), 3) }
		if err := printJSONLine(w, map[string]any{
			"impl": "voxsaw " + voxsaw.Version(), "task": "solver", "n": n, "batch": o.Batch,
			"single_us": us(single[3]), "batch_us": us(batch[3]),
		}); err != nil {
			return err
		}
	}
	return nil
}
