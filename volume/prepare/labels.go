package prepare

import (
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: labels that are numbers alone, in the summary.

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
