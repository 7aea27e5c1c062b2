package puzzle3d

import (
	"fmt"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
)

// shade is a grey a patch, but for 4 and 7, which look the same.
func shade(patch int) int {
	if patch == 7 {
		return 4
	}
	return patch
}

// A play in which every patch has a grey of its own, so that the picture tells where it was drawn.
func greys() Play {
	p := Play{Case: "greys", Grid: [4]int{3, 2, 2}, Patch: [3]int{8, 6, 4}, Shown: [2]float32{-1, 1}}
	n := 12
	for patch := range n {
		for range 8 * 6 * 4 {
			p.Patches = append(p.Patches, float32(shade(patch))/float32(n)*2-1)
		}
	}
	swapped, cycled := puzzle.Identity(n), puzzle.Identity(n)
	swapped[1], swapped[10] = 10, 1
	cycled[0], cycled[4], cycled[7] = 4, 7, 0
	p.Arrangements = [][]int{cycled, swapped}
	return p
}

func TestPictureShowsEveryPatchWhereItLies(t *testing.T) {
	p := greys()
	img := p.Picture()
	columns := p.play().Columns(jigsaw.OnGrid(p.all(), axesOf(p.Grid)))
	if len(columns) != 3 || columns[0].Count != "9 of 12 in place" || columns[1].Count != "10 of 12 in place" ||
		columns[2].Title != "truth" {
		t.Errorf("columns %+v", columns)
	}
	// Sizes as in picture.go and tiles/slabs.go: tiles of 64x48, slabs of 198x99.
	const tileGap, slabGap = 3, 14
	width := 3*(64+tileGap) - tileGap
	if want := (image.Point{2*tiles.Margin + 3*(width+tiles.ColumnGap) - tiles.ColumnGap,
		2*tiles.Margin + tiles.TitleRoom + 2*(99+slabGap) - slabGap}); img.Bounds().Size() != want {
		t.Fatalf("the picture is %v, want %v", img.Bounds().Size(), want)
	}
	for x, c := range columns {
		for slot, patch := range c.Patches {
			i, j, k := slot/4, slot/2%2, slot%2
			left := tiles.Margin + x*(width+tiles.ColumnGap) + (2-i)*(64+tileGap)
			top := tiles.Margin + tiles.TitleRoom + (1-k)*(99+slabGap) + (1-j)*(48+tileGap)
			grey := color.GrayModel.Convert(img.At(left+32, top+24)).(color.Gray).Y
			if want := uint8(float64(shade(patch)) / 12 * 255); grey != want && grey != want+1 && grey != want-1 {
				t.Errorf("column %d, slot %d: grey %d, want patch %d's %d", x, slot, grey, patch, want)
			}
			red, thin := img.At(left, top+24) == tiles.Wrong, img.At(left-1, top+24) == tiles.Pale
			if red != (shade(patch) != shade(slot)) || thin != (patch != slot && shade(patch) == shade(slot)) {
				t.Errorf("column %d, slot %d, patch %d: framed in red: %v, thinly: %v", x, slot, patch, red, thin)
			}
		}
	}
	if path := os.Getenv("VOXSAW_PICTURE"); path != "" { // to look at
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := png.Encode(f, img); err != nil {
			t.Fatal(err)
		}
	}
}

func TestLongPlaysAreDrawnInPart(t *testing.T) {
	p := greys()
	for range 30 {
		p.Arrangements = append(p.Arrangements, p.Arrangements[0])
	}
	p.Arrangements = append(p.Arrangements, puzzle.Identity(12))
	columns := p.play().Columns(jigsaw.OnGrid(p.all(), axesOf(p.Grid)))
	if len(columns) > jigsaw.MostColumns || columns[0].Title != "shuffled" ||
		columns[len(columns)-1].Title != "after round 32" || !columns[len(columns)-1].Patches.Solved() {
		t.Errorf("%d columns, the last %+v", len(columns), columns[len(columns)-1])
	}
}

// Under each round stands what became of all puzzles of the grid, and under the truth that of the
// last round where the play ended earlier.
func TestPictureHasTheRoundsOfAllPuzzles(t *testing.T) {
	p := greys()
	without := p.Picture().Bounds().Dy()
	rounds := []Metrics{{Correct: 0.125, Near: 0.5}, {Correct: 0.25, Near: 0.625}, {Correct: 0.375, Near: 0.75}}
	for _, e := range []GridEvaluation{{Puzzles: 40, Rounds: rounds}, {Puzzles: 80, Rounds: make([]Metrics, 3),
		Grids: []GridEvaluation{{Grid: "2x2x2", Rounds: make([]Metrics, 3)},
			{Grid: "3x2x2", Puzzles: 40, Rounds: rounds}}}} {
		p.All = &Evaluation{PuzzleEvaluation: e}
		var under []string
		for _, c := range p.play().Columns(jigsaw.OnGrid(p.all(), axesOf(p.Grid))) {
			under = append(under, c.Under...)
		}
		want := []string{"of 40 puzzles", "correct", "D<=2", "", "12.50 %", "50.00 %", "after round 3", "37.50 %",
			"75.00 %"}
		if !slices.Equal(under, want) {
			t.Errorf("%q, want %q", under, want)
		}
	}
	img := p.Picture()
	if img.Bounds().Dy() <= without {
		t.Fatal("the picture has no room for lines below")
	}
	ink := 0 // below the last tiles of the column after round 1
	for x := tiles.Margin + 198 + tiles.ColumnGap; x < tiles.Margin+2*198+tiles.ColumnGap; x++ {
		for y := without - tiles.Margin + 2; y < img.Bounds().Dy(); y++ {
			if img.At(x, y) == tiles.Ink {
				ink++
			}
		}
	}
	if ink < 20 {
		t.Errorf("%d pixels of ink under round 1", ink)
	}
	if path := os.Getenv("VOXSAW_PICTURE"); path != "" { // to look at
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := png.Encode(f, img); err != nil {
			t.Fatal(err)
		}
	}
}

// The number in a tile's corner is that of the patch: tiles of the same patch are the same pixels.
func TestPictureNumbersThePatches(t *testing.T) {
	p := greys()
	img := p.Picture().(*image.RGBA)
	columns := p.play().Columns(jigsaw.OnGrid(p.all(), axesOf(p.Grid)))
	const tileGap, slabGap = 3, 14
	corners := map[int]string{}
	for x, c := range columns {
		for slot, patch := range c.Patches {
			i, j, k := slot/4, slot/2%2, slot%2
			left := tiles.Margin + x*(198+tiles.ColumnGap) + (2-i)*(64+tileGap)
			top := tiles.Margin + tiles.TitleRoom + (1-k)*(99+slabGap) + (1-j)*(48+tileGap)
			corner := fmt.Sprint(pixels(img, image.Rect(left+3, top+25, left+28, top+45)))
			if known, ok := corners[patch]; ok && known != corner {
				t.Errorf("column %d, slot %d: patch %d has another number than before", x, slot, patch)
			}
			corners[patch] = corner
		}
	}
	if len(corners) != 12 || corners[4] == corners[7] { // 4 and 7 look the same
		t.Error("patches cannot be told by their numbers")
	}
}

func pixels(img *image.RGBA, r image.Rectangle) (list []color.Color) {
	for y := r.Min.Y; y < r.Max.Y; y++ {
		for x := r.Min.X; x < r.Max.X; x++ {
			list = append(list, img.At(x, y))
		}
	}
	return list
}

// Of scans with several channels, a tile shows the first channel of the patch that lies there, and
// patches are the same where all channels are.
func TestPicturesOfTwoChannels(t *testing.T) {
	store := traintest.TwoChannels(t, 1, [3]int{36, 36, 36})
	cases, err := sample.Open(store, []string{"case00"})
	if err != nil {
		t.Fatal(err)
	}
	c := DefaultConfig()
	c.Grid, c.Crop, c.Patch, c.Preparation = [4]int{2, 2, 2}, [3]int{32, 32, 32}, [3]int{8, 8, 8}, store.Preparation()
	layout := c.layout()
	patches := make([]float32, layout.Cells()*layout.Values())
	if _, err := (held{c, cases}).Cut(0, c.grid(), patches); err != nil {
		t.Fatal(err)
	}
	p := Play{Grid: c.Grid, Patch: c.Patch, Patches: patches}
	for cell := range layout.Cells() {
		want := make([]float32, layout.Values())
		if err := layout.CutOne(want, cases[0], sample.Middle(cases[0], c.Crop), cell, nil); err != nil {
			t.Fatal(err)
		}
		if got := p.voxels(cell); !slices.Equal(got, want) {
			t.Errorf("patch %d: other voxels than those of its cell, in both channels", cell)
		}
	}
}
