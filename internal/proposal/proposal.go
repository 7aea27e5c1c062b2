// Package proposal finds boxes that may hold an object, whatever the object is: selective search
// (Uijlings, van de Sande, Gevers, Smeulders, IJCV 2013), on regions of a graph-based segmentation
// (Felzenszwalb and Huttenlocher, IJCV 2004).
//
// Start at [Search]. A photograph is divided into regions that look alike (segment.go). Of two that
// touch, those that are most alike in colour, texture, size and fit are joined, again and again,
// until one is left (group.go), and the box of every region that there ever was is a proposal. That
// is done in several colour spaces, for coarser and finer regions, and by two ways to compare them:
// the paper's fast version.
//
// What the boxes are for, the package does not know.
package proposal

import (
	"fmt"
	"image"
	"slices"

	"github.com/voxsaw/voxsaw/internal/seed"
)

// The fast version: two colour spaces, three scales of regions, two ways to compare them. Of the
// scales the paper says 50 and 100 for its quality version; these are OpenCV's.
var scales = []float64{150, 300, 450}

const (
	sigma     = 0.8 // of the blur before segmentation, in pixels
	leastArea = 100 // of a region, in pixels
)

// A region of a hierarchy, for the order of the proposals.
type ranked struct {
	box  image.Rectangle
	rank float64
}

// Search lists the boxes of a photograph, (height, width, 3) red, green and blue bytes, the most
// promising first: a box at position i from the top of a hierarchy has rank i times a random number
// of the seed, as in the paper, so that large boxes come earlier without being all of the first. No
// box is listed twice. Small photographs have few: at least the whole of it is one.
func Search(pixels []byte, width, height int, number uint64) ([]image.Rectangle, error) {
	if width < 1 || height < 1 || len(pixels) != 3*width*height {
		return nil, fmt.Errorf("%d bytes for a photograph of %dx%d", len(pixels), width, height)
	}
	var all []ranked
	random := seed.Rand(number, "proposals")
	for _, space := range []func([]byte) []float32{hsv, lab} {
		planes := picture{width, height, space(pixels)}
		texture := planes.gradients()
		blurred := planes.blur(sigma)
		for _, k := range scales {
			labels, n := blurred.segment(k, leastArea)
			of := planes.describe(labels, n, texture)
			for _, colour := range []bool{true, false} {
				boxes := of.group(colour)
				for t, box := range boxes { // the last is the whole photograph
					all = append(all, ranked{box, random.Float64() * float64(len(boxes)-t)})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b ranked) int {
		switch {
		case a.rank < b.rank:
			return -1
		case a.rank > b.rank:
			return 1
		}
		return 0
	})
	var list []image.Rectangle
	seen := map[image.Rectangle]bool{}
	for _, r := range all {
		if !seen[r.box] {
			seen[r.box] = true
			list = append(list, r.box)
		}
	}
	return list, nil
}
