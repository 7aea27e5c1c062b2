package nnunet

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// theirs is the folder of models that nnU-Net 2.8.1 trained, scans, and its predictions of them.
func theirs(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(os.Getenv("VOXSAW_DATA"), "..", "nnunet")
	if _, err := os.Stat(filepath.Join(folder, "results")); os.Getenv("VOXSAW_DATA") == "" || err != nil {
		t.Skip("no models of nnU-Net beside the folder that VOXSAW_DATA names")
	}
	return folder
}

// No voxel differs from what nnU-Net itself predicts.
func TestPredictionsOfNNUNet(t *testing.T) {
	folder := theirs(t)
	for _, c := range []struct {
		predictions, model string
		folds              []string
		plain              bool // without mirroring
		cases              string
	}{
		{"501_plain_fold_0_no_mirroring", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres", []string{"0"}, true, "013 016 020 033"},
		{"501_plain_folds_0_1_no_mirroring", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres", nil, true, "013 016 020 033"},
		{"501_plain_folds_0_1_mirrored", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres", nil, false, "013 016"},
		{"501_resenc_fold_0_no_mirroring", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetResEncUNetMPlans__3d_fullres", nil, true, "013 016 020 033"},
		{"501_resenc_fold_0_mirrored", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetResEncUNetMPlans__3d_fullres", nil, false, "013 016"},
		{"502_thick_fold_0_no_mirroring", "Dataset502_Thick/nnUNetTrainerDiceLoss__nnUNetResEncUNetMPlans__3d_small", nil, true, "013 016 020 033"},
		{"502_thick_fold_0_mirrored", "Dataset502_Thick/nnUNetTrainerDiceLoss__nnUNetResEncUNetMPlans__3d_small", nil, false, "013 016 020 033"},
		{"503_regions_fold_all", "Dataset503_Regions/nnUNetTrainer_250epochs_NoMirroring__nnUNetPlans__3d_small", nil, false, "013 016 020 033"},
	} {
		t.Run(c.predictions, func(t *testing.T) {
			dev, err := cpu.New(cpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			m, err := Open(filepath.Join(folder, "results", c.model), c.folds)
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPredictor(dev, m, Options{NoMirroring: c.plain})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			cases := strings.Fields(c.cases)
			if testing.Short() {
				cases = cases[1:2] // resampled, and smaller than the patch
			}
			for _, name := range cases {
				var channels []*volume.Volume
				for n := range m.Plan.Channels {
					v, err := nifti.Read(filepath.Join(folder, "scans", strings.Split(c.model, "/")[0], "kbp_"+name+"_000"+string(rune('0'+n))+".nii.gz"))
					if err != nil {
						t.Fatal(err)
					}
					channels = append(channels, v)
				}
				got, err := p.Predict(t.Context(), channels)
				if err != nil {
					t.Fatal(err)
				}
				want, err := nifti.ReadLabels(filepath.Join(folder, "predictions", c.predictions, "kbp_"+name+".nii.gz"))
				if err != nil {
					t.Fatal(err)
				}
				if got.Shape != want.Shape {
					t.Fatalf("%s: shape %v, want %v", name, got.Shape, want.Shape)
				}
				differ, foreground := 0, 0
				for i, label := range want.Labels {
					if label > 0 {
						foreground++
					}
					if got.Labels[i] != label {
						differ++
					}
				}
				t.Logf("%s: %d of %d voxels differ, %d of them foreground", name, differ, len(want.Labels), foreground)
				if differ > 0 || foreground == 0 {
					t.Errorf("%s: %d of %d voxels differ from nnU-Net's, of which %d are foreground", name, differ, len(want.Labels), foreground)
				}
			}
		})
	}
}
