package dataset

import (
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/quality"
)

// This file: labels that are unlike those of the other files.

// findUnusual says of each file of labels what is unusual about it beside the others: those of its
// folder, or, where each folder has files of the same names, those of its name.
func findUnusual(entries []Entry) {
	names, groups := map[string]int{}, map[string][]int{}
	for _, e := range entries {
		if e.structures != nil {
			names[filepath.Base(e.Path)]++
		}
	}
	for n, e := range entries {
		if e.structures == nil {
			continue
		}
		group := filepath.Base(e.Path)
		if names[group] == 1 {
			group = filepath.Dir(e.Path)
		}
		for i := range e.structures {
			e.structures[i].Name = e.LabelNames[e.structures[i].Label]
		}
		groups[group] = append(groups[group], n)
	}
	for _, group := range groups {
		var cases []quality.Case
		for _, n := range group {
			cases = append(cases, quality.Case{ID: entries[n].Path, Structures: entries[n].structures})
		}
		set := quality.NewSet(cases)
		for i, n := range group {
			for _, f := range set.Judge(cases[i]) {
				entries[n].problem("unlike other labels: %s", f)
			}
		}
	}
}
