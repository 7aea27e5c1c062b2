package segment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

// This file says whether the outputs of a segmentation checkpoint mean what a run's do.

// A class is what an output stands for: labels, in ascending order, and their names, sorted, where
// all of them have one.
type class struct {
	labels []uint16
	names  []string // as safetext.Fold gives them
	shown  string   // for people
}

// is reports whether two classes are the same: by name where both have names, else by number.
func (c class) is(o class) bool {
	if c.names != nil && o.names != nil {
		return slices.Equal(c.names, o.names)
	}
	return slices.Equal(c.labels, o.labels)
}

// classes are those of the outputs but the background; none where the labels are not known.
func (c Config) classes() []class {
	labels, err := parseClasses(c.Labels)
	if err != nil {
		return nil
	}
	all := make([]class, len(labels))
	for n, list := range labels {
		all[n] = class{labels: slices.Sorted(slices.Values(list)), shown: "label " + c.Labels[n]}
		if n >= len(c.Names) {
			continue
		}
		if names := namesOf(list, c.Names[n]); names != nil {
			all[n].names, all[n].shown = names, safetext.Text(c.Names[n])
		}
	}
	return all
}

// namesOf are the names of the labels that one class merges, sorted; nil where one has none, and is
// called by its number.
func namesOf(labels []uint16, joined string) (names []string) {
	parts := strings.Split(joined, "+")
	if len(parts) != len(labels) { // a name with a + in it
		parts = []string{joined}
	}
	for n, part := range parts {
		if part == strconv.Itoa(int(labels[n])) {
			return nil
		}
		names = append(names, safetext.Fold(part))
	}
	slices.Sort(names)
	return names
}

// otherClasses says how the classes of a segmentation checkpoint differ from the run's, in what
// they are or in their order; "" where they are the same, or nobody knows.
func (c Config) otherClasses(d checkpoint.Description) (string, error) {
	if d.Settings == "" {
		return "", nil
	}
	from := Config{}
	if err := d.Parse(&from); err != nil {
		return "", err
	}
	there, here := from.classes(), c.classes()
	if there == nil || slices.EqualFunc(there, here, class.is) {
		return "", nil
	}
	first := 0
	for first < min(len(there), len(here)) && there[first].is(here[first]) {
		first++
	}
	return fmt.Sprintf("the head is not taken over, because its classes differ from number %d "+
		"on: %s in the checkpoint, %s in the data", 1+first, listClasses(there[first:]), listClasses(here[first:])), nil
}

// rowsOfNNUNet says which rows of the last layer of nnU-Net's model are taken over: that of the
// background and those of the run's classes, where it has some of these. Heads of regions are not
// heads of classes: each has a probability of its own.
func (c Config) rowsOfNNUNet(path string) checkpoint.Left {
	whole := checkpoint.Left{Why: "the last layer of nnU-Net's labels"}
	m, err := nnunet.Open(path, nil)
	if err != nil || m.Regions || len(m.Structures) == 0 {
		return whole // a file of weights alone does not name its labels
	}
	here := c.classes()
	rows, taken, fresh := []int{0}, []string{"background"}, []string{}
	found := rowsIn(m.Structures, here)
	for n, want := range here {
		rows = append(rows, found[n])
		if found[n] < 0 {
			fresh = append(fresh, want.shown)
		} else {
			taken = append(taken, want.shown)
		}
	}
	switch {
	case len(taken) == 1:
		return whole
	case len(fresh) == 0:
		return checkpoint.Left{Rows: rows}
	}
	return checkpoint.Left{Rows: rows, Why: fmt.Sprintf("the rows of %s, which nnU-Net's model does not have "+
		"(taken over: %s)", safetext.List(fresh), safetext.List(taken))}
}

// rowsIn finds the row of each class among nnU-Net's structures, -1 for none: by its name, or, of
// classes without one, by its number among the rows that no name has.
func rowsIn(structures []nnunet.Structure, classes []class) []int {
	rows := slices.Repeat([]int{-1}, len(classes))
	for _, named := range []bool{true, false} {
		for n, want := range classes {
			if (want.names != nil) != named {
				continue
			}
			row := slices.IndexFunc(structures, func(s nnunet.Structure) bool {
				return s.Label > 0 && want.is(class{labels: []uint16{s.Label}, names: []string{safetext.Fold(s.Name)}})
			})
			if !slices.Contains(rows, row) {
				rows[n] = row
			}
		}
	}
	return rows
}

// listClasses names classes for people, the first few of many.
func listClasses(list []class) string {
	if len(list) == 0 {
		return "no more"
	}
	var names []string
	for _, c := range list {
		names = append(names, c.shown)
	}
	return safetext.List(names)
}
