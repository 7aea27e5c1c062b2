package dataset

import (
	"maps"
	"regexp"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// What a prediction's label means is decided by all its names, not by those that a case happens to
// show: else one organ would be scored as another in some cases.
func TestLabelsAreComparedByName(t *testing.T) {
	grid := volume.Grid{Shape: [3]int{2, 2, 1}}
	names := map[uint16]string{1: "liver", 2: "spleen", 3: "kidney"}
	for name, c := range map[string]struct {
		reference map[uint16]string
		labels    []uint16
		want      []uint16
		note      string
	}{
		"all known": {map[uint16]string{1: "spleen", 2: "Liver"}, []uint16{0, 1, 2, 2}, []uint16{0, 2, 1, 1},
			"liver 1 to 2, spleen 2 to 1"},
		"one unknown": {map[uint16]string{1: "spleen", 2: "Liver"}, []uint16{0, 1, 2, 3}, []uint16{0, 2, 1, 0},
			"kidney left out"},
		"unknown alone": {map[uint16]string{3: "spleen", 2: "liver"}, []uint16{0, 3, 3, 0}, []uint16{0, 0, 0, 0},
			"kidney left out"},
		"none in common": {map[uint16]string{1: "Leber", 2: "Milz"}, []uint16{0, 1, 2, 3}, []uint16{0, 1, 2, 3},
			`compared by number.*label 1 is "liver" here and "Leber" there, label 2 is "spleen" here and "Milz" there`},
		"the same":             {names, []uint16{0, 1, 2, 3}, []uint16{0, 1, 2, 3}, ""},
		"a reference has none": {nil, []uint16{0, 1, 2, 3}, []uint16{0, 1, 2, 3}, ""},
	} {
		p := &volume.LabelMap{Grid: grid, Labels: slices.Clone(c.labels), Names: maps.Clone(names)}
		r := &volume.LabelMap{Grid: grid, Labels: make([]uint16, 4), Names: c.reference}
		note, err := byNames(p, r, Labels{Path: "reference.nii.gz"})
		if err != nil || !slices.Equal(p.Labels, c.want) || (c.note == "") != (note == "") ||
			!regexp.MustCompile(c.note).MatchString(note) {
			t.Errorf("%s: labels %d, want %d; note %q, want %q; %v", name, p.Labels, c.want, note, c.note, err)
		}
	}
}
