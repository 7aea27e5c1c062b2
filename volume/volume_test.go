package volume

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// golden is testdata/resample.json: what scipy.ndimage and nibabel say.
type golden struct {
	Shape     [3]int
	Affine    Affine
	Voxels    []int16
	Resampled []struct {
		Spacing                [3]float64
		Shape                  [3]int
		Affine                 Affine
		Linear, Cubic, Nearest []float32
	}
	Oriented []struct {
		Affine         Affine
		Axcodes, Codes string
		Shape          [3]int
		Result         Affine
		Voxels         []int16
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	data, err := os.ReadFile("../testdata/resample.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func near(t *testing.T, what string, got, want Affine, tolerance float64) {
	t.Helper()
	for r := range got {
		for c := range got[r] {
			if math.Abs(got[r][c]-want[r][c]) > tolerance {
				t.Fatalf("%s: affine %v, want %v", what, got, want)
			}
		}
	}
}

func TestResampleAgreesWithScipy(t *testing.T) {
	g := readGolden(t)
	grid := Grid{Shape: g.Shape, Affine: g.Affine}
	whole := &Volume{Grid: grid, Int16: g.Voxels}
	exact := &Volume{Grid: grid, Float32: whole.floats()}
	for n, c := range g.Resampled {
		to := Grid{Shape: c.Shape, Affine: c.Affine}
		if c.Spacing != [3]float64{} {
			got, err := grid.Resampled(c.Spacing)
			if err != nil {
				t.Fatal(err)
			}
			if got.Shape != c.Shape {
				t.Fatalf("case %d: shape %v, want %v", n, got.Shape, c.Shape)
			}
			near(t, "resampled", got.Affine, c.Affine, 1e-9)
			to = got
		}
		for method, want := range map[Interpolation][]float32{Linear: c.Linear, Cubic: c.Cubic, Nearest: c.Nearest} {
			f, err := exact.ResampleTo(to, method, -1000)
			if err != nil {
				t.Fatal(err)
			}
			i, err := whole.ResampleTo(to, method, -1000)
			if err != nil {
				t.Fatal(err)
			}
			for e := range want {
				// float32 coefficients of up to 6^3 * 1500 with 24 bits: 0.02 HU.
				if math.Abs(float64(f.Float32[e]-want[e])) > 0.03 {
					t.Fatalf("case %d, %v: element %d is %g, want %g", n, method, e, f.Float32[e], want[e])
				}
				if i.Int16[e] != toInt16(f.Float32[e]) {
					t.Fatalf("case %d, %v: element %d of int16 is %d, want %g rounded", n, method, e, i.Int16[e],
						want[e])
				}
			}
		}
	}
}

// The voxel-by-voxel path and the axis-by-axis path are two implementations of one thing.
func TestResamplePathsAgree(t *testing.T) {
	g := readGolden(t)
	src := make([]float32, len(g.Voxels))
	for n, x := range g.Voxels {
		src[n] = float32(x)
	}
	m := Affine{{0.7, 0, 0, -0.4}, {0, 1.3, 0, -1.2}, {0, 0, 0.9, 0.35}, {0, 0, 0, 1}}
	to := [3]int{11, 6, 10}
	for _, method := range []Interpolation{Linear, Cubic} {
		a, b := separable(src, g.Shape, to, m, method, 7), oblique(src, g.Shape, to, m, method, 7)
		for n := range a {
			if math.Abs(float64(a[n]-b[n])) > 0.02 {
				t.Fatalf("%v: element %d: %g axis by axis, %g voxel by voxel", method, n, a[n], b[n])
			}
		}
	}
}

// Linear interpolation plane by plane is that of whole volumes, axis by axis, to the bit.
func TestLinearPlaneByPlane(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	from := [3]int{13, 9, 7}
	whole := make([]int16, from[0]*from[1]*from[2])
	floats := make([]float32, len(whole))
	for n := range whole {
		whole[n] = int16(r.IntN(4000) - 1500)
		floats[n] = float32(r.NormFloat64() * 700)
	}
	floats[17], floats[40] = float32(math.Inf(1)), float32(math.NaN())
	asFloats := make([]float32, len(whole))
	for n, x := range whole {
		asFloats[n] = float32(x)
	}
	same := func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) }
	for n, c := range []struct {
		to [3]int
		m  Affine
	}{
		{[3]int{20, 6, 15}, Affine{{0.6, 0, 0, -0.7}, {0, 1.6, 0, 0.3}, {0, 0, 0.4, 0}, {0, 0, 0, 1}}},
		{[3]int{13, 9, 20}, Affine{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 0.3, 0.1}, {0, 0, 0, 1}}},
		{[3]int{13, 12, 7}, Affine{{1, 0, 0, 0}, {0, 0.7, 0, -0.5}, {0, 0, 1, 0}, {0, 0, 0, 1}}},
		{[3]int{7, 9, 7}, Affine{{2, 0, 0, 0.5}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}},
		{[3]int{15, 11, 9}, Affine{{1, 0, 0, -1}, {0, 1, 0, -1}, {0, 0, 1, -1}, {0, 0, 0, 1}}},
	} {
		want := separable(floats, from, c.to, c.m, Linear, -7)
		got := linear(floats, from, c.to, c.m, -7, func(x float32) float32 { return x })
		if !slices.EqualFunc(got, want, same) {
			t.Errorf("case %d: floats differ", n)
		}
		wantWhole := separable(asFloats, from, c.to, c.m, Linear, -7)
		for e, x := range linear(whole, from, c.to, c.m, -7, toInt16) {
			if x != toInt16(wantWhole[e]) {
				t.Fatalf("case %d: voxel %d is %d, want %g", n, e, x, wantWhole[e])
			}
		}
	}
}

// A linear ramp in world coordinates stays the same ramp on every grid: a shift by half a voxel
// would show as 0.4 mm.
func TestResampleDoesNotShift(t *testing.T) {
	source := Grid{[3]int{20, 22, 18}, Affine{{-0.8, 0, 0, 5}, {0, -0.8, 0, 9}, {0, 0, 2.5, -3}, {0, 0, 0, 1}}}
	v := &Volume{Grid: source, Float32: make([]float32, source.Len())}
	ramp := func(p [3]float64) float64 { return 3*p[0] - 2*p[1] + p[2] }
	for n := range v.Float32 {
		i, j, k := n%20, n/20%22, n/20/22
		v.Float32[n] = float32(ramp(v.World([3]float64{float64(i), float64(j), float64(k)})))
	}
	for _, spacing := range [][3]float64{{1, 1, 1}, {0.4, 0.4, 0.4}, {3, 3, 3}, {0, 0, 1.25}} {
		o, err := v.Resample(spacing, Linear)
		if err != nil {
			t.Fatal(err)
		}
		// rounding to whole voxels moves each side by a quarter of a voxel at most, a corner by
		// sqrt 3 times that
		if !sameBox(o.Grid, source, 1.51) {
			t.Errorf("spacing %v: the box became %v from %v", spacing, o.Corners(), source.Corners())
		}
		inv, _ := source.Affine.Inverse()
		for n, got := range o.Float32 {
			p := o.World([3]float64{float64(n % o.Shape[0]), float64(n / o.Shape[0] % o.Shape[1]),
				float64(n / o.Shape[0] / o.Shape[1])})
			edge := false
			for a, x := range inv.Apply(p) {
				edge = edge || x < 0 || x > float64(source.Shape[a]-1)
			}
			if want := ramp(p); !edge && math.Abs(float64(got)-want) > 1e-4 {
				t.Fatalf("spacing %v: %g at %v, want %g", spacing, got, p, want)
			}
		}
	}
}

// sameBox reports whether both grids fill the same box of the world, whatever their sampling and
// the order and direction of their axes: each corner of one has a corner of the other within
// tolerance (mm).
func sameBox(g, o Grid, tolerance float64) bool {
	a, b := g.Corners(), o.Corners()
	for _, p := range a {
		nearest := math.Inf(1)
		for _, q := range b {
			nearest = min(nearest, distance(p, q))
		}
		if !(nearest <= tolerance) {
			return false
		}
	}
	return true
}

func TestOrientAgreesWithNibabel(t *testing.T) {
	g := readGolden(t)
	for _, c := range g.Oriented {
		v := &Volume{Grid: Grid{Shape: g.Shape, Affine: c.Affine}, Int16: g.Voxels}
		if v.Axcodes() != c.Axcodes {
			t.Errorf("axcodes %s, want %s", v.Axcodes(), c.Axcodes)
		}
		o, err := v.Orient(c.Codes)
		if err != nil {
			t.Fatal(err)
		}
		if o.Shape != c.Shape || !reflect.DeepEqual(o.Int16, c.Voxels) {
			t.Errorf("%s to %s: other voxels than nibabel's", c.Axcodes, c.Codes)
		}
		near(t, c.Codes, o.Affine, c.Result, 1e-9)
		back, err := o.Orient(c.Axcodes)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back.Int16, g.Voxels) {
			t.Errorf("%s to %s and back: not the same", c.Axcodes, c.Codes)
		}
		l := &LabelMap{Grid: v.Grid, Labels: make([]uint16, len(g.Voxels)), Names: map[uint16]string{1: "a"}}
		for n, x := range g.Voxels {
			l.Labels[n] = uint16(x)
		}
		turned, err := l.Orient(c.Codes)
		if err != nil {
			t.Fatal(err)
		}
		for n, x := range c.Voxels {
			if turned.Labels[n] != uint16(x) {
				t.Fatalf("%s to %s: other labels than nibabel's", c.Axcodes, c.Codes)
			}
		}
	}
}

// Which way an axis of the patient lies does not hang on the order of the axes in the file, even if
// two of them are nearest to the same one. The codes are those of nibabel 5.4.
func TestAxcodesInAnyOrder(t *testing.T) {
	a := Affine{{-5, 6, 6, 0}, {-4, -7, 3, 0}, {6, -2, 8, 0}, {0, 0, 0, 1}}
	const want = "LPS"
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		o, codes := a, ""
		for to, from := range order {
			for w := range 3 {
				o[w][to] = a[w][from]
			}
			codes += want[from : from+1]
		}
		if got := o.Axcodes(); got != codes {
			t.Errorf("axes %v are %s, want %s", order, got, codes)
		}
	}
}

// All 48 orientations of a volume that is larger than a tile, against the plain loop.
func TestPermuteAgreesWithLoop(t *testing.T) {
	shape := [3]int{37, 5, 41}
	src := make([]float32, 37*5*41)
	r := rand.New(rand.NewPCG(1, 2))
	for n := range src {
		src[n] = r.Float32()
	}
	for _, from := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for f := range 8 {
			flip := [3]bool{f&1 != 0, f&2 != 0, f&4 != 0}
			got := permute(src, shape, from, flip)
			n := [3]int{shape[from[0]], shape[from[1]], shape[from[2]]}
			for e := range got {
				p := [3]int{e % n[0], e / n[0] % n[1], e / n[0] / n[1]}
				var s [3]int
				for a := range 3 {
					s[from[a]] = p[a]
					if flip[a] {
						s[from[a]] = n[a] - 1 - p[a]
					}
				}
				if want := src[s[0]+shape[0]*(s[1]+shape[1]*s[2])]; got[e] != want {
					t.Fatalf("from %v flip %v: element %d is %g, want %g", from, flip, e, got[e], want)
				}
			}
		}
	}
}

func TestCrop(t *testing.T) {
	g := readGolden(t)
	v := &Volume{Grid: Grid{Shape: g.Shape, Affine: g.Affine}, Int16: g.Voxels}
	l := &LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
	for n, x := range g.Voxels {
		l.Labels[n] = uint16(x + 1001)
	}
	for _, c := range []struct{ origin, size [3]int }{
		{[3]int{0, 0, 0}, [3]int{7, 6, 9}}, {[3]int{2, 1, 3}, [3]int{3, 4, 2}},
		{[3]int{-2, -3, -1}, [3]int{12, 12, 12}},
		{[3]int{6, 5, 8}, [3]int{4, 4, 4}}, {[3]int{30, 0, 0}, [3]int{2, 2, 2}}, {[3]int{0, -9, 0}, [3]int{2, 2, 2}},
	} {
		o, err := v.Crop(c.origin, c.size, -1024)
		if err != nil {
			t.Fatal(err)
		}
		ol, err := l.Crop(c.origin, c.size)
		if err != nil {
			t.Fatal(err)
		}
		for k := range c.size[2] {
			for j := range c.size[1] {
				for i := range c.size[0] {
					x, y, z := i+c.origin[0], j+c.origin[1], k+c.origin[2]
					want, label := float32(-1024), uint16(0)
					if x >= 0 && y >= 0 && z >= 0 && x < 7 && y < 6 && z < 9 {
						want, label = v.At(x, y, z), l.At(x, y, z)
					}
					if o.At(i, j, k) != want || ol.At(i, j, k) != label {
						t.Fatalf("crop %v: voxel (%d, %d, %d) is %g and %d, want %g and %d", c, i, j, k, o.At(i, j, k),
							ol.At(i, j, k), want, label)
					}
				}
			}
		}
		p, q := o.World([3]float64{}), v.World([3]float64{float64(c.origin[0]), float64(c.origin[1]),
			float64(c.origin[2])})
		if distance(p, q) > 1e-9 {
			t.Errorf("crop %v: first voxel at %v, want %v", c, p, q)
		}
	}
	if _, err := v.Crop([3]int{}, [3]int{1, 0, 1}, 0); err == nil {
		t.Error("a crop of nothing was made")
	}
}

func TestWindowAndStatistics(t *testing.T) {
	grid := Grid{[3]int{2, 2, 2}, Scaling([3]float64{1, 1, 1})}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	v := &Volume{Grid: grid, Float32: []float32{-1000, 0, 50.5, nan, 300, inf, 7, 8}}
	s := v.Statistics()
	if want := (Statistics{Min: -1000, Max: 300, Mean: -634.5 / 6, NonFinite: 2}); s != want {
		t.Errorf("statistics %+v, want %+v", s, want)
	}
	if err := v.CheckFinite(); err == nil || err.Error() != "2 of 8 voxels are not finite, the first at (1, 1, 0)" {
		t.Errorf("CheckFinite: %v", err)
	}
	w, err := v.Window(-125, 275)
	if err != nil {
		t.Fatal(err)
	}
	if want := []float32{-125, 0, 50.5, -125, 275, 275, 7, 8}; !reflect.DeepEqual(w.Float32, want) {
		t.Errorf("window %v, want %v", w.Float32, want)
	}
	i := &Volume{Grid: grid, Int16: []int16{-3000, -126, -125, 0, 274, 275, 276, 3000}}
	w, err = i.Window(-125.5, 275.5)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int16{-125, -125, -125, 0, 274, 275, 275, 275}; !reflect.DeepEqual(w.Int16, want) {
		t.Errorf("window %v, want %v", w.Int16, want)
	}
	if s, want := i.Statistics(), (Statistics{Min: -3000, Max: 3000, Mean: 574.0 / 8}); s != want {
		t.Errorf("statistics %+v, want %+v", s, want)
	}
	for _, bad := range [][2]float64{{5, 5}, {6, 5}, {math.NaN(), 5}, {0.2, 0.4}} {
		if _, err := i.Window(bad[0], bad[1]); err == nil {
			t.Errorf("window %v was accepted", bad)
		}
	}
}

func TestInverse(t *testing.T) {
	a := Affine{{-0.9, 0.1, 0.3, 100}, {0.2, -1.1, 0.05, 7}, {0.1, 0.4, 3, -50}, {0, 0, 0, 1}}
	inv, err := a.Inverse()
	if err != nil {
		t.Fatal(err)
	}
	near(t, "a * inverse", a.Mul(inv), identity, 1e-12)
	g := Grid{[3]int{1, 1, 1}, a}
	p, err := g.Voxel(g.World([3]float64{1, 2, 3}))
	if err != nil || distance(p, [3]float64{1, 2, 3}) > 1e-12 {
		t.Errorf("voxel %v, %v", p, err)
	}
}

func TestGridRefuses(t *testing.T) {
	unit := Scaling([3]float64{1, 1, 1})
	singular, nan, last := unit, unit, unit
	singular[2][2] = 0
	nan[0][3] = math.NaN()
	last[3][0] = 1
	for want, g := range map[string]Grid{
		"extent 0 of axis j must be at least 1":      {[3]int{1, 0, 1}, unit},
		"extent -4 of axis k must be at least 1":     {[3]int{1, 1, -4}, unit},
		"more than 8589934592 voxels":                {[3]int{1 << 40, 1 << 40, 1 << 40}, unit},
		"affine is singular":                         {[3]int{1, 1, 1}, singular},
		"affine holds values that are not finite":    {[3]int{1, 1, 1}, nan},
		"affine's last row is 1, 0, 0, 1, not 0 0 0": {[3]int{1, 1, 1}, last},
	} {
		if err := g.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	if got := singular.Axcodes(); got != "???" {
		t.Errorf("axcodes of a singular affine: %s", got)
	}
	if _, err := (Grid{[3]int{2, 2, 2}, unit}).Oriented("RAL"); err == nil {
		t.Error("RAL was accepted")
	}
	if _, err := (Grid{[3]int{2, 2, 2}, unit}).Resampled([3]float64{1, -1, 1}); err == nil {
		t.Error("a negative spacing was accepted")
	}
	if _, err := (Grid{[3]int{2000, 2000, 2000}, unit}).Resampled([3]float64{1e-6, 1e-6, 1e-6}); err == nil {
		t.Error("a tiny spacing was accepted")
	}
}

func BenchmarkResample(b *testing.B) {
	g := Grid{[3]int{256, 256, 100}, Scaling([3]float64{0.8, 0.8, 2.5})}
	v := &Volume{Grid: g, Int16: make([]int16, g.Len())}
	for n := range v.Int16 {
		v.Int16[n] = int16(n % 3000)
	}
	for _, method := range []Interpolation{Linear, Cubic, Nearest} {
		b.Run(method.String(), func(b *testing.B) {
			for b.Loop() {
				if _, err := v.Resample([3]float64{1, 1, 1}, method); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
