package dataset

import "github.com/voxsaw/voxsaw/volume"

// Labels that lie where they were drawn follow an edge of the image: the voxels just outside differ
// in HU from those inside. Flipped labels cut through whatever is there, so that the two hardly
// differ. The measure is eta squared: the share, from 0 to 1, of the variance of all these voxels
// that lies between inside and outside. On a real CT at 3 mm it is 0.31 for the pancreas where it
// belongs and at most 0.01 flipped, and 0.2 to 0.6 for most organs against at most 0.06; brightness
// alone does not tell, because a fatty pancreas is darker than what its mirror image hits. On
// blurred scans of heads, where nothing follows an edge, flipped labels reach 0.18 by chance, 3.5
// times the value of the labels as they are.
const (
	edgeAtLeast = 0.1 // of a flip to be believed
	edgeTimes   = 4   // more than as it is
)

// BetterFlip looks at the HU inside and just outside of the labels. It returns the axes, such as
// "j" or "ij", along which the labels must be flipped to fit clearly better than they do, or "".
func BetterFlip(v *volume.Volume, l *volume.LabelMap) string {
	// Of each flip, the count, sum and sum of squares of the HU inside and outside.
	var sums [8][2]struct{ n, x, xx float64 }
	n := 0
	for k := range l.Shape[2] {
		for j := range l.Shape[1] {
			for i := range l.Shape[0] {
				side := 0
				if l.Labels[n] == 0 {
					side = 1
				}
				if side == 0 || touches(l, n, i, j, k) {
					for flip := range sums {
						// Metal and air are clipped: their few voxels would drown the rest.
						x := float64(min(max(v.At(mirrored(l.Shape, flip, i, j, k)), -200), 300))
						s := &sums[flip][side]
						s.n, s.x, s.xx = s.n+1, s.x+x, s.xx+x*x
					}
				}
				n++
			}
		}
	}
	var edge [8]float64
	best := 0
	for flip, s := range sums {
		in, out := s[0], s[1]
		if in.n == 0 || out.n == 0 {
			return ""
		}
		mean := (in.x + out.x) / (in.n + out.n)
		all := in.xx + out.xx - mean*mean*(in.n+out.n)
		between := in.n*square(in.x/in.n-mean) + out.n*square(out.x/out.n-mean)
		if all > 0 {
			edge[flip] = between / all
		}
		if edge[flip] > edge[best] {
			best = flip
		}
	}
	if edge[best] < edgeAtLeast || edge[best] < edgeTimes*edge[0] {
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

func square(x float64) float64 { return x * x }

// touches says whether voxel n, at (i, j, k), has a labelled one on one of its six faces.
func touches(l *volume.LabelMap, n, i, j, k int) bool {
	row, slice := l.Shape[0], l.Shape[0]*l.Shape[1]
	return i > 0 && l.Labels[n-1] != 0 || i < l.Shape[0]-1 && l.Labels[n+1] != 0 ||
		j > 0 && l.Labels[n-row] != 0 || j < l.Shape[1]-1 && l.Labels[n+row] != 0 ||
		k > 0 && l.Labels[n-slice] != 0 || k < l.Shape[2]-1 && l.Labels[n+slice] != 0
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
	o := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, len(l.Labels)), Names: l.Names, Undrawn: l.Undrawn}
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
