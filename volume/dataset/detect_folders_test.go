package dataset

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

func detect(t *testing.T, root string) *Dataset {
	t.Helper()
	d, err := Detect(root, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func folderOf(t *testing.T, cases ...string) string {
	t.Helper()
	files := map[string]string{}
	for _, id := range cases {
		files["imagesTr/"+id+".nii.gz"], files["labelsTr/"+id+".nii.gz"] = "", ""
	}
	return tree(t, files)
}

func TestSeveralFolders(t *testing.T) {
	labelled := tree(t, map[string]string{"imagesTr/p1.nii.gz": "", "labelsTr/p1.nii.gz": "",
		"dataset.json": `{"labels": {"1": "pancreas"}}`})
	bare := tree(t, map[string]string{"q1/ct.nii.gz": "", "q2/ct.nii.gz": ""})
	d, err := DetectAll([]string{labelled, bare}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := append(d.IDs("", true), d.IDs("", false)...); !slices.Equal(got, []string{"p1", "q1", "q2"}) ||
		d.LabelNames[1] != "pancreas" || d.Layout != "msd and scans" {
		t.Errorf("%v, %v, %s", got, d.LabelNames, d.Layout)
	}
	other := tree(t, map[string]string{"imagesTr/p3.nii.gz": "", "labelsTr/p3.nii.gz": "",
		"dataset.json": `{"labels": {"1": "liver"}}`})
	if _, err := DetectAll([]string{labelled, other}, Options{}); err == nil ||
		!strings.Contains(err.Error(), `label 1 is "pancreas" in `+labelled+` and "liver" in `+other) {
		t.Errorf("one number for two organs: %v", err)
	}
	// One study in two folders is one patient.
	v, _ := datasettest.Patient(t, 1)
	both := t.TempDir()
	one, two := filepath.Join(both, "one"), filepath.Join(both, "two")
	datasettest.WriteStudy(t, one, "1.2.3", "1.2.9", 1, "CT", v, nil)
	datasettest.WriteStudy(t, two, "1.2.4", "1.2.9", 2, "CT", v, nil)
	if d, err = DetectAll([]string{one, two}, Options{}); err != nil || len(d.Cases) != 2 || d.Cases[0].Patient == "" ||
		d.Cases[0].Patient != d.Cases[1].Patient {
		t.Errorf("%v, %+v", err, d.Cases)
	}
}

func TestScansBesideImagesTr(t *testing.T) {
	root := tree(t, map[string]string{
		"imagesTr/p1_0000.nii.gz": "", "labelsTr/p1.nii.gz": "", "imagesVa/p2_0000.nii.gz": "",
		"labelsVa/p2.nii.gz":  "",
		"more/p3_0000.nii.gz": "", "more/p3_seg.nii.gz": "", "p4_0000.nii.gz": "", "p4_seg.nii.gz": "",
		"dataset.json": `{"channel_names": {"0": "CT"}, "labels": {"pancreas": 1}, "file_ending": ".nii.gz"}`,
	})
	d := detect(t, root)
	want := []string{"more_p3 more/p3_0000.nii.gz", "p1 imagesTr/p1_0000.nii.gz labelsTr/p1.nii.gz",
		"p2 test imagesVa/p2_0000.nii.gz labelsVa/p2.nii.gz", "p4 p4_0000.nii.gz"}
	if got := list(d); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if !datasettest.Noted(d.Notes, "1 scan, held back for testing") ||
		!datasettest.Noted(d.Notes, "more: 1 scan without labels beside imagesTr") ||
		!datasettest.Noted(d.Notes, filepath.Base(root)+": 1 scan without labels beside imagesTr") ||
		len(d.Unused) != 2 {
		t.Errorf("notes %q, unused %q", d.Notes, d.Unused)
	}
}
