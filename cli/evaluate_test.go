package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/pairing"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
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
		writeLabelMaps(t, folder, 5)
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

// writeLabelMaps makes a folder of tiny label maps, c0.nii.gz and on.
func writeLabelMaps(t *testing.T, folder string, count int) {
	t.Helper()
	if err := os.Mkdir(folder, 0o777); err != nil {
		t.Fatal(err)
	}
	for n := range count {
		l := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{4, 4, 4},
			Affine: volume.Scaling([3]float64{1, 1, 1})}, Labels: make([]uint16, 64)}
		copy(l.Labels, []uint16{1, 1, 2})
		if err := nifti.WriteLabels(filepath.Join(folder, fmt.Sprintf("c%d.nii.gz", n)), l); err != nil {
			t.Fatal(err)
		}
	}
}

// Of two runs into one folder the second is refused before it reads anything, so that no folder has
// files of both; and what an earlier evaluation has left does not stay beside files of a later one.
func TestEvaluateHasItsFolder(t *testing.T) {
	dir := t.TempDir()
	maps, out := filepath.Join(dir, "maps"), filepath.Join(dir, "out")
	writeLabelMaps(t, maps, 2)
	o := evaluateOptions{Missing: pairing.MissingIsError, Out: out}
	o.Metrics.Tolerance = 2
	evaluate := func(predictions string) error {
		var stdout, stderr bytes.Buffer
		return runEvaluate(t.Context(), o, predictions, predictions, &stdout, &stderr)
	}
	var held *atomicfile.HeldError
	let, err := outdir.Hold(out, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if err := evaluate(filepath.Join(dir, "nowhere")); !errors.As(err, &held) {
		t.Errorf("another run has the folder, and this one says: %v", err)
	}
	let()
	if err := evaluate(filepath.Join(dir, "nowhere")); err == nil || errors.As(err, &held) {
		t.Errorf("nobody has the folder, and this run says: %v", err)
	}
	if err := evaluate(maps); err != nil {
		t.Fatal(err)
	}
	broken := report.Report{Sections: []report.Section{{Blocks: []report.Block{report.Pictures{{Caption: "none"}}}}}}
	if err := writeScores(out, table.Table{}, table.Table{}, broken); err == nil ||
		!strings.Contains(err.Error(), filepath.Join(out, "scores.html")) {
		t.Errorf("a page that cannot be made: %v", err)
	}
	if _, err := os.Stat(filepath.Join(out, "scores.html")); err == nil {
		t.Error("the page of the earlier evaluation lies beside the scores of a later one")
	}
	if text, err := os.ReadFile(filepath.Join(out, "scores.csv")); err != nil || bytes.Contains(text, []byte("c1")) {
		t.Errorf("the scores of the later evaluation are not there: %q, %v", text, err)
	}
}

// Reports of two comparisons do not mix either.
func TestCompareHasItsFolder(t *testing.T) {
	dir := t.TempDir()
	out, scores, curves := filepath.Join(dir, "out"), filepath.Join(dir, "scores.csv"), filepath.Join(dir, "curves.csv")
	for path, text := range map[string]string{
		scores: "initialisation,fold,fraction,seed,case,label,dsc\nscratch,1,1,1,a,1,0.5\npuzzles,1,1,1,a,1,0.75\n",
		curves: "initialisation,data,fold,seed,step,dsc\nscratch,100 %,1,1,10,0.25\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	compare := func(flags ...string) error {
		cmd := newCompare()
		cmd.SetArgs(append([]string{scores, "--out", out}, flags...))
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		return cmd.ExecuteContext(t.Context())
	}
	let, err := outdir.Hold(out, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	var held *atomicfile.HeldError
	if err := compare(); !errors.As(err, &held) {
		t.Errorf("another run has the folder, and this one says: %v", err)
	}
	let()
	for _, flags := range [][]string{{"--curves", curves}, nil} {
		if err := compare(flags...); err != nil {
			t.Fatal(err)
		}
		_, err := os.Stat(filepath.Join(out, "curves.csv"))
		if there := err == nil; there != (flags != nil) {
			t.Errorf("curves.csv is there: %t, with %q", there, flags)
		}
	}
}

// What is said of the other cases has the words for none, one and several.
func TestFailedPairsCount(t *testing.T) {
	first := errors.New("case a: why")
	for of, want := range map[[2]int]string{
		{1, 1}: "case a: why",
		{1, 2}: "case a: why (the scores of the other one are complete)",
		{1, 4}: "case a: why (the scores of the other 3 are complete)",
		{2, 2}: "case a: why (the first of 2 cases that could not be compared)",
		{2, 4}: "case a: why (the first of 2 cases that could not be compared; the scores of the other 2 are complete)",
	} {
		f := failedPairs{first: first, of: of[1], why: map[string]string{"a": "why", "b": "why"}}
		if of[0] == 1 {
			delete(f.why, "b")
		}
		if err := f.error(); err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", of, err, want)
		}
	}
}

// A list that is one line too long ends in words for one.
func TestSayNotesCount(t *testing.T) {
	var notes []string
	for n := range 42 {
		notes = append(notes, fmt.Sprint("note ", n))
	}
	for n, want := range map[int]string{41: "and 1 more such line: X shows all\n",
		42: "and 2 more such lines: X shows all\n"} {
		var said strings.Builder
		if sayNotes(&said, notes[:n], "X"); !strings.HasSuffix(said.String(), want) {
			t.Errorf("%d notes: %q", n, said.String())
		}
	}
}
