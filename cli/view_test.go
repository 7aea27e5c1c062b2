package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/viewer"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Without scores, what quality.csv doubts most comes first: most flags, then the lowest estimate.
func TestViewPutsDoubtfulCasesFirst(t *testing.T) {
	folder := t.TempDir()
	rows := "case,label,structure,dsc_estimate,flag\n" +
		"fine,1,liver,93,\nlow,1,liver,55,\nlow,2,,80,\n" +
		"small,1,liver,70,volume 3 ml\nodd,1,liver,,volume 2 ml\nodd,,spleen,,missing\n"
	commandtest.Must(t, os.WriteFile(filepath.Join(folder, "quality.csv"), []byte(rows), 0o644))
	cases := []viewer.Case{{Name: "fine"}, {Name: "unknown"}, {Name: "low"}, {Name: "small"}, {Name: "odd"}}
	got, err := viewOptions{Predictions: folder}.worstFirst(cases)
	commandtest.Must(t, err)
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
	commandtest.Must(t, os.WriteFile(filepath.Join(folder, "quality.csv"), []byte("a,b\n1,2\n"), 0o644))
	if _, err := (viewOptions{Predictions: folder}).worstFirst(cases); err == nil ||
		!strings.Contains(err.Error(), "quality.csv") {
		t.Errorf("another table: %v", err)
	}
}

// The page on a pretraining shows its puzzle, made anew when there is another checkpoint; that on
// a fine-tuning has none.
func TestViewShowsThePuzzle(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.Must(t, miniature.Scans("scans", miniature.ScanOptions{Cases: 3, Labelled: 3}))
	commandtest.Type(t, "prepare scans --out prepared")
	commandtest.Type(t, "pretrain --data prepared --channels 2 --levels 1 --crop 16 --grid 2 --patch 8 --steps 2 "+
		"--warmup 0 --out p")
	commandtest.Type(t, "finetune --data prepared --channels 2 --levels 1 --crop 16 --steps 2 --out f")
	store, err := prepared.Open("prepared")
	commandtest.Must(t, err)
	defer store.Close()
	for run, want := range map[string]bool{"p": true, "f": false} {
		task := &taskPicture{checkpoint: filepath.Join(run, "last.safetensors"), look: onCases(t.Context(), store)}
		var page bytes.Buffer
		commandtest.Must(t, pageOfRun(run, task, &page))
		if got := strings.Contains(page.String(), "How it does its task now"); got != want {
			t.Errorf("%s: a picture of the task is %v on the page, want %v", run, got, want)
		}
		first, err := task.now()
		if again, _ := task.now(); first != again || err != nil {
			t.Errorf("%s: the same checkpoint gives two pictures, or %v", run, err)
		}
		task.close()
	}
}

// A picture that cannot be made of a later checkpoint leaves none of an earlier one behind, and the
// page says why.
func TestViewTellsWhyThereIsNoPicture(t *testing.T) {
	path := filepath.Join(t.TempDir(), "last.safetensors")
	var failed error
	task := &taskPicture{checkpoint: path, look: func(voxsaw.Device, string) (*report.Picture, error) {
		if failed != nil {
			return nil, failed
		}
		return &report.Picture{Image: image.NewGray(image.Rect(0, 0, 1, 1))}, nil
	}}
	defer task.close()
	for n, want := range []error{nil, errors.New("the case is too small"), nil} {
		failed = want
		commandtest.Must(t, os.WriteFile(path, nil, 0o666))
		at := time.Unix(int64(1e9+n), 0)
		commandtest.Must(t, os.Chtimes(path, at, at))
		for range 2 {
			if picture, err := task.now(); !errors.Is(err, want) || (picture == nil) != (want != nil) {
				t.Errorf("checkpoint %d: picture %v, %v, want %v", n, picture, err, want)
			}
		}
	}
	page, err := report.Runs("p", "", []report.Run{{Training: report.Training{Name: "p", Folder: t.TempDir()},
		Without: errors.New("the case is too small")}})
	var html bytes.Buffer
	commandtest.Must(t, err)
	commandtest.Must(t, page.HTML(&html))
	if !strings.Contains(html.String(), "p: no picture of it: the case is too small") {
		t.Error("the page does not say why there is no picture")
	}
}

// A trial shows its test cases with the predictions and scores that it has kept, the lowest DSC
// first. Another run shows what it has held out, by splits that are found from where it began. One
// that does not tell shows all, with a note.
func TestViewShowsWhatARunHasHeldOut(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.Must(t, miniature.Scans("scans", miniature.ScanOptions{Cases: 6, Labelled: 4}))
	commandtest.Type(t, "prepare scans --out prepared")
	commandtest.Must(t, os.WriteFile("plan.yaml", []byte("folds: 2\nrun_folds: [1]\nfractions: [1]\nseeds: [1]\n"+
		"initialisations: [{name: scratch}, {name: rotation, pretrain: {}}]\n"+
		"pretrain: {task: rotation, network: {channels: 2, levels: 1}, train: {steps: 2}, crop: 16}\n"+
		"finetune: {network: {channels: 2, levels: 1}, train: {steps: 2}, crop: 16, labels: [2, 3]}\n"), 0o644))
	commandtest.Type(t, "crossval --config plan.yaml --data prepared --out study")
	splits := `[{"train": ["case_1", "case_2", "case_4"], "val": ["case_3"]}]`
	commandtest.Must(t, os.WriteFile("splits.json", []byte(splits), 0o644))
	tiny := " --data prepared --channels 2 --levels 1 --crop 16 --steps 2 --out "
	commandtest.Type(t, "finetune --splits splits.json --fold 1"+tiny+"organs")
	commandtest.Type(t, "pretrain --splits splits.json --fold 1 --grid 2 --patch 8 --warmup 0"+tiny+"puzzles")
	commandtest.Type(t, "finetune --hold-out 0"+tiny+"all")
	var studied []struct{ Val []string }
	text, err := os.ReadFile("study/splits_final.json")
	commandtest.Must(t, err)
	commandtest.Must(t, json.Unmarshal(text, &studied))
	trial := "study/trials/scratch/fold-1/fraction-1/seed-1"

	look := func(o viewOptions, run string) (names []string, cases []viewer.Case, said string) {
		t.Helper()
		var stderr bytes.Buffer
		site, done, err := o.site(t.Context(), run, &stderr)
		commandtest.Must(t, err)
		defer done()
		for _, c := range site.Cases {
			names = append(names, c.Name)
		}
		slices.Sort(names)
		return names, site.Cases, stderr.String()
	}
	own := viewOptions{Read: dataset.DefaultReadOptions()}
	here, err := os.Getwd()
	commandtest.Must(t, err)
	for _, base := range []string{"", here} { // where the runs began, and from elsewhere
		if base != "" {
			t.Chdir(t.TempDir())
			trial = filepath.Join(here, trial)
		}
		for run, want := range map[string][]string{trial: studied[0].Val,
			filepath.Join(base, "organs"): {"case_3"}, filepath.Join(base, "puzzles"): {"case_3"}} {
			if names, _, said := look(own, run); !slices.Equal(names, want) || strings.Contains(said, "learnt") {
				t.Errorf("%s shows %v, want %v\n%s", run, names, want, said)
			}
		}
		if names, _, said := look(own, filepath.Join(base, "all")); len(names) != 6 ||
			!strings.Contains(said, "has held out no case") {
			t.Errorf("a run that holds out nothing shows %v\n%s", names, said)
		}
	}

	_, cases, said := look(own, trial)
	text, err = os.ReadFile(filepath.Join(trial, "scores.csv"))
	commandtest.Must(t, err)
	scores, err := table.ReadScores(bytes.NewReader(text))
	commandtest.Must(t, err)
	sum, count := map[string]float64{}, map[string]float64{}
	for _, s := range scores {
		if !math.IsNaN(s.DSC) {
			sum[s.Case], count[s.Case] = sum[s.Case]+s.DSC, count[s.Case]+1
		}
	}
	for n, c := range cases {
		dsc := sum[c.Name] / count[c.Name]
		if want := fmt.Sprintf("DSC %.4f", dsc); c.Text != want {
			t.Errorf("%s: text %q, want %q", c.Name, c.Text, want)
		}
		if n > 0 && dsc < sum[cases[n-1].Name]/count[cases[n-1].Name] {
			t.Errorf("%s is not among the worst", c.Name)
		}
		shown, err := c.Prediction()
		commandtest.Must(t, err)
		kept, err := nifti.ReadLabels(filepath.Join(trial, "predictions", c.Name+".nii.gz"))
		commandtest.Must(t, err)
		if want := filepath.Join(trial, "predictions", c.Name+".nii.gz"); c.PredictionPath != want {
			t.Errorf("%s: the prediction lies at %s, want %s", c.Name, c.PredictionPath, want)
		}
		if !slices.Equal(shown.Labels, kept.Labels) {
			t.Errorf("%s: another prediction is shown", c.Name)
		}
	}
	for _, words := range []string{"predictions in " + trial, "scores in " + trial} {
		if !strings.Contains(said, words) {
			t.Errorf("nobody says %q\n%s", words, said)
		}
	}

	// What the user names is taken alone: the run's scores are not of these predictions.
	other := viewOptions{Predictions: filepath.Join(trial, "predictions"), Read: dataset.DefaultReadOptions()}
	if _, cases, _ := look(other, trial); cases[0].Text != "" || cases[0].Prediction == nil {
		t.Errorf("beside other predictions: %q", cases[0].Text)
	}

	config := filepath.Join(trial, "config.yaml")
	text, err = os.ReadFile(config)
	commandtest.Must(t, err)
	commandtest.Must(
		t,
		os.WriteFile(config, regexp.MustCompile(`(?m)^(test|cases): .*\n`).ReplaceAll(text, nil), 0o644),
	)
	if names, _, said := look(own, trial); len(names) != 6 ||
		!strings.Contains(said, "WARNING: which cases "+trial+" has held out is unknown") {
		t.Errorf("a run that does not tell shows %v\n%s", names, said)
	}
}

// DICOM SEG objects and RT structure sets are shown on the series that they refer to, beside scans
// and beside prepared cases, and on no other.
func TestViewShowsObjects(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.Must(t, miniature.Scans("scans", miniature.ScanOptions{Cases: 2, Labelled: 2, Format: "dicom"}))
	commandtest.Type(t, "prepare scans --out prepared")
	commandtest.Type(t, "finetune --data prepared --channels 2 --levels 1 "+
		"--crop 16 --steps 2 --hold-out 0 --out organs")
	for _, format := range []string{"nifti", "dicom-seg", "rtstruct"} {
		commandtest.Type(t, "predict scans/imagesTr --checkpoint organs --format "+format+" --out "+format)
	}
	var said bytes.Buffer
	shown := func(path, predictions string, n int) (*volume.LabelMap, map[uint16]string, error) {
		t.Helper()
		said.Reset()
		o := viewOptions{Read: dataset.DefaultReadOptions(), Predictions: predictions}
		site, done, err := o.site(t.Context(), path, &said)
		commandtest.Must(t, err)
		defer done()
		l, err := site.Cases[n].Prediction()
		return l, site.Cases[n].Labels, err
	}
	for _, path := range []string{"scans", "prepared"} {
		for n := range 2 {
			want, _, err := shown(path, "nifti", n)
			commandtest.Must(t, err)
			if said.Len() > 0 {
				t.Errorf("a label map of %s: %s", path, said.String())
			}
			for format, least := range map[string]float64{"dicom-seg": 1, "rtstruct": 0.99} {
				got, called, err := shown(path, format, n)
				commandtest.Must(t, err)
				if got, err = got.Orient(want.Axcodes()); err != nil || got.Shape != want.Shape {
					t.Fatalf("%s of %s: a shape of %v, want %v: %v", format, path, got.Shape, want.Shape, err)
				}
				same := 0
				for i, label := range want.Labels {
					if got.Labels[i] == label {
						same++
					}
				}
				if share := float64(same) / float64(len(want.Labels)); share < least {
					t.Errorf("%s of %s: %.4f of the voxels are the label map's", format, path, share)
				}
				if path == "scans" && called[2] != "label 2" { // the segment's name
					t.Errorf("%s of %s: labels called %v", format, path, called)
				}
			}
		}
	}
	commandtest.Must(t, os.Rename("dicom-seg/case_1.dcm", "dicom-seg/case_2.dcm"))
	for _, path := range []string{"scans", "prepared"} {
		if _, _, err := shown(path, "dicom-seg", 1); err == nil || !strings.Contains(err.Error(), "another series") {
			t.Errorf("another scan's object beside %s: %v", path, err)
		}
	}
	commandtest.Must(t, os.Rename("nifti/case_1.nii.gz", "nifti/case_2.nii.gz"))
	elsewhere := volume.Grid{Shape: [3]int{9, 9, 9}, Affine: volume.Scaling([3]float64{3, 3, 3})}
	commandtest.Must(t, nifti.WriteLabels("nifti/case_1.nii.gz", &volume.LabelMap{Grid: elsewhere,
		Labels: make([]uint16, elsewhere.Len())}))
	for _, path := range []string{"scans", "prepared"} {
		for n, want := range []string{"may be of another scan: image and labels do not fill",
			"was predicted from other files than .*, or from another scan\n$"} {
			_, _, err := shown(path, "nifti", n)
			if ok, _ := regexp.MatchString("^WARNING: nifti.case_..nii.gz "+want, said.String()); !ok || err != nil {
				t.Errorf("another scan's label map beside %s: %q, %v", path, said.String(), err)
			}
		}
	}
}

// A number means in a file what its names say: those of a case are not put on labels that another
// program has numbered.
func TestViewGoesByNames(t *testing.T) {
	known := map[uint16]string{1: "liver", 2: "spleen", 4: "aorta"}
	for _, c := range []struct {
		own     map[uint16]string
		numbers map[uint16]uint16
		more    map[uint16]string
	}{
		{map[uint16]string{1: "Spleen", 2: "liver"}, map[uint16]uint16{1: 2, 2: 1}, nil},
		{map[uint16]string{1: "kidney", 4: "aorta"}, map[uint16]uint16{1: 5}, map[uint16]string{5: "kidney"}},
		{map[uint16]string{1: "label 1", 2: "spleen", 9: ""}, nil, nil},
		{nil, nil, nil},
	} {
		all, numbers := numberedAs(known, c.own)
		want := maps.Clone(known)
		maps.Copy(want, c.more)
		if !maps.Equal(numbers, c.numbers) || !maps.Equal(all, want) {
			t.Errorf("%v: names %v, numbers %v, want %v, %v", c.own, all, numbers, want, c.numbers)
		}
	}
	if all, numbers := numberedAs(nil, known); numbers != nil || !maps.Equal(all, known) {
		t.Errorf("a case without names: %v, %v", all, numbers)
	}
}

// A run of a study finds its cases by the study's plan.
func TestViewFindsTheCasesOfAStudysRun(t *testing.T) {
	study := t.TempDir()
	run := filepath.Join(study, "pretraining", "puzzles", "fold-1")
	commandtest.Must(t, os.MkdirAll(run, 0o755))
	commandtest.Must(t, os.WriteFile(filepath.Join(study, "plan.yaml"), []byte("data: somewhere\n"), 0o644))
	commandtest.Must(t, os.WriteFile(filepath.Join(run, "config.yaml"), []byte("grid: [2, 2, 2]\n"), 0o644))
	if data, err := dataOfRun(run); data != "somewhere" {
		t.Errorf("cases in %q, %v", data, err)
	}
	commandtest.Must(t, os.WriteFile(filepath.Join(study, "plan.yaml"), []byte("data: somewhere\ninitialisations:\n"+
		"  - {name: scratch}\n  - {name: puzzles, data: elsewhere}\n"), 0o644))
	if data, err := dataOfRun(run); data != "elsewhere" {
		t.Errorf("an initialisation that is pretrained on other data has its cases in %q, %v", data, err)
	}
	commandtest.Must(t, os.WriteFile(filepath.Join(study, "plan.yaml"), []byte("folds: 2\n"), 0o644))
	if _, err := dataOfRun(run); err == nil || !strings.Contains(err.Error(), "does not say where") {
		t.Errorf("without data: %v", err)
	}
}

// A pretraining on photographs has its task on the page, too, and no word of cases that are not
// there.
func TestViewShowsPhotographs(t *testing.T) {
	t.Chdir(t.TempDir())
	commandtest.Must(t, miniature.ImageNet("photos", 2, 8, 2))
	commandtest.Type(t, "2d prepare photos --out prepared --size 32x32")
	commandtest.Type(t, "2d pretrain --data prepared --backbone resnet18 --width 0.0625 --grid 2x2 --cell 16 "+
		"--patch 16 --features 8 --batch 2 --steps 2 --out p")
	var stderr, page bytes.Buffer
	site, done, err := (viewOptions{}).site(t.Context(), "p", &stderr)
	commandtest.Must(t, err)
	defer done()
	commandtest.Must(t, site.Curves(&page))
	if there := strings.Contains(page.String(), "A puzzle of "); !there || stderr.Len() > 0 {
		t.Errorf("a puzzle is on the page: %v; said: %q", there, stderr.String())
	}
}
