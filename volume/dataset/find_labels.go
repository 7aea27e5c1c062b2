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
	"github.com/voxsaw/voxsaw/volume/format"
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
	case format.IsName(c.Labels):
		return files.head(c.Labels).names
	}
	return nil
}

// countLabelVolumes counts the volumes of a file of labels that has one label in each; 0 for any
// other.
func (c Case) countLabelVolumes(files *seen) int {
	if c.Labels == "" || c.Masks != nil || c.segmentation != nil || !format.IsName(c.Labels) {
		return 0
	}
	return files.head(c.Labels).oneHot
}

// nameLabelsOfFiles takes the labels' names from the cases' SEG objects, Slicer's segmentations and
// label maps of [nifti.WriteLabels], and remembers labels that two of them give different names.
// Where the data set names no labels, cases whose files do not either are without.
func (d Dataset) nameLabelsOfFiles(o Options) (Dataset, error) {
	named := d.LabelNames
	from := map[uint16]string{}
	told := map[uint16]bool{}
	d.LabelNames, d.listed = maps.Clone(named), named
	return d.each(func(c *Case) {
		names := c.ownNames(o.seen)
		c.unnamed = c.Labels != "" && c.Masks == nil && names == nil && len(named) == 0
		c.ownNamed, c.labelVolumes = names != nil, c.countLabelVolumes(o.seen)
		c.setDrawn(names, named)
		if c.names = names; names == nil && c.Labels != "" && c.Masks == nil {
			c.names = named
		}
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
	}), nil
}

// shareNames gives labels without names those that the same numbers have elsewhere, because
// somebody says that they mean the same, whatever their names are. Masks are not numbered yet:
// their numbers say nothing.
func (d Dataset) shareNames(o Options) (Dataset, error) {
	if !o.SameLabels {
		return d, nil
	}
	d.contradictions = nil
	return d.each(func(c *Case) { c.unnamed = c.unnamed && len(d.LabelNames) == 0 }), nil
}

// What can be done about names of labels that do not fit together.
const (
	sameLabels = "--same-labels, if each number means the same in all of them"
	apart      = "--unlabelled, to use no labels; or take the folders one by one"
)

// CheckNames refuses labels whose numbers have other names in other cases, and labels that are
// numbers alone beside labels with names: a number would be learnt as one organ in all cases, and
// nothing says that it is.
func (d *Dataset) CheckNames() error {
	if d.permuted != "" {
		return &NamesError{
			d.permuted + ": a number would be learnt as several structures, though --same-labels says that it is one",
			"without --same-labels the names decide; or rename what has a wrong name",
		}
	}
	if all := d.contradictions; len(all) > 0 {
		const most = 3
		text := strings.Join(all[:min(len(all), most)], "; ")
		if more := len(all) - most; more > 0 {
			text += fmt.Sprintf("; and so are %d more", more)
		}
		return &NamesError{text + ": a number would be learnt as one structure in all cases",
			"make the names agree, or the numbers differ; or " + sameLabels + "; " + apart}
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
		fmt.Sprintf("labels have names in some cases (%s in %s) and are numbers without names in others (%s): "+
			"nothing says that label 1 means the same in both",
			safetext.List(namesOf(d.LabelNames)), named[0].Labels, numbered[0].Labels),
		way + "; " + apart,
	}
}

// stateSites says where cases are from, the first folder below that of the data set, unless numbers
// mean the same everywhere.
func (d Dataset) stateSites(o Options) (Dataset, error) {
	if o.SameLabels {
		return d, nil
	}
	return d.each(func(c *Case) {
		if c.site = d.Root; len(c.folders) > 0 {
			c.site = filepath.Join(d.Root, c.folders[0])
		}
	}), nil
}

// A NamesError says that labels with names and labels without would be mixed.
type NamesError struct {
	problem string
	Hint    string // what the user can do
}

func (e *NamesError) Error() string { return e.problem }

// numberMasks gives each name of a structure one number in all cases: the one that the data set has
// for it, or the next that is free, in the order of the names.
func (d Dataset) numberMasks(Options) (Dataset, error) {
	known := map[string]uint16{}
	var next uint16
	for _, label := range slices.Sorted(maps.Keys(d.LabelNames)) {
		if name := safetext.Fold(d.LabelNames[label]); known[name] == 0 {
			known[name] = label
		}
		next = label
	}
	var names []string
	for _, c := range d.Cases {
		for _, m := range c.Masks {
			if known[safetext.Fold(m.Name)] == 0 && !slices.Contains(names, m.Name) {
				names = append(names, m.Name)
			}
		}
	}
	slices.SortFunc(names, numbers.CompareNatural)
	d.LabelNames = maps.Clone(d.LabelNames)
	for _, name := range names {
		if known[safetext.Fold(name)] != 0 {
			continue // another spelling of it came before
		}
		if next++; next == 0 {
			return d, fmt.Errorf("%s: more than 65535 structures", d.Root)
		}
		known[safetext.Fold(name)] = next
		d.nameLabel(next, name)
	}
	return d.each(func(c *Case) {
		c.Masks = slices.Clone(c.Masks)
		for n := range c.Masks {
			c.Masks[n].Label = known[safetext.Fold(c.Masks[n].Name)]
		}
	}), nil
}
