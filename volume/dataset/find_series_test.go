package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// Of a study, the series that somebody drew on is taken, though others are larger; labels that are
// not used are counted.
func TestDrawnSeriesGoesFirst(t *testing.T) {
	v, l := datasettest.Axial(t, 1)
	study := func(drawn ...int) (root string) {
		root = t.TempDir()
		for n, count := range []int{30, 20, 24} { // the first is the largest
			folder := filepath.Join(root, fmt.Sprint("s", n+1))
			datasettest.WriteStudy(t, folder, fmt.Sprintf("1.2.%d", n+1), "1.2.9", n+1, "CT", slicesOf(v, count), nil)
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

// SEG objects of one series with a structure each are its labels together, as mask files are; those
// that hold one structure twice compete.
func TestObjectsOfOneStructureEachAreJoined(t *testing.T) {
	v, l := datasettest.Axial(t, 1)
	for n, label := range l.Labels { // two structures, side by side
		if label != 0 {
			l.Labels[n] = 1 + uint16(n/l.Shape[0]%2)
		}
	}
	part := func(name string, inside ...uint16) *volume.LabelMap {
		one := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len()), Names: map[uint16]string{1: name}}
		for n, label := range l.Labels {
			if slices.Contains(inside, label) {
				one.Labels[n] = 1
			}
		}
		return one
	}
	const competes = "used without labels, because it has 2 SEG objects, and Head is in several: --segmentation chooses"
	for name, c := range map[string]struct {
		first, second *volume.LabelMap
		o             Options
		pairs         string
		note          string
		want          []uint16 // labels of the first and of the second structure
		err           string
		unused        int
	}{
		"of one drawing": {first: part("tail", 2), second: part("head", 1), want: []uint16{1, 2},
			note: "its labels are 2 SEG objects with other structures each, put together: tail, head"},
		"one is wanted": {first: part("tail", 2), second: part("head", 1), o: Options{Structures: []string{"tail"}},
			want: []uint16{0, 1}, unused: 1},
		"one is chosen": {first: part("tail", 2), second: part("head", 1), o: Options{Segmentation: "1"},
			want: []uint16{0, 1}, unused: 1},
		"of two readers": {first: part("head", 1), second: part("Head", 1, 2), note: competes, unused: 2},
		"overlapping": {first: part("tail", 1, 2), second: part("head", 1),
			err: "structures overlap: head and tail"},
		"named by pairs": {first: part("head", 1), second: part("Head", 2),
			pairs: "scan,labels,name\nct,1.dcm,a\nct,2.dcm,b\n", want: []uint16{1, 2}},
	} {
		root := t.TempDir()
		in := func(name string) string { return filepath.Join(root, name) }
		datasettest.WriteSeries(t, in("ct"), "1.2.1", v, false)
		datasettest.WriteSegmentation(t, in("1.dcm"), in("ct"), c.first)
		datasettest.WriteSegmentation(t, in("2.dcm"), in("ct"), c.second)
		if c.pairs != "" {
			c.o.Pairs = filepath.Join(t.TempDir(), "pairs.csv")
			if err := os.WriteFile(c.o.Pairs, []byte(c.pairs), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		d, err := Detect(root, c.o)
		if err != nil || len(d.Cases) != 1 {
			t.Fatalf("%s: %v, %v", name, d, err)
		}
		if c.note != "" && !datasettest.Noted(d.Notes, c.note) || len(d.Unused) != c.unused ||
			datasettest.Noted(d.Notes, "used without labels") != (c.want == nil && c.err == "") {
			t.Errorf("%s: notes %q, unused %q", name, d.Notes, d.Unused)
		}
		if c.want == nil && c.err == "" {
			continue
		}
		scan, got, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := slices.Clone(l.Labels)
		for n, label := range want {
			if label > 0 {
				want[n] = c.want[label-1]
			}
		}
		if oriented, err := got.Orient(l.Axcodes()); err != nil || !got.Same(scan.Grid, 1e-3) ||
			!slices.Equal(oriented.Labels, want) {
			t.Errorf("%s: %v, %v voxels, names %v", name, err, got.Counts(), got.Names)
		}
	}
}
