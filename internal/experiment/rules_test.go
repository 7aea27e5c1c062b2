package experiment

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// inPart is a plan of two seeds of fold 1, on four cases: of the class "2+3", label 3 was not drawn
// in a case that is learnt from, or one that is tested on.
func inPart(t *testing.T, tested bool) Plan {
	t.Helper()
	dir := t.TempDir()
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for n, id := range caseNames(4) {
		v, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{20, 20, 20}})
		if err != nil {
			t.Fatal(err)
		}
		in := prepared.Input{ID: id, Image: v, Labels: l}
		if tested && n == 0 || !tested && n == 3 {
			l.Labels, in.Undrawn = slices.Clone(l.Labels), []uint16{3}
			for v, label := range l.Labels {
				if label == 3 {
					l.Labels[v] = 0
				}
			}
		}
		if _, err := w.Add(in); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	p := DefaultPlan()
	if err := config.Parse("plan", []byte("data: "+dir+`
folds: 2
run_folds: [1]
fractions: [1]
seeds: [1]
initialisations: [{name: scratch}]
finetune:
  {network: {channels: 2, levels: 1}, crop: 16, batch: 2, labels: [2+3], train: {steps: 2}}
`), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A trial of a version whose runs have another format is refused, even one that is finished.
func TestTrialsOfOtherFormatsAreRefused(t *testing.T) {
	p := inPart(t, false)
	out := filepath.Join(t.TempDir(), "out")
	run := func() error {
		_, err := Run(t.Context(), p, Setting{Out: out, Device: traintest.CPU(t),
			Console: &watched{step: func(string, int) {}}})
		return err
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	dir, name := Trial{Init: Scratch, Fold: 1, Fraction: 1, Seed: 1}.Folder(out), "run.json"
	path := filepath.Join(dir, name)
	text, err := os.ReadFile(path)
	other := bytes.Replace(text, []byte(`"format": 1`), []byte(`"format": 2`), 1)
	if err != nil || bytes.Equal(other, text) {
		t.Fatalf("%s, %v", text, err)
	}
	if err := errors.Join(atomicfile.Unseal(dir, name), os.WriteFile(path, other, 0o666),
		atomicfile.Seal(dir, name)); err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "has format 2, this program reads 1") {
		t.Error(err)
	}
}

// A trial whose record is damaged does not keep the study from saying so of the trial.
func TestDamagedRecordIsTheTrials(t *testing.T) {
	p := inPart(t, false)
	out := filepath.Join(t.TempDir(), "out")
	run := func() error {
		_, err := Run(t.Context(), p, Setting{Out: out, Device: traintest.CPU(t),
			Console: &watched{step: func(string, int) {}}})
		return err
	}
	if err := run(); err != nil {
		t.Fatal(err)
	}
	dir := Trial{Init: Scratch, Fold: 1, Fraction: 1, Seed: 1}.Folder(out)
	if err := errors.Join(atomicfile.Unseal(dir, "run.json"),
		os.WriteFile(filepath.Join(dir, "run.json"), []byte("{"), 0o666)); err != nil {
		t.Fatal(err)
	}
	if err := run(); err == nil || !strings.Contains(err.Error(), "trial scratch/fold-1/fraction-1/seed-1: ") ||
		!strings.Contains(err.Error(), "choose another folder") {
		t.Error(err)
	}
}

// plain is a device that cannot merge classes.
type plain struct{ device.Device }

// A device that cannot learn from cases with undrawn classes is refused before the first trial, and
// not for trials that are finished.
func TestDeviceIsAskedToMerge(t *testing.T) {
	d, err := device.From(traintest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	p := inPart(t, false)
	out := filepath.Join(t.TempDir(), "out")
	begun := false
	run := func(dev voxsaw.Device, p Plan) error {
		_, err := Run(t.Context(), p, Setting{Out: out, Device: dev,
			Console: &watched{step: func(string, int) { begun = true }}})
		return err
	}
	err = run(plain{d}, p)
	if err == nil || !strings.Contains(err.Error(), "trial scratch/fold-1/fraction-1/seed-1: ") {
		t.Error(err)
	}
	if _, err := os.Stat(out); begun || err == nil {
		t.Errorf("the experiment has begun: %v, %v", begun, err)
	}
	if err := run(d, p); err != nil {
		t.Fatal(err)
	}
	if err := run(plain{d}, p); err != nil {
		t.Errorf("the trial is finished: %v", err)
	}
}

// Steps with labels alone are a matter of arms with teachers: another one may have fewer, whatever
// was drawn.
func TestLabelledLastOfArmsWithoutTeachers(t *testing.T) {
	p := inPart(t, false)
	p.Finetune.LabelledLast = 2
	_, err := Run(t.Context(), p, Setting{Out: filepath.Join(t.TempDir(), "out"), Device: traintest.CPU(t),
		Console: &watched{step: func(string, int) {}}})
	if err != nil {
		t.Error(err)
	}
}

// Deep supervision is of the decoder: tasks that train the encoder alone refuse it by name.
func TestDeepSupervisionOfTasks(t *testing.T) {
	for _, name := range pretext.Scans.Names() {
		of, err := pretext.Scans.Of(name)
		if err != nil {
			t.Fatal(err)
		}
		c := of.New()
		if err := c.Idle(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		c.Common().Network.DeepSupervision = true
		err = c.Idle()
		if decodes := name == "mae" || name == "fusion"; (err == nil) != decodes ||
			err != nil && !strings.Contains(err.Error(), "deep_supervision") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Arms may differ in augmentation and in deep supervision, which is no other network in prediction;
// pretrained weights fit with it and without.
func TestArmsOfRecipes(t *testing.T) {
	p := DefaultPlan()
	p.Data, p.Finetune.Network = "nowhere", voxsaw.Network{Channels: 2, Levels: 3, Norm: "instance"}
	p.Finetune.Crop = [3]int{16, 16, 16}
	arm := func(finetune string) Initialisation {
		return Initialisation{Name: "arm", Finetune: config.NewSection(finetune),
			Pretrain: config.NewSection("{network: {channels: 2, levels: 3, norm: instance}, crop: [24, 24, 24], " +
				"grid: [2, 2, 2], patch: [8, 8, 8]}")}
	}
	c, err := p.finetune(arm("{augment: {preset: nnunet, nnunet: {blur: 0}}, network: {deep_supervision: true}}"))
	want := segment.DefaultNNUNetAugmentation()
	want.Blur = 0
	if err != nil || !c.Network.DeepSupervision || c.Augment.NNUNet != want ||
		c.Augment.Preset != segment.PresetNNUNet {
		t.Errorf("%+v, %v", c, err)
	}
	// an arm's preset wins over what the study says to another; its own keys are still looked at
	for _, c := range []struct{ study, arm, refused string }{
		{"{gain: 0.3, mirror: ijk}", "{preset: nnunet}", ""},
		{"{gain: 0.3}", "{preset: nnunet, gain: 0.2}", "with preset nnunet, gain,"},
		{"{preset: nnunet, nnunet: {blur: 0}}", "{preset: nnunet, nnunet: {noise: 0}}", ""},
		{"{preset: nnunet, nnunet: {blur: 0}}", "{preset: \"\", gain: 0.2}", ""},
	} {
		q := p
		if err := config.Parse("study", []byte("augment: "+c.study), &q.Finetune); err != nil {
			t.Fatal(err)
		}
		got, err := q.finetune(arm("{augment: " + c.arm + "}"))
		if err != nil {
			t.Fatal(err)
		}
		got.Labels, got.Network.Classes = []string{"1"}, 2
		err = got.Check()
		if (err == nil) != (c.refused == "") || err != nil && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("study %s, arm %s: %v, want %q", c.study, c.arm, err, c.refused)
		}
		if a := got.Augment; a.Mirror != q.Finetune.Augment.Mirror || (a.NNUNet.Blur == 0) == (a.NNUNet.Noise != 0) {
			t.Errorf("study %s, arm %s: %+v", c.study, c.arm, a)
		}
	}
	if _, err := p.finetune(arm("{network: {channels: 4}}")); err == nil {
		t.Error("arms have networks of their own")
	}
	p.Finetune.Network.DeepSupervision = true
	if err := p.checkNetwork(arm("{}")); err != nil {
		t.Error(err)
	}
}
