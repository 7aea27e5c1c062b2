package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
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

// OfOtherScan says why two label maps are of different scans, as far as they tell: predictions of
// this program say of which files they are, DICOM objects of which series. "" where they are of
// one, or where nothing tells.
func (l Labels) OfOtherScan(o Labels) (why string) {
	a, b := provenance.ScanOf(l.Path), provenance.ScanOf(o.Path)
	switch {
	case a != "" && b != "" && a != b:
		return fmt.Sprintf("%s says that its scan is %.10s, %s that it is %.10s", l.Path, a, o.Path, b)
	case a != "" && b != "":
		return ""
	}
	one, other := l.refers(), o.refers()
	if one != "" && other != "" && one != other {
		return fmt.Sprintf("%s refers to the series %s, and %s to %s", l.Path, one, o.Path, other)
	}
	return ""
}

// refers is the only series that labels in DICOM were drawn on; "" where nothing tells.
func (l Labels) refers() string {
	if l.Path == "" || format.IsName(l.Path) {
		return ""
	}
	object, err := format.OpenObject(l.Path)
	if err != nil {
		return ""
	}
	return object.Refers()
}

// masks says whether the labels are a mask for each structure, which only names tell apart.
func (l Labels) masks() bool { return l.parts != nil && l.parts.Masks != nil }

// onlyNames says whether nothing but names tells what labels are: those of masks, and of contours
// of other programs, whose numbers are their own.
func (l Labels) onlyNames() bool {
	if l.parts != nil || format.IsName(l.Path) {
		return l.masks()
	}
	set, err := dicom.OpenStructureSet(l.Path)
	return err == nil && !provenance.Is([]byte(set.Description))
}

// A Reference is the label map of a case.
type Reference struct {
	Labels
	// what a label map of the case may be called, without its ending: the case's name, alone or
	// after that of its data set's folder, the name of its scan, of its labels, each without the
	// first channel, too, or of BIDS its scan of all contrasts
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
	called := map[string]bool{} // files that the name of a scan of all contrasts stands for
	for n := range d.Cases {
		c := &d.Cases[n]
		if c.Labels == "" {
			continue
		}
		r := Reference{Labels: Labels{Path: c.Labels, undrawn: c.undrawn}, Calls: c.calls(), Group: c.Group}
		if c.scan != "" && !called[c.Labels] && !slices.Contains(r.Calls, c.scan) {
			r.Calls, called[c.Labels] = append(r.Calls, c.scan), true
		}
		if !c.unnamed {
			r.Names = d.LabelNames
		}
		if c.Masks != nil || c.structures != nil || c.renumber != nil || c.ByIndex || hasVolumes(c.Labels) {
			r.parts = c
		}
		found = append(found, r)
	}
	return found
}

// hasVolumes says whether a file of voxels holds several volumes.
func hasVolumes(path string) bool {
	if !format.IsName(path) { // a SEG object has one
		return false
	}
	h, err := format.ReadHeader(path)
	return err == nil && h.Volumes > 1
}

// ScansNamed finds scans by the names that label maps of them may have: those of a folder that
// [Detect] knows, or, of a folder of label maps such as labelsTs, those of imagesTs beside it.
func ScansNamed(folder string, o Options) map[string]Case {
	if calledLabels(folder) {
		base := filepath.Base(filepath.Clean(folder))
		folder = filepath.Join(filepath.Dir(filepath.Clean(folder)), "images"+strings.TrimPrefix(base, "labels"))
	}
	d, err := detectNamed(folder, o)
	if err != nil {
		return nil
	}
	scans := map[string]Case{}
	for _, c := range d.Cases {
		for _, name := range c.calls() {
			scans[name] = c
		}
	}
	return scans
}

// MasksIn takes a folder for the labels of one case: a file for each structure, all on the same
// voxels and called after the structures, as TotalSegmentator writes them. It reports whether the
// folder holds two or more files and all are such masks.
func MasksIn(folder string) (l Labels, ok bool) {
	files, err := filesIn(folder)
	if err != nil || len(files) < 2 {
		return l, false
	}
	first, err := format.ReadHeader(files[0])
	if err != nil {
		return l, false
	}
	const rounding = 1e-2 // mm
	var masks []Mask
	for _, path := range files {
		if h, err := format.ReadHeader(path); err != nil || !h.Same(first.Grid, rounding) || !isMask(path) {
			return l, false
		}
		stem, _ := format.Stem(filepath.Base(path))
		masks = append(masks, Mask{Path: path, Name: stem})
	}
	d := Dataset{Root: folder, Cases: make([]Case, 1)}
	d.Cases[0].setMasks(masks)
	if d, err = d.numberMasks(Options{}); err != nil {
		return l, false
	}
	return Labels{Path: folder, Names: d.LabelNames, parts: &d.Cases[0]}, true
}

// calls are the names that a label map of the case may have; none comes twice.
func (c Case) calls() []string {
	all := []string{c.ID, c.name, c.nameWithFolder}
	if stem, ok := format.Stem(filepath.Base(c.Image)); ok {
		all = append(all, stem)
	}
	if stem, ok := format.Stem(filepath.Base(c.Labels)); ok && c.Masks == nil {
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
