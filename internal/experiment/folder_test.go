package experiment

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNameOf(t *testing.T) {
	root := t.TempDir()
	study := filepath.Join(root, "study")
	trial := filepath.Join(study, trialsFolder, "puzzles", "fold-1", "seed-1")
	encoder := filepath.Join(study, pretrainingFolder, "puzzles", "fold-1")
	// above which there is no plan
	other := filepath.Join(root, pretrainingFolder, "puzzles", "fold-1")
	for _, folder := range []string{trial, encoder, other} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(PlanOf(study), []byte("folds: 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, of := range []struct{ run, name, initialisation string }{
		{trial, "study/trials/puzzles/fold-1/seed-1", ""},
		{encoder + "/", "study/pretraining/puzzles/fold-1", "puzzles"},
		{other, "fold-1", ""},
		{study, "study", ""},
	} {
		if name, init := NameOf(of.run), InitialisationOf(of.run); name != of.name || init != of.initialisation {
			t.Errorf("%s is called %q, of initialisation %q; want %q and %q", of.run, name, init, of.name,
				of.initialisation)
		}
	}
}
