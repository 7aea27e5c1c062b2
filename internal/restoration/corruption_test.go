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
	Fusion        struct {
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
		b := drawBox(r, size, [3]int{8, 8, 8}, f.most(size))
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
