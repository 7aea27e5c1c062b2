package puzzle2d

import (
	"image"
	"image/color"
	"image/png"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/seed"
)

// photograph is a made-up one: red tells the column, green the row, blue what it shows.
func photograph(width, height int, shown uint8) *image.RGBA {
	m := image.NewRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			m.SetRGBA(x, y, color.RGBA{uint8(255 * x / width), uint8(255 * y / height), shown, 255})
		}
	}
	return m
}

func writePNG(t testing.TB, path string, m image.Image) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := png.Encode(f, m); err != nil {
		t.Fatal(err)
	}
}

// coded is a photograph whose pixels tell where they lie: red the column, green the row.
func coded(width, height int) []byte {
	pixels := make([]byte, 3*width*height)
	for y := range height {
		for x := range width {
			i := 3 * (y*width + x)
			pixels[i], pixels[i+1], pixels[i+2] = byte(x), byte(y), 100
		}
	}
	return pixels
}

// A patch lies anywhere in its cell, the last place included, with equal probability; VISSL's never
// lies at the last.
func TestJitterReachesEveryPlace(t *testing.T) {
	c := DefaultConfig()
	layout := c.layout()
	const draws = 22 * 400
	counts := [2][22]int{}
	var at [2]int
	r := seed.Rand(1, "test")
	for range draws {
		layout.Corner(at[:], 4, r)
		counts[0][at[0]-85]++
		counts[1][at[1]-85]++
	}
	for axis := range counts {
		chi := 0.0
		for _, n := range counts[axis] {
			d := float64(n) - draws/22
			chi += d * d / (draws / 22)
		}
		// of 21 degrees of freedom 99.9 % lie below 46.8
		if chi > 46.8 {
			t.Errorf("axis %d: chi-squared %v: %v", axis, chi, counts[axis])
		}
	}
}

// Each patch is mirrored for itself, with probability one half, and where it belongs stays the
// same.
func TestPatchesAreMirroredOneByOne(t *testing.T) {
	store := prepare(t, 12, 60, 60)
	c := small()
	c.Mirror, c.Cell, c.Patch, c.Input.PixelMean = true, 20, 16, [3]float64{}
	cut := cutter{c}
	dst := make([]float32, 9*cut.size())
	mirrored, both := 0, 0
	for k := range 100 {
		r := rand.New(rand.NewPCG(uint64(k), 1))
		if _, err := cut.cut(dst, store.Photo(k%store.Len()), c.grid(), r); err != nil {
			t.Fatal(err)
		}
		ways := [2]bool{}
		for p := range 9 {
			red := dst[p*cut.size():]
			falls := red[0] > red[c.Patch-1] // red rises from left to right in the photograph
			if falls {
				mirrored++
				ways[0] = true
			} else {
				ways[1] = true
			}
			// Red says which column of cells it is, mirrored or not.
			middle := float64(red[c.Patch/2]) * pixelScale / 255 * 3
			if int(middle) != p%3 {
				t.Fatalf("patch %d shows column %v", p, middle)
			}
		}
		if ways[0] && ways[1] {
			both++
		}
	}
	// 900 draws of probability 1/2 have a standard deviation of 15
	if mirrored < 390 || mirrored > 510 || both < 95 {
		t.Errorf("%d of 900 patches mirrored, both ways in %d of 100 puzzles", mirrored, both)
	}
}

// pixels are a made-up photograph: RGB, row after row.
type pixels struct {
	rgb   []byte
	width int
}

func (pixels) Name() string                             { return "made up" }
func (p pixels) Size() [3]int                           { return [3]int{p.width, len(p.rgb) / 3 / p.width, 1} }
func (pixels) Channels() int                            { return 3 }
func (pixels) Range(int) [2]float32                     { return [2]float32{0, 255} }
func (pixels) AirFraction(_, _ [3]int) (float64, error) { return 0, nil }
func (p pixels) Crop(dst []float32, o, size [3]int) error {
	for i := range dst {
		colour, y, x := i/(size[0]*size[1]), i/size[0]%size[1], i%size[0]
		dst[i] = float32(p.rgb[3*((o[1]+y)*p.width+o[0]+x)+colour])
	}
	return nil
}

func TestViewIsWhatLiesThere(t *testing.T) {
	const width, height = 20, 15
	in := Input{Mean: MeanDataset, PixelMean: [3]float64{1, 2, 3}}
	v := view{of: pixels{coded(width, height), width}, top: 4, left: 7, height: 5, width: 6}
	for _, v.mirrored = range []bool{false, true} {
		dst := make([]float32, 3*5*6)
		if err := in.write(dst, v); err != nil {
			t.Fatal(err)
		}
		for y := range 5 {
			for x := range 6 {
				column := 7 + x
				if v.mirrored {
					column = 7 + 5 - x
				}
				for c, value := range []float64{float64(column), float64(4 + y), 100} {
					want := (value - in.PixelMean[c]) / (0.226 * 255)
					if got := float64(dst[c*30+y*6+x]); math.Abs(got-want) > 1e-6 {
						t.Fatalf("mirrored %v: colour %d at %d,%d is %v, want %v", v.mirrored, c, x, y, got, want)
					}
				}
			}
		}
	}
}

// Pixels are divided by what is asked for, and the paper's are by nothing.
func TestPixelDivisor(t *testing.T) {
	for divisor, want := range map[float64]float64{0: 120 / (0.226 * 255), 1: 120, 60: 2} {
		dst := make([]float32, 3)
		in := Input{Mean: MeanDataset, PixelMean: [3]float64{80, 80, 80}, Divisor: divisor}
		if err := in.write(dst, view{of: pixels{[]byte{200, 200, 200}, 1}, height: 1, width: 1}); err != nil {
			t.Fatal(err)
		}
		if err := in.check(); err != nil || math.Abs(float64(dst[0])-want) > 1e-5 {
			t.Errorf("divisor %v: %v, want %v; %v", divisor, dst[0], want, err)
		}
	}
	for _, in := range []Input{{Mean: MeanDataset, Divisor: -1}, {Mean: MeanPatchStd, Divisor: 1},
		{Mean: MeanDataset, Divisor: math.NaN()}} {
		if in.check() == nil {
			t.Errorf("%+v is taken", in)
		}
	}
}

func TestMeansOfPatches(t *testing.T) {
	v := view{of: pixels{coded(20, 15), 20}, height: 15, width: 20}
	for mean, deviation := range map[string]float64{
		MeanPatch: math.Sqrt((20*20 - 1) / 12.0 / (pixelScale * pixelScale)), MeanPatchStd: 1,
	} {
		dst := make([]float32, 3*300)
		if err := (Input{Mean: mean, PixelMean: [3]float64{9, 9, 9}}).write(dst, v); err != nil {
			t.Fatal(err)
		}
		var sum, squares float64
		for _, x := range dst[:300] { // red: 0 to 19, whose variance is (20^2 - 1) / 12
			sum, squares = sum+float64(x), squares+float64(x)*float64(x)
		}
		if math.Abs(sum/300) > 1e-6 || math.Abs(math.Sqrt(squares/300)-deviation) > 1e-5 {
			t.Errorf("%s: mean %v, standard deviation %v, want 0 and %v", mean, sum/300, math.Sqrt(squares/300),
				deviation)
		}
		for _, x := range dst[600:] { // blue is the same everywhere
			if x != 0 {
				t.Fatalf("%s: a flat colour gives %v", mean, x)
			}
		}
	}
}

// Gray is what Pillow's convert("L") gives, to rounding: (299 R + 587 G + 114 B) / 1000.
func TestGray(t *testing.T) {
	dst := make([]float32, 3)
	v := view{of: pixels{[]byte{200, 100, 50}, 1}, height: 1, width: 1, gray: true}
	if err := (Input{Mean: MeanDataset}).write(dst, v); err != nil {
		t.Fatal(err)
	}
	for c, v := range dst {
		if math.Abs(float64(v)*pixelScale-124.2) > 1e-3 {
			t.Errorf("colour %d: %v, want 124.2", c, float64(v)*pixelScale)
		}
	}
	shown := 0
	r := seed.Rand(1, "gray")
	for range 1000 {
		if (Input{Gray: 0.3}).grayed(r) {
			shown++
		}
	}
	if shown < 250 || shown > 350 || (Input{Gray: 1}).grayed(nil) {
		t.Errorf("%d of 1000 in gray, of 30 %%", shown)
	}
}

func TestTurn(t *testing.T) {
	turned := make([]float32, 9)
	turns[1].Apply(turned, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9}, [3]int{3, 3, 1})
	// numpy.rot90([[1,2,3],[4,5,6],[7,8,9]]) is [[3,6,9],[2,5,8],[1,4,7]]
	if !slices.Equal(turned, []float32{3, 6, 9, 2, 5, 8, 1, 4, 7}) {
		t.Fatalf("%v", turned)
	}
}
