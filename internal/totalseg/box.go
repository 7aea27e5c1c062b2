package totalseg

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: tasks that look at a box around organs alone.

// openRough opens the models that find the organs of the box.
func (s *Set) openRough() error {
	at := slices.IndexFunc(tasks, func(t Task) bool { return t.Name == s.Box.Task })
	all := found(s.Folder)
	for _, number := range tasks[at].Parts {
		if !all[number] {
			return fmt.Errorf("task %s looks for organs first with the models of task %s, and %s is not in %s: "+
				"download it with TotalSegmentator, as it does by itself when it runs the task", s.Name, s.Box.Task,
				folderOf(number), s.Folder)
		}
	}
	var err error
	if s.rough, err = Open(s.Folder, s.Box.Task, nil); err != nil {
		return err
	}
	for _, organ := range slices.Concat(s.Box.Organs, s.Box.Near) {
		if _, ok := s.rough.labelOf(organ); !ok {
			return fmt.Errorf("the model of task %s in %s has no class %s, around which task %s looks", s.Box.Task,
				s.Folder, organ, s.Name)
		}
	}
	return nil
}

// labelOf is the label of a class by its name.
func (s *Set) labelOf(name string) (uint16, bool) {
	for label, called := range s.Names() {
		if called == name {
			return label, true
		}
	}
	return 0, false
}

// chosen says of each label whether it is one of the organs.
func (s *Set) chosen(organs []string) []bool {
	is := make([]bool, math.MaxUint16+1)
	for _, organ := range organs {
		label, _ := s.labelOf(organ)
		is[label] = true
	}
	return is
}

// roughIn is the model that finds the organs, with the memory that is left for it beside the scan.
func (m *Model) roughIn(g volume.Grid, voxelBytes int) *Model {
	r := *m.rough
	if r.memory > 0 {
		r.memory = max(r.memory-int64(voxelBytes)*int64(g.Len()), 1)
	}
	return &r
}

// inBox predicts what lies in the box alone. Where there is none of its organs, the label map is
// empty, with a note.
func (m *Model) inBox(ctx context.Context, scan *volume.Volume) (*volume.LabelMap, error) {
	own := scan.Grid
	voxelBytes := 2
	if scan.Float32 != nil {
		voxelBytes = 4
	}
	again := *scan // its voxels are used up below
	r := m.roughIn(own, voxelBytes)
	r.Watch(m.progress, m.note)
	rough, _, err := r.Predict(ctx, []*volume.Volume{&again}, segment.MapOptions{})
	if err != nil {
		return nil, fmt.Errorf("task %s, which finds the box: %w", m.Box.Task, err)
	}
	empty := func() *volume.LabelMap {
		return &volume.LabelMap{Grid: own, Labels: make([]uint16, own.Len()), Names: m.Names()}
	}
	from, size := boxAround(rough, m.rough.chosen(m.Box.Organs), m.Box.Margin)
	switch none := size == [3]int{}; {
	case none && m.finds: // as TotalSegmentator does within another task
		size = own.Shape
	case none:
		if m.note != nil {
			m.note(fmt.Sprintf("task %s finds no %s: the label map is empty", m.Box.Task, safetext.List(m.Box.Organs)))
		}
		return empty(), nil
	}
	part, err := scan.Crop(from, size, 0)
	if err != nil {
		return nil, err
	}
	scan.Int16, scan.Float32 = nil, nil
	for n, x := range part.Float32 { // TotalSegmentator stores the box as whole numbers
		part.Float32[n] = float32(math.Trunc(float64(x)))
	}
	inside := *m
	if inside.memory > 0 { // what was found first, and the whole label map
		inside.memory = max(inside.memory-4*int64(own.Len()), 1)
	}
	if m.Box.Near == nil {
		rough = nil
	}
	if err := inside.fits(part.Grid, voxelBytes); err != nil {
		return nil, fmt.Errorf("the box of %s voxels around %s: %w", numbers.Extents(size[:]),
			safetext.List(m.Box.Organs), err)
	}
	in, err := inside.whole(ctx, part)
	if err != nil {
		return nil, err
	}
	l := empty()
	for k := range size[2] {
		for j := range size[1] {
			copy(l.Labels[l.Index(from[0], from[1]+j, from[2]+k):][:size[0]], in.Labels[in.Index(0, j, k):])
		}
	}
	if m.Box.Near != nil {
		spacing := own.Spacing()
		// in float32, as numpy has it
		mean := (float32(spacing[0]) + float32(spacing[1]) + float32(spacing[2])) / 3
		keepNear(l, rough, m.rough.chosen(m.Box.Near), int(float32(m.Box.Reach)/mean))
	}
	return l, nil
}

// boxAround is the box of voxels around labels, with a margin in mm. Its size is 0 where there is
// no such voxel.
func boxAround(l *volume.LabelMap, is []bool, margin float64) (from, size [3]int) {
	low, high := l.Shape, [3]int{-1, -1, -1}
	n := 0
	for k := range l.Shape[2] {
		for j := range l.Shape[1] {
			for i := range l.Shape[0] {
				if is[l.Labels[n]] {
					for a, x := range [3]int{i, j, k} {
						low[a], high[a] = min(low[a], x), max(high[a], x)
					}
				}
				n++
			}
		}
	}
	if high[0] < 0 {
		return from, size
	}
	for a, s := range l.Spacing() {
		voxels := int(margin / float64(float32(s))) // spacings of files are float32
		from[a] = max(low[a]-voxels, 0)
		size[a] = min(high[a]+1+voxels, l.Shape[a]) - from[a]
	}
	return from, size
}

// keepNear takes labels away that are more than so many steps from voxel to voxel, through faces,
// from what was found of some organs: scipy's binary_dilation of so many iterations. Of 0 it makes
// as many as change something.
func keepNear(l, found *volume.LabelMap, is []bool, steps int) {
	near := make([]bool, l.Len())
	var border []int
	for n, label := range found.Labels {
		if is[label] {
			near[n] = true
			border = append(border, n)
		}
	}
	for step := 0; len(border) > 0 && (step < steps || steps < 1); step++ {
		var next []int
		for _, n := range border {
			eachNeighbour(l.Shape, n, func(at int) {
				if !near[at] {
					near[at] = true
					next = append(next, at)
				}
			})
		}
		border = next
	}
	for n := range l.Labels {
		if !near[n] {
			l.Labels[n] = 0
		}
	}
}

// eachNeighbour calls f for the voxels that share a face with voxel n.
func eachNeighbour(shape [3]int, n int, f func(at int)) {
	step := 1
	rest := n
	for _, extent := range shape {
		x := rest % extent
		if x > 0 {
			f(n - step)
		}
		if x < extent-1 {
			f(n + step)
		}
		rest /= extent
		step *= extent
	}
}

// cleanBody keeps of the trunk, label 1, the largest component, and of the extremities, label 2,
// those of more than 50 ml. Voxels are connected through faces.
func cleanBody(l *volume.LabelMap) {
	const smallest = 50000 // mm³
	voxel := 1.0
	for _, s := range l.Spacing() {
		voxel *= float64(float32(s))
	}
	var trunk []int32 // its largest component so far
	seen := make([]bool, l.Len())
	// scipy numbers components in this order, and the first of equals is taken
	for i := range l.Shape[0] {
		for j := range l.Shape[1] {
			for k := range l.Shape[2] {
				n := l.Index(i, j, k)
				label := l.Labels[n]
				if seen[n] || label == 0 {
					continue
				}
				part := []int32{int32(n)}
				seen[n] = true
				for next := 0; next < len(part); next++ {
					eachNeighbour(l.Shape, int(part[next]), func(at int) {
						if !seen[at] && l.Labels[at] == label {
							seen[at] = true
							part = append(part, int32(at))
						}
					})
				}
				switch {
				case label == 1 && len(part) > len(trunk):
					trunk, part = part, trunk
					fallthrough
				case label == 1, label == 2 && float64(len(part)) <= smallest/voxel:
					for _, at := range part {
						l.Labels[at] = 0
					}
				}
			}
		}
	}
}
