package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/experiment"
)

// The demo at a size that a test can wait for: the numbers mean nothing.
func TestDemo(t *testing.T) {
	out := t.TempDir()
	demo := experiment.Demo{Labelled: 4, Unlabelled: 2, Shape: [3]int{36, 30, 30}, PretrainSteps: 2, TrainSteps: 2,
		Fraction: 0.5}
	for _, again := range []bool{false, true} {
		var stdout, stderr bytes.Buffer
		cmd := newDemo()
		cmd.SetContext(context.Background())
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		if err := demonstrate(cmd, demo, demoOptions{Out: out, Machine: defaultDevice()}); err != nil {
			t.Fatalf("again: %v: %v\n%s", again, err, stderr.String())
		}
		for _, want := range []string{"Mean DSC (%)", "scratch", "3x3x3", "report.html"} {
			if !strings.Contains(stdout.String(), want) {
				t.Errorf("again: %v: no %q in\n%s", again, want, stdout.String())
			}
		}
		if trained := strings.Contains(stderr.String(), "crops/s"); trained == again {
			t.Errorf("again: %v, trained: %v", again, trained)
		}
	}
	for _, name := range []string{"report.html", "report.md", "scans/dataset.json", "prepared/manifest.json",
		"subsets.json"} {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
}
