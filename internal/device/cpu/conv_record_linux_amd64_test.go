package cpu

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/voxsaw/voxsaw/internal/device"
)

var record = flag.Bool("record", false,
	"measure every algorithm of the layers of photographs and write testdata/photo-times-avx2.txt")

// TestRecordTimes measures what TestCostModelChoosesFastAlgorithms reads: processor time of one
// thread, the least of several runs, the algorithms of a kernel taking turns. Before each run other
// memory is written, so that operands are not in a core's caches, as in a training step. Without
// -record it measures one small kernel, to see that what is written can be read.
func TestRecordTimes(t *testing.T) {
	path, kernels := timesFile, photoKernels
	if !*record {
		path = filepath.Join(t.TempDir(), "times.txt")
		kernels = func(f func(s device.ConvSpec, kind ConvKind)) {
			f(device.ConvSpec{N: 1, In: 16, Out: 16, Size: [3]int{1, 8, 8}, Kernel: [3]int{1, 3, 3},
				Stride: [3]int{1, 1, 1}, Pad: [3]int{0, 1, 1}}, Forward)
		}
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := newTestCPU(t, Options{Threads: 1}, avx2Kernels())
	var text strings.Builder
	kernels(func(s device.ConvSpec, kind ConvKind) { writeTimes(t, &text, c, s, kind) })
	if err := os.WriteFile(path, []byte(text.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	times := readTimes(t, path)
	kernels(func(s device.ConvSpec, kind ConvKind) {
		names, err := c.Candidates(s, kind)
		if err != nil || len(names) < 2 {
			t.Fatalf("algorithms %v, %v", names, err)
		}
		for _, name := range names {
			if times[ChoiceKey(s, kind)][name] <= 0 {
				t.Errorf("no time of %s for %s in %q", name, ChoiceKey(s, kind), text.String())
			}
		}
	})
}

// writeTimes adds the line of one kernel: its key, then each algorithm with its milliseconds.
func writeTimes(t *testing.T, text *strings.Builder, c *CPU, s device.ConvSpec, kind ConvKind) {
	t.Helper()
	names, err := c.Candidates(s, kind)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(text, "%s = ", ChoiceKey(s, kind))
	for i, took := range timeAlgorithms(t, c, s, kind, names) {
		if i > 0 {
			text.WriteString("; ")
		}
		fmt.Fprintf(text, "%s %.4f", names[i], 1e3*took.Seconds())
	}
	text.WriteString("\n")
}

func timeAlgorithms(t *testing.T, c *CPU, s device.ConvSpec, kind ConvKind, names []string) []time.Duration {
	x, y, w := alignedSlice(elementsOf(s.XShape())), alignedSlice(elementsOf(s.YShape())),
		alignedSlice(weightElements(s.WShape()))
	for i := range x {
		x[i] = float32(i%17) - 8
	}
	for i := range y {
		y[i] = float32(i%13) - 6
	}
	out, in := []device.Buffer{y}, []device.Buffer{x, w}
	switch kind {
	case Transposed:
		out, in = []device.Buffer{x}, []device.Buffer{y, w}
	case Weights:
		out, in = []device.Buffer{w}, []device.Buffer{x, y}
	}
	var kernels []device.Kernel
	scratch := int64(0)
	for _, name := range names {
		c.opt.Choices = map[string]string{ChoiceKey(s, kind): name}
		k, err := c.choose(s, kind)
		if err != nil {
			t.Fatal(err)
		}
		kernels = append(kernels, k)
		scratch = max(scratch, k.Scratch())
	}
	c.opt.Choices = nil
	rest, others := alignedSlice(int(scratch/4)), make([]float32, 12<<20)
	best := make([]time.Duration, len(kernels))
	for run := range 7 {
		for i, k := range kernels {
			if run > 2 && best[i] > 2*best[0] {
				continue
			}
			for j := 0; j < len(others); j += block {
				others[j]++
			}
			start := threadTime()
			k.Run(out, in, rest)
			if d := threadTime() - start; run == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	return best
}

// threadTime is the processor time of this thread.
func threadTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		panic(err)
	}
	return time.Duration(ts.Nano())
}
