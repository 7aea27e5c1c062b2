package dataset

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file tells structures that nobody drew in a case from those that are not in the patient, or
// not in the scan. Of masks in files, a missing file is not drawn, and an empty one says that the
// structure is absent. Of label maps, DICOM objects and whole data sets, what their lists of names
// lack is not drawn, and nor is a structure of a structure set that has no contour on the scan:
// reading it finds that. Where there are no names, nothing is known, and all counts as drawn.

// setDrawn notes which labels the cases of one data set may have: those that their own files name,
// or else the data set. Masks are not numbered yet: they say it themselves.
func (d *Dataset) setDrawn(named map[uint16]string) {
	for n := range d.Cases {
		c := &d.Cases[n]
		if c.Labels == "" || c.Masks != nil || c.unnamed {
			continue
		}
		if c.drawn = labelsOf(c.own); c.own == nil {
			c.drawn = labelsOf(named)
		}
	}
}

// labelsOf are the labels of structures that have names.
func labelsOf(names map[uint16]string) []uint16 {
	ignored := volume.IgnoredLabels(names)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)), func(label uint16) bool { return slices.Contains(ignored, label) })
}

// drawnLabels are the labels that somebody drew in the case, or found absent; nil where nothing is
// known.
func (c Case) drawnLabels() []uint16 {
	if c.Masks == nil {
		return c.drawn
	}
	var labels []uint16
	for _, m := range c.Masks {
		labels = append(labels, m.Label)
	}
	slices.Sort(labels)
	return slices.Compact(labels)
}

// setUndrawn says for each case which labels others have and it lacks.
func (d *Dataset) setUndrawn() {
	var all []uint16
	for _, c := range d.Cases {
		all = append(all, c.drawnLabels()...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	for n := range d.Cases {
		c := &d.Cases[n]
		if drawn := c.drawnLabels(); drawn != nil {
			c.labels = all
			c.undrawn = slices.DeleteFunc(slices.Clone(all), func(label uint16) bool {
				_, known := slices.BinarySearch(drawn, label)
				return known
			})
		}
	}
}

// emptiedNote names structures that were drawn and have lost all their voxels to others; "" where
// none has.
func emptiedNote(l *volume.LabelMap) string {
	if l == nil || len(l.Emptied) == 0 {
		return ""
	}
	var names []string
	for _, label := range l.Emptied {
		names = append(names, cmp.Or(l.Names[label], fmt.Sprintf("label %d", label)))
	}
	return "WARNING: emptied, because others have all their voxels (--segment-overlap): " + safetext.List(names) + ". They were drawn, and are neither absent nor undrawn"
}

// input is what is recorded of a case beside its voxels.
func (c Case) input(p volume.Preparation, origin string) (prepared.Input, error) {
	undrawn, err := p.RelabelUndrawn(c.labels, c.undrawn)
	return prepared.Input{ID: c.ID, Group: c.Group, Patient: c.Patient, Origin: origin, Undrawn: undrawn}, err
}

// addUndrawn counts the structures that nobody drew in a case.
func (s *Summary) addUndrawn(r prepared.Record) {
	for _, label := range r.Undrawn {
		if s.undrawn == nil {
			s.undrawn = map[uint16][]string{}
		}
		s.undrawn[label] = append(s.undrawn[label], r.ID)
	}
}

// nameUndrawn fills Undrawn with the structures' names.
func (s *Summary) nameUndrawn(names map[uint16]string) {
	for label, cases := range s.undrawn {
		if s.Undrawn == nil {
			s.Undrawn = map[string][]string{}
		}
		slices.SortFunc(cases, compareNatural)
		s.Undrawn[cmp.Or(names[label], fmt.Sprintf("label %d", label))] = cases
	}
}

// undrawnNote says how many cases lack which structures, and what that means; "" where none does.
func (s *Summary) undrawnNote() string {
	if len(s.Undrawn) == 0 {
		return ""
	}
	names := slices.SortedFunc(maps.Keys(s.Undrawn), func(a, b string) int {
		return cmp.Or(len(s.Undrawn[b])-len(s.Undrawn[a]), compareNatural(a, b))
	})
	const most = 10
	more := ""
	if n := len(names) - most; n > 1 {
		more, names = fmt.Sprintf("; and %s more", numbers.Count(n, "structure")), names[:most]
	}
	text := ""
	for _, name := range names {
		text += fmt.Sprintf("; %s in %d of %s with labels (%s)", safetext.Text(name), len(s.Undrawn[name]), numbers.Count(s.Labelled, "case"), safetext.List(s.Undrawn[name]))
	}
	return "WARNING: not drawn in all cases: " + text[2:] + more +
		". Where a structure is not drawn, training takes its voxels for background, and scores leave it out: add the labels, or leave out such structures or cases. --all-drawn says that these structures are not in the patients"
}
