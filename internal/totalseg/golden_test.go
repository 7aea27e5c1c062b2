package totalseg

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

var golden = filepath.Join("..", "..", "testdata", "totalsegmentator")

// predicted is the label map that a task's models make of a golden scan.
func predicted(t *testing.T, folder, scanned, task string, memory int64) (l *volume.LabelMap, said string) {
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
	scan, err := nifti.Read(filepath.Join(golden, scanned))
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
		got, said := predicted(t, filepath.Join(golden, "results"), "kbp.nii.gz", task, 0)
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

// Tasks that look at a box around organs alone, and label maps that are cleaned up: no voxel
// differs from TotalSegmentator's own. The box of each is a part of the scan.
func TestBoxes(t *testing.T) {
	for task, labels := range map[string]int{"kidney_cysts": 2, "liver_vessels": 2, "craniofacial_structures": 2,
		"teeth": 12, "abdominal_muscles": 5, "heartchambers_highres": 3, "headneck_muscles": 9, "body-fast": 2} {
		got, said := predicted(t, filepath.Join(golden, "results_box"), "box.nii.gz", task, 0)
		want := wanted(t, strings.TrimSuffix(task, "-fast"))
		differ := 0
		for n, label := range want.Labels {
			if got.Labels[n] != label {
				differ++
			}
		}
		counts := want.Counts()
		if differ > 0 || len(counts) < labels || counts[0] < len(want.Labels)/4 || !got.Same(want.Grid, 1e-4) {
			t.Errorf("%s: %d of %d voxels differ, of labels %v", task, differ, len(want.Labels), counts)
		}
		if said != "" {
			t.Errorf("%s: said %q", task, said)
		}
	}
}

// Components of the body are TotalSegmentator's: of the trunk the largest is left, of the
// extremities those of more than 50 ml.
func TestBodyIsCleaned(t *testing.T) {
	got, want := wanted(t, "messy"), wanted(t, "clean")
	before := got.Counts()
	cleanBody(got)
	if !slices.Equal(got.Labels, want.Labels) {
		t.Errorf("labels %v, want %v", got.Counts(), want.Counts())
	}
	for label := range uint16(2) {
		if n := want.Counts()[label+1]; n == 0 || n == before[label+1] {
			t.Errorf("label %d: %d voxels of %d are left: the example is none", label+1, n, before[label+1])
		}
	}
}

// Little memory (on one core a network takes more) gives the same label map, and the parts that are
// there keep their numbers where others are missing.
func TestParts(t *testing.T) {
	whole := wanted(t, "total")
	got, said := predicted(t, filepath.Join(golden, "results"), "kbp.nii.gz", "total", 5<<19)
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
	got, _ = predicted(t, folder, "kbp.nii.gz", "total", 5<<19)
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

// A scan fits where every part does: here the one of two folds needs most, with as many classes.
func TestFits(t *testing.T) {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	scan, err := nifti.Read(filepath.Join(golden, "kbp.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	least := func(folds ...[]string) int {
		s := &Set{Task: Task{Spacing: cube(1.5)}}
		for _, f := range folds {
			m, err := nnunet.Open(filepath.Join("..", "..", "testdata", "nnunet", "thick"), f)
			if err != nil {
				t.Fatal(err)
			}
			s.parts = append(s.parts, part{Model: m})
		}
		return sort.Search(1<<28, func(memory int) bool {
			m, err := NewModel(dev, s, int64(memory)+1)
			return err == nil && m.Fits(scan.Grid, 2, segment.MapOptions{}) == nil
		})
	}
	one, two := []string{"0"}, []string{"0", "1"}
	small, large, both := least(one), least(two), least(one, two)
	if small >= large || both != large {
		t.Errorf("a part takes %d bytes, another %d, both %d", small, large, both)
	}
}

// What cannot be done is refused by its name, and terms of licences are told.
func TestTasks(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "results")
	source := filepath.Join(golden, "results", "Dataset297_TotalSegmentator_total_3mm_1559subj")
	thick := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	model := filepath.Join(folder, "%s", "nnUNetTrainer__nnUNetPlans__3d_fullres")
	for _, name := range []string{"Dataset713_annulus_proper_48subj", "Dataset008_HepaticVessel",
		"Dataset803_TotalSegmentator_vertebrae_inner_1559subj", "Dataset999_own"} {
		if err := os.CopyFS(fmt.Sprintf(model, name), os.DirFS(thick)); err != nil {
			t.Fatal(err)
		}
	}
	for task, want := range map[string]string{
		"":             "has the models of several tasks, aorta_annulus, vertebrae_pp, liver_vessels",
		"total":        "has no model of task total, only of aorta_annulus, vertebrae_pp, liver_vessels",
		"nothing":      `there is no task "nothing" of TotalSegmentator`,
		"vertebrae_pp": "task vertebrae_pp of TotalSegmentator is not done here: its label maps are cleaned up",
		"liver_vessels": "looks for organs first with the models of task total-fastest, and " +
			"Dataset298_TotalSegmentator_total_6mm_1559subj is not in " + folder,
	} {
		_, err := Open(folder, task, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", task, err, want)
		}
		var choice *ChoiceError
		if errors.As(err, &choice) == (task == "vertebrae_pp" || task == "liver_vessels") {
			t.Errorf("%q: %T", task, err)
		}
	}
	s, err := Open(folder, "aorta_annulus", nil)
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
	first := filepath.Join(folder, "Dataset291_TotalSegmentator_part1_organs_1559subj")
	if err := os.CopyFS(first, os.DirFS(source)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(folder, "total", nil); err == nil ||
		!strings.Contains(err.Error(), "has 117 classes, where the model of task total has 24") {
		t.Error(err)
	}
}

// Data sets of a person's own are not taken for TotalSegmentator's, whatever their numbers are, nor
// beside it; and a model with another number of classes is refused.
func TestOwnDataSets(t *testing.T) {
	results := filepath.Join(t.TempDir(), "results")
	model := func(name string) string {
		return filepath.Join(results, name, "nnUNetTrainer__nnUNetPlans__3d_fullres")
	}
	thick := os.DirFS(filepath.Join("..", "..", "testdata", "nnunet", "thick")) // of two classes
	if err := os.CopyFS(model("Dataset303_Liver"), thick); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(results, "Dataset303_face_1559subj")
	if err := os.WriteFile(archive, []byte("no folder"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, task := range []string{"", "face"} {
		if _, err := Open(results, task, nil); IsResults(results) || err == nil ||
			!strings.Contains(err.Error(), "has no model of TotalSegmentator") {
			t.Errorf("%q: results %v, %v", task, IsResults(results), err)
		}
	}
	if err := errors.Join(os.Remove(archive), os.CopyFS(model("Dataset303_face_1559subj"), thick)); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(results, "", nil); !IsResults(results) || err == nil ||
		!strings.Contains(err.Error(), "has 2 classes, where the model of task face has 1") {
		t.Error(err)
	}
	if err := os.CopyFS(model("Dataset713_Aorta"), thick); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Dir(model("Dataset713_Aorta")),
		filepath.Join(results, "Dataset713_annulus_proper_48subj")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(results, "aorta_annulus", nil); err != nil {
		t.Error(err)
	}
}

// The table names the data set of each part, and tells the classes of each that is not refused.
// The table is that of the package, in which a task that is not there would be missed in silence.
func TestTable(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(golden, "tasks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var theirs map[string]struct {
		Parts    []int
		Spacing  [3]float64
		Folds    []int
		Licensed bool
		Organs   []string
		Near     []string
		Reach    float64
		Classes  int
	}
	if err := json.Unmarshal(text, &theirs); err != nil {
		t.Fatal(err)
	}
	for name, want := range theirs {
		at := slices.IndexFunc(tasks, func(t Task) bool { return t.Name == cmp.Or(sameTask[name], name) })
		if at < 0 {
			t.Errorf("%s is not there", name)
			continue
		}
		got, box := tasks[at], Box{}
		if got.Box != nil {
			box = *got.Box
		}
		classes := 0
		for _, n := range got.Classes {
			classes += n
		}
		if !slices.Equal(got.Parts, want.Parts) || got.Refused == "" && (got.Spacing != want.Spacing ||
			got.AllFolds != (len(want.Folds) != 1) || got.Licensed != want.Licensed ||
			!slices.Equal(box.Organs, want.Organs) || !slices.Equal(box.Near, want.Near) || box.Reach != want.Reach ||
			want.Classes > 0 && classes != want.Classes) {
			t.Errorf("%s: %+v with the box %+v, want %+v", name, got, box, want)
		}
	}
	for _, task := range tasks {
		if _, there := theirs[task.Name]; !there {
			t.Errorf("the package has no task %s", task.Name)
		}
		for _, number := range task.Parts {
			if dataSets[number] == "" {
				t.Errorf("%s: data set %d has no name", task.Name, number)
			}
		}
		if task.Refused == "" && len(task.Classes) != len(task.Parts) {
			t.Errorf("%s: classes of %d of %d parts", task.Name, len(task.Classes), len(task.Parts))
		}
	}
}

// A task of TotalSegmentator that has another's model and settings is that task.
func TestFurtherNames(t *testing.T) {
	for name, task := range sameTask {
		got, err := choose(name, tasks, "results")
		if refused := "task " + task + " of TotalSegmentator is not done here"; err == nil && got.Name != task ||
			err != nil && !strings.Contains(err.Error(), refused) {
			t.Errorf("%s: %q, %v", name, got.Name, err)
		}
	}
}
