package cpu

import (
	"bufio"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// photoLayers are the convolutions of ResNet-18, ResNet-50 and AlexNet in a step of 8 puzzles of
// 3x3 patches of 64x64 pixels.
func photoLayers() (list []device.ConvSpec) {
	layer := func(in, out, size, kernel, stride, pad, groups int) {
		s := strided(flat(72, in, out, size, size, kernel, pad), stride, stride)
		s.Groups = groups
		list = append(list, s)
	}
	layer(3, 64, 64, 7, 2, 3, 0)
	for i := range 4 { // the stages of ResNets
		width, size := 64<<i, 16>>i
		layer(width, width, size, 3, 1, 1, 0)
		layer(width, 4*width, size, 1, 1, 0, 0)
		layer(4*width, width, size, 1, 1, 0, 0)
		if i == 0 {
			layer(width, width, size, 1, 1, 0, 0)
			continue
		}
		layer(width/2, width, 2*size, 3, 2, 1, 0)
		layer(width, width, 2*size, 3, 2, 1, 0)
		layer(width/2, width, 2*size, 1, 2, 0, 0)
		layer(2*width, width, 2*size, 1, 1, 0, 0)
		layer(2*width, 4*width, 2*size, 1, 2, 0, 0)
	}
	layer(3, 96, 64, 11, 2, 0, 0) // AlexNet
	layer(96, 256, 13, 5, 1, 2, 2)
	layer(256, 384, 6, 3, 1, 1, 0)
	layer(384, 384, 6, 3, 1, 1, 2)
	layer(384, 256, 6, 3, 1, 1, 2)
	return list
}

// photoKernels calls f for the kernels of all layers that a training step runs.
func photoKernels(f func(s device.ConvSpec, kind ConvKind)) {
	for _, s := range photoLayers() {
		for _, kind := range []ConvKind{Forward, Transposed, Weights} {
			if kind != Transposed || s.In > 4 { // the gradient of photographs is never asked for
				f(s, kind)
			}
		}
	}
}

// timesFile has a line a kernel: its key, then each algorithm with the milliseconds that it took.
// testdata/README.md says how it was made.
const timesFile = "testdata/photo-times-avx2.txt"

func readTimes(t *testing.T, path string) map[string]map[string]float64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	times := map[string]map[string]float64{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, list, _ := strings.Cut(lines.Text(), " = ")
		times[key] = map[string]float64{}
		for entry := range strings.SplitSeq(list, "; ") {
			at := strings.LastIndex(entry, " ")
			if times[key][entry[:at]], err = strconv.ParseFloat(entry[at+1:], 64); err != nil {
				t.Fatalf("%s: %q: %v", path, lines.Text(), err)
			}
		}
	}
	return times
}

// The algorithm that the cost model chooses takes little more time than the fastest one took when
// all were measured, in every layer; and over all layers hardly any.
func TestCostModelChoosesFastAlgorithms(t *testing.T) {
	const worst, overall = 1.20, 1.04
	c := newTestCPU(t, Options{Threads: 1}, genericKernels())
	times := readTimes(t, timesFile)
	chosen, fastest := 0.0, 0.0
	photoKernels(func(s device.ConvSpec, kind ConvKind) {
		key := ChoiceKey(s, kind)
		names, err := c.Candidates(s, kind)
		if err != nil {
			t.Fatal(err)
		}
		best := names[0]
		for _, name := range names {
			if times[key][name] == 0 {
				t.Fatalf("%s has no time for %q of %s: measure again", timesFile, name, key)
			}
			if times[key][name] < times[key][best] {
				best = name
			}
		}
		took, least := times[key][names[0]], times[key][best]
		if took > worst*least {
			t.Errorf("%s: the model chooses %s, which took %.2f ms; %s took %.2f", key, names[0], took, best, least)
		}
		chosen, fastest = chosen+took, fastest+least
	})
	if chosen > overall*fastest {
		t.Errorf("the chosen algorithms took %.1f ms together, the fastest %.1f", chosen, fastest)
	}
}

// ms are milliseconds by algorithm.
type ms map[string]float64

// What kernels of the networks that nnU-Net plans took on one core of an Emerald Rapids (AVX-512):
// the fastest of 5 to 9 runs, all algorithms of a layer in turns.
var plannedTimes = []struct {
	in, out int
	size    [3]int
	kernelZ int
	times   ms
}{
	{32, 32, [3]int{64, 128, 128}, 3, ms{"Winograd F(6,3) by tiles": 113, "Winograd F(4,3) by tiles": 127,
		"Winograd F(3,3) by tiles": 171, "Winograd F(6,3) by channels": 225, "direct": 418}},
	{64, 32, [3]int{64, 128, 128}, 3, ms{"Winograd F(6,3) by tiles": 230, "Winograd F(4,3) by tiles": 265,
		"Winograd F(6,3) by channels": 382, "Winograd F(4,3) by channels": 483}},
	{64, 64, [3]int{32, 64, 64}, 3, ms{"Winograd F(6,3) by tiles": 50, "Winograd F(4,3) by tiles": 52,
		"Winograd F(6,3) by channels": 77, "Winograd F(4,3) by channels": 78}},
	{128, 64, [3]int{32, 64, 64}, 3, ms{"Winograd F(6,3) by tiles": 107, "Winograd F(4,3) by tiles": 100,
		"Winograd F(6,3) by channels": 138, "Winograd F(4,3) by channels": 132}},
	{128, 128, [3]int{16, 32, 32}, 3, ms{"Winograd F(6,3) by tiles": 40, "Winograd F(4,3) by tiles": 29,
		"Winograd F(6,3) by channels": 30, "Winograd F(4,3) by channels": 20}},
	{256, 128, [3]int{16, 32, 32}, 3, ms{"Winograd F(6,3) by tiles": 77, "Winograd F(4,3) by tiles": 50,
		"Winograd F(6,3) by channels": 60, "Winograd F(4,3) by channels": 50}},
	{128, 128, [3]int{18, 24, 24}, 3, ms{"Winograd F(6,3) by tiles": 17.8, "Winograd F(4,3) by tiles": 17.5,
		"Winograd F(6,3) by channels": 10.1, "Winograd F(4,3) by channels": 14.3}},
	{256, 256, [3]int{8, 16, 16}, 3, ms{"Winograd F(6,3) by tiles": 76, "Winograd F(4,3) by tiles": 30,
		"Winograd F(6,3) by channels": 16.5, "Winograd F(4,3) by channels": 12.1}},
	{512, 256, [3]int{8, 16, 16}, 3, ms{"Winograd F(6,3) by tiles": 143, "Winograd F(4,3) by tiles": 64,
		"Winograd F(6,3) by channels": 32.4, "Winograd F(4,3) by channels": 23.6}},
	{320, 320, [3]int{6, 12, 12}, 3, ms{"Winograd F(6,3) by tiles": 91, "Winograd F(4,3) by tiles": 47,
		"Winograd F(6,3) by channels": 11.2, "Winograd F(4,3) by channels": 14.4, "Winograd F(3,3) by channels": 13.2,
		"Winograd F(2,3) by channels": 19.7, "direct": 33}},
	{32, 32, [3]int{32, 192, 160}, 1, ms{"Winograd F(6,3) by tiles": 66, "Winograd F(4,3) by tiles": 85,
		"Winograd F(3,3) by tiles": 109, "Winograd F(6,3) by channels": 147, "direct": 140}},
	{64, 64, [3]int{32, 96, 80}, 1, ms{"Winograd F(6,3) by tiles": 62, "Winograd F(4,3) by tiles": 80,
		"Winograd F(3,3) by tiles": 74, "Winograd F(6,3) by channels": 87, "direct": 170}},
}

// In the networks that nnU-Net plans, thick slices among them, the model chooses what was measured
// to be fast.
func TestCostModelForPlannedNetworks(t *testing.T) {
	c := newTestCPU(t, Options{Threads: 1}, genericKernels())
	for _, l := range plannedTimes {
		s := device.ConvSpec{N: 1, In: l.in, Out: l.out, Size: l.size, Kernel: [3]int{l.kernelZ, 3, 3},
			Stride: [3]int{1, 1, 1}, Pad: [3]int{l.kernelZ / 2, 1, 1}, Bias: true}
		names, err := c.Candidates(s, Forward)
		if err != nil {
			t.Fatal(err)
		}
		least := l.times[names[0]]
		for name, took := range l.times {
			if !slices.Contains(names, name) {
				t.Errorf("%s is no candidate for %s", name, ChoiceKey(s, Forward))
			}
			least = min(least, took)
		}
		if took, ok := l.times[names[0]]; !ok || took > 1.2*least {
			t.Errorf("%s: the model chooses %s, which took %v ms; the fastest took %v", ChoiceKey(s, Forward), names[0],
				took, least)
		}
	}
}
