package cli

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume"
)

// listener is an observer of a training that hears its notes alone.
type listener struct {
	voxsaw.Observer
	notes []string
}

func (l *listener) Stepped(voxsaw.Progress)                {}
func (l *listener) Validated(int, voxsaw.Validation, bool) {}
func (l *listener) Note(text string)                       { l.notes = append(l.notes, text) }
func (l *listener) Saved(string, int)                      {}

// A step does not wait for the page, which a long training's log makes slow.
func TestStepsDoNotWaitForThePage(t *testing.T) {
	folder := t.TempDir()
	var log bytes.Buffer
	log.WriteString("step,loss,lr,grad_norm,seconds,wait_seconds\n")
	for step := range 20000 {
		fmt.Fprintf(&log, "%d,0.6931472,0.001,1.234567,0.1234567,0.01234567\n", step+1)
	}
	for name, text := range map[string]string{"metrics.csv": log.String(), "run.json": `{"format":1,"kind":"jigsaw"}`,
		"config.yaml": "train: {steps: 20000}\n"} {
		commandtest.Must(t, os.WriteFile(filepath.Join(folder, name), []byte(text), 0o666))
	}
	heard := &listener{}
	r := &reporter{Observer: heard, folder: folder, last: time.Now().Add(-time.Hour)}
	r.Stepped(voxsaw.Progress{Step: 1})
	if r.making == nil { // the step would have made it itself
		t.Fatal("no page is being made")
	}
	page := filepath.Join(folder, train.Page)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r.Stepped(voxsaw.Progress{Step: 2})
		if _, err := os.Stat(page); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("no page; notes %q", heard.notes)
		}
	}
	if r.making != nil || len(heard.notes) > 0 {
		t.Errorf("another page is being made at once, or there are notes: %q", heard.notes)
	}
}

// The pictures of held-out cases are of those that can be drawn and say which validation they are
// of; what cannot be written is said of each kind once.
func TestPicturesOfAValidation(t *testing.T) {
	g := volume.Grid{Shape: [3]int{20, 20, 12}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	l.Labels[g.Index(10, 10, 5)] = 1
	folder := t.TempDir()
	heard := &listener{}
	sheet := newHeldOutSheet(func(id string, prediction, reference *volume.LabelMap) (image.Image, error) {
		if id == "broken" {
			return nil, errors.New("broken cannot be read")
		}
		return report.Overlay(nil, reference, []report.Segmented{{Labels: prediction}}, errorSlices)
	})
	r := &reporter{Observer: heard, folder: folder, sheet: sheet}
	validate := func(step int, ids ...string) []byte {
		for _, id := range ids {
			r.CaseValidated(id, 1, l, l)
		}
		r.Validated(step, voxsaw.Validation{}, false)
		content, err := os.ReadFile(filepath.Join(folder, train.Sheet))
		commandtest.Must(t, err)
		return content
	}
	first := validate(10, "a", "b")
	second := validate(20, "a", "broken")
	alone := validate(20, "a")
	if bytes.Equal(first, second) || !bytes.Equal(second, alone) {
		t.Error("one case that cannot be drawn takes the pictures of the others away")
	}
	if bytes.Equal(alone, validate(30, "a")) {
		t.Error("the pictures do not say which validation they are of")
	}
	r.complain("another kind", errors.New("no room"))
	validate(40, "broken")
	if len(heard.notes) != 2 || !strings.Contains(heard.notes[0], "broken cannot be read") ||
		!strings.Contains(heard.notes[1], "no room") {
		t.Errorf("notes %q", heard.notes)
	}
}

// Runs of one name are called by as many parts of their paths as tell them apart: charts give a
// name one colour and one entry of the legend.
func TestNamesApart(t *testing.T) {
	t.Chdir(t.TempDir())
	here := filepath.Base(mustAbs(t, "."))
	for _, c := range [][2][]string{
		{{"runs/a", "runs/b/"}, {"a", "b"}},
		{{"out/round-1/student", "out/round-2/student", "out/teacher"},
			{"round-1/student", "round-2/student", "teacher"}},
		{{"a/x/run", "b/x/run", "a/y/run"}, {"a/x/run", "b/x/run", "y/run"}},
		{{"."}, {here}},
		{{"run", "a/run"}, {here + "/run", "a/run"}},
	} {
		if got := namesApart(c[0]); !slices.Equal(got, c[1]) {
			t.Errorf("%q: %q, want %q", c[0], got, c[1])
		}
	}
	if same := namesApart([]string{"run", "run"}); same[0] != same[1] {
		t.Errorf("%q", same)
	}
}

func mustAbs(t *testing.T, path string) string {
	t.Helper()
	full, err := filepath.Abs(path)
	if err != nil {
		t.Fatal(err)
	}
	return full
}
