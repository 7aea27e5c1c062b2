package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/viewer"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Without scores, what quality.csv doubts most comes first: most flags, then the lowest estimate.
func TestViewPutsDoubtfulCasesFirst(t *testing.T) {
	folder := t.TempDir()
	rows := "case,label,structure,dsc_estimate,flag\n" +
		"fine,1,liver,93,\nlow,1,liver,55,\nlow,2,,80,\n" +
		"small,1,liver,70,volume 3 ml\nodd,1,liver,,volume 2 ml\nodd,,spleen,,missing\n"
	must(t, os.WriteFile(filepath.Join(folder, "quality.csv"), []byte(rows), 0o644))
	cases := []viewer.Case{{Name: "fine"}, {Name: "unknown"}, {Name: "low"}, {Name: "small"}, {Name: "odd"}}
	got, err := viewOptions{Predictions: folder}.worstFirst(cases)
	must(t, err)
	var order []string
	for _, c := range got {
		order = append(order, c.Name)
	}
	if want := "odd small low fine unknown"; strings.Join(order, " ") != want {
		t.Errorf("order %v, want %s", order, want)
	}
	if want := "liver: volume 2 ml; spleen: missing"; got[0].Text != want {
		t.Errorf("text %q, want %q", got[0].Text, want)
	}
	must(t, os.WriteFile(filepath.Join(folder, "quality.csv"), []byte("a,b\n1,2\n"), 0o644))
	if _, err := (viewOptions{Predictions: folder}).worstFirst(cases); err == nil ||
		!strings.Contains(err.Error(), "quality.csv") {
		t.Errorf("another table: %v", err)
	}
}

// The page on a pretraining shows its puzzle, made anew when there is another checkpoint; that on
// a fine-tuning has none.
func TestViewShowsThePuzzle(t *testing.T) {
	t.Chdir(t.TempDir())
	must(t, writePhantoms("scans", phantomOptions{cases: 3, labelled: 3, axcodes: "RAS"}))
	typeIn(t, "prepare scans --out prepared")
	typeIn(t, "pretrain --data prepared --channels 2 --levels 1 --crop 16 --grid 2 --patch 8 --steps 2 --warmup 0 --out p")
	typeIn(t, "finetune --data prepared --channels 2 --levels 1 --crop 16 --steps 2 --out f")
	store, err := prepared.Open("prepared")
	must(t, err)
	defer store.Close()
	for run, want := range map[string]bool{"p": true, "f": false} {
		task := &taskPicture{checkpoint: filepath.Join(run, "last.safetensors"), store: store}
		var page bytes.Buffer
		must(t, pageOfRun(run, task, &page))
		if got := strings.Contains(page.String(), "How it does its task now"); got != want {
			t.Errorf("%s: a picture of the task is %v on the page, want %v", run, got, want)
		}
		if first := task.now(); first != task.now() {
			t.Errorf("%s: the same checkpoint gives two pictures", run)
		}
		task.close()
	}
}

// A run of a study finds its cases by the study's plan.
func TestViewFindsTheCasesOfAStudysRun(t *testing.T) {
	study := t.TempDir()
	run := filepath.Join(study, "pretraining", "puzzles", "fold-1")
	must(t, os.MkdirAll(run, 0o755))
	must(t, os.WriteFile(filepath.Join(study, "plan.yaml"), []byte("data: somewhere\n"), 0o644))
	must(t, os.WriteFile(filepath.Join(run, "config.yaml"), []byte("grid: [2, 2, 2]\n"), 0o644))
	if data, err := dataOfRun(run); data != "somewhere" {
		t.Errorf("cases in %q, %v", data, err)
	}
	must(t, os.WriteFile(filepath.Join(study, "plan.yaml"), []byte("folds: 2\n"), 0o644))
	if _, err := dataOfRun(run); err == nil || !strings.Contains(err.Error(), "does not say where") {
		t.Errorf("without data: %v", err)
	}
}
