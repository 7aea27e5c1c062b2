package results_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
)

// A task of a job array that finds another process at its trial has not carried it out, and does
// not end with 0: the array would count it as done.
func TestTrialOfAnotherProcess(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.Must(t, miniature.Scans("scans", miniature.ScanOptions{Cases: 4, Labelled: 4}))
	study := `
folds: 2
run_folds: [1]
fractions: [1]
seeds: [1, 2]
initialisations: [{name: scratch}]
finetune: {network: {channels: 2, levels: 1}, train: {steps: 2}, crop: 16, labels: [2, 3]}
`
	commandtest.Must(t, os.WriteFile("study.yaml", []byte(study), 0o666))
	commandtest.Run(t, 0, "prepare", "scans", "--out", "prepared")
	trial := func(code int, number string) string {
		t.Helper()
		_, stderr := commandtest.Run(t, code, "crossval", "--config", "study.yaml", "--data", "prepared",
			"--out", "study", "--trial", number)
		return stderr
	}
	trial(0, "2")
	folder := filepath.Join("study", "trials", "scratch", "fold-1", "fraction-1", "seed-1")
	commandtest.Must(t, os.MkdirAll(folder, 0o777))
	release, err := atomicfile.Hold(folder)
	commandtest.Must(t, err)
	said := trial(1, "1")
	release()
	if !strings.Contains(said, "trial 1 was not carried out here: another process is at work on it") {
		t.Errorf("got %s", said)
	}
	trial(0, "1")
}
