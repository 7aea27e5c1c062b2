package dataset

import (
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/volume"
)

// This file tells structures that nobody drew in a case from those that are not in the patient, or
// not in the scan. Of masks in files, a missing file is not drawn, and an empty one says that the
// structure is absent. Of label maps, DICOM objects and whole data sets, what their lists of names
// lack is not drawn, and nor is a structure of a structure set that has no contour on the scan:
// reading it finds that. Where there are no names, nothing is known, and all counts as drawn.

// setDrawn notes which labels a case may have: those that its own file names, or else the data set.
// Masks are not numbered yet: they say it themselves.
func (c *Case) setDrawn(own, named map[uint16]string) {
	switch {
	case c.Labels == "" || c.Masks != nil || c.unnamed:
	case own == nil:
		c.drawn = labelsOf(named)
	default:
		c.drawn = labelsOf(own)
	}
}

// labelsOf are the labels of structures that have names.
func labelsOf(names map[uint16]string) []uint16 {
	ignored := volume.IgnoredLabels(names)
	return slices.DeleteFunc(slices.Sorted(maps.Keys(names)),
		func(label uint16) bool { return slices.Contains(ignored, label) })
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

// findUndrawn says for each case which labels others have and it lacks, unless somebody says that
// such structures are not in the patient.
func (d Dataset) findUndrawn(o Options) (Dataset, error) {
	if o.AllDrawn {
		return d, nil
	}
	var all []uint16
	for _, c := range d.Cases {
		all = append(all, c.drawnLabels()...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	return d.each(func(c *Case) {
		if drawn := c.drawnLabels(); drawn != nil {
			c.labels = all
			c.undrawn = slices.DeleteFunc(slices.Clone(all), func(label uint16) bool {
				_, known := slices.BinarySearch(drawn, label)
				return known
			})
		}
	}), nil
}
