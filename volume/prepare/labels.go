package prepare

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: labels that are numbers alone, in the summary.

// numbered is the labels without names in the cases of each site, and the number of these cases.
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
			return fmt.Sprintf("WARNING: labels are numbers without names, and cases of %s have others "+
				"(%s) than those of %s (%s): a number is learnt as one organ in all of them. Where it is "+
				"not, prepare the folders one by one, or put a dataset.json with the names of the labels "+
				"into each; --same-labels says that it is",
				sites[0], safetext.Numbers(first), site, safetext.Numbers(others))
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
	return fmt.Sprintf("WARNING: labels are numbers without names, and %s, %s: a number is learnt as one organ "+
		"in all cases, and an organ without voxels as background. Where that is wrong, prepare such cases "+
		"apart, or name the labels in a dataset.json",
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
func (s *Summary) namelessNotes(d *dataset.Dataset) (notes []string) {
	for _, label := range slices.Sorted(maps.Keys(s.nameless)) {
		if cases := s.nameless[label]; !d.IsInRegion(label) {
			notes = append(notes,
				fmt.Sprintf("WARNING: label %d has no name, other labels have one: %s with voxels of it, such as %s; "+
					"it is learnt as one more class. Name it in dataset.json; --relabel %[1]d:0 makes it background",
					label, numbers.Count(len(cases), "case"), slices.MinFunc(cases, numbers.CompareNatural)))
		}
	}
	return notes
}

// A Structure says how many of the cases with labels show one, by its number.
type Structure struct {
	Label   uint16 `json:"label"`
	Name    string `json:"name,omitempty"`
	Cases   int    `json:"cases"`   // with voxels of it
	Absent  int    `json:"absent"`  // without, though somebody may have drawn it
	Undrawn int    `json:"undrawn"` // in which nobody drew it
}

// addShown counts the labels of a case with labels.
func (s *Summary) addShown(r prepared.Record) {
	if s.shown == nil {
		s.shown = map[uint16]*Structure{}
	}
	of := func(label uint16) *Structure {
		if s.shown[label] == nil {
			s.shown[label] = &Structure{Label: label}
		}
		return s.shown[label]
	}
	for label := range r.LabelCounts {
		of(label).Cases++
	}
	for _, label := range r.Undrawn {
		of(label).Undrawn++
	}
	for label, name := range r.LabelNames {
		if one := of(label); one.Name == "" || name < one.Name { // whatever the order of the cases
			one.Name = name
		}
	}
	if len(r.LabelNames) == 0 {
		s.withoutNames = append(s.withoutNames, nameless{r.ID, slices.Sorted(maps.Keys(r.LabelCounts))})
	}
}

// nameless is a case whose labels are numbers that nothing names, and which of them it shows.
type nameless struct {
	id     string
	labels []uint16
}

// structures lists the structures by their numbers. Those that data sets name and no case has are
// among them.
func (s *Summary) structures(named map[uint16]string) (all []Structure) {
	for label, name := range named {
		if label > 0 && s.shown[label] != nil && s.shown[label].Name == "" {
			s.shown[label].Name = name
		}
	}
	for _, label := range slices.Sorted(maps.Keys(s.shown)) {
		if label == 0 {
			continue
		}
		one := *s.shown[label]
		one.Absent = s.Labelled - one.Cases - one.Undrawn
		all = append(all, one)
	}
	return all
}

// DescribeStructures says in a line in how many cases each structure is; "" where none is.
func (s *Summary) DescribeStructures() string {
	if len(s.Structures) == 0 {
		return ""
	}
	var list []string
	for _, one := range s.Structures {
		name := one.Name
		if name == "" {
			name = fmt.Sprintf("label %d", one.Label)
		}
		text := fmt.Sprintf("%s %d", safetext.Text(name), one.Cases)
		if one.Undrawn > 0 {
			text += fmt.Sprintf(" (not drawn in %d)", one.Undrawn)
		}
		list = append(list, text)
	}
	const most = 20
	more := ""
	if n := len(list) - most; n > 1 {
		more, list = fmt.Sprintf(", and %s more, which --json lists", numbers.Count(n, "structure")), list[:most]
	}
	return fmt.Sprintf("cases that show each structure, of %d with labels: %s%s", s.Labelled,
		strings.Join(list, ", "), more)
}

// assumed says what is taken for granted of cases whose labels nothing names, where they lack
// labels that others show: nobody can tell what is absent there from what nobody drew. "" where
// none does.
func (s *Summary) assumed() string {
	var lacking []string
	for _, c := range s.withoutNames {
		for label, one := range s.shown {
			if label > 0 && one.Cases > 0 && !slices.Contains(c.labels, label) {
				lacking = append(lacking, c.id)
				break
			}
		}
	}
	if len(lacking) == 0 {
		return ""
	}
	slices.SortFunc(lacking, numbers.CompareNatural)
	return fmt.Sprintf("nothing names the labels of %s that lack some which others show (%s): it is assumed that what "+
		"has no voxels there is not in the patient, and it is learnt as background. If nobody drew it, put a "+
		"dataset.json that names what was drawn beside these label maps, or take back the names that a program "+
		"which wrote the files again has lost", numbers.Count(len(lacking), "case"), safetext.List(lacking))
}
