package segment

// keepLargest sets to 0 all voxels but those of the largest connected component of each class that
// is wanted so, the first of equals; nil: of each class. Voxels are connected to the 26 around
// them.
//
// It joins runs: maximal stretches of one class along i. A run touches the runs of the four lines
// before it (the one at j-1, and the three at k-1) that start no later than one voxel after its end
// and end no earlier than one before its start.
func keepLargest(classes []uint16, shape [3]int, wanted []bool) {
	runs, lines := findRuns(classes, shape)
	parent := make([]int32, len(runs))
	for i := range parent {
		parent[i] = int32(i)
	}
	for k := range shape[2] {
		for j := range shape[1] {
			line := j + shape[1]*k
			for _, before := range [4][2]int{{j - 1, k}, {j - 1, k - 1}, {j, k - 1}, {j + 1, k - 1}} {
				if before[0] >= 0 && before[0] < shape[1] && before[1] >= 0 {
					other := before[0] + shape[1]*before[1]
					join(runs, parent, lines[line], lines[line+1], lines[other], lines[other+1])
				}
			}
		}
	}
	size := make([]int, len(runs))
	largest := map[uint16]int32{}
	for i, r := range runs {
		size[find(parent, int32(i))] += r.end - r.start
	}
	for i, r := range runs { // roots are the first runs of their components
		if best, ok := largest[r.class]; parent[i] == int32(i) && (!ok || size[i] > size[best]) {
			largest[r.class] = int32(i)
		}
	}
	for i, r := range runs {
		if (wanted == nil || wanted[r.class]) && find(parent, int32(i)) != largest[r.class] {
			clear(classes[r.start:r.end])
		}
	}
}

// A run is a stretch of voxels of one class within a line, start to end-1 in the whole volume;
// column is the i of its first.
type run struct {
	start, end int
	column     int
	class      uint16
}

// findRuns lists the runs in order; those of line n are runs[lines[n]:lines[n+1]].
func findRuns(classes []uint16, shape [3]int) (runs []run, lines []int) {
	for at := 0; at < len(classes); at += shape[0] {
		lines = append(lines, len(runs))
		for i := 0; i < shape[0]; {
			start, class := i, classes[at+i]
			for i < shape[0] && classes[at+i] == class {
				i++
			}
			if class != 0 {
				runs = append(runs, run{at + start, at + i, start, class})
			}
		}
	}
	return runs, append(lines, len(runs))
}

// join unites the runs a0 to a1-1 of one line with those of b0 to b1-1 of another that they touch.
func join(runs []run, parent []int32, a0, a1, b0, b1 int) {
	for a := a0; a < a1; a++ {
		x := runs[a]
		for b0 < b1 && runs[b0].column+runs[b0].end-runs[b0].start < x.column {
			b0++ // ends before x and all that follow it
		}
		for b := b0; b < b1 && runs[b].column <= x.column+x.end-x.start; b++ {
			if x.class == runs[b].class {
				p, q := find(parent, int32(a)), find(parent, int32(b))
				parent[max(p, q)] = min(p, q)
			}
		}
	}
}

// find is the root of a run's component, halving the path to it.
func find(parent []int32, i int32) int32 {
	for parent[i] != i {
		parent[i] = parent[parent[i]]
		i = parent[i]
	}
	return i
}
