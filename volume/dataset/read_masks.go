package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file reads labels that come one by one: a file for each structure, such as those of
// TotalSegmentator, or a volume for each in one file.

// A Mask is the voxels of one structure: those of a file that are not 0.
type Mask struct {
	Path string
	Name string // of the structure
	// Label is its number in the label map. [Detect] gives one number to a name in all cases.
	Label uint16
	at    int // place among the structures of a set
}

// setMasks gives a case its masks, in the order of their names.
func (c *Case) setMasks(masks []Mask) {
	c.Masks = slices.SortedStableFunc(slices.Values(masks), func(a, b Mask) int { return compareNatural(a.Name, b.Name) })
	c.Labels, c.segmentation, c.structures = c.Masks[0].Path, nil, nil
	if folder := commonFolder(maskPaths(c.Masks)); len(masks) > 1 {
		c.Labels = folder
	}
}

// maskPaths lists the files, each once.
func maskPaths(masks []Mask) (paths []string) {
	for _, m := range masks {
		if !slices.Contains(paths, m.Path) {
			paths = append(paths, m.Path)
		}
	}
	return paths
}

// withoutLabels takes a case's labels away.
func (c *Case) withoutLabels() {
	c.Labels, c.Masks, c.segmentation, c.structures = "", nil, nil, nil
}

// numberMasks gives each name of a structure one number in all cases: the one that the data set has
// for it, or the next that is free, in the order of the names.
func (d *Dataset) numberMasks() error {
	numbers := map[string]uint16{}
	var next uint16
	for _, label := range slices.Sorted(maps.Keys(d.LabelNames)) {
		if name := safetext.Fold(d.LabelNames[label]); numbers[name] == 0 {
			numbers[name] = label
		}
		next = label
	}
	var names []string
	for _, c := range d.Cases {
		for _, m := range c.Masks {
			if numbers[safetext.Fold(m.Name)] == 0 && !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	slices.SortFunc(names, compareNatural)
	for _, name := range names {
		if numbers[safetext.Fold(name)] != 0 {
			continue // another spelling of it came before
		}
		if next++; next == 0 {
			return fmt.Errorf("%s: more than 65535 structures", d.Root)
		}
		numbers[safetext.Fold(name)] = next
		d.nameLabel(next, name)
	}
	for _, c := range d.Cases {
		for n := range c.Masks {
			c.Masks[n].Label = numbers[safetext.Fold(c.Masks[n].Name)]
		}
	}
	return nil
}

// readMasks reads the case's masks onto the voxels of its scan, or on the voxels that they share.
// Masks that lie on different parts of the scan's voxels are placed on it, where it is known.
func (c Case) readMasks(o ReadOptions, scan *volume.Grid) (*volume.LabelMap, []string, error) {
	all := layers{scan: scan, rule: o.Overlap}
	if o.LabelsBy == LabelsByIndex {
		all.scan = nil
	}
	first := map[uint16]layer{}
	for n, m := range c.Masks {
		l, err := readFileLabels(m.Path, o.nifti(0, nil))
		if err != nil {
			return nil, nil, err
		}
		if values := l.Counts(); len(values) > 2 || len(values) == 2 && values[0] == 0 {
			return nil, nil, &volume.FormatError{Path: m.Path, Problem: fmt.Sprintf("is to be the mask of %s alone, but holds %d different labels", m.Name, len(values)-1)}
		}
		if before, known := first[m.Label]; known {
			if !before.same(l) {
				return nil, nil, fmt.Errorf("%s and %s are both %s by their names, and have different voxels: rename or remove one of them%s", before.mask.Path, m.Path, m.Name, spellingHint(before.mask.Name, m.Name))
			}
			continue
		}
		if slices.ContainsFunc(c.Masks[n+1:], func(o Mask) bool { return o.Label == m.Label }) {
			first[m.Label] = layer{m, l}
		}
		if err := all.add(m, l); err != nil {
			return nil, nil, err
		}
	}
	return all.done(o)
}

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
	return a.labels.Same(l.Grid, rounding) && slices.EqualFunc(a.labels.Labels, l.Labels, func(x, y uint16) bool { return x > 0 == (y > 0) })
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
		return fmt.Errorf("%s: lies on other voxels than the masks before it: %w", m.Path, &volume.GeometryError{Image: a.labels.Grid, Labels: l.Grid})
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
			a.notes = append(a.notes, fmt.Sprintf("WARNING: %s: labels reach beyond the scan: %s there left out", filepath.Base(m.Path), numbers.Count(n, "labelled voxel")))
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
		shared = append(shared, fmt.Sprintf("%s and %s (%s)", a.names[pair[0]], a.names[pair[1]], numbers.Count(a.overlap[pair], "voxel")))
	}
	const most = 4
	if more := len(shared) - most; more > 1 {
		shared = append(shared[:most], fmt.Sprintf("and %d more pairs", more))
	}
	text := "structures overlap: " + strings.Join(shared, ", ")
	if refused {
		return nil, nil, fmt.Errorf("%s: --segment-overlap last gives these voxels to the label with the higher number, order:NAME,NAME to the first that is named, --structures leaves structures out", text)
	}
	return a.labels, append(a.notes, text+": "+a.rule.Words()), nil
}

// checkVolumes compares the grid of labels that are a volume each with that of their scan, before
// the volumes are compared with one another. In a file whose first axis counts the labels, they are
// slices of the patient, which overlap.
func (c Case) checkVolumes(scan volume.Grid, o ReadOptions) error {
	if c.Masks != nil || o.LabelsBy == LabelsByIndex {
		return nil
	}
	h, err := readFileHeader(c.Labels)
	if err != nil || h.volumes < 2 { // what is wrong with it is said where it is read
		return nil
	}
	if _, err = scan.Match(h.Grid); err == nil {
		return nil
	}
	if len(h.dims) == 4 && slices.Equal(h.dims[1:], scan.Shape[:]) {
		return &volume.UnsupportedError{Path: c.Labels, Problem: fmt.Sprintf("has %v voxels and its scan %v: its first axis seems to count the labels, which must be the last one; numpy.moveaxis(array, 0, -1) moves it there",
			numbers.Extents(h.dims), numbers.Extents(scan.Shape[:]))}
	}
	if _, ok := scan.Shares(h.Grid); ok && h.Shape != scan.Shape {
		return nil
	}
	return refusedGrid(c.Labels, err, scan, h.Grid)
}

// readOneHot reads a file with a volume for each label. Where each voxel belongs to exactly one
// volume, the first is the background; otherwise the first is label 1.
func readOneHot(path string, o ReadOptions, names map[uint16]string, note func(string)) (
	*volume.LabelMap, []string, error) {
	volumes, err := readFileAll(path, o.nifti(0, note))
	if err != nil {
		return nil, nil, err
	}
	sum := make([]uint16, volumes[0].Len())
	masks := make([]*volume.LabelMap, len(volumes))
	for n, v := range volumes {
		l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
		for i := range l.Labels {
			x := v.At(i%v.Shape[0], i/v.Shape[0]%v.Shape[1], i/v.Shape[0]/v.Shape[1])
			inside, ok := volume.ToLabel(float64(x))
			if !ok || inside > 1 {
				return nil, nil, &volume.UnsupportedError{Path: path, Problem: fmt.Sprintf("holds %d volumes, and %g: labels are one volume of numbers, or a volume of 0 and 1 for each label", len(volumes), x)}
			}
			l.Labels[i] = inside
			sum[i] += inside
		}
		masks[n] = l
	}
	first, background := uint16(1), ""
	if !slices.ContainsFunc(sum, func(n uint16) bool { return n != 1 }) {
		first, background = 0, ", the first of them the background"
	}
	all := layers{rule: o.Overlap}
	for n, l := range masks {
		label := first + uint16(n)
		name := names[label]
		if name == "" {
			name = fmt.Sprintf("volume %d", n+1)
		}
		if err := all.add(Mask{Path: path, Name: name, Label: label}, l); err != nil {
			return nil, nil, err
		}
	}
	l, notes, err := all.done(o)
	if err != nil {
		return nil, nil, err
	}
	l.Names = maps.Clone(names)
	return l, append(notes, fmt.Sprintf("%s: %s of one label each%s",
		filepath.Base(path), numbers.Count(len(volumes), "volume"), background)), nil
}

// readSegments reads a segmentation of 3D Slicer whose segments lie in several layers. Every value
// of a layer must be a segment's.
func readSegments(path string, h fileHeader, o ReadOptions, note func(string)) (*volume.LabelMap, []string, error) {
	all := layers{rule: o.Overlap}
	for layer := range h.volumes {
		l, err := readFileLabels(path, o.nifti(layer+1, note))
		if err != nil {
			return nil, nil, err
		}
		counts := l.Counts()
		delete(counts, 0)
		for _, s := range h.segments {
			if s.Layer != layer {
				continue
			}
			mask := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
			for n, value := range l.Labels {
				if value == s.Value {
					mask.Labels[n] = 1
				}
			}
			delete(counts, s.Value)
			name := s.Name
			if name == "" {
				name = fmt.Sprintf("label %d", s.Label)
			}
			if err := all.add(Mask{Path: path, Name: name, Label: s.Label}, mask); err != nil {
				return nil, nil, err
			}
		}
		if strange := slices.Sorted(maps.Keys(counts)); len(strange) > 0 {
			return nil, nil, &volume.FormatError{Path: path, Problem: fmt.Sprintf("holds %d in its layer %d (%s), "+
				"which is the LabelValue of no segment there: save it again with 3D Slicer",
				strange[0], layer, numbers.Count(counts[strange[0]], "voxel"))}
		}
	}
	l, notes, err := all.done(o)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	l.Names = maps.Clone(h.names)
	return l, append(notes, fmt.Sprintf("%s: %s in %d layers",
		filepath.Base(path), numbers.Count(len(h.segments), "segment"), h.volumes)), nil
}
