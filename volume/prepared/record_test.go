package prepared

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// A store that another version prepared in another way is refused, and prepared again where that is
// asked for.
func TestRecordsOfOtherVersionsAreRefused(t *testing.T) {
	v, l := oblong(t, [3]int{21, 17, 13})
	for _, key := range []string{"labels_by", "scan"} {
		dir, in := t.TempDir(), Input{ID: "a", Image: v, Labels: l}
		writeStore(t, dir, volume.DefaultPreparation(), in)
		for _, path := range []string{recordPath(dir, "a"), filepath.Join(dir, manifestName)} {
			text, err := os.ReadFile(path)
			other := regexp.MustCompile(`"`+key+`": "[^"]*",`).ReplaceAll(text, nil)
			if err != nil || len(other) == len(text) {
				t.Fatalf("%s, %v", text, err)
			}
			if err := os.WriteFile(path, other, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		forget(t, dir)
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(),
			`case "a": another version of the program prepared it, in another way: voxsaw prepare --force `) {
			t.Errorf("without %s: %v", key, err)
		}
		w, err := NewWriter(dir, volume.DefaultPreparation())
		if err != nil {
			t.Fatal(err)
		}
		if _, kept := w.Keep(in, nil); kept {
			t.Errorf("without %s it is kept", key)
		}
		// nor removed unasked, for who knows whether it can be prepared again
		if _, _, err := w.Unlike(map[string][]string{"a": nil}); !errors.Is(err, errOtherVersion) {
			t.Errorf("without %s: %v", key, err)
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
