package nnunet

import (
	"math"
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
			got, err := how.Apply(v, v.Whole())
			if err != nil {
				t.Fatal(err)
			}
			turned, err := p.turn(v.Grid)
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
