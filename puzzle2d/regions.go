package puzzle2d

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/voc"
)

// The geometry of Fast R-CNN (Girshick 2015). Boxes are those of the original photograph, in pixels
// as Pascal VOC counts them; how a photograph was brought to its prepared size matters to the
// network alone.

// offsets is what moves a region to an object's box (Girshick et al. 2014, appendix C): the shift
// of the centre in widths and heights of the region, and the logarithms of the ratios of widths and
// of heights.
func offsets(region, object voc.Box) [4]float64 {
	x, y, w, h := centre(region)
	gx, gy, gw, gh := centre(object)
	return [4]float64{(gx - x) / w, (gy - y) / h, math.Log(gw / w), math.Log(gh / h)}
}

// centre is the centre and the size of a box. Both corners belong to it.
func centre(b voc.Box) (x, y, width, height float64) {
	width, height = b[2]-b[0]+1, b[3]-b[1]+1
	return b[0] + width/2, b[1] + height/2, width, height
}

// maxRatio bounds how much larger than its region a box can become: what Detectron has, so that no
// exponential overflows.
var maxRatio = math.Log(1000. / 16)

// moved is the inverse of offsets, cut to a photograph. A box is a pixel at least.
func moved(region voc.Box, o [4]float64, width, height int) voc.Box {
	x, y, w, h := centre(region)
	x, y = x+o[0]*w, y+o[1]*h
	w, h = w*math.Exp(min(o[2], maxRatio)), h*math.Exp(min(o[3], maxRatio))
	within := func(v float64, size int) float64 { return min(max(v, 1), float64(size)) }
	left, top := within(x-w/2, width), within(y-h/2, height)
	return voc.Box{left, top, max(left, within(x+w/2-1, width)), max(top, within(y+h/2-1, height))}
}

// mirrored is a box on a photograph whose left and right have changed places.
func mirrored(b voc.Box, width int) voc.Box {
	w := float64(width) + 1
	return voc.Box{w - b[2], b[1], w - b[0], b[3]}
}

// An object is what is marked on a photograph.
type object struct {
	box   voc.Box
	class int
}

// nearest is the object that a box overlaps most with, and by how much; -1 where it overlaps with
// none.
func nearest(b voc.Box, objects []object) (which int, overlap float64) {
	which = -1
	for i, o := range objects {
		if v := b.Overlap(o.box); v > overlap {
			which, overlap = i, v
		}
	}
	return which, overlap
}

// A region is a box to learn from.
type region struct {
	box    voc.Box
	object int // that it shows, -1: background
}

// sample draws the regions of a photograph: at most so many, and of these at most a share of
// foreground.
func (c *Detection) sample(r *rand.Rand, candidates []voc.Box, objects []object) []region {
	var front, back []region
	for _, box := range candidates {
		switch which, overlap := nearest(box, objects); {
		case overlap >= c.ForegroundOverlap:
			front = append(front, region{box, which})
		case overlap >= c.BackgroundOverlap[0] && overlap < c.BackgroundOverlap[1]:
			back = append(back, region{box, -1})
		}
	}
	draw := func(from []region, most int) []region {
		for i := range min(most, len(from)) { // the beginning of a shuffle
			k := i + r.IntN(len(from)-i)
			from[i], from[k] = from[k], from[i]
		}
		return from[:min(most, len(from))]
	}
	front = draw(front, int(math.Round(c.Foreground*float64(c.Regions))))
	return slices.Concat(front, draw(back, c.Regions-len(front)))
}

// spread is the mean and the standard deviation of numbers that come one by one.
type spread struct{ n, sum, squares float64 }

func (s *spread) add(v float64) { s.n, s.sum, s.squares = s.n+1, s.sum+v, s.squares+v*v }

// leastDeviation is that of offsets that hardly differ, such as those of the objects' own boxes
// alone: dividing by less would blow up rounding.
const leastDeviation = 0.01

func (s *spread) normal() (mean, deviation float64) {
	if s.n == 0 {
		return 0, 1
	}
	mean = s.sum / s.n
	return mean, max(math.Sqrt(max(s.squares/s.n-mean*mean, 0)), leastDeviation)
}
