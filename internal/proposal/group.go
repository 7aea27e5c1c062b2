package proposal

import (
	"container/heap"
	"image"
	"math"
	"slices"
)

// Bins of the histograms, of each plane, and of each direction in each plane.
const (
	colourBins  = 25
	textureBins = 10
	directions  = 8
)

// gradients are the picture's in eight directions, in each plane, as numbers of histogram bins:
// (planes x directions, height, width). A derivative is Scharr's, and its positive and its negative
// part count for themselves.
func (p picture) gradients() []uint8 {
	area := p.area()
	out := make([]uint8, 3*directions*area)
	gx, gy, part := make([]float32, area), make([]float32, area), make([]float32, area)
	for c := range 3 {
		plane := p.plane(c)
		at := func(x, y int) float32 { return plane[mirrored(y, p.height)*p.width+mirrored(x, p.width)] }
		for y := range p.height {
			for x := range p.width {
				i := y*p.width + x
				gx[i] = 3*(at(x+1, y-1)-at(x-1, y-1)) + 10*(at(x+1, y)-at(x-1, y)) + 3*(at(x+1, y+1)-at(x-1, y+1))
				gy[i] = 3*(at(x-1, y+1)-at(x-1, y-1)) + 10*(at(x, y+1)-at(x, y-1)) + 3*(at(x+1, y+1)-at(x+1, y-1))
			}
		}
		for direction := range directions {
			sin, cos := math.Sincos(float64(direction) * 2 * math.Pi / directions)
			high := float32(0)
			for i := range part {
				part[i] = max(0, float32(cos)*gx[i]+float32(sin)*gy[i])
				high = max(high, part[i])
			}
			bins := out[(c*directions+direction)*area:]
			for i, v := range part {
				if high > 0 {
					bins[i] = uint8(min(v/high*textureBins, textureBins-1))
				}
			}
		}
	}
	return out
}

// regions are what is known of the regions of a picture. Those of the segmentation come first; a
// region that two were joined to follows.
type regions struct {
	area       int // of the picture
	size       []int
	box        []image.Rectangle
	neighbours [][]int32
	colour     [][]float32 // histogram, which adds up to 1
	texture    [][]float32
}

// describe describes the regions of a segmentation.
func (p picture) describe(labels []int32, n int, gradients []uint8) regions {
	area := p.area()
	r := regions{area: area, size: make([]int, n), box: make([]image.Rectangle, n), neighbours: make([][]int32, n),
		colour: make([][]float32, n), texture: make([][]float32, n)}
	for i := range n {
		r.colour[i], r.texture[i] = make([]float32, 3*colourBins), make([]float32, 3*directions*textureBins)
	}
	touching := map[[2]int32]bool{}
	touch := func(a, b int32) {
		if a != b {
			touching[[2]int32{min(a, b), max(a, b)}] = true
		}
	}
	for y := range p.height {
		for x := range p.width {
			i := y*p.width + x
			label := labels[i]
			r.size[label]++
			r.box[label] = r.box[label].Union(image.Rect(x, y, x+1, y+1))
			if x+1 < p.width {
				touch(label, labels[i+1])
			}
			if y+1 < p.height {
				touch(label, labels[i+p.width])
			}
			for c := range 3 {
				bin := int(p.planes[c*area+i] * colourBins / 256)
				r.colour[label][c*colourBins+min(max(bin, 0), colourBins-1)]++
			}
			for d := range 3 * directions {
				r.texture[label][d*textureBins+int(gradients[d*area+i])]++
			}
		}
	}
	for pair := range touching {
		a, b := pair[0], pair[1]
		r.neighbours[a], r.neighbours[b] = append(r.neighbours[a], b), append(r.neighbours[b], a)
	}
	for i := range n {
		slices.Sort(r.neighbours[i]) // a map has no order
		for bin := range r.colour[i] {
			r.colour[i][bin] /= float32(3 * r.size[i])
		}
		for bin := range r.texture[i] {
			r.texture[i][bin] /= float32(3 * directions * r.size[i])
		}
	}
	return r
}

// similarity compares two regions, by section 3.2 of the paper: how much of their histograms is in
// common, how small they are, and how little of their common box is neither's.
func (r *regions) similarity(a, b int32, colour bool) float64 {
	both := r.size[a] + r.size[b]
	common := r.box[a].Union(r.box[b])
	s := intersection(r.texture[a], r.texture[b]) + 1 - float64(both)/float64(r.area) +
		1 - float64(common.Dx()*common.Dy()-both)/float64(r.area)
	if colour {
		s += intersection(r.colour[a], r.colour[b])
	}
	return s
}

func intersection(a, b []float32) float64 {
	sum := float32(0)
	for i, v := range a {
		sum += min(v, b[i])
	}
	return float64(sum)
}

// A pair is two regions that touch.
type pair struct {
	a, b       int32
	similarity float64
}

// pairs is a heap, the most alike on top; of equals the first that there were.
type pairs []pair

func (p pairs) Len() int { return len(p) }
func (p pairs) Less(i, j int) bool {
	switch {
	case p[i].similarity != p[j].similarity:
		return p[i].similarity > p[j].similarity
	case p[i].a != p[j].a:
		return p[i].a < p[j].a
	}
	return p[i].b < p[j].b
}
func (p pairs) Swap(i, j int) { p[i], p[j] = p[j], p[i] }
func (p *pairs) Push(x any)   { *p = append(*p, x.(pair)) }
func (p *pairs) Pop() any {
	last := (*p)[len(*p)-1]
	*p = (*p)[:len(*p)-1]
	return last
}

// group joins the two regions that are most alike until none touches another, and returns the boxes
// of all regions in the order in which they came to be.
func (r regions) group(colour bool) []image.Rectangle {
	r.size, r.box, r.neighbours = slices.Clone(r.size), slices.Clone(r.box), slices.Clone(r.neighbours)
	r.colour, r.texture = slices.Clone(r.colour), slices.Clone(r.texture)
	gone := make([]bool, 2*len(r.size))
	var queue pairs
	for a, others := range r.neighbours {
		for _, b := range others {
			if int32(a) < b {
				queue = append(queue, pair{int32(a), b, r.similarity(int32(a), b, colour)})
			}
		}
	}
	heap.Init(&queue)
	for queue.Len() > 0 {
		top := heap.Pop(&queue).(pair)
		if gone[top.a] || gone[top.b] {
			continue
		}
		gone[top.a], gone[top.b] = true, true
		for _, b := range r.join(top.a, top.b, gone) {
			whole := int32(len(r.size) - 1)
			heap.Push(&queue, pair{b, whole, r.similarity(b, whole, colour)})
		}
	}
	return r.box
}

// join adds the region that two make, and returns those that touch it.
func (r *regions) join(a, b int32, gone []bool) []int32 {
	var others []int32
	for _, c := range slices.Concat(r.neighbours[a], r.neighbours[b]) {
		if !gone[c] {
			others = append(others, c)
		}
	}
	slices.Sort(others)
	others = slices.Compact(others)
	whole := int32(len(r.size))
	for _, c := range others {
		r.neighbours[c] = append(slices.Clone(r.neighbours[c]), whole)
	}
	r.colour = append(r.colour, mixed(r.colour[a], r.colour[b], r.size[a], r.size[b]))
	r.texture = append(r.texture, mixed(r.texture[a], r.texture[b], r.size[a], r.size[b]))
	r.size, r.box = append(r.size, r.size[a]+r.size[b]), append(r.box, r.box[a].Union(r.box[b]))
	r.neighbours = append(r.neighbours, others)
	return others
}

// mixed is the histogram of two regions together.
func mixed(a, b []float32, n, m int) []float32 {
	out := make([]float32, len(a))
	for i := range out {
		out[i] = (a[i]*float32(n) + b[i]*float32(m)) / float32(n+m)
	}
	return out
}
