package rotation

import (
	"fmt"
	"image"

	"github.com/voxsaw/voxsaw/internal/classify"
	"github.com/voxsaw/voxsaw/internal/pretext"
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

// picture shows the middle slice of the crop, turned in every way. What the network takes for
// another rotation has a red frame.
func (c *Config) picture(e *classify.Evaluator, of sample.Sample) (pretext.Picture, error) {
	rows := (c.Rotations + columns - 1) / columns
	page := tiles.NewPage(2*margin+min(columns, c.Rotations)*(tileSize+tileGap)-tileGap,
		2*margin+rows*(tileSize+tileGap)-tileGap)
	right := 0
	err := e.Look(of, func(i classify.Item) {
		truth := i.Truth[0]
		corner := image.Pt(margin+truth%columns*(tileSize+tileGap), margin+truth/columns*(tileSize+tileGap))
		place := image.Rectangle{Max: image.Pt(tileSize, tileSize)}.Add(corner)
		page.Tile(place, tiles.Slice(i.Patches, c.Crop, of.Range(0)))
		if truth == i.Answer[0] {
			right++
		} else {
			page.Frame(place, 3, tiles.Wrong)
		}
	})
	return pretext.Picture{
		Image:   page.RGBA,
		Caption: fmt.Sprintf("The crop in the middle of case %s, turned in all %d ways, the first not at all: %d are told right. A red frame marks the others.", of.Name(), c.Rotations, right),
	}, err
}
