package experiment

import (
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
}
