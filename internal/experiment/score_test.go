package experiment

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	checkpoints "github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// The scores of an experiment are those that its network gets when it predicts the scans
// themselves, against labels that were never resampled.
func TestScoresAreOfTheScansVoxels(t *testing.T) {
	p := volume.DefaultPreparation()
	dir := t.TempDir()
	var scans []*volume.Volume
	var labels []*volume.LabelMap
	for i := range 2 {
		v, l, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{40, 32, 28}})
		if err != nil {
			t.Fatal(err)
		}
		scans, labels = append(scans, v), append(labels, l)
	}
	for a, s := range scans[0].Spacing() {
		p.Spacing[a] = 1.6 * s
	}
	w, err := prepared.NewWriter(filepath.Join(dir, "prepared"), p)
	if err != nil {
		t.Fatal(err)
	}
	for i, id := range []string{"train", "test"} {
		if _, err := w.Add(prepared.Input{ID: id, Image: scans[i], Labels: labels[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(filepath.Join(dir, "prepared"))
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	plan := DefaultPlan()
	plan.Finetune.Network = voxsaw.Network{Channels: 8, Levels: 2, Norm: "instance"}
	plan.Finetune.Crop, plan.Finetune.Batch, plan.Finetune.Labels = [3]int{16, 16, 12}, 2, []string{"2", "3+4+5"}
	short := &plan.Finetune.Train
	short.Steps, short.LR, short.Warmup, short.ValidateEvery = 20, 0.03, 2, 0
	c, err := plan.Finetune.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	trial := Trial{Init: "scratch", Fold: 1, Fraction: 1, Seed: 1}
	run := trial.Folder(dir)
	if _, _, err := segment.Finetune(t.Context(), dev, c, sample.Data{Store: store, Train: []string{"train"}}, "",
		voxsaw.RunOptions{Folder: run, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	checkpoint := filepath.Join(run, "last.safetensors")
	predictor, err := segment.NewPredictor(dev, []string{checkpoint}, plan.Inference, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer predictor.Close()
	prediction, err := predictor.Predict(t.Context(), scans[1])
	if err != nil {
		t.Fatal(err)
	}
	want, err := eval.Compare("test", prediction, predictor.Reference(labels[1]), plan.Metrics)
	if err != nil {
		t.Fatal(err)
	}
	eval.Sort(want)
	if want[0].DSC == 0 {
		t.Error("nothing was found: the test says nothing")
	}
	r := &runner{Setting: Setting{Device: dev}, plan: plan, store: store}
	networks := []string{train.Last(run)}
	if got, err := r.score(t.Context(), run, networks, []string{"test"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("scores %+v, %v, want %+v", got, err, want)
	}
	kept, err := nifti.ReadLabels(predictionPath(run, "test"))
	if err != nil || !slices.Equal(kept.Labels, prediction.Labels) {
		t.Errorf("the trial did not keep its prediction: %v", err)
	}
	weights, err := checkpoints.Digest(checkpoint)
	if stamp, ok := provenance.Read(predictionPath(run, "test")); err != nil || !ok ||
		!strings.Contains(string(stamp), `"weights":"`+weights[:16]+`","step":20`) {
		t.Errorf("the prediction does not say that %s made it: %s, %v", weights, stamp, err)
	}
	// The report shows what was kept, and needs no network.
	held, err := store.Open("test")
	if err != nil {
		t.Fatal(err)
	}
	shown, err := (&Result{Plan: plan}).prediction(t.Context(), Setting{Out: dir}, trial, held)
	if err != nil || shown.Grid.Shape != held.Grid.Shape ||
		!slices.Contains(shown.Labels, prediction.Labels[slices.IndexFunc(prediction.Labels,
			func(l uint16) bool { return l > 0 })]) {
		t.Errorf("the report cannot show it: %v", err)
	}
	r.plan.ScoreOn = scoreOnPrepared
	if got, err := r.score(t.Context(), run, networks, []string{"test"}); err != nil || len(got) != len(want) ||
		got[0].DSC == want[0].DSC {
		t.Errorf("on the prepared voxels %+v, %v", got, err)
	}
}
