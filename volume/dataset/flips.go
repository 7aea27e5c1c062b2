package dataset

import "github.com/voxsaw/voxsaw/volume"

// softTissue is the range of HU (from, to) that labelled organs lie in, with and without contrast medium. Fat, lung and bone lie outside.
const softFrom, softTo = 0, 250

// clearly is by how much more of the foreground must be soft tissue before another flip is said to fit better: an organ's mirror image hits other
// soft organs often enough that small differences mean nothing.
const clearly = 0.1

// BetterFlip looks at the HU under the labels: where they are flipped against their scan, less of them is soft tissue. It returns the axes, such as "j" or
// "ij", along which the labels must be flipped to fit clearly better than they do, or "".
func BetterFlip(v *volume.Volume, l *volume.LabelMap) string {
	var soft [8]int // foreground voxels of each flip that are soft tissue
	all, n := 0, 0
	for k := range l.Shape[2] {
		for j := range l.Shape[1] {
			for i := range l.Shape[0] {
				if l.Labels[n] != 0 {
					all++
					for flip := range soft {
						if x := v.At(mirrored(l.Shape, flip, i, j, k)); x > softFrom && x < softTo {
							soft[flip]++
						}
					}
				}
				n++
			}
		}
	}
	best := 0
	for flip := range soft {
		if soft[flip] > soft[best] {
			best = flip
		}
	}
	if float64(soft[best]-soft[0]) <= clearly*float64(all) {
		return ""
	}
	axes := ""
	for a, name := range []string{"i", "j", "k"} {
		if best>>a&1 == 1 {
			axes += name
		}
	}
	return axes
}

// mirrored flips an index along the axes whose bit is set.
func mirrored(shape [3]int, flip, i, j, k int) (int, int, int) {
	if flip&1 != 0 {
		i = shape[0] - 1 - i
	}
	if flip&2 != 0 {
		j = shape[1] - 1 - j
	}
	if flip&4 != 0 {
		k = shape[2] - 1 - k
	}
	return i, j, k
}

// flipLabels turns labels around along the named axes; the grid stays.
func flipLabels(l *volume.LabelMap, axes string) *volume.LabelMap {
	flip := 0
	for _, axis := range axes {
		flip |= 1 << (axis - 'i')
	}
	o := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, len(l.Labels)), Names: l.Names}
	for k := range l.Shape[2] {
		for j := range l.Shape[1] {
			for i := range l.Shape[0] {
				a, b, c := mirrored(l.Shape, flip, i, j, k)
				o.Labels[o.Index(a, b, c)] = l.Labels[l.Index(i, j, k)]
			}
		}
	}
	return o
}
