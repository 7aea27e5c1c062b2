package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dataset"
)

// Advice that many notes end in is said once, with its count; what is said of each stays.
func TestAdviceIsSaidOnce(t *testing.T) {
	var notes, want []string
	for n := range 26 {
		notes = append(
			notes,
			fmt.Sprintf(
				"p%d: CT series %d: the largest axial CT of %d series; --series "+
					"chooses another, --series all takes each",
				n,
				n,
				n+3,
			),
		)
		want = append(want, fmt.Sprintf("p%d: CT series %d: the largest axial CT of %d series", n, n, n+3))
	}
	for n := range 12 {
		notes = append(
			notes,
			fmt.Sprintf("masks/%d.nii.gz: passed over: holds labels by its values; --pairs says of which scan", n),
		)
	}
	notes = append(notes, "a: something else")
	want = append(
		want,
		"masks/0.nii.gz, masks/1.nii.gz, masks/2.nii.gz, masks/3.nii.gz, masks/4.nii.gz, "+
			"masks/5.nii.gz, masks/6.nii.gz, masks/7.nii.gz and 4 more: passed over: holds labels "+
			"by its values; --pairs says of which scan",
		"a: something else",
		"26 of these: --series chooses another, --series all takes each",
	)
	if got := once(notes); !slices.Equal(got, want) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	var entries []dataset.Entry
	for n := range 26 {
		entries = append(
			entries,
			dataset.Entry{
				Path: fmt.Sprintf("a/%d", n),
				Kind: "NIfTI-1",
				Problems: []string{
					fmt.Sprintf("%d volumes: choose one with --volume, please", n+2),
					"the same in all of them, and long enough",
				},
			},
		)
	}
	entries[3].Problems = append(entries[3].Problems, "its own")
	var b strings.Builder
	if err := printEntries(&b, entries); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{" 2 volumes (note 1); see note 2\n", " 5 volumes (note 1); see note 2; its own\n",
		"note 1, 26 times: choose one with --volume, please\n",
		"note 2, 26 times: the same in all of them, and long enough\n"} {
		if strings.Count(b.String(), want) != 1 {
			t.Errorf("%q is not there once:\n%s", want, b.String())
		}
	}
}
