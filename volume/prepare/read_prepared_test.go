package prepare

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A prepared case leads back to its series, among others on the same voxels; a file that is no
// DICOM to none; and what is gone, or holds other voxels, is an error.
func TestSeriesOfAPreparedCase(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	other := *v
	other.Int16 = slices.Clone(v.Int16)
	other.Int16[len(v.Int16)/2] += 3
	datasettest.WriteStudy(t, filepath.Join(root, "pat"), "1.2.1", "1.2.9", 1, "CT", v, nil)
	datasettest.WriteStudy(t, filepath.Join(root, "pat"), "1.2.2", "1.2.9", 2, "CT", &other, nil)
	out := t.TempDir()
	d, err := dataset.Detect(root, dataset.Options{Series: "2"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), d, out, volume.DefaultPreparation(), Options{}, nil); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(out)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	var r prepared.Record
	for r = range store.Records() {
	}
	s, how, err := dataset.SeriesOf(r)
	if err != nil || s == nil || s.UID != "1.2.2" || how.Tilt != "resample" || how.Gaps != "error" {
		t.Fatalf("%v, %+v, %v", s, how, err)
	}
	r.Scan = strings.Repeat("0", 64)
	if s, _, err := dataset.SeriesOf(r); s != nil || err == nil || !strings.Contains(err.Error(), "other voxels") {
		t.Errorf("other voxels: %v, %v", s, err)
	}
	if err := os.Rename(root, root+"-elsewhere"); err != nil {
		t.Fatal(err)
	}
	if s, _, err := dataset.SeriesOf(r); s != nil || !os.IsNotExist(err) {
		t.Errorf("gone: %v, %v", s, err)
	}
	r.Sources = []prepared.Source{{Path: "/gone/scan.nii.gz"}}
	if s, _, err := dataset.SeriesOf(r); s != nil || err != nil {
		t.Errorf("NIfTI: %v, %v", s, err)
	}
}
