package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file: masks, put together into one label map.

// spellingHint says how to choose one of two structures whose names differ in spelling only.
func spellingHint(a, b string) string {
	if a == b {
		return ""
	}
	return fmt.Sprintf(", or choose: --structures '%s' takes that spelling alone", a)
}

// layer is a mask and its voxels.
type layer struct {
	mask   Mask
	labels *volume.LabelMap
}

// same reports whether another mask has the same voxels, whatever number they have.
func (a layer) same(l *volume.LabelMap) bool {
	const rounding = 1e-2 // mm
	return a.labels.Same(l.Grid, rounding) &&
		slices.EqualFunc(a.labels.Labels, l.Labels, func(x, y uint16) bool { return x > 0 == (y > 0) })
}

// layers are masks that are put together into one label map.
type layers struct {
	labels  *volume.LabelMap
	names   map[uint16]string
	overlap map[[2]uint16]int // voxels that two of them share
	rule    dicom.Overlap     // who has these
	drawn   map[uint16]bool   // labels that have voxels
	scan    *volume.Grid      // nil: not known
	placed  bool              // on the scan
	notes   []string
}

// add lays a mask over those before it.
func (a *layers) add(m Mask, l *volume.LabelMap) error {
	if a.labels == nil {
		a.labels = &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len()), Names: map[uint16]string{}}
		a.names, a.overlap, a.drawn = map[uint16]string{}, map[[2]uint16]int{}, map[uint16]bool{}
	}
	const rounding = 1e-2 // mm
	if !a.labels.Same(l.Grid, rounding) && a.scan != nil {
		l = a.place(m, l)
	}
	if !a.labels.Same(l.Grid, rounding) {
		return fmt.Errorf("%s: lies on other voxels than the masks before it: %w", m.Path,
			&volume.GeometryError{Image: a.labels.Grid, Labels: l.Grid})
	}
	a.labels.Names[m.Label], a.names[m.Label] = m.Name, m.Name
	for n, inside := range l.Labels {
		if inside == 0 {
			continue
		}
		a.drawn[m.Label] = true
		if before := a.labels.Labels[n]; before != 0 && before != m.Label {
			a.overlap[[2]uint16{min(before, m.Label), max(before, m.Label)}]++
			if a.rank(before) < a.rank(m.Label) {
				continue
			}
		}
		a.labels.Labels[n] = m.Label
	}
	return nil
}

// place brings masks onto the scan, those before it and this one, where all lie on its voxels.
func (a *layers) place(m Mask, l *volume.LabelMap) *volume.LabelMap {
	before, lostBefore := a.labels.Place(*a.scan)
	one, lost := l.Place(*a.scan)
	if before == nil || one == nil {
		return l
	}
	if a.labels = before; !a.placed {
		a.placed = true
		a.notes = append(a.notes, "masks lie on different parts of the scan's voxels: the rest of each is background")
	}
	for _, n := range []int{lostBefore, lost} {
		if n > 0 {
			a.notes = append(a.notes, fmt.Sprintf("WARNING: %s: labels reach beyond the scan: %s there left out",
				filepath.Base(m.Path), numbers.Count(n, "labelled voxel")))
		}
	}
	return one
}

// rank is the place of a label in the order of those that share voxels.
func (a *layers) rank(label uint16) int { return a.rule.Rank(int(label), a.names[label]) }

// done is the label map. Voxels of several masks are an error, unless the rule says whose they are.
func (a *layers) done(o ReadOptions) (*volume.LabelMap, []string, error) {
	if len(a.overlap) == 0 {
		return a.labels, a.notes, nil
	}
	a.labels.Emptied = volume.EmptiedOf(a.drawn, a.labels.Labels)
	undecided := func(pair [2]uint16) bool { return a.rank(pair[0]) == a.rank(pair[1]) }
	refused := false
	for pair := range a.overlap {
		refused = refused || undecided(pair)
	}
	if refused {
		maps.DeleteFunc(a.overlap, func(pair [2]uint16, _ int) bool { return !undecided(pair) })
	}
	var shared []string
	for _, pair := range slices.SortedFunc(maps.Keys(a.overlap), func(x, y [2]uint16) int {
		return cmp.Or(a.overlap[y]-a.overlap[x], slices.Compare(x[:], y[:]))
	}) {
		shared = append(shared, fmt.Sprintf("%s and %s (%s)", a.names[pair[0]], a.names[pair[1]],
			numbers.Count(a.overlap[pair], "voxel")))
	}
	const most = 4
	if more := len(shared) - most; more > 1 {
		shared = append(shared[:most], fmt.Sprintf("and %d more pairs", more))
	}
	text := "structures overlap: " + strings.Join(shared, ", ")
	if refused {
		return nil, nil,
			fmt.Errorf("%s: --segment-overlap last gives these voxels to the label with the higher number, "+
				"order:NAME,NAME to the first that is named, --structures leaves structures out", text)
	}
	return a.labels, append(a.notes, text+": "+a.rule.Words()), nil
}
