package sliding

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/volume"
)

// restored is a case of testdata/restore.json: what scipy, PyTorch and scikit-image make of class
// probabilities. Numbers are (class, K, J, I).
type restored struct {
	Name           string
	Scan, Prepared volume.Grid
	Spacing        [3]float64
	Probabilities  []float32
	Scipy          []float32
	Labels         []uint16
	Torch, Skimage []float32
}

// emissionOf is the emission of sums that one window of equal weights has left, and what it writes.
func emissionOf(to *volume.Restoration, classes int) (Result, *emission) {
	var weights [3][]float32
	for a, n := range to.Prepared.Shape {
		weights[a] = slices.Repeat([]float32{1}, n)
	}
	n := to.Scan.Len()
	r := Result{Classes: make([]uint16, n), Probabilities: make([]float32, classes*n)}
	e := newEmission(to, weights, 1)
	e.classes = r.Classes
	for class := range classes {
		e.maps = append(e.maps, r.Probabilities[class*n:(class+1)*n])
	}
	return r, e
}

// settle takes sums on the prepared grid to the scan, in steps of the given number of planes. In
// bands it is the same.
func settle(t *testing.T, to *volume.Restoration, sums []float32, classes, step int) Result {
	t.Helper()
	whole := settleBands(t, to, sums, classes, step, 1)
	for _, bands := range []int{2, 5} {
		if r := settleBands(t, to, sums, classes, step, bands); !slices.Equal(r.Classes, whole.Classes) ||
			!slices.Equal(r.Probabilities, whole.Probabilities) {
			t.Errorf("%d bands differ from the whole", bands)
		}
	}
	return whole
}

func settleBands(t *testing.T, to *volume.Restoration, sums []float32, classes, step, count int) Result {
	t.Helper()
	shape := to.Prepared.Shape
	w := Wanted{Classes: to, Maps: to, Probabilities: true}
	s := w.slab(shape, [3]int{shape[0], step, step}, classes)
	bands := w.bands(s, count)
	s.allocate(bands)
	var weights [3][]float32
	for a, n := range shape {
		weights[a] = slices.Repeat([]float32{1}, n)
	}
	r, e := emissionOf(to, classes)
	s.to = []*emission{e}
	for _, b := range bands {
		s.hold(b)
		settleBand(t, s, sums, classes, step, &weights)
	}
	return r
}

func settleBand(t *testing.T, s *slab, sums []float32, classes, step int, weights *[3][]float32) {
	t.Helper()
	shape := s.shape
	for first := 0; first < shape[s.along]; first += step {
		var origin, size [3]int // of planes that no other window comes to
		size = shape
		origin[s.along], size[s.along] = first, min(step, shape[s.along]-first)
		bounds := make([]float32, 0, classes*size[0]*size[1]*size[2])
		for class := range classes {
			for k := range size[2] {
				for j := range size[1] {
					row := shape[0] * (origin[1] + j + shape[1]*(origin[2]+k+shape[2]*class))
					bounds = append(bounds, sums[row:row+shape[0]]...)
				}
			}
		}
		s.add(bounds, 0, origin, size, weights)
		if err := s.settle(first + size[s.along]); err != nil {
			t.Fatal(err)
		}
	}
}

func restoredCases(t *testing.T) (cases []restored) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/restore.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// compare holds a result of three classes against the others' ones.
func (c restored) compare(t *testing.T, how string, got Result) {
	t.Helper()
	for name, want := range map[string][]float32{"scipy": c.Scipy, "PyTorch": c.Torch, "scikit-image": c.Skimage} {
		for n, x := range want {
			// the golden has six decimals
			if math.Abs(float64(x-got.Probabilities[n])) > 2e-6 {
				t.Fatalf("%s, %s: element %d is %v, %s has %v", c.Name, how, n, got.Probabilities[n], name, x)
			}
		}
	}
	for n, want := range c.Labels {
		if class := got.Classes[n]; class != want &&
			c.Scipy[int(class)*len(c.Labels)+n] < c.Scipy[int(want)*len(c.Labels)+n]-2e-6 {
			t.Fatalf("%s, %s: voxel %d is of class %d, want %d", c.Name, how, n, class, want)
		}
	}
}

func TestRestorationAgreesWithScipyAndTorch(t *testing.T) {
	cases := restoredCases(t)
	others := 0
	for _, c := range cases {
		p := volume.DefaultPreparation()
		p.Spacing = c.Spacing
		to, err := p.Restoration(c.Scan.Whole())
		if err != nil {
			t.Fatal(err)
		}
		if !to.Prepared.Same(c.Prepared, 1e-9) {
			t.Errorf("%s: prepared to %v, want %v", c.Name, to.Prepared, c.Prepared)
			continue
		}
		for _, step := range []int{1, 2, 3, 100} {
			got := settle(t, to, c.Probabilities, 3, step)
			c.compare(t, fmt.Sprintf("steps of %d", step), got)
		}
		if len(c.Torch) > 0 && len(c.Skimage) > 0 {
			others++
		}
	}
	if len(cases) < 5 || others < 2 {
		t.Errorf("%d cases, %d of PyTorch and scikit-image", len(cases), others)
	}
}

// Windows, their weights, the way back and the planes that are kept on the way: all equals sums of
// the whole scan in float64, interpolated voxel by voxel.
func TestInferEqualsNaiveLoopOnTheScan(t *testing.T) {
	dev := testDevice(t)
	network, err := backbone.Of(voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance", Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	c, how := phantomCase(t, [3]int{21, 17, 13})
	params := nn.NewParams(dev, 5)
	const classes = 3
	for _, size := range [][3]int{{8, 6, 4}, {8, 4, 12}} {
		s, err := New(dev, params, network, Options{Size: size, Batch: 2, Overlap: 0.5, Logits: true}, nn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		source := Case{c}
		want := naiveSums(t, s, source)
		for _, name := range []string{"probability", "logits"} {
			for n := range want[name] {
				want[name][n] /= want["weight"][n%c.Len()]
			}
		}
		for name, scan := range map[string]volume.Grid{
			"the same":        c.Grid,
			"finer":           resampled(t, c.Grid, [3]float64{0.7, 0.9, 0.8}, c.Spacing),
			"finer along one": resampled(t, c.Grid, [3]float64{1, 0.4, 1}, c.Spacing),
			"coarser":         resampled(t, c.Grid, [3]float64{1.75, 1.7, 1.3}, c.Spacing),
		} {
			for _, codes := range []string{"RAS", "LPS", "IAL"} {
				scan, err := scan.Oriented(codes)
				if err != nil {
					t.Fatal(err)
				}
				to := onto(t, c.Grid, scan, how)
				plain, err := s.Infer(t.Context(), source, Ensemble{}, Wanted{Classes: to}, nil)
				if err != nil {
					t.Fatal(err)
				}
				got, err := s.Infer(t.Context(), source, Ensemble{}, Wanted{Classes: to, Maps: to, Probabilities: true,
					Logits: true}, nil)
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got.Classes, plain.Classes) {
					t.Errorf("%s %s: classes depend on what else is wanted", name, codes)
				}
				worst := 0.0
				for n := range scan.Len() {
					index := [3]float64{float64(n % scan.Shape[0]), float64(n / scan.Shape[0] % scan.Shape[1]),
						float64(n / (scan.Shape[0] * scan.Shape[1]))}
					at, err := c.Grid.Voxel(scan.World(index))
					if err != nil {
						t.Fatal(err)
					}
					for class := range classes {
						from := class * c.Len()
						p, l := trilinear(want["probability"][from:], c.Shape, at), trilinear(want["logits"][from:],
							c.Shape, at)
						worst = max(worst, math.Abs(p-float64(got.Probabilities[class*scan.Len()+n])),
							math.Abs(l-float64(got.Logits[class*scan.Len()+n])))
						if best := got.Probabilities[int(got.Classes[n])*scan.Len()+n]; float64(best) < p-1e-5 {
							t.Fatalf("%s %s, windows %v: voxel %d is of class %d (%v), not of %d (%v)", name, codes,
								size, n, got.Classes[n], best, class, p)
						}
					}
				}
				if worst > 2e-5 {
					t.Errorf("%s %s, windows %v: probabilities or logits differ by up to %v", name, codes, size, worst)
				}
			}
		}
		// Maps on another grid than the classes, in one go.
		scan := resampled(t, c.Grid, [3]float64{0.7, 0.9, 0.8}, c.Spacing)
		to := onto(t, c.Grid, scan, how)
		both, err := s.Infer(t.Context(), source, Ensemble{}, Wanted{Classes: to, Probabilities: true}, nil)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := s.Infer(t.Context(), source, Ensemble{}, Wanted{Classes: to}, nil)
		if err != nil || !slices.Equal(both.Classes, alone.Classes) {
			t.Errorf("classes depend on maps on the prepared grid: %v", err)
		}
		for n, x := range both.Probabilities {
			if math.Abs(float64(x)-want["probability"][n]) > 2e-6 {
				t.Fatalf("probability %d on the prepared grid is %v, want %v", n, x, want["probability"][n])
			}
		}
	}
}

// Where a part of the scan was prepared, its voxels get what they would get alone, and all others
// are background.
func TestRestorationOfAPart(t *testing.T) {
	scan := volume.Grid{Shape: [3]int{11, 9, 8}, Affine: volume.Affine{{0, -2, 0, 5}, {1.5, 0, 0, 2}, {0, 0, -3, 1},
		{0, 0, 0, 1}}}
	bounds := volume.Bounds{Scan: scan, Box: volume.Box{Origin: [3]int{2, 1, 3}, Size: [3]int{7, 6, 4}}}
	for _, spacing := range [][3]float64{{}, {2, 2, 2}, {1, 1, 4}} {
		how := volume.DefaultPreparation()
		how.Spacing = spacing
		to, err := how.Restoration(bounds)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := how.Restoration(bounds.Grid().Whole())
		if err != nil {
			t.Fatal(err)
		}
		const classes = 3
		n := to.Prepared.Len()
		sums := make([]float32, classes*n)
		for at := range n {
			for class := range classes {
				sums[class*n+at] = float32((at*7+class*5)%11+1) / 40
			}
		}
		got, want := settle(t, to, sums, classes, 2), settle(t, alone, sums, classes, 2)
		for k := range scan.Shape[2] {
			for j := range scan.Shape[1] {
				for i := range scan.Shape[0] {
					at := scan.Index(i, j, k)
					// settle has nothing beyond the part
					class, probability := uint16(0), [classes]float32{}
					if p := [3]int{i - 2, j - 1, k - 3}; min(p[0], p[1], p[2]) >= 0 && p[0] < 7 && p[1] < 6 &&
						p[2] < 4 {
						inside := bounds.Grid().Index(p[0], p[1], p[2])
						class = want.Classes[inside]
						for c := range classes {
							probability[c] = want.Probabilities[c*7*6*4+inside]
						}
					}
					for c := range classes {
						if got.Probabilities[c*scan.Len()+at] != probability[c] {
							t.Fatalf("spacing %v, voxel (%d, %d, %d): probability %d is %v, want %v", spacing, i, j, k,
								c, got.Probabilities[c*scan.Len()+at], probability[c])
						}
					}
					if got.Classes[at] != class {
						t.Fatalf("spacing %v, voxel (%d, %d, %d) is of class %d, want %d", spacing, i, j, k,
							got.Classes[at], class)
					}
				}
			}
		}
	}
}

// resampled is a grid whose spacing is that of another, times a factor along each axis.
func resampled(t *testing.T, g volume.Grid, by, spacing [3]float64) volume.Grid {
	t.Helper()
	for a := range 3 {
		spacing[a] *= by[a]
	}
	g, err := g.Resampled(spacing)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// onto is the way from a prepared grid to a scan that lies around it in some way.
func onto(t *testing.T, prepared, scan volume.Grid, how volume.Preparation) *volume.Restoration {
	t.Helper()
	how.Spacing = prepared.Spacing()
	to, err := how.Restoration(scan.Whole())
	if err != nil {
		t.Fatal(err)
	}
	if to.Prepared.Shape != prepared.Shape {
		t.Fatalf("a scan of %v is prepared to %v, not %v", scan.Shape, to.Prepared.Shape, prepared.Shape)
	}
	return to
}

// naiveSums keeps the sums of the whole scan, in float64: of both outputs and of the weights.
func naiveSums(t *testing.T, s *Inferer, src Source) map[string][]float64 {
	t.Helper()
	shape := src.Size()
	n, voxels := shape[0]*shape[1]*shape[2], s.Size[0]*s.Size[1]*s.Size[2]
	sums := map[string][]float64{"probability": make([]float64, s.classes*n), "logits": make([]float64, s.classes*n),
		"weight": make([]float64, n)}
	bell := func(i, n int) float64 {
		d := (float64(i) - float64(n-1)/2) / (float64(n) / 8)
		return math.Exp(-d * d / 2)
	}
	for _, z := range positions(shape[2], s.Size[2], s.Overlap) {
		for _, y := range positions(shape[1], s.Size[1], s.Overlap) {
			for _, x := range positions(shape[0], s.Size[0], s.Overlap) {
				image := make([]float32, s.Batch*voxels)
				outputs := map[string][]float32{"probability": make([]float32, s.Batch*s.classes*voxels),
					"logits": make([]float32, s.Batch*s.classes*voxels)}
				if err := src.Crop(image[:voxels], [3]int{x, y, z}, s.Size); err != nil {
					t.Fatal(err)
				}
				if err := s.run(image, outputs); err != nil {
					t.Fatal(err)
				}
				for v := range voxels {
					i, j, k := v%s.Size[0], v/s.Size[0]%s.Size[1], v/(s.Size[0]*s.Size[1])
					if x+i < 0 || y+j < 0 || z+k < 0 || x+i >= shape[0] || y+j >= shape[1] || z+k >= shape[2] {
						continue
					}
					w, at := bell(i, s.Size[0])*bell(j, s.Size[1])*bell(k, s.Size[2]), x+i+shape[0]*(y+j+shape[1]*(z+k))
					sums["weight"][at] += w
					for name, values := range outputs {
						for class := range s.classes {
							sums[name][class*n+at] += w * float64(values[class*voxels+v])
						}
					}
				}
			}
		}
	}
	return sums
}

// trilinear interpolates in float64; beyond the outermost voxels their values hold.
func trilinear(values []float64, shape [3]int, at [3]float64) (sum float64) {
	for corner := range 8 {
		w, index := 1.0, [3]int{}
		for a := range 3 {
			x := min(max(at[a], 0), float64(shape[a]-1))
			low := math.Floor(x)
			if corner>>a&1 == 0 {
				w, index[a] = w*(1-(x-low)), int(low)
			} else {
				w, index[a] = w*(x-low), min(int(low)+1, shape[a]-1)
			}
		}
		sum += w * values[index[0]+shape[0]*(index[1]+shape[1]*index[2])]
	}
	return sum
}
