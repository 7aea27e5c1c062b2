package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/tuning"
)

type layersOptions struct {
	workload `yaml:",inline"`
	Machine  deviceOptions `yaml:"machine"`
	JSON     bool          `yaml:"json" help:"print as JSON"`
}

func newBenchLayers() *cobra.Command {
	o := &layersOptions{workload: defaultWorkload(), Machine: defaultDevice()}
	return verb(
		"layers",
		"Every different convolution of a network, and what bounds it",
		`Times the kernels of each convolution (its outputs, the gradient of its inputs, that of its
weights) and compares them with what the machine can do at most, which is measured first: multiply-adds a
second, and bytes a second from the second-level cache and from memory. For each of the three it tells
how long the kernel would take if it did nothing else. The longest of these is the bound; together they
are what a kernel can reach that does one after the other.`,
		"  voxsaw bench layers --crop 96x96x96",
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runBenchLayers(cmd, *o) },
	)
}

// layerLine is one kernel of a convolution.
type layerLine struct {
	Layer     string  `json:"layer"`
	Kernel    string  `json:"kernel"`
	Algorithm string  `json:"algorithm"`
	Seconds   float64 `json:"seconds"`
	// the arithmetic of direct convolution, a second
	Direct float64 `json:"direct_gflops"`
	// what the algorithm multiplies, a second
	Done float64 `json:"multiplied_gflops"`
	// seconds that each ceiling alone would allow
	Floors  map[string]float64 `json:"floors"`
	Bound   string             `json:"bound"`
	Reached float64            `json:"reached"` // the bound's floor as a share of the time
	// all floors as a share of the time: what is left for a kernel that does one after the other
	Together float64 `json:"together"`
}

func runBenchLayers(cmd *cobra.Command, o layersOptions) error {
	if err := o.resolve(); err != nil {
		return err
	}
	opened, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	dev, ok := opened.(*cpu.CPU)
	if !ok {
		return fmt.Errorf("%s: layers are timed on the CPU only", opened.Name())
	}
	list, err := tuning.Convolutions(dev, o.build)
	if err != nil {
		return err
	}
	// the kernels of a layer after one another, the largest images first
	slices.SortStableFunc(list, func(a, b tuning.Convolution) int {
		return cmp.Or(cmp.Compare(b.Spec.Size[0], a.Spec.Size[0]), cmp.Compare(a.Spec.Kernel[0], b.Spec.Kernel[0]),
			cmp.Compare(a.Spec.In, b.Spec.In), cmp.Compare(a.Spec.Out, b.Spec.Out), cmp.Compare(a.Kind, b.Kind))
	})
	ceilings := dev.Ceilings()
	var lines []layerLine
	var failed error // after which the layers that were timed are printed
	for _, c := range list {
		if failed = cmd.Context().Err(); failed != nil {
			break
		}
		t, err := tuning.Time(dev, c)
		if err != nil {
			failed = err
			break
		}
		w, err := dev.Work(c.Spec, c.Kind)
		if err != nil {
			failed = err
			break
		}
		seconds := t.Seconds()
		l := layerLine{
			Layer: fmt.Sprintf("%dx %d->%d %d^3 at %dx%dx%d", c.Spec.N, c.Spec.In, c.Spec.Out, c.Spec.Kernel[0],
				c.Spec.Size[0], c.Spec.Size[1], c.Spec.Size[2]),
			Kernel: map[cpu.ConvKind]string{cpu.Forward: "forward", cpu.Transposed: "data",
				cpu.Weights: "weights"}[c.Kind], Algorithm: w.Algorithm,
			Seconds: seconds, Direct: c.Spec.FLOPs() / seconds / 1e9, Done: w.Products / seconds / 1e9,
			Floors: map[string]float64{"FMA": w.Products / ceilings.FMA, "L2": w.Points / ceilings.L2,
				"memory": w.Operands / ceilings.Memory},
		}
		for _, bound := range []string{"FMA", "L2", "memory"} {
			share := l.Floors[bound] / seconds
			if l.Together += share; share > l.Reached {
				l.Bound, l.Reached = bound, share
			}
		}
		lines = append(lines, l)
	}
	if failed != nil && len(lines) == 0 {
		return failed
	}
	if o.JSON {
		return errors.Join(printJSON(cmd.OutOrStdout(), map[string]any{
			"device": dev.Describe(), "fma_gflops": ceilings.FMA / 1e9, "l2_gb_s": ceilings.L2 / 1e9,
			"l3_gb_s": ceilings.L3 / 1e9, "memory_gb_s": ceilings.Memory / 1e9, "layers": lines,
		}), failed)
	}
	return errors.Join(writeLayers(cmd.OutOrStdout(), dev.Describe(), ceilings, lines), failed)
}

func writeLayers(w io.Writer, device string, c cpu.Ceilings, lines []layerLine) error {
	t := terminal.TableData{
		Title: device,
		Header: []string{"layer", "kernel", "algorithm", "ms", "GFLOP/s direct", "multiplied", "FMA ms", "L2 ms",
			"memory ms", "bound", "together"},
		Right: []bool{false, false, false, true, true, true, true, true, true, false, true},
		Notes: []string{
			fmt.Sprintf("ceilings: %.0f GFLOP/s of multiply-adds, %.0f GB/s from L2, %.0f from L3, %.0f from memory",
				c.FMA/1e9, c.L2/1e9, c.L3/1e9, c.Memory/1e9),
			"direct: the arithmetic of direct convolution; multiplied: what the algorithm's " +
				"matrix products do, its transforms not counted",
		},
	}
	for _, l := range lines {
		ms := func(seconds float64) string { return fmt.Sprintf("%.2f", 1e3*seconds) }
		t.Rows = append(t.Rows, []string{
			l.Layer, l.Kernel, l.Algorithm, ms(l.Seconds), fmt.Sprintf("%.0f", l.Direct), fmt.Sprintf("%.0f", l.Done),
			ms(l.Floors["FMA"]), ms(l.Floors["L2"]), ms(l.Floors["memory"]),
			fmt.Sprintf("%s %.0f %%", l.Bound, 100*l.Reached), fmt.Sprintf("%.0f %%", 100*l.Together),
		})
	}
	return terminal.Table(w, t)
}
