package dataset

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// This file chooses among structures that labels have a file or a contour for, by their names.

// chosenStructures chooses among structures, and remembers the names that it was asked about.
type chosenStructures struct {
	wanted []string // names, * for anything; none: all are taken
	seen   []string
}

// takes says whether a structure is taken.
func (s *chosenStructures) takes(name string) bool {
	if !slices.Contains(s.seen, name) {
		s.seen = append(s.seen, name)
	}
	return isWanted(name, s.wanted)
}

// isWanted says whether a structure is among those that somebody names, whatever their spelling;
// none named means all. A * stands for anything.
func isWanted(name string, wanted []string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool {
		parts := strings.Split(w, "*")
		for n := range parts {
			parts[n] = regexp.QuoteMeta(safetext.Fold(parts[n]))
		}
		return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$").MatchString(safetext.Fold(name))
	})
}

// choose leaves masks that are taken. Of several spellings of one name, somebody may choose those
// that are spelled as asked for, letter by letter.
func (s *chosenStructures) choose(masks []Mask) (taken []Mask) {
	exact := map[string]bool{} // names, folded, of which a spelling is asked for
	for _, m := range masks {
		if slices.Contains(s.wanted, m.Name) {
			exact[safetext.Fold(m.Name)] = true
		}
	}
	for _, m := range masks {
		if s.takes(m.Name) && (!exact[safetext.Fold(m.Name)] || slices.Contains(s.wanted, m.Name)) {
			taken = append(taken, m)
		}
	}
	return taken
}

// addStructures takes over names of structures that were met.
func (d *Dataset) addStructures(names []string) {
	d.Structures = slices.Compact(slices.SortedFunc(slices.Values(slices.Concat(d.Structures, names)), compareNatural))
}

// Unmet lists the names, as [Options.Structures] has them, that no structure of the data set is
// called by.
func (d *Dataset) Unmet(wanted []string) (unmet []string) {
	for _, name := range wanted {
		if !slices.ContainsFunc(d.Structures, func(s string) bool { return isWanted(s, []string{name}) }) {
			unmet = append(unmet, name)
		}
	}
	return unmet
}

// StructureNames are the names of all structures that labels are of, in natural order.
func (d *Dataset) StructureNames() []string {
	names := slices.Concat(d.Structures, slices.Collect(maps.Values(d.LabelNames)))
	return slices.Compact(slices.SortedFunc(slices.Values(names), compareNatural))
}
