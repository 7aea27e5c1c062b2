package segment

import (
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Validation and scores leave out what nobody drew in a case, whatever the network says there. A
// class of several labels is left out where none of them was drawn.
func TestUndrawnClassesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	w, err := prepared.NewWriter(filepath.Join(dir, "prepared"), volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	scan, labels, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	partly := &volume.LabelMap{Grid: labels.Grid, Labels: slices.Clone(labels.Labels), Names: labels.Names}
	for n, label := range partly.Labels {
		if label == 2 || label == 3 {
			partly.Labels[n] = 0
		}
	}
	for _, in := range []prepared.Input{
		{ID: "all", Image: scan, Labels: labels},
		{ID: "trained", Image: scan, Labels: labels},
		// there are voxels of label 4: it was drawn
		{ID: "partly", Image: scan, Labels: partly, Undrawn: []uint16{2, 3, 4}},
	} {
		if _, err := w.Add(in); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(filepath.Join(dir, "prepared"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()

	c := tiny()
	c.Labels = []string{"2", "3+4"}
	c.ValidateCases = 0
	c = resolved(t, c, store)
	if got, want := c.UndrawnIn(store, []string{"all", "partly"}), "liver in 1 of 2 (partly)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	l, err := compiled(t, testDevice(t), c, sample.Data{Store: store, Train: []string{"trained"},
		Validate: []string{"all", "partly"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for n, undrawn := range []bool{false, true} {
		v, err := l.validateCase(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		// it predicts the same in both: they are one scan
		if !v.Found[1] || math.IsNaN(v.Whole[2]) || math.IsNaN(v.Largest[2]) {
			t.Errorf("case %d: the network says nothing that this test could look at: %+v", n, v)
		}
		if math.IsNaN(v.Whole[1]) != undrawn || math.IsNaN(v.Largest[1]) != undrawn {
			t.Errorf("case %d: DSC %v, of the largest component %v", n, v.Whole[1], v.Largest[1])
		}
	}

	partly.Undrawn = []uint16{2, 3}
	if r := c.Reference(partly); !slices.Equal(r.Undrawn, []uint16{2}) {
		t.Errorf("the reference lacks %v", r.Undrawn)
	}
	c.Labels = []string{"4", "2+3"}
	if r := c.Reference(partly); !slices.Equal(r.Undrawn, []uint16{2}) {
		t.Errorf("of merged labels the reference lacks %v", r.Undrawn)
	}
}
