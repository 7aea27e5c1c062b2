package dataset

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// A scan that lacks a channel is refused by its name and the channel's, and the others go on; so is
// one of another number of volumes, and one whose channel two files could be.
func TestMissingChannels(t *testing.T) {
	for _, c := range []struct{ files, channels, want string }{
		{"sub-01/anat/sub-01_T1w sub-02/anat/sub-02_T1w sub-02/anat/sub-02_FLAIR", "T1w,FLAIR",
			"sub-01 has no channel FLAIR"},
		{"p1_t1w p2_t1w p2_flair", "t1w,flair", "p1 has no channel flair"},
		{"p1/CT p2/CT p2/PET", "CT,PET", "p1 has no channel PET"},
		{"p1_0000 p2_0000 p2_0001", "CT,PET", "p1 has no channel PET"},
		{"sub-01_0000 sub-02_0000 sub-02_0001", "T1,FLAIR", "sub-01 has no channel FLAIR"},
		{"sub-01_ses-a_0000 sub-01_ses-b_0000 sub-01_ses-b_0001", "T1,FLAIR", "sub-01_ses-a has no channel FLAIR"},
		{"p1_0000 p1_0001 p1_0002 p2_0000 p2_0001", "CT,PET",
			"p1_0002.nii.gz is a channel beyond the 2 that are wanted"},
		{"p1_ct p1-CT p1_pet p2_ct p2_pet", "CT,PET", "would both be channel CT of p1"},
		{"sub-01/anat/sub-01_acq-a_T1w sub-01/anat/sub-01_acq-b_T1w sub-01/anat/sub-01_FLAIR " +
			"sub-02/anat/sub-02_T1w sub-02/anat/sub-02_FLAIR",
			"T1w,FLAIR", "would both be channel T1w of sub-01"},
		{"four p2_a p2_b p2_c", "a,b,c", "four.nii.gz: holds 4 volumes, and 3 channels are wanted, a, b, c"},
	} {
		root := t.TempDir()
		for name := range strings.FieldsSeq(c.files) {
			from := "sub-01_T1w"
			if name == "four" {
				from = "brain"
			}
			datasettest.CopyFile(t, "../../testdata/channels/"+from+".nii.gz", filepath.Join(root, name+".nii.gz"))
		}
		d, err := Detect(root, Options{Channels: strings.Split(c.channels, ",")})
		if err != nil {
			t.Fatal(err)
		}
		whole, refused := 0, ""
		for _, one := range d.Cases {
			if one.refused != nil {
				refused += one.refused.Error()
				if _, _, err := one.ReadImage(DefaultReadOptions()); err == nil {
					t.Errorf("%s: %s is read", c.files, one.ID)
				}
			} else if len(one.More) == strings.Count(c.channels, ",") {
				whole++
			}
		}
		if len(d.Cases) != 2 || whole != 1 || !strings.Contains(refused, c.want) {
			t.Errorf("%s: %d cases, %d whole, refused: %s", c.files, len(d.Cases), whole, refused)
		}
	}
	root := t.TempDir()
	var files []string
	for _, name := range []string{"sub-01_0000.nii.gz", "sub-01_0001.nii.gz"} {
		files = append(files, filepath.Join(root, name))
		datasettest.CopyFile(t, "../../testdata/channels/sub-01_T1w.nii.gz", files[len(files)-1])
	}
	for _, paths := range [][]string{files, {root}} {
		d, err := DetectAll(paths, Options{Channels: []string{"T1", "FLAIR"}, Layout: LayoutScans})
		if err != nil || len(d.Cases) != 1 || d.Cases[0].ID != "sub-01" || len(d.Cases[0].More) != 1 {
			t.Errorf("%v: %+v, %v", paths, d, err)
		}
	}
	root = t.TempDir()
	datasettest.CopyFile(t, "../../testdata/channels/box.nii.gz", filepath.Join(root, "a.nii.gz"))
	if _, err := Detect(root, Options{Channels: []string{"CT", "PET"}}); err == nil ||
		!strings.Contains(fmt.Sprint(err), "a.nii.gz is no channel of a scan: 2 channels are wanted (CT, PET)") {
		t.Errorf("no channel: %v", err)
	}
}

// A study's CT and PET are two channels: the PET comes in SUV onto the voxels of the CT, as pydicom
// and scipy have it. A study without a PET, and a PET without a weight, are refused by name.
func TestPETAndCT(t *testing.T) {
	text, err := os.ReadFile("../../testdata/pet_ct.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Shape [3]int
		Onto  []float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	names := []string{"CT", "PET"}
	d, err := Detect("../../testdata/pet_ct", Options{Channels: names})
	if err != nil || len(d.Cases) != 1 || len(d.Cases[0].More) != 1 {
		t.Fatalf("%+v, %v", d, err)
	}
	c := d.Cases[0]
	ct, _, err := c.ReadImage(DefaultReadOptions())
	if err != nil || ct.Shape != golden.Shape {
		t.Fatalf("%v: %v", ct.Shape, err)
	}
	more, notes, err := c.ReadMore(ct.Grid, DefaultReadOptions())
	if err != nil || len(more) != 1 {
		t.Fatal(err)
	}
	if all := strings.Join(notes, "; "); !strings.Contains(all, "SUV by body weight, 70 min after the injection") ||
		strings.Contains(all, "no CT") {
		t.Error(all)
	}
	pet, err := more[0].Orient("LPS")
	if err != nil {
		t.Fatal(err)
	}
	compared := 0
	for n, want := range golden.Onto {
		if want < 0 {
			continue // beyond the centres of the PET's outer voxels
		}
		compared++
		if got := float64(pet.Float32[n]); math.Abs(got-want) > 1e-4 {
			t.Fatalf("voxel %d is %v, want %v", n, got, want)
		}
	}
	if compared < 1000 {
		t.Errorf("%d voxels were compared", compared)
	}
	root := t.TempDir()
	for n := 1; n <= 12; n++ {
		name := fmt.Sprintf("%d.dcm", n)
		datasettest.CopyFile(t, "../../testdata/pet_ct/ct/"+name, filepath.Join(root, "a", "ct", name))
		if n > 9 {
			continue
		}
		to := filepath.Join(root, "b", "pt", name)
		datasettest.CopyFile(t, "../../testdata/pet_ct/pt/"+name, to)
		slice, err := os.ReadFile(to)
		if err != nil {
			t.Fatal(err)
		}
		slice = []byte(strings.Replace(string(slice), "72.5", "    ", 1))
		if err := os.WriteFile(to, slice, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if d, err = Detect(filepath.Join(root, "a"), Options{Channels: names}); err != nil || len(d.Cases) != 1 {
		t.Fatal(err)
	}
	if _, _, err := d.Cases[0].ReadImage(DefaultReadOptions()); err == nil ||
		!strings.Contains(err.Error(), "has no channel PET: none of its 1 series is") {
		t.Error(err)
	}
	if d, err = Detect(root, Options{Channels: names}); err != nil || len(d.Cases) != 1 {
		t.Fatal(err)
	}
	if _, _, err := d.Cases[0].ReadMore(ct.Grid, DefaultReadOptions()); err == nil ||
		!strings.Contains(err.Error(), "PatientWeight is missing: mend the header") {
		t.Error(err)
	}
}
