package traintest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train"
)

// FLOPs is what PyTorch counts in the forward pass, and in a whole step, of a training by its name
// in testdata/flops.json. root is the way from the test's folder to the module's.
func FLOPs(t testing.TB, root, name string) (forward, step float64) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "testdata", "flops.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden map[string]struct{ Forward, Step float64 }
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	of, ok := golden[name]
	if !ok {
		t.Fatalf("flops.json has no %q", name)
	}
	return of.Forward, of.Step
}

// Counts wants so much arithmetic in each of the steps of a training, in what it returns and in the
// record of its folder, and the same when the finished run is asked again. The training lasts a few
// steps.
func Counts(t testing.TB, step float64, training func(voxsaw.RunOptions) (voxsaw.Summary, error)) {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "run")
	for _, mode := range []voxsaw.Mode{voxsaw.ModeNew, voxsaw.ModeResume} {
		summary, err := training(voxsaw.RunOptions{Folder: folder, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if want := step * float64(summary.Step); summary.FLOPs != want || summary.Step == 0 {
			t.Errorf("%.0f FLOP in %d steps, want %.0f", summary.FLOPs, summary.Step, want)
		}
	}
	status, err := train.ReadStatus(folder)
	if err != nil || status.StepFLOPs != step {
		t.Errorf("the record says %.0f FLOP a step, want %.0f; %v", status.StepFLOPs, step, err)
	}
}
