package prepare

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Volumes of one file, and contrasts of BIDS, are the channels that nibabel reads and MONAI's
// NormalizeIntensity standardises, each by itself.
func TestChannelsAgreeWithMONAI(t *testing.T) {
	text, err := os.ReadFile("../../testdata/channels.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Shape       [3]int
		Every       int
		Brain, BIDS [][]float64
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	const msd = `{"modality": {"0": "FLAIR", "1": "T1w", "2": "t1gd", "3": "T2w"}, "labels": {"0": "background", "1": "box"}}`
	for name, from := range map[string]string{
		"msd/imagesTr/brain.nii.gz": "brain", "msd/labelsTr/brain.nii.gz": "box",
		"four/brain.nii.gz": "brain", "four/brain_seg.nii.gz": "box",
		"bids/sub-01/anat/sub-01_T1w.nii.gz":                              "sub-01_T1w",
		"bids/sub-01/anat/sub-01_FLAIR.nii.gz":                            "sub-01_FLAIR",
		"bids/sub-01/anat/sub-01_T2w.nii.gz":                              "sub-01_FLAIR",
		"bids/derivatives/manual/sub-01/anat/sub-01_dseg.nii.gz":          "box",
		"bids/derivatives/manual/sub-01/anat/sub-01_desc-preproc_T1w.nii": "",
		"names/p1/p1_t1w.nii.gz":                                          "sub-01_T1w",
		"names/p1/p1_flair.nii.gz":                                        "sub-01_FLAIR",
		"names/p1/p1_seg.nii.gz":                                          "box",
		"folders/T1w/p1.nii.gz":                                           "sub-01_T1w",
		"folders/FLAIR/p1.nii.gz":                                         "sub-01_FLAIR",
		"folders/labels/p1.nii.gz":                                        "box",
	} {
		if from != "" {
			datasettest.CopyFile(t, "../../testdata/channels/"+from+".nii.gz", filepath.Join(root, name))
		}
	}
	if err := os.WriteFile(filepath.Join(root, "msd", "dataset.json"), []byte(msd), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		folder, channels, id string
		want                 [][]float64
	}{
		{"msd", "", "brain", golden.Brain},
		{"four", "FLAIR,T1w,t1gd,T2w", "brain", golden.Brain},
		{"bids", "T1w,FLAIR", "sub-01", golden.BIDS},
		{"names", "T1w,FLAIR", "p1_p1", golden.BIDS},
		{"folders", "T1w,FLAIR", "p1", golden.BIDS},
	} {
		t.Run(c.folder, func(t *testing.T) {
			p := volume.DefaultPreparation()
			p.Axcodes, p.Spacing, p.Crop, p.Channels = "RAS", [3]float64{2, 2, 2.5}, volume.CropNone, c.channels
			d, err := dataset.Detect(filepath.Join(root, c.folder), dataset.Options{Channels: p.ChannelsAsked()})
			if err != nil {
				t.Fatal(err)
			}
			if len(d.Cases) != 1 || d.Cases[0].ID != c.id || d.Cases[0].Labels == "" {
				t.Fatalf("%+v", d.Cases)
			}
			out := filepath.Join(t.TempDir(), "store")
			if _, err := Run(t.Context(), d, out, p, Options{}, nil); err != nil {
				t.Fatal(err)
			}
			store, err := prepared.Open(out)
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			scan, err := store.Open(c.id)
			if err != nil {
				t.Fatal(err)
			}
			voxels := golden.Shape[0] * golden.Shape[1] * golden.Shape[2]
			got := make([]float32, scan.Channels()*voxels)
			if err := scan.Crop(got, [3]int{}, golden.Shape); err != nil {
				t.Fatal(err)
			}
			if scan.Channels() != len(c.want) {
				t.Fatalf("%d channels", scan.Channels())
			}
			for channel, want := range c.want {
				for n, x := range want {
					const quantised = 2e-3 // prepared values are 16 bits
					if y := got[channel*voxels+n*golden.Every]; math.Abs(float64(y)-x) > quantised {
						t.Fatalf("channel %d, value %d: %g, want %g", channel, n, y, x)
					}
				}
			}
		})
	}
}
