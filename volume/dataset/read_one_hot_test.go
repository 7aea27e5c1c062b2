package dataset

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Of labels that are a volume each, the names tell whether the first is the background, the same in
// all cases: a voxel that is in none of the volumes does not.
func TestFirstVolumeOfOneHotLabels(t *testing.T) {
	scan, _ := datasettest.Patient(t, 1)
	want := make([]uint16, scan.Len())
	for n := range 50 {
		want[n] = uint16(1 + n%2)
	}
	oneHot := func(from uint16) []float32 {
		var values []float32
		for label := from; label < 3; label++ {
			for _, x := range want {
				values = append(values, map[bool]float32{true: 1}[x == label])
			}
		}
		return values
	}
	hole := oneHot(0)
	hole[len(want)-1] = 0 // the last voxel is in no volume
	const named = `{"labels": {"1": "liver", "2": "tumour"}}`
	for name, c := range map[string]struct {
		values        []float32
		names, failed string
	}{
		"names and whole":  {oneHot(0), named, ""},
		"names and a hole": {hole, named, ""},
		"no background":    {oneHot(1), named, ""},
		"no names":         {oneHot(0), "{}", ""},
		"a hole, no names": {hole, "{}", "holds 3 volumes, the first of them with most of the " +
			"voxels, as the background, but 1 voxel in none"},
		"neither": {oneHot(1), "{}", ""},
		"names of others": {oneHot(0), `{"labels": {"1": "liver", "2": "tumour", "3": "cyst"}}`,
			"holds 3 volumes that share out all voxels"},
	} {
		root := tree(t, map[string]string{"imagesTr/p1.nii.gz": "", "labelsTr/p1.nii.gz": "", "dataset.json": c.names})
		if err := nifti.WriteChannels(filepath.Join(root, "labelsTr", "p1.nii.gz"), scan.Grid, c.values,
			nil, nil); err != nil {
			t.Fatal(err)
		}
		d := detect(t, root)
		_, l, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
		entries, _, failed := Inspect(t.Context(), []string{root}, InspectOptions{})
		if failed != nil {
			t.Fatal(failed)
		}
		problems := strings.Join(entries[len(entries)-1].Problems, "; ")
		switch {
		case c.failed != "":
			if err == nil || !strings.Contains(err.Error(), c.failed) || !strings.Contains(problems, c.failed) {
				t.Errorf("%s: %v; inspected: %s", name, err, problems)
			}
		case err != nil || !slices.Equal(l.Labels, want) || strings.Contains(problems, "cannot be read"):
			t.Errorf("%s: %v; inspected: %s", name, err, problems)
		}
	}
}
