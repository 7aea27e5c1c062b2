package pairing

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// write leaves label maps of these names in a new folder: a voxel of 1, and one of 2.
func write(t *testing.T, names ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	l := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{3, 3, 3}, Affine: volume.Scaling([3]float64{1, 1, 1})},
		Labels: make([]uint16, 27)}
	l.Labels[13], l.Labels[14] = 1, 2
	for _, name := range names {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := nifti.WriteLabels(filepath.Join(folder, name), l); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

func advice(err error) string {
	var hinted interface{ Advice() string }
	if errors.As(err, &hinted) {
		return hinted.Advice()
	}
	return ""
}

// Label maps are paired by name, whatever their endings; what predict writes beside them is none.
func TestFindByName(t *testing.T) {
	predictions := write(t, "a.nii.gz", "b.nii", "more.nii.gz", "a_probabilities.nii.gz")
	references := write(t, "a.nii", "b.nii.gz", "c.nii.gz")
	pairs, err := Find(predictions, references, "", false)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range pairs.Both {
		names = append(names, p.Name)
		if !strings.HasPrefix(filepath.Base(p.Prediction.Path), p.Name+".") ||
			!strings.HasPrefix(filepath.Base(p.Reference.Path), p.Name+".") {
			t.Errorf("%s: %s with %s", p.Name, p.Prediction.Path, p.Reference.Path)
		}
	}
	if !slices.Equal(names, []string{"a", "b"}) || len(pairs.Unreferenced) != 1 ||
		filepath.Base(pairs.Unreferenced[0]) != "more.nii.gz" {
		t.Errorf("pairs of %v, without a reference %v", names, pairs.Unreferenced)
	}

	// What becomes of c, somebody has to say.
	for missing, want := range map[string]string{MissingIsMissed: "counted as missed, without a prediction: c",
		MissingLeftOut: "left out, without a prediction: 1 reference: c"} {
		settled := pairs
		note, err := settled.Settle(missing, predictions)
		if err != nil || note != want {
			t.Errorf("%s: %q, %v", missing, note, err)
		}
		if missed := len(settled.Both) == 3; missed != (missing == MissingIsMissed) {
			t.Errorf("%s: %d pairs", missing, len(settled.Both))
		}
	}
	if _, err := pairs.Settle(MissingIsError, predictions); err == nil ||
		!strings.Contains(err.Error(), "1 reference has no prediction") || !strings.Contains(advice(err), "c.nii.gz") {
		t.Errorf("%v; %s", err, advice(err))
	}

	// A missed reference is compared with an empty label map.
	missed := pairs
	if _, err := missed.Settle(MissingIsMissed, predictions); err != nil {
		t.Fatal(err)
	}
	for _, p := range missed.Both {
		prediction, reference, _, err := p.Read(nil, dataset.DefaultReadOptions())
		if err != nil {
			t.Fatal(err)
		}
		s, err := Compare(p.Name, prediction, reference, eval.DefaultOptions())
		want := 1.0
		if p.Name == "c" {
			want = 0
		}
		if err != nil || len(s.Scores) != 2 || s.Scores[0].DSC != want || s.Scores[1].DSC != want {
			t.Errorf("%s: %+v, %v", p.Name, s.Scores, err)
		}
	}
}

// One file is compared with one file, and a table or a pattern pairs what names do not.
func TestFindOtherwise(t *testing.T) {
	predictions, references := write(
		t,
		"x_pred.nii.gz",
		"y_pred.nii.gz",
	), write(
		t,
		"x_manual.nii.gz",
		"y_manual.nii.gz",
	)
	_, err := Find(predictions, references, "", false)
	if err == nil || !strings.Contains(advice(err), "--pairs") {
		t.Errorf("%v; %s", err, advice(err))
	}
	pairs, err := Find(predictions, references, "*_pred.nii.gz=*_manual.nii.gz", false)
	if err != nil || len(pairs.Both) != 2 || pairs.Both[1].Name != "y_manual" ||
		filepath.Base(pairs.Both[1].Prediction.Path) != "y_pred.nii.gz" {
		t.Errorf("%+v, %v", pairs.Both, err)
	}
	pairs, err = Find(
		filepath.Join(predictions, "x_pred.nii.gz"),
		filepath.Join(references, "y_manual.nii.gz"),
		"",
		false,
	)
	if err != nil || len(pairs.Both) != 1 {
		t.Errorf("two files: %+v, %v", pairs.Both, err)
	}
	if _, err := Find(predictions, filepath.Join(references, "none"), "", false); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a folder that is not there: %v", err)
	}
	twice := write(t, "one/z.nii.gz", "two/z.nii.gz")
	if _, err := Find(twice, references, "", false); err == nil || !strings.Contains(advice(err), "at a time") {
		t.Errorf("two files of one name: %v; %s", err, advice(err))
	}
}

func TestCaseNames(t *testing.T) {
	for _, c := range []struct{ paths, names string }{
		{"r/a.nii.gz r/b.nii", "a b"},
		{"r/p1/seg.nii.gz r/p2/seg.nii.gz", "p1 p2"},
		{"r/p1/s1/seg.nii.gz r/p1/s2/seg.nii.gz r/p2/s1/seg.nii.gz", "p1_s1 p1_s2 p2_s1"},
	} {
		if got := strings.Join(caseNames(strings.Fields(c.paths)), " "); got != c.names {
			t.Errorf("%s: %s, want %s", c.paths, got, c.names)
		}
	}
}

// A label that some cases do not know is noted, one that none knows is an error.
func TestWanted(t *testing.T) {
	w := NewWanted([]string{"liver", "spleen"})
	w.Add("a", Scores{Absent: []uint16{4}})
	w.Add("b", Scores{Unknown: map[string]string{"liver": "no liver"}})
	notes, err := w.Settle()
	if err != nil || len(notes) != 1 || notes[0] != "no label is called liver in 1 case, which it is not scored in: b" {
		t.Errorf("%q, %v", notes, err)
	}
	w = NewWanted([]string{"liver"})
	w.Add("a", Scores{Unknown: map[string]string{"liver": "no liver"}})
	if _, err := w.Settle(); err == nil || err.Error() != "no liver" || advice(err) == "" {
		t.Error(err)
	}
	w = NewWanted([]string{"4", "9"})
	w.Add("a", Scores{Absent: []uint16{4, 9}})
	w.Add("b", Scores{Absent: []uint16{9}})
	if notes, err := w.Settle(); err != nil || len(notes) != 1 || !strings.Contains(notes[0], "has a label 9:") {
		t.Errorf("%q, %v", notes, err)
	}
}
