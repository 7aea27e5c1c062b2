package results_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Of a scan that is damaged, and whose voxels the network does not know, the damage is noted:
// nobody can judge the voxels of such a file. A whole one is refused for its voxels.
func TestPredictSaysFirstWhatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.Must(t, miniature.Scans("scans", miniature.ScanOptions{Cases: 3, Labelled: 3}))
	commandtest.Type(t, "prepare scans --out prepared --spacing own")
	commandtest.Type(t, "finetune --data prepared --channels 2 --levels 1 --crop 16 --steps 2 --out run")
	scan, err := nifti.Read(filepath.Join("scans", "imagesTr", "case_1.nii.gz"))
	commandtest.Must(t, err)
	for row := range 3 {
		for column := range 3 {
			scan.Affine[row][column] *= 2
		}
	}
	commandtest.Must(t, nifti.Write("whole.nii.gz", scan))
	text, err := os.ReadFile("whole.nii.gz")
	commandtest.Must(t, err)
	commandtest.Must(t, os.WriteFile("cut.nii.gz", text[:len(text)/2], 0o644))
	for name, want := range map[string][2]string{
		"whole": {"its voxels measure", "truncated"}, "cut": {"cut.nii.gz: is truncated", "its voxels measure"},
	} {
		var stdout, stderr bytes.Buffer
		args := []string{"predict", name + ".nii.gz", "--checkpoint", "run", "--out", "labels"}
		code := cli.Run(args, &stdout, &stderr)
		if said := stderr.String(); code != 1 || !strings.Contains(said, want[0]) ||
			strings.Contains(said, want[1]) {
			t.Errorf("%s: exit code %d, want %q and not %q\n%s", name, code, want[0], want[1], said)
		}
	}
}
