package dataset

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

func TestModalityOfNames(t *testing.T) {
	for name, want := range map[string]Modality{
		"sub-01_T1w.nii.gz":                 {"MR", "suffix of BIDS", true},
		"sub-01_ses-2_acq-a_FLAIR.nii.gz":   {"MR", "suffix of BIDS", true},
		"sub-01_trc-FDG_pet.nii":            {"PT", "suffix of BIDS", true},
		"sub-01_ct.nii.gz":                  {"CT", "suffix of BIDS", true},
		"ct.nii.gz":                         {"CT", "name", false},
		"mri.nii.gz":                        {"MR", "name", false},
		"BraTS-GLI-00000-000-t2w.nii.gz":    {"MR", "name", false},
		"BraTS19_CBICA_AAB_1_flair.nii":     {"MR", "name", false},
		"CHUM-001__CT.nii.gz":               {"CT", "name", false},
		"CHUM-001__PET_0000.nii.gz":         {"PT", "name", false},
		"pt_001.nii.gz":                     {}, // a patient
		"MR-123.nii.gz":                     {}, // a medical record
		"p7_t1.nii.gz":                      {}, // a point in time
		"liver_12_0000.nii.gz":              {},
		"sub-01_us.nii.gz":                  {},
		"director.nii.gz":                   {}, // no word
		"volume.dcm":                        {},
		"T2 and a ct in the middle of.nii":  {},
		"12.nii.gz":                         {},
		"sub-01_desc-brain_label-x_T2w.nii": {"MR", "suffix of BIDS", true},
	} {
		if got := modalityOfName(filepath.Join("any", name)); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	for channel, want := range map[string]string{"CT": "CT", "MRI": "MR", "T1w": "MR", "portal venous phase CT": "CT",
		"PET": "PT", "zscore": "", "noNorm": "", "FLAIR": "MR", "T1-ce": "MR", "R": ""} {
		if got := ModalityOfChannel(channel); got != want {
			t.Errorf("channel %q: %q, want %q", channel, got, want)
		}
	}
}

func TestLikenessOfValues(t *testing.T) {
	scans := datasettest.Likenesses(t)
	for name, want := range map[string]likeness{
		"CT":                           likeCT,
		"CT with filler":               likeCT,
		"CT masked with 0":             likeCT,
		"CT from 0 up":                 likeShiftedCT,
		"CT from 0 up, by 1000":        likeShiftedCT,
		"CT in kilo-HU":                unlikeCT,
		"window from 0 to 255":         unlikeCT,
		"MR":                           unlikeCT,
		"MR with ringing":              unlikeCT,
		"MR with much ringing":         unlikeCT,
		"MR of high values":            unlikeCT,
		"MR, standardised":             unlikeCT,
		"PET in a tiny unit":           unlikeCT,
		"PET, hot":                     unlikeCT,
		"phases of -4096 to 4095":      unlikeCT,
		"nothing":                      likeNothing,
		"soft tissue and bone, no fat": likeNothing,
	} {
		if got := likenessOf(scans[name]); got != want {
			t.Errorf("%s: like %d, want %d", name, got, want)
		}
	}
}

// A CT that is stored 1024 above Hounsfield units is not the CT that networks know, and what is
// wrong with it is noted.
func TestShiftedCTIsRefused(t *testing.T) {
	scans := datasettest.Likenesses(t)
	for _, name := range []string{"CT from 0 up", "CT from 0 up, by 1000"} {
		err := Case{Image: "a.nii.gz"}.CheckModality(scans[name], "CT", false)
		if err == nil || !strings.Contains(err.Error(), "has values from 0 to ") ||
			!strings.Contains(err.Error(), "a CT whose rescale by -1024 was left out") {
			t.Errorf("%s: %v", name, err)
		}
		if err := (Case{Image: "a_t1w_0000.nii.gz"}).CheckModality(scans[name], "MR", false); err == nil ||
			strings.Contains(err.Error(), "rescale") {
			t.Errorf("%s for MR: %v", name, err)
		}
	}
	if err := (Case{Image: "a.nii.gz"}).CheckModality(scans["CT"], "CT", false); err != nil {
		t.Error(err)
	}
	// What is trained on such scans takes them.
	if err := (Case{Image: "a.nii.gz"}).CheckModality(scans["CT from 0 up"], "CT", true); err != nil {
		t.Error(err)
	}
	// A network of bone is trained on such values, too: a CT in Hounsfield units is told of.
	if err := (Case{Image: "a.nii.gz"}).CheckModality(scans["CT"], "CT", true); err != nil {
		t.Error(err)
	}
	if why := WhereAbove(scans["CT"]); !strings.Contains(why, "1024 is to be added here") {
		t.Error(why)
	}
	if why := WhereAbove(scans["CT from 0 up"]); why != "" {
		t.Error(why)
	}
}
