package volume

import (
	"math"
	"math/rand/v2"
	"testing"
)

// air is a scan of nothing but noise around -1000 HU.
func air(shape [3]int, spacing [3]float64) *Volume {
	v := &Volume{Grid: Grid{Shape: shape, Affine: Scaling(spacing)}, Int16: make([]int16, shape[0]*shape[1]*shape[2])}
	r := rand.New(rand.NewPCG(1, 2))
	for n := range v.Int16 {
		v.Int16[n] = int16(-1000 + 40*r.NormFloat64())
	}
	return v
}

// fill gives the voxels of a box a value.
func (v *Volume) fill(low, high [3]int, hu int16) {
	for k := low[2]; k < high[2]; k++ {
		for j := low[1]; j < high[1]; j++ {
			for i := low[0]; i < high[0]; i++ {
				v.Int16[v.Index(i, j, k)] = hu
			}
		}
	}
}

func TestBody(t *testing.T) {
	spacing := [3]float64{2, 2, 4}
	patient := air([3]int{128, 128, 40}, spacing)
	patient.fill([3]int{40, 30, 0}, [3]int{90, 70, 40}, 40)
	patient.fill([3]int{50, 40, 5}, [3]int{80, 60, 35}, -850) // lung

	table := air([3]int{128, 128, 40}, spacing)
	copy(table.Int16, patient.Int16)
	table.fill([3]int{5, 72, 0}, [3]int{120, 74, 40}, -200) // a shell of 4 mm, near the patient

	legs := air([3]int{128, 128, 40}, spacing)
	legs.fill([3]int{20, 40, 0}, [3]int{45, 65, 40}, 40)
	legs.fill([3]int{70, 45, 0}, [3]int{95, 70, 40}, 40)

	small := air([3]int{24, 24, 24}, [3]float64{1, 1, 1})
	small.fill([3]int{8, 8, 8}, [3]int{16, 16, 16}, 40) // too small for the erosion

	for name, c := range map[string]struct {
		v         *Volume
		low, high [3]int // of what must be inside
		share     float64
	}{
		"a patient with lungs":      {patient, [3]int{40, 30, 0}, [3]int{90, 70, 40}, 0.30},
		"a table below the patient": {table, [3]int{40, 30, 0}, [3]int{90, 70, 40}, 0.30},
		"two legs":                  {legs, [3]int{20, 40, 0}, [3]int{95, 70, 40}, 0.40},
		"nothing but air":           {air([3]int{20, 20, 20}, spacing), [3]int{}, [3]int{20, 20, 20}, 1},
		"something small":           {small, [3]int{8, 8, 8}, [3]int{16, 16, 16}, 1},
		"a patient beyond the edges": {func() *Volume {
			v := air([3]int{40, 40, 10}, spacing)
			v.fill([3]int{},
				v.Shape, 40)
			return v
		}(), [3]int{}, [3]int{40, 40, 10}, 1},
	} {
		bounds := c.v.Body()
		if err := bounds.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for a := range 3 {
			if bounds.Origin[a] > c.low[a] || bounds.Origin[a]+bounds.Size[a] < c.high[a] {
				t.Errorf("%s: the box %v leaves out voxels from %v to %v", name, bounds.Box, c.low, c.high)
			}
		}
		if bounds.Share() > c.share {
			t.Errorf("%s: the box %v keeps %.2f of the voxels, want %.2f at most", name, bounds.Box, bounds.Share(),
				c.share)
		}
		float := &Volume{Grid: c.v.Grid, Float32: make([]float32, len(c.v.Int16))}
		for n, x := range c.v.Int16 {
			float.Float32[n] = float32(x)
		}
		if got := float.Body(); got != bounds {
			t.Errorf("%s: %v as int16, %v as float32", name, bounds, got)
		}
	}
}

// Cropping changes which voxels are prepared, and nothing about them: image and labels are those of
// the whole scan, and labels that are put back lie where they were.
func TestPreparedPart(t *testing.T) {
	v := air([3]int{60, 50, 20}, [3]float64{2, 2, 4})
	v.fill([3]int{20, 12, 4}, [3]int{40, 38, 17}, 100)
	v.Affine = Affine{{-2, 0, 0, 7}, {0, 2, 0, -3}, {0, 0, 4, 1}, {0, 0, 0, 1}}
	l := &LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
	for k := 6; k < 15; k++ {
		for j := 15; j < 30; j++ {
			for i := 22; i < 38; i++ {
				l.Labels[l.Index(i, j, k)] = uint16(1 + (i+j+k)%3)
			}
		}
	}
	for _, c := range []struct {
		crop  string
		whole bool
	}{{CropNone, true}, {"", true}, {CropBody, false}, {CropAuto, false}} {
		p := DefaultPreparation()
		p.Crop = c.crop
		bounds, err := p.Bounds(v)
		if err != nil {
			t.Fatal(err)
		}
		if bounds.IsWhole() != c.whole {
			t.Errorf("crop %q: %v of %v", c.crop, bounds.Box, v.Shape)
		}
		image, err := p.Apply(v, bounds)
		if err != nil {
			t.Fatal(err)
		}
		labels, err := p.ApplyLabels(l, bounds)
		if err != nil {
			t.Fatal(err)
		}
		if image.Shape != labels.Shape || !image.Same(labels.Grid, 1e-9) {
			t.Fatalf("crop %q: the image has %v, the labels %v", c.crop, image.Grid, labels.Grid)
		}
		all, err := p.Apply(v, v.Whole())
		if err != nil {
			t.Fatal(err)
		}
		for n, hu := range image.Int16 {
			i, j, k := n%image.Shape[0], n/image.Shape[0]%image.Shape[1], n/image.Shape[0]/image.Shape[1]
			at, err := all.Voxel(image.World([3]float64{float64(i), float64(j), float64(k)}))
			if err != nil {
				t.Fatal(err)
			}
			whole := func(x float64) int { return int(math.Round(x)) }
			if want := all.Int16[all.Index(whole(at[0]), whole(at[1]), whole(at[2]))]; hu != want {
				t.Fatalf("crop %q: voxel (%d, %d, %d) is %d, in the whole scan %d", c.crop, i, j, k, hu, want)
			}
		}
		back, err := p.Restore(labels, bounds)
		if err != nil {
			t.Fatal(err)
		}
		if back.Grid != v.Grid {
			t.Errorf("crop %q: labels came back on %v", c.crop, back.Grid)
		}
		for n, label := range l.Labels {
			if back.Labels[n] != label {
				t.Fatalf("crop %q: label %d of voxel %d came back as %d", c.crop, label, n, back.Labels[n])
			}
		}
	}
	p := DefaultPreparation()
	if _, err := p.Apply(v, Bounds{Scan: v.Grid,
		Box: Box{Origin: [3]int{50, 0, 0}, Size: [3]int{20, 10, 10}}}); err == nil {
		t.Error("a part beyond the scan was prepared")
	}
}

// A box that leaves out little is not worth it.
func TestCropOfItself(t *testing.T) {
	v := air([3]int{60, 60, 20}, [3]float64{2, 2, 4})
	v.fill([3]int{6, 6, 0}, [3]int{54, 54, 20}, 40)
	p := DefaultPreparation()
	if bounds, err := p.Bounds(v); err != nil || !bounds.IsWhole() {
		t.Errorf("%v, %v", bounds.Box, err)
	}
}
