// Package rot90 rotates boxes of voxels by right angles.
//
// Start at [Turn]. Mirror images are no turns, and there is no interpolation.
package rot90

// A Turn is a rotation of a box by right angles: voxel (i, j, k) of the result is the voxel of the
// original whose coordinate along axis from[a] is the result's along a, counted from the other end
// where flip[a].
type Turn struct {
	from [3]int
	flip [3]bool
}

// Identity leaves everything where it is.
var Identity = Turn{from: [3]int{0, 1, 2}}

// Quarter is the rotation by 90 degrees about an axis, from the next axis to the one after it:
// numpy's rot90(x, axes=(a+1, a+2)). Only a box that is as long along the one as along the other
// can be turned so.
func Quarter(axis int) Turn {
	t := Identity
	b, c := (axis+1)%3, (axis+2)%3
	t.from[b], t.from[c] = c, b
	t.flip[b] = true
	return t
}

// Half is the rotation by 180 degrees about an axis, which any box allows.
func Half(axis int) Turn { return Quarter(axis).Then(Quarter(axis)) }

// Then is t followed by u.
func (t Turn) Then(u Turn) Turn {
	var v Turn
	for a := range 3 {
		v.from[a] = t.from[u.from[a]]
		v.flip[a] = u.flip[a] != t.flip[u.from[a]]
	}
	return v
}

// Single lists the ten rotations of a cube about a single axis, the identity first, then by 90, 180
// and 270 degrees about each.
func Single() []Turn {
	list := []Turn{Identity}
	for axis := range 3 {
		t := Identity
		for range 3 {
			t = t.Then(Quarter(axis))
			list = append(list, t)
		}
	}
	return list
}

// All lists the 24 rotations of a cube, the identity first.
func All() []Turn {
	list, seen := []Turn{Identity}, map[Turn]bool{Identity: true}
	for i := 0; i < len(list); i++ { // the list grows while there are new ones
		for axis := range 3 {
			if t := list[i].Then(Quarter(axis)); !seen[t] {
				seen[t] = true
				list = append(list, t)
			}
		}
	}
	return list
}

// Apply writes the turned boxes (n, K, J, I) of a size along (i, j, k), which the turn must keep.
func (t Turn) Apply(dst, src []float32, size [3]int) {
	n := size[0] * size[1] * size[2]
	for at := 0; at < len(src); at += n {
		t.apply(dst[at:at+n], src[at:at+n], size)
	}
}

func (t Turn) apply(dst, src []float32, size [3]int) {
	stride := [3]int{1, size[0], size[0] * size[1]} // of i, j, k
	at := 0                                         // the voxel of src where the result begins
	var step [3]int
	for a := range 3 {
		s := stride[t.from[a]]
		if t.flip[a] {
			at += (size[a] - 1) * s
			s = -s
		}
		step[a] = s
	}
	for k := range size[2] {
		for j := range size[1] {
			from := at + k*step[2] + j*step[1]
			row := dst[(k*size[1]+j)*size[0]:][:size[0]]
			for i := range row {
				row[i] = src[from+i*step[0]]
			}
		}
	}
}
