package rotation

// A turn is a rotation of a cube by right angles: voxel (i, j, k) of the result is the voxel of the
// original whose coordinate along axis from[a] is the result's along a, counted from the other end
// where flip[a].
type turn struct {
	from [3]int
	flip [3]bool
}

// quarter is the rotation by 90 degrees about an axis, from the next axis to the one after it:
// numpy's rot90(x, axes=(a+1, a+2)).
func quarter(axis int) turn {
	t := turn{from: [3]int{0, 1, 2}}
	b, c := (axis+1)%3, (axis+2)%3
	t.from[b], t.from[c] = c, b
	t.flip[b] = true
	return t
}

// then is t followed by u.
func (t turn) then(u turn) turn {
	var v turn
	for a := range 3 {
		v.from[a] = t.from[u.from[a]]
		v.flip[a] = u.flip[a] != t.flip[u.from[a]]
	}
	return v
}

var identity = turn{from: [3]int{0, 1, 2}}

// turns lists rotations, the identity first: the 10 about a single axis, or all 24 of the cube.
func turns(n int) []turn {
	list := []turn{identity}
	if n == 10 {
		for axis := range 3 {
			t := identity
			for range 3 {
				t = t.then(quarter(axis))
				list = append(list, t)
			}
		}
		return list
	}
	seen := map[turn]bool{identity: true}
	for i := 0; i < len(list); i++ { // the list grows while there are new ones
		for axis := range 3 {
			if t := list[i].then(quarter(axis)); !seen[t] {
				seen[t] = true
				list = append(list, t)
			}
		}
	}
	return list
}

// apply writes the turned cube of n voxels along each axis.
func (t turn) apply(dst, src []float32, n int) {
	stride := [3]int{1, n, n * n} // of i, j, k
	at := 0                       // the voxel of src where the result begins
	var step [3]int
	for a := range 3 {
		s := stride[t.from[a]]
		if t.flip[a] {
			at += (n - 1) * s
			s = -s
		}
		step[a] = s
	}
	for k := range n {
		for j := range n {
			from := at + k*step[2] + j*step[1]
			row := dst[(k*n+j)*n:][:n]
			for i := range row {
				row[i] = src[from+i*step[0]]
			}
		}
	}
}
