package nnunet

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Cases that are prepared by a plan lie as nnU-Net's arrays do, and hold nearly its values: its way
// is held against nnU-Net itself to the voxel.
func TestPreparation(t *testing.T) {
	folder := theirs(t)
	for _, c := range []struct {
		model, set string
		most       float64 // of a standard deviation that voxels may be off on average
	}{
		{"Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres/plans.json", "Dataset501_Iso", 0.02},
		// which nnU-Net brings to their places across slices by the nearest one
		{"Dataset502_Thick/nnUNetTrainerDiceLoss__nnUNetResEncUNetMPlans__3d_small/plans.json:3d_small",
			"Dataset502_Thick", 0.1},
	} {
		p, err := PlanOf(filepath.Join(folder, "results", filepath.FromSlash(c.model)))
		if err != nil {
			t.Fatal(err)
		}
		how, err := p.Preparation(volume.DefaultPreparation())
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"kbp_016_0000.nii.gz", "kbp_020_0000.nii.gz"} {
			v, err := nifti.Read(filepath.Join(folder, "scans", c.set, name))
			if err != nil {
				t.Fatal(err)
			}
			bounds, err := how.Bounds(v)
			if err != nil {
				t.Fatal(err)
			}
			got, err := how.Apply(v, bounds)
			if err != nil {
				t.Fatal(err)
			}
			turned, err := p.turn(v.Grid, v.Pixdim)
			if err != nil {
				t.Fatal(err)
			}
			want, err := p.prepare([]*volume.Volume{v}, turned)
			if err != nil {
				t.Fatal(err)
			}
			x := want.channels[0]
			if [3]int{x.shape[2], x.shape[1], x.shape[0]} != got.Shape {
				t.Errorf("%s: %v voxels, nnU-Net has %v", name, got.Shape, x.shape)
				continue
			}
			levels := how.Intensities(got.Levels)
			var off float64
			for n, value := range x.values {
				off += math.Abs(float64(levels.Of(got.Int16[n]) - value))
			}
			if off /= float64(len(x.values)); off > c.most {
				t.Errorf("%s of %s: voxels are %.4f off on average", name, c.set, off)
			}
		}
	}
}

// What nnU-Net's own code makes of scans with margins of zeros: the box of what is not 0 in any
// channel, and values standardised over it, or over what the channels' common mask has of it.
// testdata/nnunet_prepared.py says how it was made.
func TestPreparationOfChannels(t *testing.T) {
	folder := filepath.Join("..", "..", "testdata", "nnunet_prepared")
	var golden map[string]struct {
		Box      [3][2]int
		Shape    [3]int
		Channels [][]float32
	}
	data, err := os.ReadFile(filepath.Join(folder, "want.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden) != 3 {
		t.Fatal("the golden file is not whole", err)
	}
	for name, want := range golden {
		var scans []*volume.Volume
		for _, file := range []string{"scan_0000.nii.gz", "scan_0001.nii.gz"} {
			v, err := nifti.Read(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			scans = append(scans, v)
		}
		p, err := PlanOf(filepath.Join(folder, "plans.json") + ":" + name)
		if err != nil {
			t.Fatal(err)
		}
		how, err := p.Preparation(volume.DefaultPreparation())
		if err != nil {
			t.Fatal(err)
		}
		how.Channels = "first,second"
		if how.Modality == "" {
			how.Modality, how.Window = "MR", volume.DefaultPreparation().Window
		}
		bounds, err := how.Bounds(scans[0], scans[1:]...)
		if err != nil {
			t.Fatal(err)
		}
		for n, v := range scans {
			got, err := how.Channel(n).ApplyMasked(v, bounds, how.WithMasks().Mask(bounds, scans...))
			if err != nil {
				t.Fatal(err)
			}
			if [3]int{got.Shape[2], got.Shape[1], got.Shape[0]} != want.Shape {
				t.Fatalf("%s: %v voxels, nnU-Net has %v", name, got.Shape, want.Shape)
			}
			levels := how.Channel(n).Intensities(got.Levels)
			for at, x := range want.Channels[n] {
				// half a step of the stored numbers, and what float32 leaves of numpy's means
				if y := levels.Of(got.Int16[at]); math.Abs(float64(y-x)) > 0.5/1024+2e-5 {
					t.Fatalf("%s, channel %d, voxel %d: %v, nnU-Net has %v", name, n, at, y, x)
				}
			}
		}
	}
}
