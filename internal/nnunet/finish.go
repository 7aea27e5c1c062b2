package nnunet

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/half"
)

// A decision brings logits, plane by plane as they come, back to the voxels of the scan's part,
// where they decide on labels. They are float16 there, too. No more than two planes of each head
// are held.
//
// Interpolation is linear at most: so what it gives keeps to the range of what it was made of by
// itself, once it is rounded to float16.
type decision struct {
	*Labels
	taps   [3]taps // along each axis of the part
	shape  [3]int  // of the part
	width  int     // of a plane of logits
	band   band
	labels view[uint16]
	// to which the probabilities of each head in the part are added; nil: they are not wanted
	chances []view[float32]

	last [2][][]half.Float // the two newest planes, the newest second
	next int               // plane of the part
}

// tapsTo are the taps along an axis from logits of a shape to the part of a scan.
func tapsTo(logits, part [3]int, axis int, orders [3]int) taps {
	order := orders[axis]
	if logits == part { // whatever the spacings are
		order = 0
	}
	return tapsOf(logits[axis], part[axis], order)
}

// rowTaps are those of rows, by which bands are shared out.
func rowTaps(logits, part [3]int, orders [3]int) taps { return tapsTo(logits, part, 1, orders) }

// decide prepares for logits on a grid of a shape, of so many rows at once. labels are those of the
// part, to be written.
func (p *Plan) decide(l *Labels, logits [3]int, labels view[uint16], orders [3]int, rows int) *decision {
	d := &decision{Labels: l, shape: labels.shape, width: logits[2], labels: labels}
	for a := range d.taps {
		d.taps[a] = tapsTo(logits, d.shape, a, orders)
	}
	for n := range d.last {
		d.last[n] = make([][]half.Float, l.Heads())
		for h := range d.last[n] {
			d.last[n][h] = make([]half.Float, rows*logits[2])
		}
	}
	return d
}

// begin makes a decision one of a band.
func (d *decision) begin(b band) { d.band, d.next = b, 0 }

// plane takes the logits of the next plane, and decides what can be decided then.
func (d *decision) plane(at int, logits [][]half.Float) {
	d.last[0], d.last[1] = d.last[1], d.last[0]
	for h := range logits {
		copy(d.last[1][h], logits[h])
	}
	t := d.taps[0]
	for ; d.next < d.shape[0]; d.next++ {
		index := t.index[d.next*t.width:][:t.width]
		if index[t.width-1] > at {
			return // it needs a plane that has not come yet
		}
		d.decide(d.next, at, index, t.weight[d.next*t.width:][:t.width])
	}
}

// decide labels one plane of the part, made of planes that have come, the newest of which is at.
func (d *decision) decide(plane, at int, index []int, weight []float64) {
	workers(d.band.rows[1]-d.band.rows[0], func() func(j int) {
		r := &row{d, make([]float64, d.width), make([]float32, d.shape[2]), make([]uint16, d.shape[2]), nil}
		for range d.chances {
			r.chances = append(r.chances, make([]float32, d.shape[2]))
		}
		return func(j int) { r.decide(plane, d.band.rows[0]+j, at, index, weight) }
	})
}

// A row is the memory of a core that decides on rows.
type row struct {
	*decision
	line    []float64 // of logits
	best    []float32
	labels  []uint16
	chances [][]float32 // of each head
}

// decide labels row j of a plane.
func (r *row) decide(plane, j, at int, index []int, weight []float64) {
	clear(r.labels)
	for head := range r.Structures {
		r.interpolate(head, j, at, index, weight)
		label := r.Structures[head].Label
		for c := range r.labels {
			value := half.From64(r.taps[2].at(c, r.line)).Float32()
			if r.chances != nil {
				r.chances[head][c] = value
			}
			switch {
			case r.Regions: // each has a probability; later ones are written over earlier ones
				if sigmoid(value) > 0.5 {
					r.labels[c] = label
				}
			case head == 0 || value > r.best[c]: // the first of equals
				r.best[c], r.labels[c] = value, label
			}
		}
	}
	to := r.decision.labels.first + plane*r.decision.labels.strides[0] + j*r.decision.labels.strides[1]
	for _, label := range r.labels {
		r.decision.labels.values[to] = label
		to += r.decision.labels.strides[2]
	}
	r.addChances(plane, j)
}

// addChances adds the probabilities of row j of a plane, whose logits are there.
func (r *row) addChances(plane, j int) {
	if r.chances == nil {
		return
	}
	if r.Regions {
		for _, line := range r.chances {
			for c, x := range line {
				line[c] = sigmoid(x)
			}
		}
	} else {
		softmax(r.chances, r.best)
	}
	for head, to := range r.decision.chances {
		at := to.index(plane, j, 0)
		for _, x := range r.chances[head] {
			to.values[at] += x
			at += to.strides[2]
		}
	}
}

// interpolate makes a line of logits of a head along the planes, then the rows; the columns follow:
// the order in which sums are rounded.
func (r *row) interpolate(head, j, at int, index []int, weight []float64) {
	clear(r.line)
	rows := r.taps[1]
	for k := j * rows.width; k < (j+1)*rows.width; k++ {
		first := (rows.index[k] - r.band.logits[0]) * r.width
		for c := range r.line {
			var sum float64
			for p, from := range index {
				sum += weight[p] * float64(r.last[1-(at-from)][head][first+c].Float32())
			}
			r.line[c] += rows.weight[k] * sum
		}
	}
}

// softmax makes logits of heads in a row probabilities. highest are the highest ones.
func softmax(logits [][]float32, highest []float32) {
	sums := make([]float32, len(highest))
	for _, line := range logits {
		for c, x := range line {
			line[c] = float32(math.Exp(float64(x - highest[c])))
			sums[c] += line[c]
		}
	}
	for _, line := range logits {
		for c := range line {
			line[c] /= sums[c]
		}
	}
}

// sigmoid is computed in float32, as PyTorch does.
func sigmoid(x float32) float32 { return 1 / (1 + float32(math.Exp(float64(-x)))) }
