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
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file says what labels are called: by a data set, or by the files of its cases. A number
// must not mean two things in one data set.

// ownNames are the names that a case's file of labels has itself; nil for none.
func (c Case) ownNames(files *seen) map[uint16]string {
	switch {
	case c.Labels == "" || c.Masks != nil:
		return nil
	case c.segmentation != nil:
		return c.segmentation.Names()
	case nifti.IsName(c.Labels):
		return files.head(c.Labels).names
	case isVoxels(c.Labels):
		h, err := readFileHeader(c.Labels)
		if err != nil {
			return nil // reading the case says what is wrong
		}
		return h.names
	}
	return nil
}

// nameLabelsOfFiles takes the labels' names from the cases' SEG objects, Slicer's segmentations and
// label maps of [nifti.WriteLabels], and remembers labels that two of them give different names.
// Where the data set names no labels, cases whose files do not either are without.
func (d *Dataset) nameLabelsOfFiles(files *seen) {
	named := len(d.LabelNames) > 0
	from := map[uint16]string{}
	told := map[uint16]bool{}
	for n := range d.Cases {
		c := &d.Cases[n]
		names := c.ownNames(files)
		c.own = names
		c.unnamed = c.Labels != "" && c.Masks == nil && names == nil && !named
		for _, label := range slices.Sorted(maps.Keys(names)) {
			other, known := d.LabelNames[label]
			switch {
			case !known:
				d.nameLabel(label, names[label])
				from[label] = c.Labels
			case safetext.Fold(other) != safetext.Fold(names[label]) && !told[label]:
				told[label] = true
				d.contradictions = append(d.contradictions, fmt.Sprintf("label %d is %q in %s and %q in %s",
					label, other, cmp.Or(from[label], d.Root), names[label], c.Labels))
			}
		}
	}
}

// shareNames gives labels without names those that the same numbers have elsewhere, because
// somebody says that they mean the same, whatever their names are. Masks are not numbered yet:
// their numbers say nothing.
func (d *Dataset) shareNames() {
	d.contradictions = nil
	if len(d.LabelNames) == 0 {
		return
	}
	for n := range d.Cases {
		d.Cases[n].unnamed = false
	}
}

// What can be done about names of labels that do not fit together.
const (
	sameLabels = "--same-labels, if each number means the same in all of them"
	apart      = "--unlabelled, to use no labels; or prepare the folders one by one"
)

// checkNames refuses labels whose numbers have other names in other cases, and labels that are
// numbers alone beside labels with names: a number would be learnt as one organ in all cases, and
// nothing says that it is.
func (d *Dataset) checkNames() error {
	if all := d.contradictions; len(all) > 0 {
		const most = 3
		text := strings.Join(all[:min(len(all), most)], "; ")
		if more := len(all) - most; more > 0 {
			text += fmt.Sprintf("; and so are %d more", more)
		}
		return &NamesError{
			text + ": a number would be learnt as one structure in all cases",
			"make the numbers agree; or " + sameLabels + "; " + apart,
		}
	}
	var numbered, named []Case
	for _, c := range d.Cases {
		switch {
		case c.unnamed:
			numbered = append(numbered, c)
		case c.Labels != "" && len(d.LabelNames) > 0:
			named = append(named, c)
		}
	}
	if len(numbered) == 0 || len(named) == 0 {
		return nil
	}
	way := sameLabels
	if !slices.ContainsFunc(named, func(c Case) bool { return c.Masks == nil }) {
		way = "a dataset.json in the folder of the scans with the names of the numbers"
	}
	return &NamesError{
		fmt.Sprintf("labels have names in some cases (%s in %s) and are numbers without names in others (%s): nothing says that label 1 means the same in both", safetext.List(namesOf(d.LabelNames)), named[0].Labels, numbered[0].Labels),
		way + "; " + apart,
	}
}

// setSites says where cases are from: the first folder below that of the data set.
func (d *Dataset) setSites() {
	for n := range d.Cases {
		c := &d.Cases[n]
		if c.site = d.Root; len(c.folders) > 0 {
			c.site = filepath.Join(d.Root, c.folders[0])
		}
	}
}

// numbered is the labels that cases have which are numbers without names, and the number of these
// cases, by where they are from.
type numbered map[string]*numbersOfSite

type numbersOfSite struct {
	cases  int
	labels map[uint16]bool
}

// add counts a case.
func (s numbered) add(site string, counts map[uint16]int) {
	if len(counts) == 0 {
		return
	}
	if s[site] == nil {
		s[site] = &numbersOfSite{labels: map[uint16]bool{}}
	}
	s[site].cases++
	for label := range counts {
		s[site].labels[label] = true
	}
}

// doubt says that cases from one folder have other numbers than those from another, so that a
// number may mean two things; "" where it is not so, or where each case has a folder of its own.
func (s numbered) doubt() string {
	cases := 0
	for _, site := range s {
		cases += site.cases
	}
	if len(s) < 2 || 2*len(s) > cases {
		return ""
	}
	sites := slices.Sorted(maps.Keys(s))
	first := slices.Sorted(maps.Keys(s[sites[0]].labels))
	for _, site := range sites[1:] {
		if others := slices.Sorted(maps.Keys(s[site].labels)); !slices.Equal(first, others) {
			return fmt.Sprintf("WARNING: labels are numbers without names, and cases of %s have others (%s) than those of %s (%s): a number is learnt as one organ in all of them. Where it is not, prepare the folders one by one, or put a dataset.json with the names of the labels into each; --same-labels says that it is",
				sites[0], joinLabels(first), site, joinLabels(others))
		}
	}
	return ""
}

// unlike is the cases with the fewest and the most labels among those whose labels have no names.
type unlike struct{ fewest, most numberedCase }

type numberedCase struct {
	id     string
	labels []uint16
}

// add looks at a case.
func (u *unlike) add(id string, counts map[uint16]int) {
	if len(counts) == 0 {
		return
	}
	c := numberedCase{id, slices.Sorted(maps.Keys(counts))}
	less := func(a, b numberedCase) bool { // whatever the order in which they come
		return b.id == "" || len(a.labels) < len(b.labels) || len(a.labels) == len(b.labels) && a.id < b.id
	}
	if less(c, u.fewest) {
		u.fewest = c
	}
	if u.most.id == "" || less(u.most, c) {
		u.most = c
	}
}

// doubt says that one case has less than half of the labels of another, so that a number may mean
// two things; "" where it is not so.
func (u *unlike) doubt() string {
	if 2*len(u.fewest.labels) >= len(u.most.labels) {
		return ""
	}
	count := func(c numberedCase) string {
		return fmt.Sprintf("%s has %s (%s)", c.id, numbers.Count(len(c.labels), "label"), ranges(c.labels))
	}
	return fmt.Sprintf("WARNING: labels are numbers without names, and %s, %s: a number is learnt as one organ in all cases, and an organ without voxels as background. Where that is wrong, prepare such cases apart, or name the labels in a dataset.json",
		count(u.fewest), count(u.most))
}

// ranges lists labels, those that follow each other as a range.
func ranges(labels []uint16) string {
	var all []string
	for n := 0; n < len(labels); {
		end := n
		for end+1 < len(labels) && labels[end+1] == labels[end]+1 {
			end++
		}
		text := fmt.Sprint(labels[n])
		if end > n {
			text += fmt.Sprintf(" to %d", labels[end])
		}
		all, n = append(all, text), end+1
	}
	return safetext.List(all)
}

// addNameless counts the labels of a case that have no name, where others have one.
func (s *Summary) addNameless(r prepared.Record) {
	if len(r.LabelNames) == 0 {
		return
	}
	for label := range r.LabelCounts {
		if r.LabelNames[label] == "" {
			if s.nameless == nil {
				s.nameless = map[uint16][]string{}
			}
			s.nameless[label] = append(s.nameless[label], r.ID)
		}
	}
}

// namelessNotes warns of each label without a name that is not part of a region.
func (s *Summary) namelessNotes(regions map[uint16]bool) (notes []string) {
	for _, label := range slices.Sorted(maps.Keys(s.nameless)) {
		if cases := s.nameless[label]; !regions[label] {
			notes = append(notes, fmt.Sprintf("WARNING: label %d has no name, other labels have one: %s with voxels of it, such as %s; it is learnt as one more class. Name it in dataset.json; --relabel %[1]d:0 makes it background",
				label, numbers.Count(len(cases), "case"), slices.MinFunc(cases, compareNatural)))
		}
	}
	return notes
}

// A NamesError says that labels with names and labels without would be mixed.
type NamesError struct {
	problem string
	Hint    string // what the user can do
}

func (e *NamesError) Error() string { return e.problem }
