package prepare

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Three phases of one patient in one folder are three scans, and copies of a scan are one, whatever
// their files and axes are.
func TestSameScanByVoxels(t *testing.T) {
	root := t.TempDir()
	for n, phase := range []string{"arterial", "portal", "late"} {
		v, _ := datasettest.Axial(t, 1)
		v = &volume.Volume{Grid: v.Grid, Int16: slices.Clone(v.Int16)}
		for i := range v.Int16 {
			v.Int16[i] += int16(20 * n)
		}
		datasettest.WriteTold(
			t,
			filepath.Join(root, "patient", "DICOM"),
			fmt.Sprintf("1.2.%d", n+1),
			"1.2.9",
			n+1,
			"CT",
			v,
			nil,
			datasettest.Element(0x0008, 0x103E, "LO", phase),
		)
		if phase == "portal" {
			v, err := v.Orient("RAS")
			if err != nil {
				t.Fatal(err)
			}
			if err := nifti.Write(filepath.Join(root, "copy.nii.gz"), v); err != nil {
				t.Fatal(err)
			}
		}
	}
	same := func(o dataset.Options) string {
		d, err := dataset.Detect(root, o)
		if err != nil {
			t.Fatal(err)
		}
		out := t.TempDir()
		s, err := Run(t.Context(), d, out, volume.DefaultPreparation(), Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		store, err := prepared.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		defer store.Close()
		for r := range store.Records() {
			if len(r.Scan) != 64 {
				t.Errorf("%s: digest %q", r.ID, r.Scan)
			}
		}
		return strings.Join(s.Notes, "\n")
	}
	const want = "WARNING: the same scan under several names: copy = DICOM_s2_1ec4fab0d8; "
	if got := same(dataset.Options{Series: dataset.SeriesAll}); !strings.Contains(strings.ReplaceAll(got, "patient_",
		""), want) {
		t.Errorf("%s", got)
	}
	if got := same(dataset.Options{Series: "description~arterial"}); strings.Contains(got, "the same scan") {
		t.Errorf("%s", got)
	}
}
