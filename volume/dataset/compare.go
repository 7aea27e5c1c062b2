package dataset

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

// This file finds and reads label maps that are to be compared with others.

// Labels is a label map: a file, or what the labels of a case make.
type Labels struct {
	Path  string
	Names map[uint16]string // where the file has none itself

	// labels that nobody drew, which other cases of the data set have
	undrawn []uint16
	// labels of a case that are not one file of voxels, or not on the voxels that its header says
	parts *Case
}

// masks says whether the labels are a mask for each structure, which only names tell apart.
func (l Labels) masks() bool { return l.parts != nil && l.parts.Masks != nil }

// A Reference is the label map of a case.
type Reference struct {
	Labels
	// what a label map of the case may be called, without its ending: the case's name, alone or
	// after that of its data set's folder, the name of its scan, of its labels, each without the
	// first channel, too
	Calls []string
	Group string // "" or GroupTest
}

// References finds the label maps of a folder that [Detect] knows as a data set: labels beside
// their scans, or any other layout. It returns none for a folder of label maps alone.
func References(folder string, o Options) []Reference {
	if calledLabels(folder) {
		if files, err := filesIn(folder); err == nil && files != nil {
			return nil // labelsTr and the like
		}
	}
	o.PatientPerCase = true
	d, err := detectNamed(folder, o)
	if err != nil { // subjects may have several contrasts
		o.Contrast, o.everyContrast = ContrastAll, true
		d, err = detectNamed(folder, o)
	}
	if err != nil {
		return nil
	}
	var found []Reference
	for n := range d.Cases {
		c := &d.Cases[n]
		if c.Labels == "" {
			continue
		}
		r := Reference{Labels: Labels{Path: c.Labels, undrawn: c.undrawn}, Calls: c.calls(), Group: c.Group}
		if !c.unnamed {
			r.Names = d.LabelNames
		}
		if h, err := readFileHeader(c.Labels); c.Masks != nil || c.structures != nil || c.ByIndex || err == nil && h.volumes > 1 {
			r.parts = c
		}
		found = append(found, r)
	}
	return found
}

// MasksIn takes a folder for the labels of one case: a file for each structure, all on the same
// voxels and called after the structures, as TotalSegmentator writes them. It reports whether the
// folder holds two or more files and all are such masks.
func MasksIn(folder string) (l Labels, ok bool) {
	files, err := filesIn(folder)
	if err != nil || len(files) < 2 {
		return l, false
	}
	first, err := readFileHeader(files[0])
	if err != nil {
		return l, false
	}
	const rounding = 1e-2 // mm
	var masks []Mask
	for _, path := range files {
		if h, err := readFileHeader(path); err != nil || !h.Same(first.Grid, rounding) || !isMask(path) {
			return l, false
		}
		stem, _ := stemOf(filepath.Base(path))
		masks = append(masks, Mask{Path: path, Name: stem})
	}
	d := &Dataset{Root: folder, Cases: make([]Case, 1)}
	d.Cases[0].setMasks(masks)
	if err := d.numberMasks(); err != nil {
		return l, false
	}
	return Labels{Path: folder, Names: d.LabelNames, parts: &d.Cases[0]}, true
}

// calls are the names that a label map of the case may have; none comes twice.
func (c Case) calls() []string {
	all := []string{c.ID, c.name, c.nameWithFolder}
	if stem, ok := stemOf(filepath.Base(c.Image)); ok {
		all = append(all, stem)
	}
	if stem, ok := stemOf(filepath.Base(c.Labels)); ok && c.Masks == nil {
		all = append(all, stem)
	}
	for _, name := range slices.Clone(all) { // predict leaves out the channel
		all = append(all, firstChannel.ReplaceAllString(name, ""))
	}
	var once []string
	for _, name := range all {
		if name == "" {
			continue
		}
		if name = FileName(name); !slices.Contains(once, name) {
			once = append(once, name)
		}
	}
	return once
}

// NamesBeside reads the names of labels from the dataset.json of a folder of label maps, or the one
// that lies beside labelsTr and the like; nil for none.
func NamesBeside(path string) (map[uint16]string, error) {
	if stat, err := os.Stat(path); err == nil && !stat.IsDir() {
		path = filepath.Dir(path)
	}
	folders := []string{path}
	if strings.HasPrefix(strings.ToLower(baseName(path)), "labels") {
		folders = append(folders, filepath.Join(path, ".."))
	}
	for _, folder := range folders {
		d := &Dataset{}
		if err := d.readNames(folder); err != nil || d.LabelNames != nil {
			return d.LabelNames, err
		}
	}
	return nil, nil
}

// ReadPair reads a prediction and its reference onto one grid, as [ReadLabelPair] does. Where both
// name their labels and the prediction has other numbers for the reference's names, it gets the
// reference's numbers, and a note says so.
func ReadPair(prediction, reference Labels, scans *Scans, o ReadOptions) (p, r *volume.LabelMap, notes []string, err error) {
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
	if prediction.masks() && len(r.Names) == 0 {
		return nil, nil, nil, fmt.Errorf("%s: its labels have no names, and those of %s are masks with names (%s): a dataset.json beside it says what its numbers mean", reference.Path, prediction.Path, safetext.List(namesOf(prediction.Names)))
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
func readWithParts(of, other Labels, scans *Scans, o ReadOptions) (l, parts *volume.LabelMap, notes []string, err error) {
	if parts, notes, err = of.parts.readOwnLabels(o, of.Names); err != nil {
		return nil, nil, nil, fmt.Errorf("%s: %w", of.Path, err)
	}
	note := func(text string) { notes = append(notes, other.Path+": "+text) }
	switch {
	case other.parts != nil:
		var more []string
		l, more, err = other.parts.readOwnLabels(o, other.Names)
		notes = append(notes, more...)
	case isVoxels(other.Path):
		var more []string
		l, more, err = readLabelFile(other.Path, o, nil, note)
		notes = append(notes, more...)
	default:
		var g *dicom.Segmentation
		if g, err = dicom.OpenSegmentation(other.Path); err == nil {
			l, err = readOnGrid(g, parts.Grid, scans, o.dicom(note))
		}
	}
	return l, parts, notes, err
}

// readOwnLabels reads a case's labels, with its scan where they depend on it.
func (c Case) readOwnLabels(o ReadOptions, names map[uint16]string) (*volume.LabelMap, []string, error) {
	if c.structures != nil || c.ByIndex || c.onParts() {
		_, l, notes, err := c.Read(o, names)
		return l, notes, err
	}
	return c.readLabels(o, names, nil)
}

// onParts reports whether masks lie on different voxels, so that the scan tells where.
func (c Case) onParts() bool {
	if len(c.Masks) < 2 {
		return false
	}
	const rounding = 1e-2 // mm
	first, err := readFileHeader(c.Masks[0].Path)
	return err == nil && slices.ContainsFunc(c.Masks[1:], func(m Mask) bool {
		h, err := readFileHeader(m.Path)
		return err == nil && !h.Same(first.Grid, rounding)
	})
}

// byNames gives the labels of a prediction the numbers that a reference has for their names. If the
// two have names in common, a label whose name the reference does not know is left out, whatever
// its number means there; that does not depend on which labels a case happens to have. If they have
// none in common, numbers count, which is said. The numbers of masks are this program's: there,
// only names count.
func byNames(p, r *volume.LabelMap, reference Labels) (note string, err error) {
	masks, known := reference.masks(), r.Names
	numbers := map[string]uint16{}
	for _, label := range slices.Backward(slices.Sorted(maps.Keys(known))) {
		numbers[safetext.Fold(known[label])] = label
	}
	common := masks
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
		case name == "" && masks:
			return "", fmt.Errorf("its masks have names (%s), and label %d of the prediction has none: nothing says which of them it is", safetext.List(namesOf(known)), label)
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
		return fmt.Sprintf("compared by number, because no label has a name that %s knows: %s", reference.Path, strings.Join(clashes, ", ")), nil
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

// namesOf lists names in the order of their labels.
func namesOf(names map[uint16]string) (list []string) {
	for _, label := range slices.Sorted(maps.Keys(names)) {
		list = append(list, names[label])
	}
	return list
}
