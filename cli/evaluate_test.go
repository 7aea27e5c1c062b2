package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/pairing"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// soon is a context that is cancelled when it was asked often enough.
type soon struct {
	context.Context
	left int
}

func (s *soon) Err() error {
	if s.left--; s.left < 0 {
		return context.Canceled
	}
	return nil
}

// Ctrl-C does not cost the scores of the cases that were compared: they are printed, and said to be
// a part, and are not taken for the whole in a folder.
func TestEvaluateInterrupted(t *testing.T) {
	dir := t.TempDir()
	predictions, references, out := filepath.Join(dir, "p"), filepath.Join(dir, "r"), filepath.Join(dir, "out")
	for _, folder := range []string{predictions, references} {
		if err := os.Mkdir(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		for n := range 5 {
			l := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{4, 4, 4},
				Affine: volume.Scaling([3]float64{1, 1, 1})}, Labels: make([]uint16, 64)}
			copy(l.Labels, []uint16{1, 1, 2})
			if err := nifti.WriteLabels(filepath.Join(folder, fmt.Sprintf("c%d.nii.gz", n)), l); err != nil {
				t.Fatal(err)
			}
		}
	}
	o := evaluateOptions{Missing: pairing.MissingIsError, Out: out, JSON: true}
	o.Metrics.Tolerance = 2
	scored := func(left int) (cases int, said string, err error) {
		var stdout, stderr bytes.Buffer
		err = runEvaluate(&soon{context.Background(), left}, o, predictions, references, &stdout, &stderr)
		var scores []struct{ DSC float64 }
		if stdout.Len() > 0 {
			if err := json.Unmarshal(stdout.Bytes(), &scores); err != nil {
				t.Fatal(err)
			}
		}
		for _, s := range scores {
			if s.DSC != 1 {
				t.Errorf("DSC %g of a label map with itself", s.DSC)
			}
		}
		return len(scores) / 2, stderr.String(), err
	}
	part := 0
	for left := range 40 {
		cases, said, err := scored(left)
		if err == nil {
			break
		}
		if !errors.Is(err, context.Canceled) ||
			cases > 0 && err.Error() != fmt.Sprintf("stopped after %d of 5 cases: context canceled", cases) {
			t.Errorf("%d cases: %v", cases, err)
		}
		if want := fmt.Sprintf("WARNING: stopped: these are the scores of %d of 5 cases; the other %d are in no mean",
			cases, 5-cases); cases > 0 && !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
		if _, err := os.Stat(filepath.Join(out, "scores.csv")); cases > 0 && err == nil {
			t.Errorf("the scores of %d cases are in the folder as if they were all", cases)
		}
		part = max(part, cases)
	}
	if part != 4 {
		t.Errorf("at most %d of 5 cases when stopped, want 4", part)
	}
	if cases, _, err := scored(1000); cases != 5 || err != nil {
		t.Errorf("%d cases, %v", cases, err)
	}
	// a label that no case has costs nothing of the others
	o.Metrics.Labels = []string{"1", "2", "liver"}
	if cases, _, err := scored(1000); cases != 5 || err == nil || !strings.Contains(err.Error(), "liver") {
		t.Errorf("%d cases, %v", cases, err)
	}
}
