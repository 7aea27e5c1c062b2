package format_test

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/format/formattest"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// A series, a SEG object and an RT structure set are formats like any other.
func TestDICOMConforms(t *testing.T) {
	v, l := datasettest.Axial(t, 1)
	asValues := &volume.Volume{Grid: v.Grid, Int16: make([]int16, v.Len())}
	for n, label := range l.Labels {
		asValues.Int16[n] = int16(label)
	}
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	datasettest.WriteSeries(t, in("scan"), "1.2.1", v, false)
	datasettest.WriteSeries(t, in("values"), "1.2.2", asValues, true)
	datasettest.WriteSegmentation(t, in("seg/a"), in("scan"), l)
	datasettest.WriteStructureSet(t, in("contours"), 0, nil)
	t.Run("series", func(t *testing.T) {
		formattest.Conform(t, "DICOM", formattest.Files{Scan: in("scan"), Labels: in("values")})
	})
	t.Run("segmentation", func(t *testing.T) {
		formattest.Conform(t, "DICOM SEG", formattest.Files{Labels: in("seg/a")})
	})
	t.Run("structures", func(t *testing.T) {
		formattest.Conform(t, "DICOM RTSTRUCT", formattest.Files{Labels: in("contours/rs/RS.dcm")})
	})
	got, err := format.ReadLabels(in("seg/a"), format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l, err = l.Orient(got.Axcodes())
	if err != nil {
		t.Fatal(err)
	}
	placed, lost := got.Place(l.Grid)
	if placed == nil || lost > 0 || !slices.Equal(placed.Labels, l.Labels) {
		t.Errorf("other labels are read than were written: %v on %v, %d lost", got.Counts(), got.Grid, lost)
	}
}

// The series of a structure set is looked for in the folder of a relative path and in the one
// around. One that is not there is told apart from several that are.
func TestSeriesBesideContours(t *testing.T) {
	root := t.TempDir()
	in := func(path ...string) string { return filepath.Join(append([]string{root}, path...)...) }
	edit := func(path string, change func(file []byte)) {
		t.Helper()
		file, err := os.ReadFile(path)
		if err == nil {
			change(file)
			err = os.WriteFile(path, file, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seriesOf := func(path string) []byte { // SeriesInstanceUID with its tag and length
		t.Helper()
		file, err := os.ReadFile(path)
		at := bytes.Index(file, []byte("\x20\x00\x0e\x00UI"))
		if err != nil || at < 0 {
			t.Fatal(at, err)
		}
		return file[at : at+8+int(file[at+6])]
	}
	datasettest.WriteStructureSet(t, in("a"), 0, nil)
	datasettest.WriteStructureSet(t, in("several"), 0, func(file []byte) {
		tag := []byte("\x08\x00\x55\x11UI") // ReferencedSOPInstanceUID: none that is there
		for at := bytes.Index(file, tag); at >= 0; {
			file[at+8+2] = '9'
			next := bytes.Index(file[at+1:], tag)
			if next < 0 {
				break
			}
			at += 1 + next
		}
	})
	datasettest.WriteStructureSet(t, in("other"), 1, nil)
	datasettest.WriteStructureSet(t, in("none"), 0, nil)
	if err := os.RemoveAll(in("none", "ct")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(in("other", "ct"), in("several", "ct2")); err != nil {
		t.Fatal(err)
	}
	one, two := seriesOf(in("several", "ct", "0.dcm")), seriesOf(in("several", "ct2", "0.dcm"))
	files, err := filepath.Glob(in("several", "ct2", "*"))
	if err != nil || len(one) != len(two) || len(files) == 0 {
		t.Fatal(err, len(one), len(two), files)
	}
	for _, path := range files {
		edit(path, func(file []byte) { copy(file, bytes.ReplaceAll(file, two, one)) })
	}
	for folder, want := range map[string]string{
		"a": "", "several": "its contours may lie on any of 2 series here",
		"none": "is neither in its folder nor in the one around",
	} {
		t.Chdir(in(folder, "rs"))
		_, err := format.ReadHeader("RS.dcm")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", folder, err, want)
		}
	}
	t.Chdir(root) // for Windows, which removes no folder that a process is in
}

// A header says which of several series was chosen, and so does reading; one series is no choice.
func TestChoiceOfSeriesIsTold(t *testing.T) {
	v, _ := datasettest.Axial(t, 1)
	folder := t.TempDir()
	small := &volume.Volume{Grid: v.Grid, Int16: v.Int16}
	small.Shape[2]--
	small.Int16 = v.Int16[:small.Len()]
	datasettest.WriteSeries(t, filepath.Join(folder, "one"), "1.2.1", v, false)
	told := func() (problems, notes []string) {
		t.Helper()
		h, err := format.ReadHeader(folder)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.Read(format.Options{Note: func(note string) { notes = append(notes, note) }}); err != nil {
			t.Fatal(err)
		}
		return h.Problems, notes
	}
	if problems, notes := told(); len(problems) > 0 || len(notes) > 0 {
		t.Errorf("one series: %q, %q", problems, notes)
	}
	datasettest.WriteSeries(t, filepath.Join(folder, "two"), "1.2.2", small, false)
	const want = "the largest axial CT of 2 series"
	problems, notes := told()
	if len(problems) != 1 || !strings.Contains(problems[0], want) || !slices.Equal(notes, problems) {
		t.Errorf("problems %q, notes %q, want one with %q", problems, notes, want)
	}
}
