package experiment

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// An arm with another crop, of which an earlier version began encoders with the plan's patches,
// goes on with these, in folds that had not begun, too. A new study has patches of its own.
func TestEncodersGoOnWithTheirPatches(t *testing.T) {
	p := inPart(t, false)
	if err := config.Parse("plan", []byte(`
initialisations: [{name: small, pretrain: {crop: 16, patch: 8}}]
pretrain:
  {task: jigsaw, network: {channels: 2, levels: 1}, crop: 20, grid: 2, patch: 8, batch: 2, features: 4, hidden: 4,
   train: {steps: 2}}
finetune: {labels: [2]}
`), &p); err != nil {
		t.Fatal(err)
	}
	w := &watched{step: func(string, int) {}}
	run := func(p Plan, out string) error {
		_, err := Run(t.Context(), p, Setting{Out: out, Device: traintest.CPU(t), Console: w})
		return err
	}
	out := filepath.Join(t.TempDir(), "out")
	if err := run(p, out); err != nil {
		t.Fatal(err)
	}
	// as the earlier version was asked to begin it
	now := p
	now.Inits = []Initialisation{{Name: "small", Pretrain: config.NewSection("crop: 16")}}
	text, err := os.ReadFile(filepath.Join(out, planFile))
	older := regexp.MustCompile(`crop: 16,? *\n? *patch: 8`).ReplaceAll(text, []byte("crop: 16"))
	if err != nil || len(older) == len(text) {
		t.Fatalf("%v\n%s", err, text)
	}
	if err := errors.Join(atomicfile.Unseal(out, planFile), os.WriteFile(filepath.Join(out, planFile), older, 0o666),
		atomicfile.Seal(out, planFile)); err != nil {
		t.Fatal(err)
	}
	encoder := func(out string, fold int) string {
		text, err := os.ReadFile(train.ConfigOf(filepath.Join(out, pretrainingFolder, "small",
			fmt.Sprint("fold-", fold))))
		if err != nil {
			t.Error(err)
		}
		return string(text)
	}
	told := func(note string) bool { return strings.Contains(note, "an earlier version began its pretraining") }
	if slices.ContainsFunc(w.notes, told) {
		t.Errorf("a study with the patch in its arm: %q", w.notes)
	}
	now.Seeds, now.RunFolds = []uint64{1, 2}, nil
	if err := run(now, out); err != nil || !slices.ContainsFunc(w.notes, told) {
		t.Fatalf("goes on: %v, told %q", err, w.notes)
	}
	for fold := 1; fold <= 2; fold++ {
		if text := encoder(out, fold); !strings.Contains(text, "patch: [8, 8, 8]") {
			t.Errorf("fold %d:\n%s", fold, text)
		}
	}
	// what it needs is that of these patches, too
	needs := func(p Plan, out string) float64 {
		n, err := Needs(t.Context(), &p, traintest.CPU(t), 1, out)
		if err != nil {
			t.Fatal(err)
		}
		return n.FLOPs
	}
	if here, own := needs(now, out), needs(now, filepath.Join(out, "new")); here != needs(p, "") || here <= own {
		t.Errorf("goes on with %v FLOP, of its own %v", here, own)
	}
	w.notes, now.RunFolds = nil, []int{1}
	other := filepath.Join(t.TempDir(), "out")
	for range 2 { // begun by this version, it goes on as it does
		if err := run(now, other); err != nil || slices.ContainsFunc(w.notes, told) {
			t.Fatalf("a study of its own: %v, told %q", err, w.notes)
		}
		now.Seeds = []uint64{1, 2, 3}
	}
	if text := encoder(other, 1); !strings.Contains(text, "patch: [6, 6, 6]") {
		t.Errorf("a study of its own:\n%s", text)
	}
}

// Runs that an earlier version began go on, and finished ones are tabulated: a setting that is
// newer than they are is not written where it has no value, so that it is no change. The files are
// that version's records.
func TestRecordsOfEarlierVersions(t *testing.T) {
	for name, record := range map[string]any{"earlier_trial.yaml": &trialRecord[earlierInference]{},
		"earlier_pretraining.yaml": &encoderRecord{OneOf: pretext.Scans.Choice()}} {
		path := filepath.Join("testdata", name)
		before, err := os.ReadFile(path)
		if err == nil {
			err = config.Load(path, record)
		}
		if err != nil {
			t.Fatal(err)
		}
		now, err := config.Marshal(record)
		if err != nil {
			t.Fatal(err)
		}
		differences, err := config.Differences(string(before), string(now))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range differences {
			t.Errorf("%s: %s: %q then, %q now", name, d.Key, d.Old, d.New)
		}
	}
}
