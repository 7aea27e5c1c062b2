package rubik

import (
	"fmt"
	"image"
	"slices"

	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/sample"
)

// Sizes of the picture, in pixels.
const (
	tileSize  = 96
	columnGap = 30
	margin    = 24
	titleRoom = 36
	frame     = 3
)

// picture shows the first cube of a case twice: as the network sees it, and as its answer puts it
// right. In the latter a patch that lies in another place than it should has a red frame, one that
// is in its place but turned wrong a pale one.
func (c *Config) picture(e *classify.Evaluator, of sample.Sample, orders puzzle.Selection) (pretext.Picture, error) {
	var cube classify.Item
	err := e.Look(of, func(i classify.Item) {
		if cube.Truth == nil {
			cube, cube.Patches = i, slices.Clone(i.Patches)
		}
	})
	if err != nil {
		return pretext.Picture{}, err
	}
	slabs := tiles.NewSlabs(c.Grid, c.Patch, tileSize)
	column := slabs.Size().X + columnGap
	page := tiles.NewPage(2*margin+2*column-columnGap, 2*margin+titleRoom+slabs.Size().Y)
	titles := tiles.NewFace(17)
	for x, title := range []string{"shuffled, turned", "put right"} {
		page.Write(titles, tiles.Ink, image.Pt(margin+x*column, margin+16), title)
	}
	values, turned, placed, upright := c.Layout(c.Grid).Values(), make([]float32, c.Layout(c.Grid).Values()), 0, 0
	for slot := range orders[0] {
		patch := cube.Patches[slot*values : (slot+1)*values]
		page.Tile(c.place(slabs, 0, slot), tiles.Slice(patch, c.Patch, of.Range(0)))
		truth, answer := orders[cube.Truth[0]][slot], orders[cube.Answer[0]][slot]
		c.halves()[cube.Answer[1+slot]].Apply(turned, patch, c.Patch)
		where := c.place(slabs, column, answer)
		page.Tile(where, tiles.Slice(turned, c.Patch, of.Range(0)))
		right := cube.Truth[1+slot] == cube.Answer[1+slot]
		if right {
			upright++
		}
		switch {
		case truth != answer:
			page.Frame(where, frame, tiles.Wrong)
		case !right:
			page.Frame(where, frame, tiles.Pale)
		}
		if truth == answer {
			placed++
		}
	}
	return pretext.Picture{
		Image: page.RGBA,
		Caption: fmt.Sprintf("A %v cube of case %s: shuffled and turned, then as the network puts it right. %d of "+
			"%d patches are in their place, of %d it is told how they were turned. A red frame marks a wrong "+
			"place, a pale one a wrong rotation alone.",
			puzzle.Grid(c.Grid[:]), of.Name(), placed, len(orders[0]), upright),
	}, nil
}

// place is where a cell is drawn in a column that begins at a pixel.
func (c *Config) place(slabs tiles.Slabs, column, cell int) image.Rectangle {
	var at [3]int
	puzzle.Grid(c.Grid[:]).Coordinates(at[:], cell)
	return slabs.Place(at).Add(image.Pt(margin+column, margin+titleRoom))
}
