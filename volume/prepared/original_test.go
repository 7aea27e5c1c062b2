package prepared

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// Predictions are scored on the scan's own voxels: its labels come out of the store as they went
// in, whatever the scan was resampled to.
func TestOriginalLabels(t *testing.T) {
	v, l := oblong(t, [3]int{21, 17, 13})
	finer, err := l.Resample([3]float64{0.35, 0.4, 1.25})
	if err != nil {
		t.Fatal(err)
	}
	turned, err := l.Orient("SAL")
	if err != nil {
		t.Fatal(err)
	}
	none := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, len(l.Labels))}
	for _, spacing := range [][3]float64{{}, {1, 0, 2}, {3, 3, 3}, {0.5, 0.5, 0.5}} {
		p := volume.DefaultPreparation()
		p.Spacing = spacing
		p.Relabel = "300:2"
		store := writeStore(t, t.TempDir(), p, Input{ID: "plain", Image: v, Labels: l},
			Input{ID: "turned", Image: v, Labels: turned},
			Input{ID: "other grid", Image: v, Labels: finer}, Input{ID: "empty", Image: v, Labels: none},
			Input{ID: "unlabelled", Image: v})
		if err := store.Verify(); err != nil {
			t.Error(err)
		}
		want := slices.Clone(l.Labels)
		for n, label := range want {
			if label == 300 {
				want[n] = 2
			}
		}
		for id, labels := range map[string][]uint16{"plain": want, "turned": want, "other grid": want,
			"empty": none.Labels} {
			c, err := store.Open(id)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.OriginalLabelMap()
			if err != nil {
				t.Fatalf("%s at %v: %v", id, spacing, err)
			}
			// finer labels were made of l: brought back to l's voxels, some are others
			allowed := 0
			if id == "other grid" {
				allowed = len(labels) / 4
			}
			different := 0
			for n := range labels {
				if got.Labels[n] != labels[n] {
					different++
				}
			}
			if different > allowed || !got.Same(v.Grid, 1e-9) {
				t.Errorf("%s at %v: %d of %d labels differ, on %v", id, spacing, different, len(labels), got.Grid)
			}
			if kept := c.OriginalBytes > 0; kept != (spacing != [3]float64{}) {
				t.Errorf("%s at %v: %d bytes are kept", id, spacing, c.OriginalBytes)
			}
		}
		c, err := store.Open("unlabelled")
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.OriginalLabelMap(); got != nil || err != nil || c.OriginalBytes > 0 {
			t.Errorf("labels of a case without any: %v, %v", got, err)
		}
	}
}

// Where the patient's box was prepared, the labels on the scan's voxels are still all of them, and
// those that no network sees are noted.
func TestOriginalLabelsBeyondThePart(t *testing.T) {
	shape := [3]int{40, 36, 12}
	v := &volume.Volume{Grid: volume.Grid{Shape: shape, Affine: volume.Scaling([3]float64{3, 3, 5})},
		Int16: slices.Repeat([]int16{-1000}, 40*36*12)}
	l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
	for k := range 12 {
		for j := 8; j < 20; j++ {
			for i := 10; i < 24; i++ {
				v.Int16[v.Index(i, j, k)] = 60
				l.Labels[l.Index(i, j, k)] = 1
			}
		}
	}
	l.Labels[l.Index(39, 35, 3)], l.Labels[l.Index(38, 35, 3)] = 2, 2 // in the air
	l.Labels[l.Index(39, 35, 4)] = 3                                  // nor do scores count this
	l.Names = map[uint16]string{3: "Ignore"}
	for _, spacing := range [][3]float64{{}, {4, 4, 4}} {
		p := volume.DefaultPreparation()
		p.Spacing = spacing
		dir := t.TempDir()
		writeStore(t, dir, p, Input{ID: "one", Image: v, Labels: l})
		store, err := Open(dir) // what is on the disk says it all
		if err != nil {
			t.Fatal(err)
		}
		c, err := store.Open("one")
		if err != nil {
			t.Fatal(err)
		}
		if c.Box == nil || c.Bounds().Share() > 0.6 || c.Original.Shape != shape {
			t.Fatalf("prepared %v of %v", c.Box, c.Original.Shape)
		}
		if last := len(c.Notes) - 1; last < 0 ||
			!strings.HasPrefix(c.Notes[last], "outside the patient's box: 2 labelled voxels, ") {
			t.Errorf("notes %q", c.Notes)
		}
		got, err := c.OriginalLabelMap()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Labels, l.Labels) {
			t.Errorf("at %v mm, the labels on the scan's voxels are not those that were given", spacing)
		}
		if r, err := c.Restoration(); err != nil || r.Scan.Shape != shape || r.Prepared.Shape != c.Shape {
			t.Errorf("the way back: %+v, %v", r, err)
		}
	}
}

func TestRuns(t *testing.T) {
	for _, labels := range [][]uint16{{0}, {7, 7, 7}, {0, 65535, 65535, 1}, slices.Repeat([]uint16{300}, 100000)} {
		runs, got := encodeRuns(labels), make([]uint16, len(labels))
		if err := decodeRuns(got, runs); err != nil || !reflect.DeepEqual(got, labels) {
			t.Errorf("%v came back as %v, %v", labels[:1], got[:1], err)
		}
		for _, damaged := range [][]byte{nil, runs[:len(runs)-1], append(slices.Clone(runs), 0),
			append(slices.Clone(runs), runs...)} {
			if err := decodeRuns(make([]uint16, len(labels)), damaged); err == nil {
				t.Errorf("runs %v of %d labels are taken", damaged, len(labels))
			}
		}
	}
	for _, runs := range [][]byte{{1, 0}, {0x80, 0x80, 0x04, 1}, {1, 2}, {255, 255, 255, 255, 255, 255, 255, 255, 255,
		255, 255, 1}} {
		if err := decodeRuns(make([]uint16, 1), runs); err == nil {
			t.Errorf("runs %v are taken", runs)
		}
	}
}
