package verify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// weights are those of a network without any.
type weights struct{}

func (weights) Names() []string                               { return nil }
func (weights) Shape(string) device.Shape                     { return device.Shape{} }
func (weights) Write(string, []float32) error                 { return nil }
func (weights) ReadInto(string, []float32) ([]float32, error) { return nil, nil }

// A file with a long list of cases, which a checkpoint and its run's configuration name, is missed,
// and compared with its digest.
func TestLongListsOfCases(t *testing.T) {
	run := t.TempDir()
	names := make([]string, 1001)
	for n := range names {
		names[n] = fmt.Sprintf("case %d", n)
	}
	if err := checkpoint.Write(filepath.Join(run, "last.safetensors"),
		checkpoint.Description{Kind: "jigsaw", TrainedOn: names}, weights{}); err != nil {
		t.Fatal(err)
	}
	text, err := config.Marshal(&struct {
		TrainedOn []string `yaml:"trained_on,flow"`
	}{checkpoint.ListForConfig(names)})
	if err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{train.ConfigOf(run): string(text),
		filepath.Join(run, "run.json"): `{"format": 1, "kind": "jigsaw"}`, filepath.Join(run, "metrics.csv"): "step,seconds\n"} {
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	lists, err := filepath.Glob(filepath.Join(run, "names-*.txt"))
	if err != nil || len(lists) != 1 {
		t.Fatal(lists, err)
	}
	file := filepath.Base(lists[0])
	// check compares the problems of the run and of its checkpoint, one or none each.
	check := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		err := Paths(t.Context(), []string{run}, dataset.Part{},
			func(f Finding) { got[f.Kind] = strings.Join(f.Problems, "; ") })
		if err != nil || len(got) != 2 {
			t.Errorf("%v: %q", err, got)
		}
		for kind, problem := range got {
			if (problem == "") != (want[kind] == "") || !strings.Contains(problem, want[kind]) {
				t.Errorf("the %s: %q, want %q", kind, problem, want[kind])
			}
		}
	}
	check(nil)
	if err := os.WriteFile(lists[0], []byte("case 1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	other := file + " is not the list of names that was written with it"
	check(map[string]string{Run: other, Checkpoint: other})
	if err := os.Remove(lists[0]); err != nil {
		t.Fatal(err)
	}
	check(map[string]string{
		Run: "config.yaml names 1001 cases in " + file + ", which is not beside it",
		Checkpoint: "the 1001 cases that it was trained on are named in " + file +
			", which is not beside it: copy that file back",
	})
}
