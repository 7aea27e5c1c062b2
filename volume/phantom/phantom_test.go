package phantom

import (
	"math"
	"reflect"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

func make64(t *testing.T, number uint64) (*volume.Volume, *volume.LabelMap) {
	t.Helper()
	v, l, err := New(number, Options{Shape: [3]int{64, 56, 60}})
	if err != nil {
		t.Fatal(err)
	}
	return v, l
}

// centre returns the mean coordinate, -1 to 1, of a label's voxels.
func centre(l *volume.LabelMap, label uint16) point {
	var sum point
	count := 0.
	for n, got := range l.Labels {
		if got == label {
			sum[0] += coordinate(n%l.Shape[0], l.Shape[0])
			sum[1] += coordinate(n/l.Shape[0]%l.Shape[1], l.Shape[1])
			sum[2] += coordinate(n/(l.Shape[0]*l.Shape[1]), l.Shape[2])
			count++
		}
	}
	return point{sum[0] / count, sum[1] / count, sum[2] / count}
}

func TestSeedDecides(t *testing.T) {
	v, l := make64(t, 1)
	again, labels := make64(t, 1)
	if !reflect.DeepEqual(v, again) || !reflect.DeepEqual(l, labels) {
		t.Error("the same seed makes another patient")
	}
	if err := v.Check(); err != nil {
		t.Error(err)
	}
	if err := l.Check(); err != nil {
		t.Error(err)
	}
	other, _ := make64(t, 2)
	if reflect.DeepEqual(v, other) {
		t.Error("another seed makes the same patient")
	}
	if v.Axcodes() != "RAS" || v.Spacing() != l.Spacing() || math.Abs(v.World([3]float64{31.5, 27.5, 29.5})[2]) > 1e-9 {
		t.Errorf("grid %v", v.Grid)
	}
}

func TestAnatomy(t *testing.T) {
	for number := range uint64(30) {
		v, l := make64(t, number)
		counts := l.Counts()
		for label, bounds := range map[uint16][2]float64{ // share of the scan's voxels
			Pancreas: {0.0008, 0.006}, Liver: {0.02, 0.09}, Spleen: {0.002, 0.03}, RightKidney: {0.0015, 0.012},
			LeftKidney: {0.0015, 0.012},
			Stomach:    {0.002, 0.03}, Aorta: {0.0015, 0.006}, Vertebrae: {0.004, 0.03},
		} {
			if share := float64(counts[label]) / float64(l.Len()); share < bounds[0] || share > bounds[1] {
				t.Errorf("patient %d: %s is %.2g of the scan, want %g to %g", number, Names()[label], share, bounds[0],
					bounds[1])
			}
		}
		pancreas, spleen, liver := centre(l, Pancreas), centre(l, Spleen), centre(l, Liver)
		if !(liver[0] > pancreas[0]+0.1 && pancreas[0] > spleen[0]+0.1 && centre(l, RightKidney)[0] > 0.1 &&
			centre(l, LeftKidney)[0] < -0.1 &&
			centre(l, Vertebrae)[1] < centre(l, Aorta)[1] && centre(l, Aorta)[1] < pancreas[1]) {
			t.Errorf("patient %d: organs are not where they belong", number)
		}
		// What makes the pancreas hard to find: many more voxels have its brightness than it has
		// voxels.
		sum := 0.
		for n, label := range l.Labels {
			if label == Pancreas {
				sum += float64(v.Int16[n])
			}
		}
		mean, alike := sum/float64(counts[Pancreas]), 0
		for _, x := range v.Int16 {
			if math.Abs(float64(x)-mean) < 20 {
				alike++
			}
		}
		if mean < 40 || mean > 120 || alike < 8*counts[Pancreas] {
			t.Errorf("patient %d: the pancreas has %.0f HU, and %d of %d voxels look like its %d", number, mean, alike,
				l.Len(), counts[Pancreas])
		}
		if s := v.Statistics(); s.Min > -950 || s.Max < 300 || s.Mean > 0 {
			t.Errorf("patient %d: HU from %g to %g", number, s.Min, s.Max)
		}
	}
}

func TestOptions(t *testing.T) {
	v, _, err := New(3, Options{Shape: [3]int{20, 1, 7}, Spacing: [3]float64{2, 3, 4}, Noise: 1})
	if err != nil {
		t.Fatal(err)
	}
	if v.Shape != [3]int{20, 1, 7} || v.Spacing() != [3]float64{2, 3, 4} {
		t.Errorf("%v of %v mm", v.Shape, v.Spacing())
	}
	for _, o := range []Options{{}, {Shape: [3]int{1 << 30, 1 << 30, 1 << 30}},
		{Shape: [3]int{4, 4, 4}, Spacing: [3]float64{-1, 1, 1}}, {Shape: [3]int{4, 4, 4}, Noise: -1},
		{Shape: [3]int{4, 4, 4}, Noise: math.NaN()}} {
		if _, _, err := New(0, o); err == nil {
			t.Errorf("%+v is let pass", o)
		}
	}
}

func BenchmarkNew(b *testing.B) {
	for b.Loop() {
		if _, _, err := New(0, Options{Shape: [3]int{96, 96, 96}}); err != nil {
			b.Fatal(err)
		}
	}
}
