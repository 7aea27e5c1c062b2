package segment

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A run is not resumed with labels that are called otherwise than it has learnt them, or of which
// others are ignored. A run of an earlier version does not say which it ignores.
func TestNamesOfAResumedRun(t *testing.T) {
	store := func(name, other string) *prepared.Store {
		v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		l.Names = map[uint16]string{2: name, 3: other}
		return traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "a", Image: v, Labels: l})
	}
	c := tiny()
	c.Labels, c.Crop, c.Augment = []string{"2"}, [3]int{8, 8, 8}, Augmentation{}
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 1, 0, 1
	folder := filepath.Join(t.TempDir(), "run")
	run := func(s *prepared.Store, mode voxsaw.Mode) error {
		_, _, err := Finetune(t.Context(), testDevice(t), c, sample.Data{Store: s, Train: []string{"a"}}, "",
			voxsaw.RunOptions{Folder: folder, Mode: mode})
		return err
	}
	if err := run(store("tumour", "ignore"), voxsaw.ModeNew); err != nil {
		t.Fatal(err)
	}
	refused := func(name, other, key string) {
		t.Helper()
		var changed *voxsaw.ChangedError
		if err := run(store(name, other), voxsaw.ModeResume); !errors.As(err, &changed) || len(changed.Changes) != 1 ||
			!strings.HasPrefix(changed.Changes[0], key+":") {
			t.Errorf("labels %s, %s: %v", name, other, err)
		}
	}
	refused("pancreas", "ignore", "names")
	refused("tumour", "cyst", "ignored")
	path := filepath.Join(folder, "config.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.SplitAfter(string(text), "\n"),
		func(line string) bool { return strings.HasPrefix(line, "ignored:") })
	if err := os.WriteFile(path, []byte(strings.Join(lines, "")), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := run(store("tumour", "ignore"), voxsaw.ModeResume); err != nil {
		t.Errorf("a run of an earlier version: %v", err)
	}
}

// A run whose log an earlier version began, which left marks out of the names of labels, goes on
// with its columns.
func TestLogOfEarlierNamesGoesOn(t *testing.T) {
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	l.Names = map[uint16]string{2: "दिल"}
	store := traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "a", Image: v, Labels: l},
		prepared.Input{ID: "b", Image: v, Labels: l})
	c := tiny()
	c.Labels, c.Crop, c.Augment = []string{"2"}, [3]int{8, 8, 8}, Augmentation{}
	c.Train.ValidateEvery = 1
	folder := filepath.Join(t.TempDir(), "run")
	run := func(steps int, mode voxsaw.Mode) error {
		c.Train.Steps = steps
		_, _, err := Finetune(t.Context(), testDevice(t), c, sample.Data{Store: store, Train: []string{"a"},
			Validate: []string{"b"}}, "", voxsaw.RunOptions{Folder: folder, Mode: mode})
		return err
	}
	if err := run(1, voxsaw.ModeNew); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "validation.csv")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	now, then := "step,score,dsc,dsc_दिल\n", "step,score,dsc,dsc_द_ल\n" // as it was called
	older := strings.Replace(string(text), now, then, 1)
	if older == string(text) {
		t.Fatalf("%s", text)
	}
	if err := errors.Join(atomicfile.Unseal(folder, "validation.csv"), os.WriteFile(path, []byte(older), 0o666),
		atomicfile.Seal(folder, "validation.csv")); err != nil {
		t.Fatal(err)
	}
	if err := run(2, voxsaw.ModeResume); err != nil {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), older) || len(text) == len(older) {
		t.Errorf("%s, %v", text, err)
	}
}
