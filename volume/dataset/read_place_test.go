package dataset

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// A reference on a part of a prediction's voxels, and one that goes by index, are compared.
func TestReferencesOnAPart(t *testing.T) {
	v, l := datasettest.Patient(t, 1)
	part, err := l.Crop([3]int{2, 1, 3}, [3]int{20, 17, 12})
	if err != nil {
		t.Fatal(err)
	}
	bare := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling([3]float64{1, 1, 1})},
		Labels: l.Labels}
	root := datasettest.Written(t, v, map[string]*volume.LabelMap{"whole.nii": l, "part.nii": part, "bare.nii": bare})
	at := func(name string) Labels { return Labels{Path: filepath.Join(root, name)} }
	for _, pair := range [][2]string{{"whole.nii", "part.nii"}, {"part.nii", "whole.nii"}} {
		p, r, notes, err := ReadPair(at(pair[0]), at(pair[1]), nil, DefaultReadOptions())
		if err != nil {
			t.Fatal(err)
		}
		placed, _ := part.Place(l.Grid)
		one, other := p, r
		if pair[0] == "part.nii" {
			one, other = r, p
		}
		if !slices.Equal(one.Labels, l.Labels) || !slices.Equal(other.Labels, placed.Labels) || !p.Same(r.Grid, 1e-3) {
			t.Errorf("%v: compared elsewhere", pair)
		}
		if !datasettest.Noted(notes, "on a part of the scan's voxels, 20x17x12 of 24x20x16") {
			t.Errorf("%v: notes %q", pair, notes)
		}
	}
	o := DefaultReadOptions()
	o.LabelsBy = LabelsByIndex
	p, r, notes, err := ReadPair(at("whole.nii"), at("bare.nii"), nil, o)
	if err != nil || !slices.Equal(r.Labels, l.Labels) || r.Grid != p.Grid ||
		!datasettest.Noted(notes, "compared by index") {
		t.Errorf("by index: %v, notes %q", err, notes)
	}
	if p, r, _, err = ReadPair(at("whole.nii"), at("bare.nii"), nil, DefaultReadOptions()); err != nil ||
		p.Same(r.Grid, 1) {
		t.Errorf("by the header they lie elsewhere: %v", err)
	}
}
