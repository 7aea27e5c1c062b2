package format_test

import (
	"path/filepath"
	"slices"
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
