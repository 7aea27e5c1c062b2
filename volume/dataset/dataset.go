// Package dataset finds the cases of a data set as it lies on disk, reads them, and divides them
// into folds and subsets.
//
// Start at [Detect], which knows the layouts of NIH Pancreas-CT, of the Medical Segmentation
// Decathlon and of nnU-Net, and otherwise takes any tree of NIfTI, NRRD and MetaImage files and
// DICOM series. [Folds], [Nested] and [ReadSplits] say which cases a run trains on and which it
// tests on. [Inspect] looks at files without preparing anything. Package prepare makes a store of
// the cases.
//
// The first word of a file's name is its room: choose, inspect, compare, fold, detect, layout,
// pair, find, read, case, dataset, name. A room calls only those that come after it, and no two
// files call each other; rooms_test.go checks both. Files of voxels are read by package format.
//
// It leaves out other formats.
package dataset

import (
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// The layouts that [Detect] knows.
const (
	LayoutNIH    = "nih"    // PANCREAS_00XX folders of DICOM (or files) and label00XX.nii.gz
	LayoutMSD    = "msd"    // imagesTr, labelsTr, imagesTs, dataset.json
	LayoutNNUNet = "nnunet" // the same, with files named CASE_0000.nii.gz
	// anything else: a tree of NIfTI files and DICOM series, labels paired by name
	LayoutScans = "scans"
)

// GroupTest marks cases that the data set itself holds back, such as MSD's imagesTs.
const GroupTest = "test"

// A Dataset is a folder of cases.
type Dataset struct {
	Root   string
	Layout string
	Cases  []Case // in the order of their numbers
	// Channels names those of each case, where a case has several
	Channels   []string
	LabelNames map[uint16]string
	// Series are the words that DICOM series were chosen by, see [Options]; "" where there are none
	Series string
	// how many patients there are, and how that is known, in a line; "" where nobody asked
	Told  string
	Notes []string // what disagrees, what is missing
	// what else lies there: DICOM files that are no images, localizers, damaged files
	PassedOver []string
	// files of labels that were seen and that no case has
	Unused []string
	// names of structures that labels have a file or a contour for, whether they are taken or not
	Structures []string
	// labels that files of cases give different names
	contradictions []string
	// names of labels that dataset.json and tables list, not those of cases' files
	listed map[uint16]string
	// labels that two folders give different names
	clashes []string
	// why numbers do not mean the same in all cases, though somebody says so
	permuted string
	// files that look like scans by their names and like labels by their values: no cases
	masks []string
	// predictions of this program, which are not used
	predicted []string
	said      bool // somebody says of what modality its cases are
	chosen    bool // they are of one
	several   bool // they are, or it is one, of several folders
	// labels that dataset.json makes part of a region, which has the name
	regions map[uint16]bool
}

// String says in a line what was found.
func (d *Dataset) String() string {
	labelled, test := 0, 0
	for _, c := range d.Cases {
		if c.Labels != "" {
			labelled++
		}
		if c.Group == GroupTest {
			test++
		}
	}
	return fmt.Sprintf("%s: layout %s, %s, %d with labels, %d held back for testing", d.Root, d.Layout,
		numbers.Count(len(d.Cases), "case"), labelled, test)
}

// Case returns the case of that name.
func (d *Dataset) Case(id string) (Case, bool) {
	for _, c := range d.Cases {
		if c.ID == id {
			return c, true
		}
	}
	return Case{}, false
}

// IDs lists the cases of a group that have labels, or those that have none.
func (d *Dataset) IDs(group string, labelled bool) []string {
	var ids []string
	for _, c := range d.Cases {
		if c.Group == group && (c.Labels != "") == labelled {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// each is the data set with its cases changed.
func (d *Dataset) each(change func(*Case)) Dataset {
	cases := slices.Clone(d.Cases)
	for n := range cases {
		change(&cases[n])
	}
	after := *d
	after.Cases = cases
	return after
}

func (d *Dataset) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// leaveOut notes a file of labels that no case has, and why.
func (d *Dataset) leaveOut(labels, format string, args ...any) {
	d.Unused = append(d.Unused, labels)
	d.note(format, args...)
}

// NotTaken are the files of labels that were seen and that no case has, without this program's own
// predictions.
func (d *Dataset) NotTaken() []string {
	return slices.DeleteFunc(slices.Clone(d.Unused), func(path string) bool {
		return slices.Contains(d.predicted, path)
	})
}

// withoutScan notes a file of labels whose name is that of no scan.
func (d *Dataset) withoutScan(labels string) {
	d.leaveOut(labels,
		"%s looks like labels, but belongs to no scan by its name: give both one name, or "+
			"say with --pairs which scan it belongs to", labels)
}

func (d *Dataset) nameLabel(label uint16, name string) {
	if d.LabelNames == nil {
		d.LabelNames = map[uint16]string{}
	}
	d.LabelNames[label] = name
}

// IsInRegion says whether dataset.json makes a label part of a region, which has the name.
func (d *Dataset) IsInRegion(label uint16) bool { return d.regions[label] }

// SaysModality reports whether the user or the names of channels say of what modality the cases
// are, so that their values have no say.
func (d *Dataset) SaysModality() bool { return d.said }

func (d *Dataset) addRegion(label uint16) {
	if d.regions == nil {
		d.regions = map[uint16]bool{}
	}
	d.regions[label] = true
}

// addStructures takes over names of structures that were met.
func (d *Dataset) addStructures(names []string) {
	d.Structures = slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(d.Structures, names)),
		numbers.CompareNatural))
}

// Unmet lists the names, as [Options.Structures] has them, that fit no structure of the data set.
func (d *Dataset) Unmet(wanted []string) (unmet []string) {
	for _, name := range wanted {
		if !slices.ContainsFunc(d.Structures, func(s string) bool { return isWanted(s, []string{name}) }) {
			unmet = append(unmet, name)
		}
	}
	return unmet
}

// StructureNames are the names of all labelled structures, in natural order.
func (d *Dataset) StructureNames() []string {
	names := slices.Concat(d.Structures, slices.Collect(maps.Values(d.LabelNames)))
	return slices.Compact(slices.SortedFunc(slices.Values(names), numbers.CompareNatural))
}

// A Part is a share of a list: of every Of things, the one of this number, 1 for the first. The
// zero value is the whole list.
type Part struct{ Number, Of int }

// ParsePart reads a part as 3/16; an empty text is the whole.
func ParsePart(text string) (p Part, err error) {
	if text == "" {
		return p, nil
	}
	var rest string
	n, _ := fmt.Sscanf(text, "%d/%d%s", &p.Number, &p.Of, &rest)
	if n != 2 || p.Number < 1 || p.Number > p.Of {
		return Part{}, fmt.Errorf("part %q: must be such as 3/16, the third of 16", text)
	}
	return p, nil
}

// Has says whether thing n of a list, 0 for the first, is in the part.
func (p Part) Has(n int) bool { return p.Of == 0 || n%p.Of == p.Number-1 }

// Len is how many of n things are in the part.
func (p Part) Len(n int) int {
	if p.Of == 0 {
		return n
	}
	return (n + p.Of - p.Number) / p.Of
}

// String is the part as [ParsePart] reads it.
func (p Part) String() string {
	if p.Of == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", p.Number, p.Of)
}
