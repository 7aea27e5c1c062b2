package puzzle3d

import (
	"image"
	"image/color"
	"image/png"
	"os"
	"testing"

	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
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
	p := Play{Case: "greys", Grid: [3]int{3, 2, 2}, Patch: [3]int{8, 6, 4}, Shown: [2]float32{-1, 1}}
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
	columns := p.columns()
	if len(columns) != 3 || columns[0].count != "9 of 12 in place" || columns[1].count != "10 of 12 in place" ||
		columns[2].title != "truth" {
		t.Errorf("columns %+v", columns)
	}
	// Sizes as in picture.go and tiles/slabs.go: tiles of 64x48, slabs of 198x99.
	const tileGap, slabGap = 3, 14
	width := 3*(64+tileGap) - tileGap
	if want := (image.Point{2*margin + 3*(width+columnGap) - columnGap, 2*margin + titleRoom +
		2*(99+slabGap) - slabGap}); img.Bounds().Size() != want {
		t.Fatalf("the picture is %v, want %v", img.Bounds().Size(), want)
	}
	for x, c := range columns {
		for slot, patch := range c.patches {
			i, j, k := slot/4, slot/2%2, slot%2
			left := margin + x*(width+columnGap) + (2-i)*(64+tileGap)
			top := margin + titleRoom + (1-k)*(99+slabGap) + (1-j)*(48+tileGap)
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
	columns := p.columns()
	if len(columns) > maxColumns || columns[0].title != "shuffled" ||
		columns[len(columns)-1].title != "after round 32" || !columns[len(columns)-1].patches.Solved() {
		t.Errorf("%d columns, the last %+v", len(columns), columns[len(columns)-1])
	}
}
