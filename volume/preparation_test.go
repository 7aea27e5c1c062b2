package volume

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// blob makes a label map of a ball (1) with a smaller ball (2) beside it, on the grid.
func blob(g Grid) *LabelMap {
	l := &LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	box := g.Corners()
	centre := [3]float64{}
	for _, c := range box {
		for a := range 3 {
			centre[a] += c[a] / 8
		}
	}
	for k := range g.Shape[2] {
		for j := range g.Shape[1] {
			for i := range g.Shape[0] {
				w := g.World([3]float64{float64(i), float64(j), float64(k)})
				aside := [3]float64{centre[0] + 10, centre[1] - 4, centre[2] + 3}
				switch {
				case distance(w, aside) < 6:
					l.Labels[g.Index(i, j, k)] = 2
				case distance(w, centre) < 12:
					l.Labels[g.Index(i, j, k)] = 1
				}
			}
		}
	}
	return l
}

// oblong makes a scan whose axes are unlike in every way, with labels in two places.
func oblong(t *testing.T, shape [3]int) (*Volume, *LabelMap) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	g := Grid{Shape: shape, Affine: Affine{{0, -0.8, 0, 10}, {0.7, 0, 0, -5}, {0, 0, 2.5, 100}, {0, 0, 0, 1}}}
	v := &Volume{Grid: g, Int16: make([]int16, g.Len())}
	l := &LabelMap{Grid: g, Labels: make([]uint16, g.Len()), Names: map[uint16]string{1: "liver", 300: "pancreas"}}
	for n := range v.Int16 {
		v.Int16[n] = int16(r.IntN(3000) - 1024)
		switch {
		case n%97 < 10:
			l.Labels[n] = 1
		case n%97 == 50:
			l.Labels[n] = 300
		}
	}
	return v, l
}

func TestRestoreUndoesApply(t *testing.T) {
	grids := map[string]Grid{
		"RAS": {Shape: [3]int{40, 36, 30}, Affine: Scaling([3]float64{1, 1.2, 1.5})},
		"PLI": {Shape: [3]int{28, 44, 38}, Affine: Affine{{0, -1, 0, 12}, {1.3, 0, 0, -20}, {0, 0, -1.1, 7},
			{0, 0, 0, 1}}},
		"oblique LPS": {Shape: [3]int{33, 31, 29}, Affine: Affine{{-1.2, -0.2, 0.1, 60}, {0.2, -1.2, 0, 30},
			{0.1, 0, 1.2, -90}, {0, 0, 0, 1}}},
	}
	for name, g := range grids {
		for _, spacing := range [][3]float64{{}, {1, 1, 1}, {0, 0, 0.7}, {1.7, 0.9, 2.1}} {
			p := DefaultPreparation()
			p.Spacing = spacing
			l := blob(g)
			prepared, err := p.ApplyLabels(l, g.Whole())
			if err != nil {
				t.Fatal(err)
			}
			if prepared.Axcodes() != "RAS" {
				t.Errorf("%s: prepared to %s", name, prepared.Axcodes())
			}
			restored, err := p.Restore(prepared, g.Whole())
			if err != nil {
				t.Fatal(err)
			}
			if !restored.Same(g, 1e-9) {
				t.Errorf("%s at %v: restored to another grid", name, spacing)
			}
			if spacing == [3]float64{} {
				if !slices.Equal(restored.Labels, l.Labels) {
					t.Errorf("%s: labels at the scan's own spacing do not come back as they were", name)
				}
				continue
			}
			// A voxel that comes back with another label has its own among its neighbours: nearest
			// neighbour moves a surface by at most half a prepared voxel.
			wrong := 0
			for k := range g.Shape[2] {
				for j := range g.Shape[1] {
					for i := range g.Shape[0] {
						got, want := restored.At(i, j, k), l.At(i, j, k)
						if got == want {
							continue
						}
						wrong++
						near := false
						for d := range 27 {
							a, b, c := i+d%3-1, j+d/3%3-1, k+d/9-1
							if a >= 0 && b >= 0 && c >= 0 && a < g.Shape[0] && b < g.Shape[1] && c < g.Shape[2] &&
								l.At(a, b, c) == got {
								near = true
							}
						}
						if !near {
							t.Fatalf("%s at %v: label %d at (%d, %d, %d), far from any such", name, spacing, got, i, j,
								k)
						}
					}
				}
			}
			if wrong > g.Len()/50 {
				t.Errorf("%s at %v: %d of %d labels differ", name, spacing, wrong, g.Len())
			}
		}
	}
}

func TestPreparedImage(t *testing.T) {
	v, _ := oblong(t, [3]int{12, 10, 8})
	p := DefaultPreparation()
	o, err := p.Apply(v, v.Whole())
	if err != nil {
		t.Fatal(err)
	}
	want, err := v.Orient("RAS")
	if err != nil {
		t.Fatal(err)
	}
	for n, x := range want.Int16 {
		if o.Int16[n] != min(max(x, -125), 275) {
			t.Fatalf("voxel %d: %d becomes %d", n, x, o.Int16[n])
		}
	}
	if g, err := p.Grid(v.Grid); err != nil || g != o.Grid {
		t.Errorf("grid %v, want %v (%v)", g, o.Grid, err)
	}

	// Values that are no numbers are air, also through cubic interpolation.
	f := &Volume{Grid: v.Grid, Float32: make([]float32, v.Len())}
	for n := range f.Float32 {
		f.Float32[n] = float32(math.NaN())
	}
	p.Spacing, p.Interpolation = [3]float64{1, 1, 1}, "cubic"
	if o, err = p.Apply(f, f.Whole()); err != nil {
		t.Fatal(err)
	}
	if slices.Max(o.Int16) != -125 || slices.Min(o.Int16) != -125 {
		t.Errorf("NaN becomes %d to %d", slices.Min(o.Int16), slices.Max(o.Int16))
	}

	r := rand.New(rand.NewPCG(7, 8))
	hu := []int16{-125, 275, 75, -1024, 3071}
	for range 100 {
		hu = append(hu, int16(r.IntN(400)-125))
	}
	x := make([]float32, len(hu))
	how := p.Intensities(nil)
	how.Normalise(x, hu)
	if !slices.Equal(x[:5], []float32{-1, 1, 0, -1, 1}) {
		t.Errorf("%v HU becomes %v", hu[:5], x[:5])
	}
	for n := range hu {
		if n >= 5 && math.Abs(float64(how.Denormalise(x[n])-float32(hu[n]))) > 1e-4 {
			t.Errorf("%d HU comes back as %g", hu[n], how.Denormalise(x[n]))
		}
	}
}

func TestLabelsOnOtherGrids(t *testing.T) {
	image := Grid{Shape: [3]int{40, 40, 20}, Affine: Scaling([3]float64{1, 1, 2})}
	coarse, err := image.Resampled([3]float64{2, 2, 2})
	if err != nil {
		t.Fatal(err)
	}
	turned, err := coarse.Oriented("LPI")
	if err != nil {
		t.Fatal(err)
	}
	moved := func(g Grid, by float64) Grid {
		g.Affine[0][3] += by
		return g
	}
	oriented := func(codes string) Grid {
		g, err := image.Oriented(codes)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if beside := image.Misalignment(moved(oriented("SAL"), 0.3)); math.Abs(beside-0.3) > 1e-9 {
		t.Errorf("moved by 0.3 mm: %g voxels", beside)
	}
	for _, test := range []struct {
		name         string
		labels       Grid
		exact, fails bool
	}{
		{"the same", image, true, false},
		{"rounded", moved(image, 0.3), true, false},
		{"other axes", oriented("LPS"), true, false},
		{"other axes in another order, rounded", moved(oriented("SAL"), 0.3), true, false},
		{"coarser", coarse, false, false},
		{"coarser and turned", turned, false, false},
		{"moved by a voxel", moved(image, 1), false, true},
		{"coarser and moved by less than half of its voxel", moved(turned, 0.9), false, false},
		{"coarser and moved by more", moved(turned, 1.1), false, true},
		{"another shape", Grid{Shape: [3]int{40, 40, 21}, Affine: image.Affine}, false, true},
	} {
		l := blob(test.labels)
		exact, err := image.Match(l.Grid)
		if exact != test.exact || (err != nil) != test.fails {
			t.Errorf("%s: exact %v, %v", test.name, exact, err)
		}
		prepared, err := DefaultPreparation().ApplyLabels(l, image.Whole())
		var geometry *GeometryError
		if test.fails {
			if !errors.As(err, &geometry) {
				t.Errorf("%s: %v", test.name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		if prepared.Grid != image {
			t.Errorf("%s: prepared to %v", test.name, prepared.Grid)
		}
		want, different := blob(image), 0
		for n := range want.Labels {
			if want.Labels[n] != prepared.Labels[n] {
				different++
			}
		}
		if different > image.Len()/50 {
			t.Errorf("%s: %d of %d labels differ", test.name, different, image.Len())
		}
	}
}

// Half a voxel is that of the grid with the larger ones, along each axis, and what is beyond is
// told with the axis and the distance.
func TestHalfAVoxelOfTheLarger(t *testing.T) {
	image := Grid{Shape: [3]int{32, 36, 16}, Affine: Scaling([3]float64{0.8, 0.8, 2.5})}
	// nibabel.processing.resample_to_output(image, (1, 1, 1)): the first voxels have one centre, so
	// that the boxes are 0.75 mm apart along k.
	resampled := Grid{Shape: [3]int{26, 29, 39}, Affine: Scaling([3]float64{1, 1, 1})}
	// of every second slice the first: 1.25 mm apart
	thick := Grid{Shape: [3]int{32, 36, 8}, Affine: Scaling([3]float64{0.8, 0.8, 5})}
	moved := func(g Grid, x, z float64) Grid {
		g.Affine[0][3] += x
		g.Affine[2][3] += z
		return g
	}
	for _, test := range []struct {
		labels Grid
		exact  bool
		says   string
	}{
		{resampled, false, ""},
		{thick, false, ""},
		{moved(image, 0, 1.2), true, ""},
		{moved(image, 0.5, 0), false, "along i (R) their edges lie 0.5 mm apart, more than half a voxel, 0.4 mm: "},
		{moved(image, 0.3, -2.5), false, "along k (S) their edges lie 2.5 mm apart, more than half a voxel, 1.25 mm: "},
		{moved(thick, 0, -1.3), false, "along k (S) their edges lie 2.55 mm apart, more than half a voxel, 2.5 mm: "},
	} {
		for _, codes := range []string{"RAS", "SLP"} {
			labels, err := test.labels.Oriented(codes)
			if err != nil {
				t.Fatal(err)
			}
			exact, err := image.Match(labels)
			if exact != test.exact || (err == nil) != (test.says == "") ||
				err != nil && !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v, axes %s: exact %v, %v, want %v, %s", test.labels, codes, exact, err, test.exact,
					test.says)
			}
		}
	}
}

func TestRelabel(t *testing.T) {
	g := Grid{Shape: [3]int{5, 1, 1}, Affine: Scaling([3]float64{1, 1, 1})}
	l := &LabelMap{Grid: g, Labels: []uint16{0, 1, 2, 3, 700}, Names: map[uint16]string{1: "pancreas", 2: "tumour"}}
	for rules, want := range map[string][]uint16{
		"":             {0, 1, 2, 3, 700},
		"2:1":          {0, 1, 1, 3, 700},
		"3:1, *:0":     {0, 0, 0, 1, 0},
		"1:2,2:1":      {0, 2, 1, 3, 700},
		"*:0,1:1,2:1":  {0, 1, 1, 0, 0},
		"700:12,3:012": {0, 1, 2, 12, 12},
	} {
		p := DefaultPreparation()
		p.Relabel = rules
		o, err := p.ApplyLabels(l, g.Whole())
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(o.Labels, want) {
			t.Errorf("%q: %v, want %v", rules, o.Labels, want)
		}
		if rules == "2:1" && !reflect.DeepEqual(o.Names, map[uint16]string{1: "pancreas"}) {
			t.Errorf("names %v", o.Names)
		}
	}
	for _, rules := range []string{"2", "2:", "2:x", "x:2", "0:1", "1:2,1:3", "1:70000", "-1:2", ","} {
		p := DefaultPreparation()
		p.Relabel = rules
		if err := p.Check(); err == nil {
			t.Errorf("%q is let pass", rules)
		}
	}
}

func TestPreparationCheck(t *testing.T) {
	if err := DefaultPreparation().Check(); err != nil {
		t.Error(err)
	}
	for name, spoil := range map[string]func(*Preparation){
		"axcodes":       func(p *Preparation) { p.Axcodes = "RAR" },
		"spacing":       func(p *Preparation) { p.Spacing[1] = -1 },
		"NaN spacing":   func(p *Preparation) { p.Spacing[1] = math.NaN() },
		"window":        func(p *Preparation) { p.Window = [2]float64{5, 5} },
		"wide window":   func(p *Preparation) { p.Window = [2]float64{-1e6, 5} },
		"half HU":       func(p *Preparation) { p.Window = [2]float64{-0.5, 5} },
		"NaN window":    func(p *Preparation) { p.Window[0] = math.NaN() },
		"interpolation": func(p *Preparation) { p.Interpolation = "nearest" },
		"spelling":      func(p *Preparation) { p.Interpolation = "liner" },
	} {
		p := DefaultPreparation()
		spoil(&p)
		if err := p.Check(); err == nil {
			t.Errorf("%s is let pass", name)
		}
	}
}
