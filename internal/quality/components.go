package quality

import "slices"

// KeepLargest sets to 0 all voxels but those of the largest connected component of each class that
// is wanted so, the first of equals; nil: of each class. Voxels are connected to the 26 around
// them.
//
// It joins runs: maximal stretches of one class along i. A run touches the runs of the four lines
// before it (the one at j-1, and the three at k-1) that start no later than one voxel after its end
// and end no earlier than one before its start. It takes 16 bytes a run: few for organs, but what a
// network that has learnt little says is noise, of a run for every few voxels.
func KeepLargest(classes []uint16, shape [3]int, wanted []bool) {
	f := findRuns(classes, shape, wanted)
	f.joinAll(shape)
	runs, parent := f.runs, f.parent
	size := f.sizes()
	largest := map[uint16]int32{}
	for i, r := range runs { // roots are the first runs of their components
		class := classes[r.start]
		if best, ok := largest[class]; parent[i] == int32(i) && (!ok || size[i] > size[best]) {
			largest[class] = int32(i)
		}
	}
	for i, r := range runs {
		if find(parent, int32(i)) != largest[classes[r.start]] {
			clear(classes[r.start : int(r.start)+int(r.length)])
		}
	}
}

// KeepLargestTogether sets to 0 all voxels of some labels but those of the largest connected
// component that these voxels form together, or of all components of that size: as nnU-Net's
// remove_all_but_largest_component_from_segmentation does.
func KeepLargestTogether(labels []uint16, shape [3]int, together []uint16) {
	mask := make([]uint16, len(labels))
	for i, label := range labels {
		if slices.Contains(together, label) {
			mask[i] = 1
		}
	}
	f := findRuns(mask, shape, nil)
	f.joinAll(shape)
	if len(f.runs) == 0 {
		return
	}
	size := f.sizes()
	most := slices.Max(size)
	for i, r := range f.runs {
		if size[find(f.parent, int32(i))] < most {
			clear(labels[r.start : int(r.start)+int(r.length)])
		}
	}
}

// CountComponents counts the connected components of each class that has voxels.
func CountComponents(classes []uint16, shape [3]int) map[uint16]int {
	n := map[uint16]int{}
	growing(classes, shape, func(run) {}, func(class uint16, more int, _ uint32) { n[class] += more })
	return n
}

// growing goes through a volume plane by plane and remembers the runs of two planes, however many
// the volume has. found has each run in order. grown has each component that has so many voxels by
// now, and how many more components its class has by that: one, or, where two have met, one less.
func growing(classes []uint16, shape [3]int, found func(run), grown func(class uint16, more int, voxels uint32)) {
	f := &forest{classes: classes, width: uint32(shape[0]), lines: make([]int, 2*shape[1]+1)}
	var size, ofLast []uint32 // at roots
	var last, moved []int32
	f.united = func(root, other int32) {
		size[root] += size[other]
		grown(classes[f.runs[root].start], -1, size[root])
	}
	rows, plane := shape[1], shape[0]*shape[1]
	for k := range shape[2] {
		// the runs of the plane before come first, each with a root among them
		first := f.lines[rows]
		last, ofLast, moved = last[:0], ofLast[:0], moved[:0]
		for range f.runs {
			moved = append(moved, -1)
		}
		for i := range f.runs[first:] {
			root := find(f.parent, int32(first+i))
			if moved[root] < 0 {
				moved[root] = int32(i)
			}
			last, ofLast = append(last, moved[root]), append(ofLast, size[root])
		}
		f.parent, last, size, ofLast = last, f.parent, ofLast, size
		f.runs = f.runs[:copy(f.runs, f.runs[first:])]
		for j := range rows {
			f.lines[j] = f.lines[rows+j] - first
		}
		f.lines = f.lines[:rows]
		eachRun(classes[k*plane:(k+1)*plane], shape[0], nil, func(r run) {
			r.start += uint32(k * plane)
			f.parent, size, f.runs = append(f.parent, int32(len(f.runs))), append(size, r.length), append(f.runs, r)
			found(r)
			grown(classes[r.start], 1, r.length)
		}, func() { f.lines = append(f.lines, len(f.runs)) })
		f.lines = append(f.lines, len(f.runs))
		f.joinPlane(rows, rows)
	}
}

// sizes are the voxels of each component, at its root.
func (f *forest) sizes() []uint32 {
	size := make([]uint32, len(f.runs))
	for i, r := range f.runs {
		size[find(f.parent, int32(i))] += r.length
	}
	return size
}

// A run is a stretch of voxels of one class within a line, from a voxel of the whole volume on.
type run struct{ start, length uint32 }

// A forest is the runs of a volume, and which belong together: those whose parents lead to one
// root.
type forest struct {
	classes []uint16
	width   uint32 // voxels of a line
	runs    []run
	lines   []int // those of line n are runs[lines[n]:lines[n+1]]
	parent  []int32
	united  func(root, other int32) // is told of roots that have been joined; nil: nobody is
}

// findRuns lists the runs of the classes that are wanted, in order, each a root.
func findRuns(classes []uint16, shape [3]int, wanted []bool) *forest {
	f := &forest{classes: classes, width: uint32(shape[0])}
	count := 0
	eachRun(classes, shape[0], wanted, func(run) { count++ }, func() {})
	f.runs, f.parent, f.lines = make([]run, 0, count), make([]int32, count), make([]int, 0, shape[1]*shape[2]+1)
	for i := range f.parent {
		f.parent[i] = int32(i)
	}
	eachRun(classes, shape[0], wanted, func(r run) { f.runs = append(f.runs, r) },
		func() { f.lines = append(f.lines, len(f.runs)) })
	f.lines = append(f.lines, len(f.runs))
	return f
}

// eachRun calls line at the beginning of each line, and found for each run in it.
func eachRun(classes []uint16, width int, wanted []bool, found func(run), line func()) {
	for at := 0; at < len(classes); at += width {
		line()
		for i := 0; i < width; {
			start, class := i, classes[at+i]
			for i < width && classes[at+i] == class {
				i++
			}
			if class != 0 && (wanted == nil || wanted[class]) {
				found(run{uint32(at + start), uint32(i - start)})
			}
		}
	}
}

// joinAll unites all runs that touch.
func (f *forest) joinAll(shape [3]int) {
	for k := range shape[2] {
		f.joinPlane(k*shape[1], shape[1])
	}
}

// joinPlane unites the runs of the plane that begins with a line with those that they touch, there
// and in the plane before, where there is one.
func (f *forest) joinPlane(line, rows int) {
	for j := range rows {
		for _, before := range [4][2]int{{j - 1, line}, {j - 1, line - rows}, {j, line - rows}, {j + 1, line - rows}} {
			if other := before[0] + before[1]; before[0] >= 0 && before[0] < rows && before[1] >= 0 {
				f.join(f.lines[line+j], f.lines[line+j+1], f.lines[other], f.lines[other+1])
			}
		}
	}
}

// join unites the runs a0 to a1-1 of one line with those of b0 to b1-1 of another that they touch.
func (f *forest) join(a0, a1, b0, b1 int) {
	for a := a0; a < a1; a++ {
		x := f.runs[a]
		from, class := x.start%f.width, f.classes[x.start]
		for b0 < b1 && f.runs[b0].start%f.width+f.runs[b0].length < from {
			b0++ // ends before x and all that follow it
		}
		for b := b0; b < b1 && f.runs[b].start%f.width <= from+x.length; b++ {
			if class == f.classes[f.runs[b].start] {
				p, q := find(f.parent, int32(a)), find(f.parent, int32(b))
				p, q = min(p, q), max(p, q)
				f.parent[q] = p
				if p != q && f.united != nil {
					f.united(p, q)
				}
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
