package sliding

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/volume"
)

// flipped is (n, K, J, I) values, each volume turned round along some axes by an index of its own.
func flipped[T any](values []T, shape [3]int, along [3]bool) []T {
	out := make([]T, len(values))
	at := func(axis, x int) int {
		if along[axis] {
			return shape[axis] - 1 - x
		}
		return x
	}
	n := shape[0] * shape[1] * shape[2]
	for v := range len(values) / n {
		for k := range shape[2] {
			for j := range shape[1] {
				for i := range shape[0] {
					out[v*n+i+shape[0]*(j+shape[1]*k)] = values[v*n+at(0, i)+shape[0]*(at(1, j)+shape[1]*at(2, k))]
				}
			}
		}
	}
	return out
}

// Mirroring at test time is what somebody gets who mirrors the scan by hand, has each mirror image
// segmented, turns the probabilities back and takes their mean.
func TestMirrorEqualsFlippingByHand(t *testing.T) {
	dev := testDevice(t)
	network, err := backbone.Of(voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance", Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	shape := [3]int{16, 9, 10} // windows lie symmetrically
	c, how := phantomCase(t, shape)
	whole, err := c.Volume()
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(dev, 5)
	infer := func(o Options, v *volume.Volume) Result {
		t.Helper()
		o.Size, o.Overlap, o.Logits = [3]int{8, 6, 4}, 0.5, true
		s, err := New(dev, params, network, o, nn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		r, err := s.Infer(t.Context(), Hold(v, v, how.Intensities(nil)), Ensemble{},
			Wanted{Probabilities: true, Logits: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	plain := infer(Options{Batch: 1}, whole)
	for _, axes := range []string{"i", "jk", "ijk"} {
		var sets [][3]bool
		for n := range 8 {
			set := [3]bool{n&1 > 0, n&2 > 0, n&4 > 0}
			named := true
			for axis, name := range "ijk" {
				named = named && (!set[axis] || strings.ContainsRune(axes, name))
			}
			if named {
				sets = append(sets, set)
			}
		}
		probabilities, logits := make([]float64, len(plain.Probabilities)), make([]float64, len(plain.Logits))
		for _, set := range sets {
			turned := *whole
			turned.Int16 = flipped(whole.Int16, shape, set)
			r := infer(Options{Batch: 1}, &turned)
			for i, p := range flipped(r.Probabilities, shape, set) {
				probabilities[i] += float64(p) / float64(len(sets))
			}
			for i, l := range flipped(r.Logits, shape, set) {
				logits[i] += float64(l) / float64(len(sets))
			}
		}
		for _, batch := range []int{1, 2} {
			got := infer(Options{Batch: batch, Mirror: axes}, whole)
			worst := 0.0
			for i := range probabilities {
				worst = max(worst, math.Abs(probabilities[i]-float64(got.Probabilities[i])),
					math.Abs(logits[i]-float64(got.Logits[i])))
			}
			if worst > 1e-5 {
				t.Errorf("%s, batch %d: differs by up to %g from flipping by hand", axes, batch, worst)
			}
			if slices.Equal(got.Probabilities, plain.Probabilities) {
				t.Errorf("%s: as without mirroring", axes)
			}
		}
	}
	if err := (Options{Batch: 1, Mirror: "x"}).Check(); err == nil {
		t.Error("an axis x was accepted")
	}
}

// What a network is asked for of a scan is not a matter of what it was asked for before.
func TestMirroredOutputsOfEachCall(t *testing.T) {
	dev := testDevice(t)
	network, err := backbone.Of(voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance", Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	c, how := phantomCase(t, [3]int{16, 9, 10})
	whole, err := c.Volume()
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(dev, 5)
	infer := func(calls ...Wanted) (r Result) {
		t.Helper()
		s, err := New(dev, params, network, Options{Batch: 1, Size: [3]int{8, 6, 4}, Overlap: 0.5, Logits: true,
			Mirror: "i"}, nn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		for _, wanted := range calls {
			scan := Hold(whole, whole, how.Intensities(nil))
			if r, err = s.Infer(t.Context(), scan, Ensemble{}, wanted, nil); err != nil {
				t.Fatal(err)
			}
		}
		return r
	}
	logits, plain := Wanted{Probabilities: true, Logits: true}, Wanted{Probabilities: true}
	fresh, short := infer(logits), infer(plain)
	if r := infer(plain, logits); !slices.Equal(r.Logits, fresh.Logits) ||
		!slices.Equal(r.Probabilities, fresh.Probabilities) {
		t.Error("logits differ where none were asked for before")
	}
	if r := infer(logits, plain); !slices.Equal(r.Probabilities, short.Probabilities) || r.Logits != nil {
		t.Error("probabilities differ where logits were asked for before")
	}
}
