package pairing

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// stamped leaves label maps in a new folder that say of which scan they are, by their names.
func stamped(t *testing.T, scans map[string]string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	l := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{3, 3, 3}, Affine: volume.Scaling([3]float64{1, 1, 1})},
		Labels: make([]uint16, 27)}
	for name, scan := range scans {
		text := fmt.Sprintf(`{"program":"voxsaw predict","version":"1","scan_sha256":%q}`, scan)
		if err := nifti.WriteLabelsWith(filepath.Join(folder, name), l,
			[]nifti.Extension{provenance.Extension(text)}); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// Label maps that say that they are of different scans are no pair, by name or by a table. What
// does not say it is taken by its name.
func TestPairsOfDifferentScans(t *testing.T) {
	one := stamped(t, map[string]string{"drop2_s3.nii.gz": "aaaa", "b.nii.gz": "bbbb", "c.nii.gz": ""})
	two := stamped(t, map[string]string{"drop2_s3.nii.gz": "cccc", "b.nii.gz": "bbbb", "c.nii.gz": "dddd"})
	table := filepath.Join(t.TempDir(), "pairs.csv")
	if err := os.WriteFile(table, []byte("prediction,reference\n"+filepath.Join(one, "drop2_s3.nii.gz")+","+
		filepath.Join(two, "drop2_s3.nii.gz")+"\n"+filepath.Join(one, "b.nii.gz")+","+
		filepath.Join(two, "b.nii.gz")+"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, by := range []string{"", "*.nii.gz=*.nii.gz", table} {
		pairs, err := Find(one, two, by, false)
		if err != nil {
			t.Fatal(err)
		}
		err = pairs.CheckScans()
		if err == nil || !strings.Contains(err.Error(), "1 pair of different scans: drop2_s3: ") ||
			!strings.Contains(err.Error(), "its scan is aaaa") || !strings.Contains(advice(err), "--any-scan") {
			t.Errorf("by %q: %v; %s", by, err, advice(err))
		}
	}
	pairs, err := Find(one, write(t, "drop2_s3.nii.gz", "b.nii.gz", "c.nii.gz"), "", false)
	if err == nil {
		err = pairs.CheckScans()
	}
	if err != nil {
		t.Error(err)
	}
}
