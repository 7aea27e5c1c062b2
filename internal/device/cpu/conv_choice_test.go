package cpu

import (
	"bufio"
	"os"
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
