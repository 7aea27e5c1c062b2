package nnunet

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// digitsOf are labels that are written as a digit each.
func digitsOf(text string) []uint16 {
	labels := make([]uint16, len(text))
	for i, c := range text {
		labels[i] = uint16(c - '0')
	}
	return labels
}

// nnU-Net's own functions made the cases: testdata/nnunet/postprocessing/make.py.
func TestPostprocessing(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("..", "..", "testdata", "nnunet", "postprocessing", "cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Shape [3]int
		Cases []struct {
			Labels, Found  string
			Postprocessing json.RawMessage
		}
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) < 10 {
		t.Fatalf("%d cases", len(golden.Cases))
	}
	names := map[uint16]bool{}
	m := &Model{Folder: t.TempDir(), Folds: []string{"0", "1"}, Labels: &Labels{Structures: []Structure{{Label: 0},
		{Label: 1}, {Label: 2}, {Label: 3}}}}
	if p, err := m.Postprocessing(); p != nil || err != nil {
		t.Errorf("where nobody determined one: %v, %v", p, err)
	}
	folder := filepath.Join(m.Folder, "crossval_results_folds_0_1")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "postprocessing.json")
	write := func(text []byte) {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for n, c := range golden.Cases {
		write([]byte(`{"input_folder": {"mean": {"3": {"Dice": NaN, "FN": -Infinity}}}, ` +
			strings.TrimPrefix(string(c.Postprocessing), "{")))
		p, err := m.Postprocessing()
		if err != nil {
			t.Fatal(err)
		}
		got, want := digitsOf(c.Labels), digitsOf(c.Found)
		p.Apply(got, golden.Shape)
		for i := range got {
			names[got[i]] = true
			if got[i] != want[i] {
				t.Fatalf("case %d: voxel %d is %d, nnU-Net keeps %d", n, i, got[i], want[i])
			}
		}
	}
	if len(names) < 4 {
		t.Errorf("labels of all cases: %v", names)
	}
	m.Folds = []string{"0"}
	if _, err := m.Postprocessing(); err == nil || !strings.Contains(err.Error(), "of folds 0,1, and predicts with "+
		"folds 0") {
		t.Errorf("of other folds: %v", err)
	}
	step := func(function, labels string) string {
		return fmt.Sprintf(`{"postprocessing_fns": [%q], "postprocessing_kwargs": [{"labels_or_regions": %s}]}`,
			function, labels)
	}
	eleven := &Model{Folder: m.Folder, Folds: strings.Fields("10 9 8 7 6 5 4 3 2 1 0"), Labels: m.Labels}
	if err := os.Mkdir(filepath.Join(m.Folder, "crossval_results_folds_0_1_2_3_4_5_6_7_8_9_10"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(m.Folder, "crossval_results_folds_0_1_2_3_4_5_6_7_8_9_10",
		"postprocessing.json"), []byte(step(keepLargest, "1")), 0o644); err != nil {
		t.Fatal(err)
	}
	if p, err := eleven.Postprocessing(); err != nil || len(p.Steps) != 1 {
		t.Errorf("of eleven folds: %+v, %v", p, err)
	}
	m.Folds = []string{"1", "0"} // the same folds
	m.Regions = true
	write([]byte(step(keepLargest, "[[1, 7], [7]]")))
	if p, err := m.Postprocessing(); err != nil || len(p.Steps) != 1 || len(p.Steps[0]) != 2 {
		t.Errorf("a member of a region that is no label of predictions: %v, %v", p, err)
	}
	m.Regions = false
	for text, problem := range map[string]string{
		`{}`:                          "postprocessing_fns has 0 entries",
		step("os.system", "1"):        "os.system of background 0",
		step(keepLargest, `"liver"`):  "want a label",
		step(keepLargest, "[[1, 7]]"): "label 7, which the model has not",
	} {
		write([]byte(text))
		if _, err := m.Postprocessing(); err == nil || !strings.Contains(err.Error(), problem) ||
			!strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
