package classify

import (
	"image"

	"github.com/voxsaw/voxsaw/internal/tiles"
	"github.com/voxsaw/voxsaw/sample"
)

// Columns are the tiles in a row of a picture of classes.
const Columns = 8

// Classes shows the middle slice of a case's crop of a size (i, j, k) in each class of a task with
// one patch and one target, and counts the right answers. A wrong one has a red frame.
func (e *Evaluator) Classes(of sample.Sample, size [3]int) (shown *image.RGBA, right int, err error) {
	page, place := tiles.Sheet(e.guesser.work.Targets[0].Classes, Columns)
	err = e.Look(of, func(i Item) {
		truth := i.Truth[0]
		page.Tile(place(truth), tiles.Slice(i.Patches, size, of.Range(0)))
		if truth == i.Answer[0] {
			right++
		} else {
			page.Frame(place(truth), 3, tiles.Wrong)
		}
	})
	return page.RGBA, right, err
}
