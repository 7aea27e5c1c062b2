package classify

import (
	"image"

	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/sample"
)

// Sizes of the picture, in pixels.
const (
	tileSize = 96
	tileGap  = 6
	margin   = 24
	columns  = 8 // tiles in a row
)

// Classes shows the middle slice of a case's crop of a size (i, j, k) in each class of a task with
// one patch and one target, and counts the right answers. A wrong one has a red frame.
func (e *Evaluator) Classes(of sample.Sample, size [3]int) (shown *image.RGBA, right int, err error) {
	classes := e.guesser.task.Targets[0].Classes
	rows := (classes + columns - 1) / columns
	page := tiles.NewPage(2*margin+min(columns, classes)*(tileSize+tileGap)-tileGap,
		2*margin+rows*(tileSize+tileGap)-tileGap)
	err = e.Look(of, func(i Item) {
		truth := i.Truth[0]
		corner := image.Pt(margin+truth%columns*(tileSize+tileGap), margin+truth/columns*(tileSize+tileGap))
		place := image.Rectangle{Max: image.Pt(tileSize, tileSize)}.Add(corner)
		page.Tile(place, tiles.Slice(i.Patches, size, of.Range(0)))
		if truth == i.Answer[0] {
			right++
		} else {
			page.Frame(place, 3, tiles.Wrong)
		}
	})
	return page.RGBA, right, err
}
