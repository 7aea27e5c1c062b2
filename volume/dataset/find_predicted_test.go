package dataset

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// In every layout, label maps that say that a network made them are no labels, unless that is asked
// for. Those of nobody known, and of other programs, are.
func TestPredictionsAreNoLabels(t *testing.T) {
	for _, test := range []struct{ labels, scan string }{
		{"label0001.nii.gz", "PANCREAS_0001.nii.gz"},
		{"labelsTr/p1.nii.gz", "imagesTr/p1_0000.nii.gz"},
		{"p1/seg.nii.gz", "p1/ct.nii.gz"},
		{"p1/segmentations/liver.nii.gz", "p1/ct.nii.gz"},
	} {
		for _, by := range []struct {
			program string
			isLabel bool
		}{{provenance.Predict, false}, {provenance.Crossval, false}, {"another", true}} {
			root := tree(t, map[string]string{test.scan: "", test.labels: ""})
			path := filepath.Join(root, filepath.FromSlash(test.labels))
			_, l := patient(t, 1)
			if err := nifti.WriteLabelsWith(path, l,
				[]nifti.Extension{provenance.Extension(`{"program": "` + by.program + `"}`)}); err != nil {
				t.Fatal(err)
			}
			for _, asked := range []bool{false, true} {
				d, err := Detect(root, Options{LabelsPredicted: asked})
				if err != nil || len(d.Cases) != 1 {
					t.Fatalf("%s: %v, %v", test.labels, d, err)
				}
				want := asked || by.isLabel
				if got := d.Cases[0].Labels != ""; got != want {
					t.Errorf("%s of %s, asked for: %v; taken for labels: %v", test.labels, by.program, asked, got)
				}
				if unused := slices.Contains(d.Unused, path); unused == want {
					t.Errorf("%s of %s, asked for: %v; among the unused: %v", test.labels, by.program, asked, unused)
				}
			}
		}
	}
}
