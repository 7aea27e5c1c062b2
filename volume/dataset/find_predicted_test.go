package dataset

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
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
			_, l := datasettest.Patient(t, 1)
			if err := nifti.WriteLabelsWith(path, l, nil,
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
				if predicted := asked && !by.isLabel; d.Cases[0].Predicted != predicted {
					t.Errorf("%s of %s, asked for: %v; predicted: %v", test.labels, by.program, asked, !predicted)
				}
			}
			d, err := Detect(root, Options{LabelsCorrected: true})
			if err != nil || d.Cases[0].Labels == "" || d.Cases[0].Predicted {
				t.Errorf("%s of %s, once corrected: %+v, %v", test.labels, by.program, d.Cases, err)
			}
		}
	}
}

// So it is with SEG objects and RT structure sets beside a series, and they do not hide what
// somebody drew on it, in whatever folder that lies.
func TestPredictedObjectsAreNoLabels(t *testing.T) {
	kinds := map[string]func(string, *volume.LabelMap, *dicom.Series, dicom.WriteOptions) error{
		"SEG": dicom.WriteSegmentation, "RTSTRUCT": dicom.WriteStructureSet,
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		for _, by := range []struct {
			program string
			isLabel bool
		}{{provenance.Predict, false}, {provenance.Crossval, false}, {"another", true}} {
			for _, beside := range []bool{false, true} {
				root := t.TempDir()
				in := func(name string) string { return filepath.Join(root, name) }
				ct, path, drawn := in("ct"), in("rs.dcm"), in("z.dcm")
				v, l := datasettest.Axial(t, 1)
				datasettest.WriteSeries(t, ct, "1.2.1", v, false)
				all, _, err := dicom.Scan(ct)
				if err != nil {
					t.Fatal(err)
				}
				if l, err = l.Orient(all[0].Axcodes); err != nil {
					t.Fatal(err)
				}
				put := func(path, stamp string) {
					t.Helper()
					how := dicom.WriteOptions{Version: stamp, Parameters: stamp}
					if err := kinds[kind](path, l, all[0], how); err != nil {
						t.Fatal(err)
					}
				}
				put(path, `{"program": "`+by.program+`"}`)
				if beside {
					clear(l.Labels[:len(l.Labels)/2]) // so that it is no copy
					put(drawn, "")
				}
				for _, asked := range []bool{false, true} {
					d, err := Detect(root, Options{LabelsPredicted: asked})
					if err != nil || len(d.Cases) != 1 {
						t.Fatalf("%s: %v, %v", kind, d, err)
					}
					isLabel := asked || by.isLabel
					want := ""
					switch {
					case beside && !isLabel:
						want = drawn
					case !beside && isLabel:
						want = path // of two, none is taken unless somebody chooses
					}
					if got := d.Cases[0].Labels; got != want {
						t.Errorf("%s of %s, drawn ones beside it: %v, asked for: %v; labels are %q, not %q", kind,
							by.program, beside, asked, got, want)
					}
					// only where two were drawn, of which none is chosen
					if lost := beside && isLabel; d.AllLost() != lost {
						t.Errorf("%s of %s, drawn ones beside it: %v, asked for: %v; all are lost: %v", kind,
							by.program, beside, asked, d.AllLost())
					}
					if predicted := asked && !by.isLabel && !beside; d.Cases[0].Predicted != predicted {
						t.Errorf("%s of %s, drawn ones beside it: %v, asked for: %v; predicted: %v", kind, by.program,
							beside, asked, !predicted)
					}
					if unused := slices.Contains(d.Unused, path); unused != (!isLabel || beside) {
						t.Errorf("%s of %s, asked for: %v; among the unused: %v", kind, by.program, asked, unused)
					}
				}
			}
		}
	}
}
