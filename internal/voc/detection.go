package voc

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Box is xmin, ymin, xmax and ymax in pixels. Both ends belong to it, as VOC counts: a box from 1
// to 1 is a pixel wide.
type Box [4]float64

// Overlap is the area of the intersection over that of the union.
func (b Box) Overlap(other Box) float64 {
	width := min(b[2], other[2]) - max(b[0], other[0]) + 1
	height := min(b[3], other[3]) - max(b[1], other[1]) + 1
	if width <= 0 || height <= 0 {
		return 0
	}
	both := width * height
	return both / (b.area() + other.area() - both)
}

func (b Box) area() float64 { return (b[2] - b[0] + 1) * (b[3] - b[1] + 1) }

// check refuses boxes with a corner that is no number, or that are inside out.
func (b Box) check() error {
	for _, v := range b {
		if !numbers.Finite(v) {
			return fmt.Errorf("box %v has a corner that is not a number", numbers.List(b[:]))
		}
	}
	if b[2] < b[0] || b[3] < b[1] {
		return fmt.Errorf("box %v has its corners exchanged", numbers.List(b[:]))
	}
	return nil
}

// Suppress is greedy non-maximum suppression: it gives the numbers of the boxes that stay, the most
// confident first. A box goes if it overlaps with one that stays by more than the threshold. Of the
// same confidence, the earlier one is first.
func Suppress(boxes []Box, confidences []float64, threshold float64) ([]int, error) {
	if len(boxes) != len(confidences) {
		return nil, fmt.Errorf("suppression of %d boxes with %d confidences", len(boxes), len(confidences))
	}
	order := make([]int, len(boxes))
	for n, b := range boxes {
		if err := b.check(); err != nil {
			return nil, err
		}
		if math.IsNaN(confidences[n]) {
			return nil, fmt.Errorf("the confidence of box %d is not a number", n)
		}
		order[n] = n
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(confidences[b], confidences[a]) })
	gone := make([]bool, len(boxes))
	var kept []int
	for k, n := range order {
		if gone[n] {
			continue
		}
		kept = append(kept, n)
		for _, other := range order[k+1:] {
			if !gone[other] && boxes[n].Overlap(boxes[other]) > threshold {
				gone[other] = true
			}
		}
	}
	return kept, nil
}

// A Detection is a box that is said to hold an object of the class.
type Detection struct {
	Photo      int // its number
	Box        Box
	Confidence float64
}

// An Object is a box that does.
type Object struct {
	Photo     int
	Box       Box
	Difficult bool // need not be found, and does no harm if it is
}

// Detections are those of one class on all photographs, with the truth.
type Detections struct {
	Found []Detection
	Truth []Object
}

// LeastOverlap is how much a detection must overlap with an object, at least.
const LeastOverlap = 0.5

// AveragePrecision scores them. A detection is right if the object that it overlaps most with, by
// [LeastOverlap] or more, has not been found by a more confident one; further detections of the
// same object are wrong, those of a difficult one do not count. It is NaN where no object has to be
// found.
func (d Detections) AveragePrecision(rule Rule) (float64, error) {
	objects := map[int][]int{} // of each photograph
	positives := 0
	for n, o := range d.Truth {
		if err := o.Box.check(); err != nil {
			return 0, fmt.Errorf("an object of photograph %d: %w", o.Photo, err)
		}
		objects[o.Photo] = append(objects[o.Photo], n)
		if !o.Difficult {
			positives++
		}
	}
	found := slices.Clone(d.Found)
	for _, f := range found {
		if err := f.Box.check(); err != nil {
			return 0, fmt.Errorf("a detection on photograph %d: %w", f.Photo, err)
		}
		if math.IsNaN(f.Confidence) {
			return 0, fmt.Errorf("the confidence of a detection on photograph %d is not a number", f.Photo)
		}
	}
	slices.SortStableFunc(found, func(a, b Detection) int { return cmp.Compare(b.Confidence, a.Confidence) })
	taken := make([]bool, len(d.Truth))
	var ranked []answer
	for _, f := range found {
		nearest, most := -1, math.Inf(-1)
		for _, n := range objects[f.Photo] {
			// boxes that do not meet are no candidates, as in VOCevaldet.m
			if o := f.Box.Overlap(d.Truth[n].Box); o > 0 && o > most {
				nearest, most = n, o
			}
		}
		switch {
		case nearest < 0 || most < LeastOverlap:
			ranked = append(ranked, answer{f.Confidence, false})
		case d.Truth[nearest].Difficult:
		default:
			ranked = append(ranked, answer{f.Confidence, !taken[nearest]})
			taken[nearest] = true
		}
	}
	return curveOf(ranked, positives).average(rule)
}
