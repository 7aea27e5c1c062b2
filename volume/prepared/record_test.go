package prepared

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// asBefore makes the records of a folder those of a version that resampled labels to the nearest
// voxel.
func asBefore(t *testing.T, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "cases", "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range append(paths, filepath.Join(dir, manifestName)) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var whole map[string]any
		if err := json.Unmarshal(data, &whole); err != nil {
			t.Fatal(err)
		}
		records, _ := whole["cases"].([]any)
		if one, is := whole["case"]; is {
			records = append(records, one)
		}
		if len(records) == 0 {
			t.Fatal("no records in " + path)
		}
		for _, r := range records {
			delete(r.(map[string]any), "labels_by")
			delete(r.(map[string]any), "drawn_label_counts")
		}
		if data, err = json.Marshal(whole); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// Labels that an older version resampled lie beside the image: whoever opens them is told, and
// prepare does them again. Others of that version are as they should be.
func TestLabelsOfOlderVersions(t *testing.T) {
	v, l := oblong(t, [3]int{21, 17, 13})
	finer, err := l.Resample([3]float64{0.35, 0.4, 1.25})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spacing  [3]float64
		in       Input
		outdated bool
	}{
		{[3]float64{}, Input{ID: "a", Image: v, Labels: l}, false},
		{[3]float64{2, 2, 2}, Input{ID: "a", Image: v, Labels: l}, true},
		{[3]float64{2, 2, 2}, Input{ID: "a", Image: v}, false},
		{[3]float64{}, Input{ID: "a", Image: v, Labels: finer, Notes: []string{NoteOtherVoxels}}, true},
		{[3]float64{}, Input{ID: "a", Image: v, Labels: l,
			Notes: []string{"slices are stacked askew, by 12.00 degrees (gantry tilt): each is " +
				"moved in its plane onto an orthogonal grid"}}, true},
	} {
		p := volume.DefaultPreparation()
		p.Spacing = c.spacing
		dir := t.TempDir()
		store := writeStore(t, dir, p, c.in)
		if text := store.Outdated(); text != "" {
			t.Errorf("just prepared: %s", text)
		}
		before := store.Fingerprint()
		asBefore(t, dir)
		forget(t, dir)
		old, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if old.Fingerprint() != before {
			t.Error("another fingerprint")
		}
		text := old.Outdated()
		if (text != "") != c.outdated ||
			c.outdated && (!strings.Contains(text, "the labels of 1 case (a) to the nearest voxel") ||
				strings.Contains(text, "\n")) {
			t.Errorf("at %v: %q", c.spacing, text)
		}
		if err := old.Close(); err != nil {
			t.Fatal(err)
		}
		w, err := NewWriter(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := w.Keep(c.in, nil); kept == c.outdated {
			t.Errorf("at %v: kept %v", c.spacing, kept)
		}
		if again := w.Outdated(); (len(again) > 0) != c.outdated {
			t.Errorf("at %v: prepared again: %q", c.spacing, again)
		}
	}
}

// A record says how many voxels labels had, and warns where none is left.
func TestVoxelsOfResampledLabels(t *testing.T) {
	g := volume.Grid{Shape: [3]int{24, 24, 24}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	for n := range v.Int16 {
		v.Int16[n] = int16(n % 200)
	}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len()), Names: map[uint16]string{3: "duct", 4: "vein"}}
	for n := range l.Labels {
		if n%24 < 12 {
			l.Labels[n] = 1
		}
	}
	for k := range 8 { // two that one voxel holds: it can be of one alone
		l.Labels[l.Index(20+k%2, 20+k/2%2, 20+k/4)] = uint16(3 + k%2)
	}
	l.Labels[l.Index(20, 20, 20)] = 0
	p := volume.DefaultPreparation()
	p.Crop, p.Spacing = volume.CropNone, [3]float64{4, 4, 4}
	store := writeStore(t, t.TempDir(), p, Input{ID: "a", Image: v, Labels: l}, Input{ID: "b", Image: v})
	a, _ := store.Record("a")
	if a.DrawnCounts[1] != 12*24*24 || a.DrawnCounts[3] != 3 || a.DrawnCounts[4] != 4 || a.LabelCounts[1] != 3*6*6 {
		t.Errorf("drawn %v, prepared %v", a.DrawnCounts, a.LabelCounts)
	}
	if want := []string{"WARNING: no prepared voxel is left of duct (3 voxels)"}; !slices.Equal(a.Notes, want) ||
		a.LabelCounts[4] != 1 {
		t.Errorf("notes %q, prepared %v", a.Notes, a.LabelCounts)
	}
	if b, _ := store.Record("b"); b.DrawnCounts != nil || b.LabelsBy != "" {
		t.Errorf("of no labels: %+v", b)
	}
}
