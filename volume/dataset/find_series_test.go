package dataset

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// Of a study, the series that somebody drew on is taken, though others are larger; labels that are
// not used are counted.
func TestDrawnSeriesGoesFirst(t *testing.T) {
	v, l := datasettest.Axial(t, 1)
	study := func(drawn ...int) (root string) {
		root = t.TempDir()
		for n, slices := range []int{30, 20, 24} { // the first is the largest
			folder := filepath.Join(root, fmt.Sprint("s", n+1))
			datasettest.WriteStudy(t, folder, fmt.Sprintf("1.2.%d", n+1), "1.2.9", n+1, "CT", slicesOf(v, slices), nil)
		}
		for _, n := range drawn {
			folder := filepath.Join(root, fmt.Sprint("s", n))
			all, _, err := dicom.Scan(folder)
			if err != nil || len(all) != 1 {
				t.Fatal(err)
			}
			part, err := l.Crop([3]int{}, slicesOf(v, all[0].Shape[2]).Shape)
			if err != nil {
				t.Fatal(err)
			}
			datasettest.WriteSegmentation(t, filepath.Join(root, "seg", fmt.Sprint(n, ".dcm")), folder, part)
		}
		return root
	}
	for _, c := range []struct {
		name   string
		drawn  []int
		o      Options
		number string // of the series that is taken
		unused []string
		note   string
	}{
		{"none", nil, Options{}, "1", nil, "the largest axial CT of 3 series"},
		{"one", []int{2}, Options{}, "2", nil, "the one of 3 series that labels refer to; --series chooses another"},
		{"two", []int{2, 3}, Options{}, "3", []string{"2.dcm"},
			"the largest axial CT of 2 series that labels refer to, of 3"},
		{"another is asked for", []int{2, 3}, Options{Series: "1"}, "1", []string{"2.dcm", "3.dcm"},
			"which is not taken; --series 2 takes it"},
		{"no labels are wanted", []int{2}, Options{Unlabelled: true}, "1", []string{"2.dcm"}, "the largest axial CT"},
		{"a channel", []int{2}, Options{Channels: []string{"CT", "description~x"}}, "", []string{"2.dcm"}, ""},
	} {
		root := study(c.drawn...)
		d, err := Detect(root, c.o)
		if err != nil || len(d.Cases) != 1 {
			t.Fatalf("%s: %v, %v", c.name, d, err)
		}
		if s := d.Cases[0].series; (s == nil) != (c.number == "") || s != nil && s.Number != c.number {
			t.Errorf("%s: series %v, want %s", c.name, s, c.number)
		}
		unused := baseNames(d.Unused)
		if fmt.Sprint(unused) != fmt.Sprint(c.unused) || c.note != "" &&
			!datasettest.Noted(d.Notes, c.note) {
			t.Errorf("%s: unused %q, want %q; notes %q", c.name, unused, c.unused, d.Notes)
		}
		if lost := len(c.unused) > 0 && d.Cases[0].Labels == ""; d.AllLost() != lost {
			t.Errorf("%s: all are lost: %v", c.name, d.AllLost())
		}
	}
	entries, _, err := Inspect(t.Context(), []string{study(2, 3)}, InspectOptions{})
	problems := 0
	for _, e := range entries {
		if e.Kind == "DICOM SEG" && datasettest.Noted(e.Problems, "no case has these labels") {
			problems++
		}
	}
	if err != nil || problems != 1 {
		t.Errorf("%d SEG objects with problems, %v", problems, err)
	}
}
