package segment

import (
	"math"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func openCase(t testing.TB) *prepared.Case {
	t.Helper()
	c, err := phantoms(t, 1, [3]int{40, 36, 32}).Open("case00")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestNoAugmentationIsTheCrop(t *testing.T) {
	c := openCase(t)
	origin, size := [3]int{5, -3, 20}, [3]int{16, 12, 24}
	n := 16 * 12 * 24
	image, labels := make([]float32, n), make([]float32, n)
	if err := readCrop(c, c.Labels, image, labels, origin, size); err != nil {
		t.Fatal(err)
	}
	for name, a := range map[string]Augmentation{"off": {}, "a deformation by nothing": {Spatial: 1}} {
		gotImage, gotLabels := make([]float32, n), make([]float32, n)
		if err := a.sample(gotImage, gotLabels, c, origin, size, seed.Rand(1, "test")); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(gotLabels, labels) {
			t.Errorf("%s: other labels", name)
		}
		for i := range image {
			// one rounding of float32 in [-1, 1]
			if math.Abs(float64(gotImage[i]-image[i])) > 1e-6 {
				t.Fatalf("%s: voxel %d is %v, want %v", name, i, gotImage[i], image[i])
			}
		}
	}
}

// TestDeformationFollowsItsFormula evaluates the warp voxel by voxel, spline and all, and
// interpolates in a crop of the whole scan.
func TestDeformationFollowsItsFormula(t *testing.T) {
	c := openCase(t)
	a := Augmentation{Spatial: 1, Rotation: 25, Scale: 0.2, Elastic: 2}
	origin, size := [3]int{6, 8, 3}, [3]int{24, 20, 18}
	n := size[0] * size[1] * size[2]
	image, labels := make([]float32, n), make([]float32, n)
	w := a.warp(c.Spacing, size, seed.Rand(4, "warp"))
	if err := w.deform(image, labels, c, c.Labels, origin); err != nil {
		t.Fatal(err)
	}
	const margin = 40
	whole := [3]int{c.Shape[0] + 2*margin, c.Shape[1] + 2*margin, c.Shape[2] + 2*margin}
	values, marks := make([]float32, whole[0]*whole[1]*whole[2]), make([]float32, whole[0]*whole[1]*whole[2])
	if err := readCrop(c, c.Labels, values, marks, [3]int{-margin, -margin, -margin}, whole); err != nil {
		t.Fatal(err)
	}
	at := func(i, j, k int) int { return i + whole[0]*(j+whole[1]*k) }
	spline := func(t float64) float64 { // the cubic B-spline around 0
		switch t = math.Abs(t); {
		case t < 1:
			return 2.0/3 - t*t + t*t*t/2
		case t < 2:
			return (2 - t) * (2 - t) * (2 - t) / 6
		}
		return 0
	}
	moved := 0.0
	for k := range size[2] {
		for j := range size[1] {
			for i := range size[0] {
				voxel := [3]float64{float64(i), float64(j), float64(k)}
				var p [3]float64
				for row := range 3 {
					p[row] = float64(size[row]-1)/2 + float64(origin[row]+margin)
					for column := range 3 {
						p[row] += w.matrix[row][column] * (voxel[column] - float64(size[column]-1)/2)
					}
					for cc := range w.lattice[2] {
						for cb := range w.lattice[1] {
							for ca := range w.lattice[0] {
								weight := spline(voxel[0]/controlSpacing+
									1-float64(ca)) * spline(voxel[1]/controlSpacing+
									1-float64(cb)) * spline(voxel[2]/controlSpacing+1-float64(cc))
								p[row] += weight * w.control[row][ca+w.lattice[0]*(cb+w.lattice[1]*cc)]
							}
						}
					}
					moved = max(moved, math.Abs(p[row]-voxel[row]-float64(origin[row]+margin)))
				}
				x, y, z := int(p[0]), int(p[1]), int(p[2])
				fx, fy, fz := p[0]-float64(x), p[1]-float64(y), p[2]-float64(z)
				want := 0.0
				for corner := range 8 {
					dx, dy, dz := corner&1, corner>>1&1, corner>>2
					weight := math.Abs(1-float64(dx)-fx) * math.Abs(1-float64(dy)-fy) * math.Abs(1-float64(dz)-fz)
					want += weight * float64(values[at(x+dx, y+dy, z+dz)])
				}
				v := i + size[0]*(j+size[1]*k)
				// float32 interpolation of values in [-1, 1]
				if math.Abs(want-float64(image[v])) > 1e-5 {
					t.Fatalf("voxel %d %d %d: %v, want %v", i, j, k, image[v], want)
				}
				label := marks[at(int(math.Round(p[0])), int(math.Round(p[1])), int(math.Round(p[2])))]
				half := func(f float64) bool { return math.Abs(f-0.5) < 1e-9 }
				if label != labels[v] && !half(fx) && !half(fy) && !half(fz) {
					t.Fatalf("voxel %d %d %d: label %v, want %v", i, j, k, labels[v], label)
				}
			}
		}
	}
	if moved < 2 {
		t.Errorf("the largest displacement was %v voxels", moved)
	}
}

func TestRotationKeepsMillimetres(t *testing.T) {
	spacing := [3]float64{1, 2, 5}
	w := Augmentation{Rotation: 30}.warp(spacing, [3]int{8, 8, 8}, seed.Rand(2, "rotation"))
	length := func(v [3]float64) float64 {
		return math.Sqrt(v[0]*v[0]*spacing[0]*spacing[0] + v[1]*v[1]*spacing[1]*spacing[1] +
			v[2]*v[2]*spacing[2]*spacing[2])
	}
	for _, v := range [][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}, {3, -2, 1}} {
		var turned [3]float64
		for row := range 3 {
			for column := range 3 {
				turned[row] += w.matrix[row][column] * v[column]
			}
		}
		if math.Abs(length(turned)-length(v)) > 1e-9 {
			t.Errorf("%v has length %v mm, turned %v", v, length(v), length(turned))
		}
	}
}

func TestMirror(t *testing.T) {
	size := [3]int{3, 2, 4}
	x := make([]float32, 24)
	for i := range x {
		x[i] = float32(i)
	}
	for axis := range 3 {
		got := slices.Clone(x)
		sliding.Mirror(got, size, axis)
		for k := range size[2] {
			for j := range size[1] {
				for i := range size[0] {
					q := [3]int{i, j, k}
					q[axis] = size[axis] - 1 - q[axis]
					if got[i+3*(j+2*k)] != x[q[0]+3*(q[1]+2*q[2])] {
						t.Fatalf("axis %d: voxel %d %d %d", axis, i, j, k)
					}
				}
			}
		}
	}
}

func TestAugmentationDependsOnItsGeneratorOnly(t *testing.T) {
	c := openCase(t)
	a := DefaultAugmentation()
	a.Spatial, a.Mirror = 0.5, "ijk"
	size := [3]int{16, 16, 16}
	draw := func(step uint64) ([]float32, []float32) {
		image, labels := make([]float32, 4096), make([]float32, 4096)
		if err := a.sample(image, labels, c, [3]int{10, 10, 10}, size, seed.Rand(1, "augment", step)); err != nil {
			t.Fatal(err)
		}
		return image, labels
	}
	for step := range uint64(6) {
		image, labels := draw(step)
		again, labelsAgain := draw(step)
		if !slices.Equal(image, again) || !slices.Equal(labels, labelsAgain) {
			t.Errorf("step %d differs from itself", step)
		}
		if other, _ := draw(step + 1); slices.Equal(image, other) {
			t.Errorf("steps %d and %d are the same", step, step+1)
		}
	}
}

// Gamma keeps the order of intensities, and their ends, inside of the usual range and outside: what
// differs still differs, and a curve of next to no gamma leaves everything as it is.
func TestGammaOutsideOfTheRange(t *testing.T) {
	before := []float32{-9, -3.5, -2.5, -2, -1.9, 0, 3.9, 4, 5, 9}
	for _, gamma := range []float64{1e-9, 0.1, 1} {
		for item := range uint64(20) {
			after := slices.Clone(before)
			Augmentation{Gamma: gamma}.intensities(after, [2]float32{-2, 4}, seed.Rand(1, "augment", item))
			for i := range after {
				if i > 0 && after[i] <= after[i-1] {
					t.Errorf("gamma %v: %v become %v", gamma, before, after)
				}
				if end := before[i] == -2 || before[i] == 4; (end || gamma < 1e-6) &&
					math.Abs(float64(after[i]-before[i])) > 1e-5 {
					t.Errorf("gamma %v: %v becomes %v", gamma, before[i], after[i])
				}
			}
		}
	}
}

func TestAugmentationCheck(t *testing.T) {
	if err := DefaultAugmentation().check(); err != nil {
		t.Error(err)
	}
	for _, a := range []Augmentation{{Gain: -1}, {Noise: math.NaN()}, {Spatial: 2}, {Mirror: "x"}, {Elastic: 1e9}} {
		if a.check() == nil {
			t.Errorf("%+v passed", a)
		}
	}
}

func BenchmarkSample(b *testing.B) {
	c := openCase(b)
	a := DefaultAugmentation()
	image, labels := make([]float32, 64*64*64), make([]float32, 64*64*64)
	for _, spatial := range []float64{0, 1} {
		a.Spatial = spatial
		name := "intensity"
		if spatial == 1 {
			name = "spatial"
		}
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				if err := a.sample(image, labels, c, [3]int{}, [3]int{64, 64, 64},
					seed.Rand(1, "augment", uint64(i))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
