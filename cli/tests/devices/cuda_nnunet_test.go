//go:build gpu

package devices_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// TestNNUNetOnGPU: label maps of nnU-Net's models are those of its arithmetic, voxel by voxel, in
// fp32. The networks are plain and residual, of three dimensions and of two, with kernels and
// strides that differ by axis, several folds, regions and channels. In bf16, the default, few
// voxels differ.
func TestNNUNetOnGPU(t *testing.T) {
	simulatedGPU(t)
	for n, model := range []string{"thick", "regions", "flat_thick", "flat"} {
		if !turns.Has(t, n, 2) {
			continue
		}
		golden, err := filepath.Abs("../../../testdata/nnunet/" + model)
		if err != nil {
			t.Fatal(err)
		}
		scans := t.TempDir()
		for c := 0; c == 0 || c == 1 && model == "regions"; c++ {
			name := fmt.Sprintf("_%04d.nii.gz", c)
			if err := os.Symlink(filepath.Join(golden, "scan"+name), filepath.Join(scans, "p"+name)); err != nil {
				t.Fatal(err)
			}
		}
		for _, c := range []struct {
			precision, mirror, want string
			differ                  float64
		}{{"fp32", "", "labels_mirrored.nii.gz", 0}, {"bf16", "none", "labels_plain.nii.gz", 0.01}} {
			out := t.TempDir()
			commandtest.Run(t, 0, "predict", scans, "--checkpoint", golden, "--mirror", c.mirror, "--device", "cuda",
				"--precision", c.precision, "--force", "--out", out)
			got, want := labelsOf(t, filepath.Join(out, "p.nii.gz")), labelsOf(t, filepath.Join(golden, c.want))
			differ := 0
			for i := range want {
				if got[i] != want[i] {
					differ++
				}
			}
			t.Logf("%s, %s: %d of %d voxels differ", model, c.precision, differ, len(want))
			if float64(differ) > c.differ*float64(len(want)) {
				t.Errorf("%s, %s: %d of %d voxels differ from nnU-Net's", model, c.precision, differ, len(want))
			}
		}
	}
}

// TestStartFromNNUNetOnGPU: a training that goes on from a model of nnU-Net has the CPU's losses.
func TestStartFromNNUNetOnGPU(t *testing.T) {
	if !turns.Has(t, 1, 3) {
		return
	}
	simulatedGPU(t)
	folder := t.TempDir()
	cpu, gpu := filepath.Join(folder, "cpu"), filepath.Join(folder, "gpu")
	arguments := slices.Concat([]string{"finetune", "--data", preparedPhantoms(t)},
		strings.Fields("--init ../../../testdata/nnunet/thick --crop 16x16x8 --batch 1 --steps 2 --warmup 0 "+
			"--validate-every 0 --hold-out 0"))
	commandtest.Run(t, 0, slices.Concat(arguments, onCPU, []string{"--out", cpu})...)
	commandtest.Run(t, 0, slices.Concat(arguments, onGPU, []string{"--out", gpu})...)
	agree(t, "losses", losses(t, gpu), losses(t, cpu), 1e-4)
}

// TestPlanOnGPU: a plan has a training whose steps were timed on the GPU, and which is carried out.
func TestPlanOnGPU(t *testing.T) {
	if !turns.Has(t, 2, 3) {
		return
	}
	simulatedGPU(t)
	plan, out := filepath.Join(t.TempDir(), "plan.yaml"), filepath.Join(t.TempDir(), "run")
	commandtest.Run(t, 0, "plan", preparedPhantoms(t), "--hours", "0.01", "--device", "cuda", "--out", plan)
	text, err := os.ReadFile(plan)
	timed := regexp.MustCompile(`(?s)  device: cuda .*  seconds: [0-9.]*[1-9] .*
finetune:
  machine:
    device: cuda .*train: {steps: [1-9]`)
	if err != nil || !timed.Match(text) {
		t.Errorf("%v\n%s", err, text)
	}
	commandtest.Run(t, 0, slices.Concat([]string{"finetune", "--config", plan, "--steps", "1", "--validate-every", "0",
		"--out", out}, onGPU)...)
	if len(losses(t, out)) != 1 {
		t.Errorf("losses %v of a step", losses(t, out))
	}
}

func labelsOf(t *testing.T, file string) []uint16 {
	t.Helper()
	labels, err := nifti.ReadLabels(file)
	if err != nil {
		t.Fatal(err)
	}
	return labels.Labels
}
