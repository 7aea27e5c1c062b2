package cli

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// The network that MONAI is to make takes as many channels as the weights do.
func TestChannelsOfMONAI(t *testing.T) {
	if got, want := ofMONAI(voxsaw.Network{Inputs: 2, Classes: 3, Activation: "elu"}),
		`VNet(spatial_dims=3, in_channels=2, out_channels=3, act="elu")`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// plain is a device that cannot merge classes.
type plain struct{ device.Device }

// selftrain says before its teachers work that the device cannot train a student with structures
// ignored, and what to choose.
func TestStudentsDeviceIsLookedAt(t *testing.T) {
	opened, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	d, err := device.From(opened)
	if err != nil {
		t.Fatal(err)
	}
	c := segment.DefaultConfig()
	if err := learnsFromTargets(opened, c); err != nil {
		t.Error(err)
	}
	var advice interface{ Advice() string }
	if err := learnsFromTargets(plain{d}, c); !errors.As(err, &advice) ||
		!strings.Contains(advice.Advice(), "--undrawn background") {
		t.Errorf("%v", err)
	}
	c.Undrawn = segment.UndrawnBackground
	if err := learnsFromTargets(plain{d}, c); err != nil {
		t.Error(err)
	}
}

// weights writes a checkpoint of a network without any use.
func weights(t *testing.T, path string, d checkpoint.Description) {
	t.Helper()
	opened, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	dev, err := device.From(opened)
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(dev, 1)
	defer params.Close()
	g := nn.NewGraph(nn.Train, dev.Activations())
	g.Linear("head", g.Flatten(g.Input("image", 1, 1, 2, 2, 2)), 3, true)
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Write(path, d, params); err != nil {
		t.Fatal(err)
	}
}

// teacherOf writes a checkpoint of a fine-tuning of these scans of a folder, prepared in a way.
func teacherOf(t *testing.T, path, data string, p volume.Preparation, scans ...string) {
	t.Helper()
	store, err := prepared.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	c := segment.DefaultConfig()
	c.Network.Channels, c.Network.Levels, c.Crop = 2, 1, [3]int{16, 16, 16}
	if c, err = c.Resolve(store); err != nil {
		t.Fatal(err)
	}
	c.Preparation = p
	text, err := config.Marshal(&c)
	if err != nil {
		t.Fatal(err)
	}
	weights(t, path, checkpoint.Description{Kind: checkpoint.Segmentation, Settings: string(text),
		Learnt: checkpoint.Learnt{Scans: checkpoint.ScansOf(scans, make([]string, len(scans)), true)}})
}

// Teachers that may not label the scans are refused before anything is timed: those that know
// labels of held-out cases, that look at scans of another preparation, that are no segmentation;
// and so is a folder in which all scans have labels.
func TestTeachersAreLookedAtBefore(t *testing.T) {
	dir := t.TempDir()
	o := selftrainOptions{finetuneOptions: finetuneOptions{Cases: dataset.DefaultSelection(),
		Data: filepath.Join(dir, "prepared")}, Rounds: 1}
	o.Cases.Fold = 1
	preparedPhantoms(t, o.Data, "e")
	store, err := prepared.Open(o.Data)
	if err != nil {
		t.Fatal(err)
	}
	_, training, held, err := o.choose(newSelftrain(), store)
	if err != nil || len(held) == 0 || len(training) == 0 {
		t.Fatalf("%q, %q, %v", training, held, err)
	}
	how := store.Preparation()
	store.Close()
	of := func(name string) string { return filepath.Join(dir, name+".safetensors") }
	teacherOf(t, of("good"), o.Data, how, training[0])
	teacherOf(t, of("knows"), o.Data, how, held[0])
	weights(t, of("puzzles"), checkpoint.Description{Kind: "jigsaw"})
	how.Window = [2]float64{-100, 100}
	teacherOf(t, of("other"), o.Data, how, training[0])
	for teacher, want := range map[string]string{"good": "", "knows": "teachers have learnt from the labels of cases",
		"puzzles": "as voxsaw finetune makes it", "other": "prepared in another way"} {
		err := o.known(newSelftrain(), []string{of(teacher)})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("teacher %s: %v, want %q", teacher, err, want)
		}
	}
	o.Data = filepath.Join(dir, "labelled")
	preparedPhantoms(t, o.Data)
	if err := o.known(newSelftrain(), []string{of("good")}); err == nil ||
		!strings.Contains(err.Error(), "there is no scan without labels") {
		t.Errorf("scans with labels alone: %v", err)
	}
}

// Students that are to be teachers do not begin with weights of which nobody knows what they have
// learnt from: that is said before the first round, and where nothing is held out it does not
// matter.
func TestLostListOfFirstWeightsIsFoundBefore(t *testing.T) {
	dir := t.TempDir()
	o := selftrainOptions{finetuneOptions: finetuneOptions{Cases: dataset.DefaultSelection(),
		Data: filepath.Join(dir, "prepared"), Init: filepath.Join(dir, "lost.safetensors")}, Rounds: 2}
	learnt := checkpoint.Learnt{Lost: "the list of teacher.safetensors is gone"}
	weights(t, o.Init, checkpoint.Description{Kind: "jigsaw", Learnt: learnt})
	preparedPhantoms(t, o.Data, "e")
	teacher := filepath.Join(dir, "teacher.safetensors")
	teacherOf(t, teacher, o.Data, volume.DefaultPreparation())
	o.Cases.Fold = 1
	if err := o.known(newSelftrain(), []string{teacher}); err == nil || !strings.Contains(err.Error(), learnt.Lost) {
		t.Errorf("two rounds: %v", err)
	}
	o.Rounds = 1
	if err := o.known(newSelftrain(), []string{teacher}); err != nil {
		t.Errorf("one round: %v", err)
	}
}

// A student that is to be a teacher does not begin with weights that know labels of held-out cases,
// has the teachers' network and classes: that is found before the teachers work. One that joins
// nobody may have another network, and no other classes.
func TestStudentsAreLookedAtBefore(t *testing.T) {
	dir := t.TempDir()
	defaults := selftrainOptions{finetuneOptions: finetuneOptions{Config: segment.DefaultConfig(),
		Cases: dataset.DefaultSelection(), Data: filepath.Join(dir, "prepared"), Machine: defaultDevice()}, Rounds: 2}
	defaults.Cases.Fold = 1
	defaults.Network.Channels, defaults.Network.Levels, defaults.Crop = 2, 1, [3]int{16, 16, 16}
	preparedPhantoms(t, defaults.Data, "e")
	store, err := prepared.Open(defaults.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	labelled, _ := store.ForTraining()
	_, held, err := defaults.Cases.Choose(labelled)
	if err != nil {
		t.Fatal(err)
	}
	teacher, knows := filepath.Join(dir, "teacher.safetensors"), filepath.Join(dir, "knows.safetensors")
	teacherOf(t, teacher, defaults.Data, volume.DefaultPreparation())
	teacherOf(t, knows, defaults.Data, volume.DefaultPreparation(), held[0])
	o := defaults
	o.Init = knows
	if err := o.known(newSelftrain(), []string{teacher}); err == nil ||
		!strings.Contains(err.Error(), "have learnt from the labels of cases that are held out here") {
		t.Errorf("--init knows held-out cases: %v", err)
	}
	wider := func(o *selftrainOptions) { o.Network.Channels = 4 }
	for name, c := range map[string]struct {
		change  func(o *selftrainOptions)
		unsized bool
		joins   bool
		want    string
	}{
		"alike":             {func(*selftrainOptions) {}, false, true, ""},
		"more channels":     {wider, false, true, "cannot be averaged with"},
		"joins nobody":      {wider, false, false, ""},
		"other classes":     {func(o *selftrainOptions) { o.Labels = []string{"liver"} }, false, false, "tell apart"},
		"no size":           {func(*selftrainOptions) {}, true, true, "no size says it"},
		"no size, no joint": {func(*selftrainOptions) {}, true, false, ""},
	} {
		cmd := newSelftrain()
		cmd.SetContext(t.Context())
		if !c.unsized {
			if err := cmd.Flags().Set("crop", "16x16x16"); err != nil {
				t.Fatal(err)
			}
		}
		o := defaults
		c.change(&o)
		err := o.mayLearn(cmd, runFlags{}, filepath.Join(dir, "student"), defaults, []string{teacher}, c.joins)
		if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// preparedPhantoms prepares four made-up patients into a folder, and others without labels.
func preparedPhantoms(t *testing.T, dir string, plain ...string) {
	t.Helper()
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	for n, id := range append([]string{"a", "b", "c", "d"}, plain...) {
		v, l, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{20, 20, 20}})
		if err != nil {
			t.Fatal(err)
		}
		if n >= 4 {
			l = nil
		}
		if _, err := w.Add(prepared.Input{ID: id, Image: v, Labels: l}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
}

// More labelled steps at the end than there are steps are refused before the teachers work, also
// where the hours, or a plan, say how many there are.
func TestLabelledLastIsLookedAtBefore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "prepared")
	preparedPhantoms(t, dir)
	defer func(hours float64) { defaultHours = hours }(defaultHours)
	defaultHours = 0.005 // a twentieth of which a plan times each of a few networks
	for _, c := range []struct {
		flags []string
		hours float64
	}{
		{[]string{"crop", "16x16x16", "steps", "100"}, 0},
		{[]string{"crop", "16x16x16", "channels", "2", "levels", "1", "hours", "0.01"}, 0.01},
		{nil, 0},
	} {
		cmd := newSelftrain()
		cmd.SetErr(io.Discard)
		cmd.SetContext(t.Context())
		o := selftrainOptions{finetuneOptions: finetuneOptions{Config: segment.DefaultConfig(),
			Cases: dataset.DefaultSelection(), Data: dir, Machine: defaultDevice()}}
		o.Cases.Fold, o.Crop = 1, [3]int{16, 16, 16}
		o.Network.Channels, o.Network.Levels, o.Train.Steps = 2, 1, 100
		for n := 0; n < len(c.flags); n += 2 {
			if err := cmd.Flags().Set(c.flags[n], c.flags[n+1]); err != nil {
				t.Fatal(err)
			}
		}
		o.LabelledLast = 1_000_000
		err := o.check(cmd, &runFlags{cmd: cmd, hours: hours(c.hours)}, filepath.Join(dir, "student"))
		if err == nil || !strings.Contains(err.Error(), "labelled_last is 1000000 of ") {
			t.Errorf("%v: %v", c.flags, err)
		}
	}
}
