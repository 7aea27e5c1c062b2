package prepare

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A case that is refused by its values has no part in what the others go by, and is named once.
func TestForegroundWithoutRefusedCases(t *testing.T) {
	of := datasettest.Likenesses(t)
	folder := func(scans map[string]string) string {
		root := t.TempDir()
		for _, sub := range []string{"imagesTr", "labelsTr"} {
			if err := os.MkdirAll(filepath.Join(root, sub), 0o777); err != nil {
				t.Fatal(err)
			}
		}
		for id, kind := range scans {
			v := of[kind]
			l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, v.Len())}
			for n := range l.Labels {
				l.Labels[n] = uint16(n % 2)
			}
			if err := nifti.Write(filepath.Join(root, "imagesTr", id+".nii.gz"), v); err != nil {
				t.Fatal(err)
			}
			if err := nifti.WriteLabels(filepath.Join(root, "labelsTr", id+".nii.gz"), l); err != nil {
				t.Fatal(err)
			}
		}
		return root
	}
	p := volume.DefaultPreparation()
	p.Intensity = volume.CTPercentiles
	good, err := Run(t.Context(), detect(t, folder(map[string]string{"p1": "CT"})), t.TempDir(), p, Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	ct := map[string]string{"p1": "CT", "p2": "CT", "p3": "CT", "p5": "CT"}
	for _, bad := range []string{"MR", "nothing"} {
		ct["p4"] = bad
		both, err := Run(t.Context(), detect(t, folder(ct)), t.TempDir(), p, Options{}, nil)
		if err == nil || strings.Count(err.Error(), "\n  p4: ") != 1 || both == nil || both.Prepared != 4 {
			t.Fatalf("%s: %+v, %v", bad, both, err)
		}
		// four times as many voxels move a percentile by its interpolation alone
		for n, want := range good.Preparation.Foreground {
			if got := both.Preparation.Foreground[n]; got-want > 1 || want-got > 1 {
				t.Errorf("beside %s: foreground %v, want %v", bad, both.Preparation.Foreground,
					good.Preparation.Foreground)
				break
			}
		}
	}
}
