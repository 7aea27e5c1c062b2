package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Labels that are unlike those of the other files are told, in a folder of label maps and among
// masks of one name; masks of other organs are no others.
func TestInspectComparesLabels(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, height int) {
		t.Helper()
		g := volume.Grid{Shape: [3]int{8, 8, 24}, Affine: volume.Scaling([3]float64{1, 1, 2})}
		l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
		for k := range height {
			l.Labels[g.Index(3, 4, 2+k)], l.Labels[g.Index(4, 4, 2+k)] = 1, 1
		}
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := nifti.WriteLabels(path, l); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 10 {
		height := 14 + n%4
		if n == 6 {
			height = 3
		}
		write(fmt.Sprintf("labelsTr/p%d.nii.gz", n), height)
		write(fmt.Sprintf("t%d/segmentations/liver.nii.gz", n), 12+n%3)
		write(fmt.Sprintf("t%d/segmentations/spleen.nii.gz", n), 4+n%2)
	}
	entries, _, err := Inspect(t.Context(), []string{dir}, InspectOptions{})
	if err != nil || len(entries) != 30 {
		t.Fatal(len(entries), err)
	}
	for _, e := range entries {
		text := strings.Join(e.Problems, "; ")
		want := filepath.Base(e.Path) == "p6.nii.gz"
		if strings.Contains(text, "unlike other labels") != want ||
			want && !strings.Contains(text, "height 6 mm, where others have 3") {
			t.Errorf("%s: %s", e.Path, text)
		}
	}
}
