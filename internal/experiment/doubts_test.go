package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/config"
)

// Runs that are others once more are told of: shares of the same cases, and seeds that all start
// from one encoder.
func TestRepeatedRunsAreToldOf(t *testing.T) {
	ids := []string{"a", "b", "c", "d", "e", "f", "g", "h"}
	p := DefaultPlan()
	p.Folds, p.Fractions, p.Seeds, p.Encoders = 2, []float64{0.1, 0.2, 1}, []uint64{2, 4}, 2
	p.Inits = []Initialisation{{Name: Scratch}, {Name: "puzzles", Pretrain: config.NewSection("{}")}}
	told := func() string {
		c, err := p.cases(ids, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(c.doubts, "\n")
	}
	if text := told(); !strings.Contains(text, "10 % and 20 % of the training "+
		"cases are the same ones in fold 1 and fold 2") ||
		strings.Contains(text, "100 %") || !strings.Contains(text, "encoders is 2, and runs start from 1 of them") {
		t.Errorf("got %q", text)
	}
	p.Fractions, p.Seeds = []float64{0.25, 0.5, 1}, []uint64{1, 2}
	if text := told(); text != "" {
		t.Errorf("nothing is repeated: %q", text)
	}
	p.Subsets, p.Draws, p.Seeds = subsetsOwn, 2, []uint64{1, 3, 5}
	p.Encoders, p.Curve, p.Inits[0].Networks = 1, 5, 3
	if text := told(); !strings.Contains(text, "draws is 2, and runs have 1 of them") ||
		!strings.Contains(text, "scratch has no learning curve: one is of a single network, and its runs average 3") ||
		!p.averages(Scratch) || p.averages("puzzles") {
		t.Errorf("one draw of two, and an ensemble: %q", text)
	}
	p.Seeds = []uint64{1, 2, 3}
	if text := told(); strings.Contains(text, "draws") {
		t.Errorf("both draws: %q", text)
	}
}

// Splits that name cases which the plan sets aside are refused with what to do.
func TestSplitsOfCasesSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "splits_final.json")
	if err := os.WriteFile(path, []byte(`[{"train": ["a", "b", "c"], "val": ["d"]}]`), 0o644); err != nil {
		t.Fatal(err)
	}
	p := DefaultPlan()
	p.Splits, p.Unlabelled = path, 0.5
	if _, err := p.cases([]string{"a", "b", "c", "d"}, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "unlabelled: 0.5 sets 2 labelled cases aside for pretraining before folds") {
		t.Error(err)
	}
}
