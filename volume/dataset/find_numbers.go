package dataset

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

// This file: labels whose numbers do not agree between cases, and whose names do. Numbers of
// segments are often no more than the order in which somebody drew them.

// namedCases are the cases whose labels have names that tell them apart; all says that there are
// some, that no other case has labels that are numbers, unless some are enough, and that the data
// set's own list tells them apart, too.
func (d *Dataset) namedCases(some bool) (named []int, all bool) {
	for n, c := range d.Cases {
		if c.Labels == "" || c.Masks != nil {
			continue
		}
		told := map[string]bool{}
		for _, name := range c.names {
			told[safetext.Fold(name)] = true
		}
		if len(told) == 0 || len(told) < len(c.names) || c.labelVolumes > 1 {
			if some {
				continue
			}
			return nil, false
		}
		named = append(named, n)
	}
	listed := map[string]bool{}
	for _, name := range d.listed {
		listed[safetext.Fold(name)] = true
	}
	return named, len(named) > 0 && len(listed) == len(d.listed)
}

// votes are how many cases give a name, folded, each of its numbers.
type votes map[string]map[uint16]int

// numbersOf are a name's numbers, those of most cases first.
func (v votes) numbersOf(name string) []uint16 {
	return slices.SortedFunc(maps.Keys(v[name]), func(a, b uint16) int {
		return cmp.Or(v[name][b]-v[name][a], int(a)-int(b))
	})
}

// agreeNumbers gives each name one number in all cases, where all have names and their numbers
// differ: that of the data set's own list, or of most cases. Two names of one number may be two
// spellings of one structure, if neither has another number anywhere: that is refused, as before.
// That numbers mean the same all the same nobody can say where one name has several.
func (d Dataset) agreeNumbers(o Options) (Dataset, error) {
	named, all := d.namedCases(o.SameLabels)
	v, spelling := votes{}, map[string]string{}
	at := map[uint16][]string{} // names of a number
	vote := func(label uint16, name string, weight int) {
		folded := safetext.Fold(name)
		if v[folded] == nil {
			v[folded], spelling[folded] = map[uint16]int{}, name
		}
		v[folded][label] += weight
		if !slices.Contains(at[label], folded) {
			at[label] = append(at[label], folded)
		}
	}
	for _, label := range slices.Sorted(maps.Keys(d.listed)) {
		vote(label, d.listed[label], len(d.Cases)+1)
	}
	for _, n := range named {
		for _, label := range slices.Sorted(maps.Keys(d.Cases[n].names)) {
			vote(label, d.Cases[n].names[label], 1)
		}
	}
	differ, mixed, alone := false, "", false
	for _, label := range slices.Sorted(maps.Keys(at)) {
		single := 0
		for _, name := range at[label] {
			switch {
			case len(v[name]) == 1:
				single++
			case len(at[label]) > 1 && mixed == "":
				mixed = fmt.Sprintf("%s is label %s, and label %d is also %s", spelling[name],
					numberList(v.numbersOf(name)), label, safetext.List(others(at[label], name, spelling)))
			}
			differ = differ || len(v[name]) > 1 || len(at[label]) > 1
		}
		alone = alone || len(at[label]) > 1 && single > 1
	}
	if o.SameLabels && all && mixed != "" {
		d.permuted = mixed
	}
	if !differ || !all || alone || o.SameLabels || len(d.regions) > 0 {
		if len(d.clashes) > 0 {
			return d, errors.New(d.clashes[0])
		}
		return d, nil
	}
	return d.renumbered(v, spelling), nil
}

// renumbered gives each name its number.
func (d Dataset) renumbered(v votes, spelling map[string]string) Dataset {
	order := slices.SortedFunc(maps.Keys(v), func(a, b string) int {
		first, second := v.numbersOf(a)[0], v.numbersOf(b)[0]
		return cmp.Or(v[b][second]-v[a][first], int(first)-int(second), numbers.CompareNatural(a, b))
	})
	number, names := map[string]uint16{}, map[uint16]string{}
	give := func(name string, label uint16) { number[name], names[label] = label, spelling[name] }
	var left []string
	for _, name := range order {
		free := slices.DeleteFunc(v.numbersOf(name), func(label uint16) bool { return names[label] != "" })
		if len(free) == 0 {
			left = append(left, name)
			continue
		}
		give(name, free[0])
	}
	slices.SortFunc(left, numbers.CompareNatural)
	for _, name := range left {
		give(name, slices.Max(slices.Collect(maps.Keys(names)))+1)
	}
	var changed []string
	after := d.each(func(c *Case) {
		table, differs := map[uint16]uint16{}, false
		for label, name := range c.names {
			table[label] = number[safetext.Fold(name)]
			differs = differs || table[label] != label
		}
		if !differs || c.Masks != nil {
			return
		}
		changed = append(changed, c.ID)
		c.renumber, c.drawn = table, slices.Clone(c.drawn)
		for n, label := range c.drawn {
			c.drawn[n] = table[label]
		}
		slices.Sort(c.drawn)
	})
	after.LabelNames, after.contradictions, after.clashes = names, nil, nil
	var list []string
	for _, label := range slices.Sorted(maps.Keys(names)) {
		list = append(list, fmt.Sprintf("%d %s", label, names[label]))
	}
	after.note("labels go by their names, because files give them different numbers: %s. "+
		"Numbers are changed in %s: %s", safetext.List(list), numbers.Count(len(changed), "case"),
		safetext.List(changed))
	return after
}

// others are the names beside one.
func others(names []string, one string, spelling map[string]string) (list []string) {
	for _, name := range names {
		if name != one {
			list = append(list, spelling[name])
		}
	}
	return list
}

func numberList(labels []uint16) string {
	texts := make([]string, len(labels))
	labels = slices.Sorted(slices.Values(labels))
	for n, label := range labels {
		texts[n] = fmt.Sprint(label)
	}
	return strings.Join(texts, " and ")
}
