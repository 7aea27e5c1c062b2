package restoration

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// golden is what numpy makes of two small crops: testdata/restoration.py.
type golden struct {
	Size          [3]int
	First, Second []float32
	Values        []float32
	Curves        []struct {
		A, B     [2]float64
		Inverted bool
		Values   []float64
	}
	Flips  [][]float32
	Fusion struct {
		Boxes []struct {
			Origin, Size [3]int
			Cls          int
		}
		Classes, Mixed []float32
	}
	MAE struct {
		Block       int
		Masked      []int
		Mask, Input []float32
	} `json:"mae"`
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "restoration.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func newExample(size [3]int) example {
	t := task{Masked{}, &pretext.Settings{Crop: size}, ""}
	return t.example(t.newBatch(1), 0)
}

// farthest is the largest difference.
func farthest(t *testing.T, got, want []float32) (d float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d values, want %d", len(got), len(want))
	}
	for i := range got {
		d = max(d, math.Abs(float64(got[i]-want[i])))
	}
	return d
}

func TestCurvesAreNumpys(t *testing.T) {
	g := readGolden(t)
	if len(g.Curves) < 8 || len(g.Values) < 30 {
		t.Fatal("the golden file is empty")
	}
	for _, c := range g.Curves {
		values := slices.Clone(g.Values)
		newCurve(c.A, c.B, c.Inverted).apply(values)
		for i, v := range values {
			// the third curve is steep without bounds: what float32 knows of it
			if d := math.Abs(float64(v) - c.Values[i]); d > 2e-3 {
				t.Errorf("curve %v %v, inverted %v, of %.2f: %v, want %v", c.A, c.B, c.Inverted, g.Values[i], v,
					c.Values[i])
			}
		}
	}
}

func TestFlipsAreNumpys(t *testing.T) {
	g := readGolden(t)
	for axis, want := range g.Flips {
		x := slices.Clone(g.First)
		flip(x, g.Size, axis)
		if !slices.Equal(x, want) {
			t.Errorf("axis %d", axis)
		}
	}
}

func TestMixedCropsAreNumpys(t *testing.T) {
	g := readGolden(t)
	var boxes []classBox
	for _, b := range g.Fusion.Boxes {
		boxes = append(boxes, classBox{box{b.Origin, b.Size}, b.Cls})
	}
	e := newExample(g.Size)
	Fusion{Coefficients: 5}.mix(boxes, [][]float32{g.First, g.Second}, e)
	if !slices.Equal(e.target, g.Fusion.Classes) {
		t.Error("classes differ")
	}
	if d := farthest(t, e.input, g.Fusion.Mixed); d > 1e-6 {
		t.Errorf("the mixed crop differs by %v", d)
	}
	if slices.Min(e.counts) != 1 {
		t.Error("some voxels do not count")
	}
}

func TestMaskedCropsAreNumpys(t *testing.T) {
	g := readGolden(t)
	e := newExample(g.Size)
	Masked{MaskBlock: g.MAE.Block}.hide(g.MAE.Masked, g.First, e)
	if !slices.Equal(e.counts, g.MAE.Mask) || !slices.Equal(e.input, g.MAE.Input) || !slices.Equal(e.target, g.First) {
		t.Error("mask, input or target differ")
	}
}

// patient is a crop whose voxels are all different, from -1 to 1.
func patient(size [3]int) []float32 {
	n := size[0] * size[1] * size[2]
	x := make([]float32, n)
	for i := range x {
		x[i] = 2*float32(i)/float32(n-1) - 1
	}
	return x
}

// Three quarters of the blocks of 16^3 are masked, whole blocks, each as often as the others.
func TestMasksAreDrawn(t *testing.T) {
	size, m := [3]int{32, 64, 48}, Masked{MaskShare: 0.75, MaskBlock: 16}
	often := make([]int, m.blocks(size))
	const draws = 200
	for n := range draws {
		e := newExample(size)
		m.corrupt(seed.Rand(1, "mae", uint64(n)), [][]float32{patient(size)}, e)
		masked := 0
		for block := range often {
			i, j, k := block%2*16, block/2%4*16, block/8*16
			first, count := e.counts[i+32*(j+64*k)], 0
			for dk := range 16 {
				for dj := range 16 {
					for di := range 16 {
						if e.counts[i+di+32*(j+dj+64*(k+dk))] == first {
							count++
						}
					}
				}
			}
			if count != 16*16*16 {
				t.Fatalf("block %d is masked in part", block)
			}
			if first == 1 {
				masked++
				often[block]++
			}
		}
		if masked != 18 {
			t.Fatalf("%d of 24 blocks are masked, want 18", masked)
		}
	}
	for block, n := range often { // binomial: 150, SD 6
		if n < 125 || n > 175 {
			t.Errorf("block %d is masked in %d of %d crops", block, n, draws)
		}
	}
}

// Boxes number 10 to 39, lie inside, and have sides from 8 voxels to 62.5 % of the crop's.
func TestBoxesAreDrawn(t *testing.T) {
	size, f := [3]int{32, 24, 64}, Fusion{Coefficients: 5, FewestBoxes: 10, MostBoxes: 39, SmallestBox: 8,
		LargestBox: 0.625}
	var least, most [3]int
	r := seed.Rand(1, "boxes")
	for n := range 2000 {
		b := drawBox(r, size, [3]int{8, 8, 8}, f.most(size), 0)
		for axis := range 3 {
			if b.origin[axis] < 0 || b.origin[axis]+b.size[axis] > size[axis] {
				t.Fatalf("box %+v in a crop of %v", b, size)
			}
			if n == 0 {
				least[axis], most[axis] = b.size[axis], b.size[axis]
			}
			least[axis], most[axis] = min(least[axis], b.size[axis]), max(most[axis], b.size[axis])
		}
	}
	if least != [3]int{8, 8, 8} || most != [3]int{20, 15, 40} {
		t.Errorf("sides from %v to %v", least, most)
	}
	seen := map[float32]int{}
	for n := range 50 {
		e := newExample(size)
		a, b := patient(size), make([]float32, len(e.input))
		f.corrupt(seed.Rand(1, "fusion", uint64(n)), [][]float32{a, b}, e)
		for i, class := range e.target {
			if want := class / 4 * a[i]; math.Abs(float64(e.input[i]-want)) > 1e-6 {
				t.Fatalf("class %v: %v, want %v", class, e.input[i], want)
			}
			seen[class]++
		}
	}
	if len(seen) != 5 || seen[0] < seen[1] {
		t.Errorf("voxels of each class: %v", seen)
	}
}

// What is shuffled stays near: a window is at most a tenth of the crop's side.
func TestShufflingIsLocal(t *testing.T) {
	size := [3]int{40, 20, 60}
	x := patient(size)
	y := slices.Clone(x)
	shuffle(seed.Rand(1, "shuffle"), [][]float32{y}, [][]float32{x}, size, 2000)
	moved := 0
	for i := range y {
		from, _ := slices.BinarySearch(x, y[i]) // intensities rise with the index
		if x[from] != y[i] {
			t.Fatalf("voxel %d has an intensity that is nowhere", i)
		}
		if from != i {
			moved++
		}
		for axis, stride := range []int{1, 40, 800} {
			if d := from/stride%size[axis] - i/stride%size[axis]; max(d, -d) >= size[axis]/10 {
				t.Fatalf("a voxel moved by %d along axis %d", d, axis)
			}
		}
	}
	if moved < len(x)/10 {
		t.Errorf("%d of %d voxels moved", moved, len(x))
	}
	one := slices.Clone(x)
	shuffle(seed.Rand(3, "shuffle"), [][]float32{one}, [][]float32{x}, size, 1)
	if slices.Sort(one); !slices.Equal(one, x) {
		t.Error("one window has other voxels than before")
	}
}

// In-painting leaves the voxels outside of up to five boxes, out-painting those inside of up to
// five windows; both keep away from the faces.
func TestPainting(t *testing.T) {
	size := [3]int{42, 42, 42}
	x := patient(size)
	edge := func(i int) bool {
		for _, at := range [3]int{i % 42, i / 42 % 42, i / 42 / 42} {
			if at < 3 || at >= 39 {
				return true
			}
		}
		return false
	}
	for n := range 30 {
		inner, outer := slices.Clone(x), slices.Clone(x)
		paintInner(seed.Rand(1, "inner", uint64(n)), [][]float32{inner}, size)
		paintOuter(seed.Rand(1, "outer", uint64(n)), [][]float32{outer}, size)
		painted, left := 0, 0
		for i := range x {
			if inner[i] != x[i] {
				if painted++; edge(i) {
					t.Fatal("in-painting reaches a face")
				}
			}
			if outer[i] == x[i] {
				if left++; edge(i) {
					t.Fatal("out-painting leaves a voxel at a face")
				}
			}
			if v := inner[i]; !(v >= -1 && v <= 1) {
				t.Fatalf("noise of %v", v)
			}
		}
		if painted > 5*14*14*14 {
			t.Errorf("%d voxels are painted over, at most 5 boxes of 14^3 may be", painted)
		}
		if left < 18*18*18 || left > 5*24*24*24 { // windows of 42 - 24 to 42 - 18
			t.Errorf("%d voxels are left by out-painting", left)
		}
	}
}

// Genesis restores the crop as it was, flipped or not; each distortion alone does what it says, and
// happens about as often as it is told to.
func TestGenesisKeepsTheTarget(t *testing.T) {
	size := [3]int{20, 20, 20}
	x := patient(size)
	count := func(g Genesis, same func(e example) bool) (n int) {
		for draw := range 200 {
			e := newExample(size)
			g.corrupt(seed.Rand(1, "genesis", uint64(draw)), [][]float32{slices.Clone(x)}, e)
			if sorted := slices.Clone(e.target); !slices.IsSorted(sorted) {
				slices.Sort(sorted)
				if !slices.Equal(sorted, x) {
					t.Fatal("the target has other voxels than the crop")
				}
			}
			if slices.Min(e.counts) != 1 {
				t.Fatal("voxels do not count")
			}
			if !same(e) {
				n++
			}
		}
		return n
	}
	changed := func(e example) bool { return slices.Equal(e.input, e.target) }
	for _, c := range []struct {
		name      string
		task      Genesis
		low, high int
	}{
		{"nothing", Genesis{}, 0, 0},
		{"nonlinear", Genesis{Nonlinear: 0.9}, 165, 195},
		{"shuffle", Genesis{Shuffle: 0.5, ShuffleWindows: 100}, 75, 125},
		{"paint", Genesis{Paint: 0.9, PaintOuter: 0.8}, 160, 195},
		{"flip", Genesis{Flip: 0.4}, 0, 0},
	} {
		if n := count(c.task, changed); n < c.low || n > c.high {
			t.Errorf("%s: %d of 200 crops are changed, want %d to %d", c.name, n, c.low, c.high)
		}
	}
	// a flip along one axis and again along the same one undoes it
	if n := count(Genesis{Flip: 0.4}, func(e example) bool { return slices.Equal(e.target, x) }); n < 50 || n > 95 {
		t.Errorf("%d of 200 crops are flipped, want some 72", n)
	}
}

// Voxels that are not finite neither crash a distortion nor spread to others.
func TestVoxelsThatAreNotFinite(t *testing.T) {
	size := [3]int{20, 20, 20}
	x := patient(size)
	x[7], x[500], x[900] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
	newCurve([2]float64{0.2, 0.7}, [2]float64{0.4, 0.9}, false).apply(x)
	for i, v := range x {
		if (v < -1 || v > 1 || v != v) && i != 7 {
			t.Errorf("voxel %d is %v", i, v)
		}
	}
	Genesis{Nonlinear: 1, Shuffle: 1, ShuffleWindows: 50, Paint: 1, PaintOuter: 0.5,
		Flip: 0.4}.corrupt(seed.Rand(1, "x"), [][]float32{x}, newExample(size))
}
