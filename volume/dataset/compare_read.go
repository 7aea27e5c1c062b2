package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: two label maps that are to be compared, on one grid.

// ReadPair reads a prediction and its reference onto one grid, as [ReadLabelPair] does. Where both
// name their labels and the prediction has other numbers for the reference's names, it gets the
// reference's numbers, and a note says so.
func ReadPair(prediction, reference Labels, scans *Scans, o ReadOptions) (p, r *volume.LabelMap, notes []string,
	err error) {
	switch {
	case prediction.parts == nil && reference.parts == nil:
		p, r, notes, err = ReadLabelPair(prediction.Path, reference.Path, scans, o)
	case reference.parts == nil:
		r, p, notes, err = readWithParts(prediction, reference, scans, o)
	default:
		p, r, notes, err = readWithParts(reference, prediction, scans, o)
	}
	if err != nil {
		return nil, nil, nil, err
	}
	for _, one := range []struct {
		l     *volume.LabelMap
		names map[uint16]string
	}{{p, prediction.Names}, {r, reference.Names}} {
		if one.l.Names == nil {
			one.l.Names = maps.Clone(one.names)
		}
	}
	if reference.masks() { // a case may lack some
		r.Names = maps.Clone(reference.Names)
	}
	if prediction.onlyNames() && len(r.Names) == 0 {
		return nil, nil, nil,
			fmt.Errorf("%s: its labels have no names, and those of %s are structures with names (%s): "+
				"a dataset.json beside it says what its numbers mean", reference.Path, prediction.Path,
				safetext.List(namesOf(p.Names)))
	}
	for _, label := range reference.undrawn {
		if !slices.Contains(r.Labels, label) {
			r.Undrawn = append(r.Undrawn, label)
		}
	}
	slices.Sort(r.Undrawn)
	r.Undrawn = slices.Compact(r.Undrawn)
	p, r, placed := alike(p, r, o)
	if placed != "" {
		notes = append(notes, reference.Path+": "+placed)
	}
	note, err := byNames(p, r, reference)
	if err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", reference.Path, err)
	}
	if note != "" {
		notes = append(notes, prediction.Path+": "+note)
	}
	return p, r, notes, nil
}

// readWithParts reads the labels of a case, and another label map.
func readWithParts(of, other Labels, scans *Scans, o ReadOptions) (l, parts *volume.LabelMap, notes []string,
	err error) {
	if parts, notes, err = of.parts.readOwnLabels(o, of.Names); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", of.Path, err)
	}
	note := func(text string) { notes = append(notes, other.Path+": "+text) }
	switch {
	case other.parts != nil:
		var more []string
		l, more, err = other.parts.readOwnLabels(o, other.Names)
		notes = append(notes, more...)
	case format.IsName(other.Path):
		var more []string
		l, more, err = readLabelFile(other.Path, o, nil, note)
		notes = append(notes, more...)
	default:
		var g format.Object
		if g, err = format.OpenObject(other.Path); err == nil {
			l, err = readOnGrid(g, parts.Grid, cmp.Or(scans, of.parts.ownScan()), o.dicom(note))
		}
	}
	return l, parts, notes, err
}

// ownScan is the series of a case whose labels are contours; nil for any other.
func (c Case) ownScan() *Scans {
	if c.structures == nil {
		return nil
	}
	return &Scans{c.Image, func() ([]*dicom.Series, error) {
		s, err := c.DICOM()
		return []*dicom.Series{s}, err
	}}
}

// readOwnLabels reads a case's labels, with its scan where they depend on it.
func (c Case) readOwnLabels(o ReadOptions, names map[uint16]string) (*volume.LabelMap, []string, error) {
	if c.structures != nil || c.objects != nil || c.renumber != nil || c.ByIndex || c.onParts() {
		_, l, notes, err := c.readNumbered(o, names) // who compares asks OfOtherScan
		return l, notes, err
	}
	return c.readLabels(o, names, nil)
}

// onParts reports whether masks lie on different voxels, so that the scan tells where.
func (c Case) onParts() bool {
	if len(c.Masks) < 2 || c.structures != nil {
		return false
	}
	const rounding = 1e-2 // mm
	first, err := format.ReadHeader(c.Masks[0].Path)
	return err == nil && slices.ContainsFunc(c.Masks[1:], func(m Mask) bool {
		h, err := format.ReadHeader(m.Path)
		return err == nil && !h.Same(first.Grid, rounding)
	})
}

// byNames gives the labels of a prediction the numbers that a reference has for their names. If the
// two have names in common, a label whose name the reference does not know is left out, whatever
// its number means there; that does not depend on which labels a case happens to have. If they have
// none in common, numbers count, with a note. The numbers of masks are this program's, those of
// contours the one's that wrote them: there, only names count.
func byNames(p, r *volume.LabelMap, reference Labels) (note string, err error) {
	onlyNames, known := reference.onlyNames(), r.Names
	numbers := map[string]uint16{}
	for _, label := range slices.Backward(slices.Sorted(maps.Keys(known))) {
		numbers[safetext.Fold(known[label])] = label
	}
	common := onlyNames
	for label, name := range p.Names {
		common = common || label > 0 && numbers[safetext.Fold(name)] > 0
	}
	table := map[uint16]uint16{}
	var changes, clashes []string
	for _, label := range slices.Sorted(maps.Keys(p.Counts())) {
		name := p.Names[label]
		to := numbers[safetext.Fold(name)]
		switch {
		case label == 0 || to == label && name != "":
		case name == "" && onlyNames:
			return "", fmt.Errorf("its structures have names (%s), and label %d of the prediction has none: "+
				"nothing says which of them it is", safetext.List(namesOf(known)), label)
		case name == "": // its number is all there is
		case to > 0:
			table[label], changes = to, append(changes, fmt.Sprintf("%s %d to %d", name, label, to))
		case common:
			table[label], changes = 0, append(changes, fmt.Sprintf("%s left out, because no reference has it", name))
		case known[label] != "":
			clashes = append(clashes, fmt.Sprintf("label %d is %q here and %q there", label, name, known[label]))
		}
	}
	if len(clashes) > 0 {
		return fmt.Sprintf("compared by number, because no label has a name that %s knows: %s", reference.Path,
			strings.Join(clashes, ", ")), nil
	}
	if len(table) == 0 {
		return "", nil
	}
	for n, label := range p.Labels {
		if to, moved := table[label]; moved {
			p.Labels[n] = to
		}
	}
	p.Names = known
	return "labels go by their names: " + strings.Join(changes, ", "), nil
}

// Scans is the DICOM series below a folder, which are found when they are first needed.
type Scans struct {
	folder string
	find   func() ([]*dicom.Series, error)
}

// ScansIn returns the series below a folder.
func ScansIn(folder string) *Scans {
	return &Scans{folder, sync.OnceValues(func() ([]*dicom.Series, error) {
		series, _, err := scanDICOM(folder)
		return series, err
	})}
}

// readOn reads an object onto the series that it refers to.
func (s *Scans) readOn(g format.Object, o dicom.Options) (*volume.LabelMap, error) {
	all, err := s.find()
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: there is no DICOM series in %s, on which its labels lie%s", g.Path, s.folder,
			g.DrawnOn())
	}
	series := g.Find(all)
	if series == nil {
		if len(g.Candidates(all)) > 1 {
			return nil, fmt.Errorf("%s: %s", g.Path, g.NotFound(all))
		}
		return nil, fmt.Errorf("%s refers to none of the series in %s%s", g.Path, s.folder, g.DrawnOn())
	}
	return g.ReadOn(series, o)
}

// ReadLabelPair reads two files of labels that are to be compared. A DICOM SEG object stores no
// empty slices, and an RT structure set no voxels, so it is read onto the grid of the series that
// it refers to, which must be among the scans. Compared with a NIfTI file, a SEG object is read
// onto that file's grid if scans is nil or the series has another grid.
func ReadLabelPair(a, b string, scans *Scans, o ReadOptions) (la, lb *volume.LabelMap, notes []string, err error) {
	if format.IsName(b) && !format.IsName(a) {
		lb, la, notes, err = ReadLabelPair(b, a, scans, o)
		return la, lb, notes, err
	}
	read := func(path string, like *volume.Grid) (*volume.LabelMap, error) {
		note := func(text string) { notes = append(notes, path+": "+text) }
		if format.IsName(path) {
			l, more, err := readLabelFile(path, o, nil, note)
			notes = append(notes, more...)
			return l, err
		}
		g, err := format.OpenObject(path)
		if err != nil {
			return nil, err
		}
		if like == nil {
			if scans == nil {
				return nil, noScans(g)
			}
			return scans.readOn(g, o.dicom(note))
		}
		return readOnGrid(g, *like, scans, o.dicom(note))
	}
	if la, err = read(a, nil); err != nil {
		return nil, nil, nil, err
	}
	if format.IsName(a) {
		lb, err = read(b, &la.Grid)
	} else {
		lb, err = read(b, nil)
	}
	return la, lb, notes, err
}

// ErrNoScans says that a folder of scans is needed, and was not given.
var ErrNoScans = errors.New("where these are is not said")

func noScans(g format.Object) error {
	return fmt.Errorf("%s %s: it is compared on the series that it refers to: %w", g.Path, g.Without(), ErrNoScans)
}

// readOnGrid reads an object onto a grid: that of its series, as it was straightened or resampled,
// or, a SEG object, any other whose voxels are its pixels.
func readOnGrid(g format.Object, grid volume.Grid, scans *Scans, o dicom.Options) (*volume.LabelMap, error) {
	if scans == nil && g.Structures != nil {
		return nil, noScans(g)
	}
	if scans != nil {
		l, err := scans.readOn(g, o)
		if err != nil {
			return nil, err
		}
		const rounding = 0.05 // voxels
		if exact, err := grid.Match(l.Grid); err == nil && exact && grid.Misalignment(l.Grid) < rounding {
			return l.Orient(grid.Axcodes())
		}
		if g.Structures != nil { // contours are on no other voxels
			return l, nil
		}
	}
	l, err := g.Segmentation.ReadOnGrid(grid, o)
	if errors.Is(err, dicom.ErrOffGrid) && scans == nil {
		return nil, fmt.Errorf("%w. If slices of its series were moved or resampled (--tilt, "+
			"--gaps), the scans tell where it belongs: %w", err, ErrNoScans)
	}
	return l, err
}

// alike brings a prediction and its reference onto one grid, where one of them lies on a part of
// the other's voxels, or where they go by index. The note says what was done; "" is nothing.
func alike(p, r *volume.LabelMap, o ReadOptions) (*volume.LabelMap, *volume.LabelMap, string) {
	const rounding = 1e-2 // mm
	if p.Same(r.Grid, rounding) {
		return p, r, ""
	}
	if o.LabelsBy == LabelsByIndex && p.Shape == r.Shape {
		return p, &volume.LabelMap{Grid: p.Grid, Labels: r.Labels, Names: r.Names, Undrawn: r.Undrawn,
			Emptied: r.Emptied}, "compared by index (--labels-by index), whatever its header says"
	}
	if beyond, ok := p.Shares(r.Grid); ok && !beyond && r.Len() < p.Len() {
		placed, _ := r.Place(p.Grid)
		return p, placed, onPart(p.Grid, r.Grid)
	}
	if beyond, ok := r.Shares(p.Grid); ok && !beyond && p.Len() < r.Len() {
		placed, _ := p.Place(r.Grid)
		return placed, r, "prediction: " + onPart(r.Grid, p.Grid)
	}
	return p, r, ""
}

// PairMemory is the bytes that reading and comparing two label maps takes, at most, beside the
// distances from their surfaces; of files that have to be read to tell, nothing.
func PairMemory(prediction, reference Labels) (need int64) {
	for _, l := range []Labels{prediction, reference} {
		paths := []string{l.Path}
		if l.parts != nil {
			need += l.parts.reading()
			paths = maskPaths(l.parts.Masks)
		}
		for _, path := range paths {
			if !format.IsName(path) {
				continue
			}
			if h, err := format.ReadHeader(path); err == nil {
				// as they are read, and again without what is not to be scored
				need += 2*labelBytes*int64(h.Len()) + labelsAtOnce(h) - labelBytes*int64(h.Len())
				break // the others take turns
			}
		}
	}
	return need
}
