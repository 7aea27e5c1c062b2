package totalseg

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

var golden = filepath.Join("..", "..", "testdata", "totalsegmentator")

// predicted is the label map that a task's models make of the golden scan.
func predicted(t *testing.T, folder, task string, memory int64) (l *volume.LabelMap, said string) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s, err := Open(folder, task, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewModel(dev, s, memory)
	if err != nil {
		t.Fatal(err)
	}
	scan, err := nifti.Read(filepath.Join(golden, "kbp.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Fits(scan.Grid, 2, segment.MapOptions{}); err != nil {
		t.Fatal(err)
	}
	m.Watch(nil, func(text string) { said = text })
	l, _, err = m.Predict(t.Context(), []*volume.Volume{scan}, segment.MapOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return l, said
}

func wanted(t *testing.T, task string) *volume.LabelMap {
	t.Helper()
	want, err := nifti.ReadLabels(filepath.Join(golden, task+".nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	return want
}

// Label maps are those of TotalSegmentator itself, of a scan whose axes are turned and whose voxels
// are resampled: all parts, with their numbers, and the fast mode. No voxel differs.
func TestTotalSegmentator(t *testing.T) {
	for _, task := range []string{"", "total-fast"} {
		name := task
		if name == "" {
			name = "total"
		}
		got, said := predicted(t, filepath.Join(golden, "results"), task, 0)
		want := wanted(t, name)
		if said != "" {
			t.Errorf("%s: said %q", name, said)
		}
		if !got.Same(want.Grid, 1e-4) {
			t.Errorf("%s: grid %+v, want %+v", name, got.Grid, want.Grid)
		}
		differ := 0
		for n, label := range want.Labels {
			if got.Labels[n] != label {
				differ++
			}
		}
		if differ > 0 || len(want.Counts()) < 20 {
			t.Errorf("%s: %d of %d voxels differ, of %d labels", name, differ, len(want.Labels), len(want.Counts()))
		}
	}
}

// Little memory gives the same label map, and the parts that are there keep their numbers where
// others are missing.
func TestParts(t *testing.T) {
	whole := wanted(t, "total")
	got, said := predicted(t, filepath.Join(golden, "results"), "total", 3<<20)
	if !slices.Equal(got.Labels, whole.Labels) || !strings.Contains(said, "bands, to keep to the memory") {
		t.Errorf("another label map in little memory, or it is not little: said %q", said)
	}
	folder := filepath.Join(t.TempDir(), "results")
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(golden, "results"))); err != nil {
		t.Fatal(err)
	}
	parts, err := filepath.Glob(filepath.Join(folder, "Dataset29[45]*"))
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	if err := errors.Join(os.RemoveAll(parts[0]), os.RemoveAll(parts[1])); err != nil {
		t.Fatal(err)
	}
	got, _ = predicted(t, folder, "total", 3<<20)
	for n, label := range whole.Labels { // later parts are written over earlier ones
		if has := got.Labels[n]; label <= 68 && has != label || has > 68 {
			t.Fatalf("voxel %d is %d, of all parts %d", n, has, label)
		}
	}
	if name := got.Names[68]; name == "" || got.Names[69] != "" {
		t.Errorf("names %v", got.Names)
	}
	s, err := Open(folder, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "the data sets 294, 295 are not in") {
		t.Error(notes)
	}
}

// What cannot be done is refused by its name, and terms of licences are told.
func TestTasks(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "results")
	source := filepath.Join(golden, "results", "Dataset297_TotalSegmentator_total_3mm_1559subj")
	for _, name := range []string{"Dataset303_face", "Dataset117_lung_vessels", "Dataset999_own"} {
		if err := os.CopyFS(filepath.Join(folder, name), os.DirFS(source)); err != nil {
			t.Fatal(err)
		}
	}
	for task, want := range map[string]string{
		"":             "has the models of several tasks, face, lung_vessels",
		"total":        "has no model of task total, only of face, lung_vessels",
		"nothing":      `there is no task "nothing" of TotalSegmentator`,
		"lung_vessels": "task lung_vessels of TotalSegmentator is not done here: it looks only at a box",
	} {
		_, err := Open(folder, task, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", task, err, want)
		}
		var choice *ChoiceError
		if errors.As(err, &choice) == (task == "lung_vessels") {
			t.Errorf("%q: %T", task, err)
		}
	}
	s, err := Open(folder, "face", nil)
	if err != nil {
		t.Fatal(err)
	}
	if notes := strings.Join(s.Notes(), "\n"); !strings.Contains(notes, "for non-commercial use only") {
		t.Error(notes)
	}
	for path, want := range map[string]bool{folder: true, filepath.Join(golden, "results"): true, golden: false,
		source: false, filepath.Join(golden, "kbp.nii.gz"): false} {
		if got := IsResults(path); got != want {
			t.Errorf("%s: results %v", path, got)
		}
	}
	if err := os.CopyFS(filepath.Join(folder, "Dataset291_organs"), os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(folder, "total", nil); err == nil ||
		!strings.Contains(err.Error(), "has 117 classes, where the model of task total has 24") {
		t.Error(err)
	}
}
