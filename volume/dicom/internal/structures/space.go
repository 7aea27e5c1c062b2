package structures

import (
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file says which structures are in another frame of reference than a scan. Coordinates of one
// frame of reference mean another place in the other. But files have been sent on with new UIDs in
// images alone, or in some of a set's elements: what the set itself says decides.

// spacesOfScan are the frames of reference of a scan's slices.
func spacesOfScan(s *stack.Stack) map[string]bool {
	spaces := map[string]bool{}
	for k := range s.Slices {
		if uid := s.Slices[k].Image.FrameOfRef; uid != "" {
			spaces[uid] = true
		}
	}
	return spaces
}

// elsewhere are the numbers of the structures whose frame of reference is neither that of the
// scan's slices nor that in which the set names the scan's series. Known are those where the set
// itself shows that this is another place: it has both, as items of
// ReferencedFrameOfReferenceSequence or as those of structures.
func (g *Set) elsewhere(s *stack.Stack) (elsewhere, known map[int]bool) {
	elsewhere, known = map[int]bool{}, map[int]bool{}
	home := spacesOfScan(s)
	for k := range s.Slices {
		for _, uid := range g.spacesOf[s.Slices[k].Image.Series] {
			home[uid] = true
		}
	}
	if len(home) == 0 {
		return elsewhere, known
	}
	drawnThere := slices.ContainsFunc(g.Structures, func(one Structure) bool { return home[one.Space] })
	namesBoth := slices.ContainsFunc(g.Space, func(uid string) bool { return home[uid] })
	for _, one := range g.Structures {
		if one.Space != "" && !home[one.Space] {
			elsewhere[one.Number] = true
			known[one.Number] = drawnThere || namesBoth && slices.Contains(g.Space, one.Space)
		}
	}
	return elsewhere, known
}

// doubtsAboutSpace says that nothing in the set is in the frame of reference of a scan.
func (g *Set) doubtsAboutSpace(s *stack.Stack) []string {
	scan, spaces := spacesOfScan(s), slices.Clone(g.Space)
	for _, one := range g.Structures {
		if one.Space != "" {
			spaces = append(spaces, one.Space)
		}
	}
	if len(scan) == 0 || len(spaces) == 0 || slices.ContainsFunc(spaces, func(uid string) bool { return scan[uid] }) {
		return nil
	}
	return []string{fmt.Sprintf("says another %s than series %s, which it "+
		"refers to: is it the series that was drawn on?",
		tag.FrameOfReferenceUID, s.Number)}
}

// doubtsAboutSlices says that the set names slices, and none of a scan's: it is found by the
// SeriesInstanceUID alone then. Copies of a series have its slices under new UIDs, and so may
// another scan have in the place of the one that was drawn on.
func (g *Set) doubtsAboutSlices(s *stack.Stack) []string {
	named := maps.Clone(g.Drawn)
	if named == nil {
		named = map[string]bool{}
	}
	maps.Copy(named, g.Listed)
	if len(named) == 0 || Holds(s, named) {
		return nil
	}
	return []string{fmt.Sprintf("WARNING: %s names %s, of which series %s has none: "+
		"the SeriesInstanceUID alone leads to this scan, no slice does; its contours are drawn where they lie", g.Path,
		numbers.Count(len(named), "slice"), s.Number)}
}
