package cli

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/bench"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

type doctorOptions struct {
	Network voxsaw.Network `yaml:"network"`
	Crop    [3]int         `yaml:"crop,flow" help:"size of the crop that the memory is told for, in voxels; 0: 64x64x64"`
	Limit   gibibytes      `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has. Where a step needs more, it computes again what it cannot keep"`
	Clip    float64        `yaml:"clip" help:"largest norm of the gradients, as in finetune: they are kept until the end of the step; 0: each is used as soon as it is there"`
	Machine deviceOptions  `yaml:"machine"`
	JSON    bool           `yaml:"json" help:"print as JSON"`
}

func newDoctor() *cobra.Command {
	o := &doctorOptions{Network: voxsaw.DefaultNetwork(), Clip: voxsaw.DefaultTraining().Clip,
		Machine: defaultDevice()}
	cmd := verb(
		"doctor",
		"Say what this machine offers and what would make it faster",
		`Tells which processor features the kernels use, cores, memory and devices, and how much memory a
training step takes: what there is when most is in memory, and what is computed again rather than kept.

How long a training takes on your data, and which sizes fit into a time, is what voxsaw plan tells.

Started as several ranks, as by mpirun -n 4 voxsaw doctor, it tells of each, and how fast they sum.`,
		`  voxsaw doctor --crop 96x96x64
  voxsaw doctor --crop 160 --memory 2.5`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runDoctor(cmd, *o) },
	)
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

// diagnosis is what doctor has to say.
type diagnosis struct {
	Version   string    `json:"version"`
	System    string    `json:"system"`
	Device    string    `json:"device"`
	Cores     int       `json:"cores"`
	Memory    int64     `json:"memory_bytes"` // available; 0 unknown
	Crop      [3]int    `json:"crop"`
	Arena     int64     `json:"arena_bytes"` // of one training step
	Unshared  int64     `json:"unshared_bytes"`
	Weights   int64     `json:"weights_bytes"`
	Velocity  int64     `json:"velocity_bytes"` // of the optimiser
	Steps     int       `json:"kernels_a_step"`
	GFLOPs    float64   `json:"gflop_a_step"`
	Peak      exec.Peak `json:"peak"` // when most of the arena is in use
	Repeats   repeats   `json:"computed_again"`
	Devices   []string  `json:"devices"`
	Libraries []string  `json:"libraries"` // optional ones of the device: whether they are there
	Advice    []string  `json:"advice"`
	Threads   int       `json:"threads"`
	Parameter int       `json:"parameters"`

	Together *rankDiagnosis `json:"mpi,omitempty"` // nil: one process

	onGPU bool // the processor is not what computes
}

// repeats is what a step computes twice.
type repeats struct {
	Kernels []string `json:"kernels"` // in the order of a step
	Bytes   int64    `json:"bytes"`   // that they read and write
	GFLOPs  float64  `json:"gflop"`
}

func runDoctor(cmd *cobra.Command, o doctorOptions) error {
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	network, err := backbone.Of(o.Network)
	if err != nil {
		return config.Mistaken(err)
	}
	crop := cmp.Or(o.Crop, cube(64))
	if err := backbone.Fits(network, crop); err != nil {
		return config.Mistaken(fmt.Errorf("crop: %w", err))
	}
	d := diagnosis{
		Version: voxsaw.Version(), System: runtime.GOOS + "/" + runtime.GOARCH + ", " + runtime.Version(),
		Device: dev.Describe(), Cores: runtime.NumCPU(),
		Memory: memory.Available(), Crop: crop, Devices: voxsaw.Devices(), Threads: runtime.GOMAXPROCS(0),
	}
	if o.Machine.Threads > 0 {
		d.Threads = o.Machine.Threads
	}
	if ranks := jobOf(cmd.Context()); ranks.world != nil { // the other cores are other ranks'
		d.Cores = ranks.place.Cores
	}
	internal, err := device.From(dev)
	if err != nil {
		return err
	}
	if own, ok := internal.(device.Accountant); ok {
		if d.Memory, _, err = own.Memory(); err != nil {
			return err
		}
	}
	d.onGPU = o.Machine.Device == "cuda"
	d.Libraries = libraries(dev)
	limit := o.Limit.bytes()
	if limit <= 0 {
		limit = d.Memory
	}
	s, err := bench.Network{Settings: o.Network, Crop: crop, Batch: 1, Memory: limit, Clip: o.Clip}.Plan(internal)
	if err != nil {
		return err
	}
	if err := cmd.Context().Err(); err != nil {
		return err
	}
	d.Arena, d.Unshared, d.Weights, d.Steps, d.GFLOPs, d.Parameter = s.Bytes, s.Unshared, s.Weights, s.Steps,
		s.FLOPs/1e9, s.Parameters
	d.Velocity = s.Total - d.Arena - d.Weights
	d.Peak, d.Repeats = s.Peak, repeats{append([]string{}, s.Recomputed...), s.Repeats.Bytes, s.Repeats.FLOPs / 1e9}
	d.Advice = advice(d)
	d.Advice = append(d.Advice, "voxsaw plan PREPARED --hours 3 times steps on your cases, and says which sizes fit")
	if j := jobOf(cmd.Context()); j.world != nil {
		if d.Together, err = diagnoseRanks(j, d.Device); err != nil {
			return err
		}
	}
	if o.JSON {
		return printJSON(cmd.OutOrStdout(), d)
	}
	memory := "unknown"
	if d.Memory > 0 {
		memory = terminal.Bytes(d.Memory)
	}
	rows := [][]string{
		{"version", d.Version}, {"system", d.System}, {"processor", d.Device},
		{
			"cores",
			fmt.Sprintf("%d, %s in use", d.Cores, numbers.Count(d.Threads, "thread")),
		}, {"memory available", memory},
		{"devices", strings.Join(d.Devices, ", ")}, {"", cudaSays(o.Machine)},
		{"network", fmt.Sprintf("%s: %.1f million parameters", network.Describe(), float64(d.Parameter)/1e6)},
		{"a training step", fmt.Sprintf("one crop of %s: %d kernels, %.0f GFLOP", numbers.Extents(crop[:]), d.Steps,
			d.GFLOPs)},
		{"its memory",
			fmt.Sprintf("%s while it is computed (%s if nothing shared memory), weights %s, state of the optimiser %s",
				terminal.Bytes(d.Arena), terminal.Bytes(d.Unshared), terminal.Bytes(d.Weights),
				terminal.Bytes(d.Velocity))},
	}
	for _, l := range d.Libraries {
		rows = slices.Insert(rows, 7, []string{"", l})
	}
	if o.Clip > 0 {
		rows = append(rows, []string{"",
			"with all gradients, which are kept to be clipped together (--clip 0 uses each as soon as it is there)"})
	}
	for _, t := range []terminal.TableData{{Rows: rows}, peakTable(d.Peak), repeatsTable(d.Repeats)} {
		if err := terminal.Table(cmd.OutOrStdout(), t); err != nil {
			return err
		}
	}
	if d.Together != nil {
		if err := d.Together.print(cmd.OutOrStdout()); err != nil {
			return err
		}
	}
	for _, a := range d.Advice {
		fmt.Fprintln(cmd.OutOrStdout(), "-", a)
	}
	return nil
}

// cudaSays describes the GPU, or says why there is none.
func cudaSays(o deviceOptions) string {
	if o.Device == "cuda" {
		return "cuda is what this tells about"
	}
	gpu, err := voxsaw.Open("cuda", voxsaw.DeviceOptions{Precision: o.Precision})
	if err != nil {
		return "no cuda: " + err.Error()
	}
	defer gpu.Close()
	return strings.Join(append([]string{"cuda: " + gpu.Describe()}, libraries(gpu)...), "; ")
}

// libraries tells of the optional libraries of a device.
func libraries(dev voxsaw.Device) []string {
	if l, ok := dev.(device.Librarian); ok {
		return l.Libraries()
	}
	return []string{}
}

// largest is the number of rows in the table of what fills the memory.
const largest = 12

// peakTable shows what is in memory when most is: tensors of the same kernel, which differ in
// nothing but their channel or layer, as one row.
func peakTable(p exec.Peak) terminal.TableData {
	t := terminal.TableData{
		Title:  fmt.Sprintf("Most memory is in use in %s: %s", p.Step, terminal.Bytes(p.Bytes)),
		Header: []string{"result of", "", "together"}, Right: []bool{false, true, true},
	}
	count, bytes := map[string]int{}, map[string]int64{}
	for _, a := range p.Alive {
		count[a.Name]++
		bytes[a.Name] += a.Bytes
	}
	names := slices.SortedFunc(maps.Keys(bytes),
		func(a, b string) int { return cmp.Or(cmp.Compare(bytes[b], bytes[a]), cmp.Compare(a, b)) })
	rest, left := int64(0), 0
	for i, name := range names {
		if i >= largest {
			rest, left = rest+bytes[name], left+count[name]
			continue
		}
		t.Rows = append(t.Rows, []string{name, times(count[name]), terminal.Bytes(bytes[name])})
	}
	if left > 0 {
		t.Rows = append(t.Rows, []string{"others, smaller", times(left), terminal.Bytes(rest)})
	}
	return t
}

// repeatsTable shows what is computed again.
func repeatsTable(r repeats) terminal.TableData {
	if len(r.Kernels) == 0 {
		return terminal.TableData{Title: "Nothing is computed again: keeping it costs less"}
	}
	t := terminal.TableData{
		Title: fmt.Sprintf("Computed again rather than kept: %d kernels, %s moved, %.0f GFLOP", len(r.Kernels),
			terminal.Bytes(r.Bytes), r.GFLOPs),
		Header: []string{"kernel", ""}, Right: []bool{false, true},
	}
	count := map[string]int{}
	for _, k := range r.Kernels {
		if count[k]++; count[k] == 1 {
			t.Rows = append(t.Rows, []string{k, ""})
		}
	}
	for _, row := range t.Rows {
		row[1] = times(count[row[0]])
	}
	return t
}

func times(n int) string {
	if n == 1 {
		return ""
	}
	return fmt.Sprintf("%d x", n)
}

// advice is what would make this machine faster.
func advice(d diagnosis) []string {
	var a []string
	switch {
	case d.onGPU: // what follows is of processors
	case strings.Contains(d.Device, "avx512 kernels"), strings.Contains(d.Device, "neon kernels"):
	case os.Getenv("VOXSAW_CPU") != "":
		a = append(a, "VOXSAW_CPU="+os.Getenv("VOXSAW_CPU")+
			" has chosen the kernels: without it the best ones that the processor can run are taken")
	case strings.Contains(d.Device, "avx2 kernels"):
		a = append(a, "a processor with AVX-512 would be about twice as fast")
	case runtime.GOARCH == "amd64":
		a = append(a, "the processor offers neither AVX2 nor AVX-512: the portable kernels run, many times slower")
	default:
		a = append(a, "the vector kernels are for x86-64 with AVX2 or AVX-512, and for arm64; on "+runtime.GOARCH+
			" the portable ones run, many times slower")
	}
	if d.Threads < d.Cores && !d.onGPU {
		a = append(a, fmt.Sprintf("%d of %d cores are in use: raise --threads or GOMAXPROCS", d.Threads, d.Cores))
	}
	if d.Memory > 0 && d.Arena+d.Weights+d.Velocity > d.Memory*8/10 {
		a = append(a, "a step takes most of the memory: smaller crops or fewer channels leave room for reading ahead")
	}
	if len(a) == 0 && !d.onGPU {
		a = append(a, "nothing on this machine slows it down; more cores would make it faster")
	}
	return a
}
