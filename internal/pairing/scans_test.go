package pairing

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
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
		if err := nifti.WriteLabelsWith(filepath.Join(folder, name), l, nil,
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
		if err == nil || !strings.Contains(err.Error(), "drop2_s3 is a pair of different scans: ") ||
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

// A label that the network of the predictions has no class for is in no mean; one that it has, and
// did not find, is.
func TestLabelsWithoutAClass(t *testing.T) {
	l := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{3, 3, 3}, Affine: volume.Scaling([3]float64{1, 1, 1})},
		Labels: make([]uint16, 27), Names: map[uint16]string{1: "liver", 2: "spleen"}}
	l.Labels[13] = 1
	path := filepath.Join(t.TempDir(), "a.nii.gz")
	for _, stamp := range []bool{false, true} {
		var extensions []nifti.Extension
		if stamp {
			extensions = []nifti.Extension{provenance.Extension(`{"program":"voxsaw predict","version":"1"}`)}
		}
		if err := nifti.WriteLabelsWith(path, l, nil, extensions); err != nil {
			t.Fatal(err)
		}
		for _, merged := range []bool{false, true} {
			pairs := Pairs{Both: []Pair{{Name: "a", Prediction: dataset.Labels{Path: path}}}}
			scores := []eval.Score{
				{Case: "a", Label: 1, Name: "Liver", Predicted: 1, Reference: 1, DSC: 1},
				{Case: "a", Label: 2, Name: "spleen", Reference: 1},
				{Case: "a", Label: 5, Name: "aorta", Reference: 1},
			}
			pairs.NoteUnpredicted(scores, merged)
			told := strings.Contains(strings.Join(pairs.Nowhere, ";"), "has no class for aorta: not scored")
			if want := stamp && !merged; (scores[2].Outcome() == eval.Unlearnt) != want || told != want ||
				scores[1].Outcome() != eval.Missed || scores[0].Outcome() != eval.Scored {
				t.Errorf("stamp %v, merged %v: %+v, %q", stamp, merged, scores, pairs.Nowhere)
			}
		}
	}
}

// A class that the references call otherwise is not taken for none: what nobody predicted of them
// counts as missed.
func TestClassesOfOtherNames(t *testing.T) {
	l := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{3, 3, 3}, Affine: volume.Scaling([3]float64{1, 1, 1})},
		Labels: make([]uint16, 27), Names: map[uint16]string{1: "liver", 2: "tumor"}}
	path := filepath.Join(t.TempDir(), "a.nii.gz")
	stamp := provenance.Extension(`{"program":"voxsaw predict","version":"1"}`)
	if err := nifti.WriteLabelsWith(path, l, nil, []nifti.Extension{stamp}); err != nil {
		t.Fatal(err)
	}
	pairs := Pairs{Both: []Pair{{Name: "a", Prediction: dataset.Labels{Path: path}}}}
	scores := []eval.Score{
		{Case: "a", Label: 1, Name: "liver", Predicted: 1, Reference: 1, DSC: 1},
		{Case: "a", Label: 2, Name: "tumour", Reference: 1},
	}
	pairs.NoteUnpredicted(scores, false)
	if told := strings.Join(pairs.Nowhere, ";"); scores[1].Outcome() != eval.Missed ||
		!strings.Contains(told, "its class tumor is in no reference by that name") {
		t.Errorf("%+v, %q", scores[1], told)
	}
}
