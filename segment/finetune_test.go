package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// observer keeps notes, and calls back after each step.
type observer struct {
	notes   []string
	stepped func(step int)
}

func (o *observer) Started(int, int)                       {}
func (o *observer) Validated(int, voxsaw.Validation, bool) {}
func (o *observer) Saved(string, int)                      {}
func (o *observer) Note(s string)                          { o.notes = append(o.notes, s) }
func (o *observer) Stepped(p voxsaw.Progress) {
	if o.stepped != nil {
		o.stepped(p.Step)
	}
}

// A small network learns the liver and the kidneys and spleen of made-up patients, and predicts on
// a scan whose axes are turned.
func TestFinetuneAndPredict(t *testing.T) {
	shape := [3]int{40, 32, 28}
	store, dev, path := phantoms(t, 5, shape), testDevice(t), filepath.Join(t.TempDir(), "run")
	c := tiny()
	c.Network.Channels, c.Crop, c.Labels, c.Batch = 8, [3]int{24, 20, 16}, []string{"2", "3+4+5"}, 2
	c.Train.Steps, c.Train.LR, c.Train.Warmup, c.Train.ValidateEvery, c.Train.CheckpointEvery = 150, 0.03, 10, 75, 50
	c = resolved(t, c, store)
	if want := []string{"liver", "spleen+right kidney+left kidney"}; !slices.Equal(c.Names, want) ||
		c.Network.Classes != 3 {
		t.Fatalf("resolved to %+v", c)
	}
	data := sample.Data{Store: store, Train: []string{"case00", "case01", "case02", "case03"},
		Validate: []string{"case04"}}
	summary, report, err := Finetune(t.Context(), dev, c, data, "", voxsaw.RunOptions{Folder: path, Loaders: 1})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Loaded) != 0 || summary.Step != 150 || summary.Validation.Metrics[0].Value < 0.5 {
		t.Errorf("%+v", summary)
	}
	t.Logf("DSC %v", summary.Validation.Metrics)

	o := DefaultInference()
	o.Batch, o.Largest = 2, true
	p, err := NewPredictor(dev, []string{filepath.Join(path, "best.safetensors")}, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := store.Open("case04")
	if err != nil {
		t.Fatal(err)
	}
	onCase, err := p.PredictCase(t.Context(), prepared)
	if err != nil {
		t.Fatal(err)
	}
	scan, reference, err := phantom.New(4, phantom.Options{Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	turned, err := scan.Orient("SPL")
	if err != nil {
		t.Fatal(err)
	}
	onScan, err := p.Predict(t.Context(), turned)
	if err != nil {
		t.Fatal(err)
	}
	if onScan.Grid != turned.Grid || onScan.Names[2] != "liver" {
		t.Errorf("grid %+v, names %v", onScan.Grid, onScan.Names)
	}
	back, err := onScan.Orient("RAS")
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(back.Labels, onCase.Labels) {
		t.Error("the prediction depends on how the scan lies")
	}
	scores := eval.Dice(toClasses(onCase.Labels, p.labels), reference.Labels, classTable([][]uint16{{2}, {3, 4, 5}}), 2)
	if scores[1] < 0.5 {
		t.Errorf("DSC of the prediction %v", scores)
	}

	// Two of the same checkpoint give what one gives.
	both, err := NewPredictor(dev, []string{filepath.Join(path, "best.safetensors"),
		filepath.Join(path, "best.safetensors")}, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	if l, err := both.PredictCase(t.Context(), prepared); err != nil || !slices.Equal(l.Labels, onCase.Labels) {
		t.Errorf("two of the same checkpoint differ from one: %v", err)
	}
	// Each alone says what it says alone, with all of its components, whatever the other says.
	o.Largest, o.Components = false, ComponentsAll
	files := []string{filepath.Join(path, "best.safetensors"), filepath.Join(path, "last.safetensors")}
	with, err := NewPredictor(dev, files, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	opinions, err := with.Opinions(t.Context(), prepared)
	if err != nil || len(opinions) != 2 {
		t.Fatalf("%d opinions, %v", len(opinions), err)
	}
	for n, file := range files {
		one, err := NewPredictor(dev, []string{file}, o, 0)
		if err != nil {
			t.Fatal(err)
		}
		alone, err := one.PredictCase(t.Context(), prepared)
		if err != nil || !slices.Equal(opinions[n].Labels, alone.Labels) {
			t.Errorf("the opinion of %s is not what it says alone: %v", file, err)
		}
		if _, err := one.Opinions(t.Context(), prepared); err == nil {
			t.Error("one checkpoint has opinions to compare")
		}
	}
}

// toClasses is the inverse of what a prediction does at its end.
func toClasses(labels, of []uint16) []uint16 {
	out := make([]uint16, len(labels))
	for i, label := range labels {
		out[i] = uint16(slices.Index(of, label))
	}
	return out
}

// TestResumedFinetuningEqualsUninterrupted with batch norm's running statistics and dropout, where
// a state forgotten would show.
func TestResumedFinetuningEqualsUninterrupted(t *testing.T) {
	store, dev := phantoms(t, 3, [3]int{24, 20, 16}), testDevice(t)
	c := tiny()
	c.Network = voxsaw.Network{Preset: "monai", Channels: 4, Levels: 2, Dropout: -1}
	c.Crop, c.Batch, c.Augment.Spatial = [3]int{8, 8, 8}, 2, 0.5
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 7, 3, 2
	c = resolved(t, c, store)
	data := sample.Data{Store: store, Train: []string{"case00", "case01"}, Validate: []string{"case02"}}
	whole := filepath.Join(t.TempDir(), "whole")
	if _, _, err := Finetune(t.Context(), dev, c, data, "", voxsaw.RunOptions{Folder: whole}); err != nil {
		t.Fatal(err)
	}
	for _, stop := range []int{1, 4, 6} {
		path := filepath.Join(t.TempDir(), "run")
		ctx, cancel := context.WithCancel(t.Context())
		_, _, err := Finetune(ctx, dev, c, data, "",
			voxsaw.RunOptions{Folder: path, Observer: &observer{stepped: func(step int) {
				if step == stop {
					cancel()
				}
			}}})
		var stopped *voxsaw.InterruptedError
		if !errors.As(err, &stopped) || stopped.Step != stop {
			t.Fatalf("stopped at %d: %v", stop, err)
		}
		if _, _, err := Finetune(t.Context(), dev, c, data, "",
			voxsaw.RunOptions{Folder: path, Mode: voxsaw.ModeResume}); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"last.safetensors", "best.safetensors", "validation.csv"} {
			a, errA := os.ReadFile(filepath.Join(path, name))
			b, errB := os.ReadFile(filepath.Join(whole, name))
			if errA != nil || errB != nil || !bytes.Equal(a, b) {
				t.Errorf("stopped at %d: %s differs (%v, %v)", stop, name, errA, errB)
			}
		}
	}
}

// Memory: the network of validation lies in that of training, and the limit leaves room for the
// sums over a scan, so that a run which starts can validate.
func TestMemoryOfWhatIsNeeded(t *testing.T) {
	store, dev := phantoms(t, 2, [3]int{24, 20, 16}), testDevice(t)
	c := tiny()
	c.Crop = [3]int{8, 8, 8}
	c = resolved(t, c, store)
	bare, err := compiled(t, dev, c, sample.Data{Store: store, Train: []string{"case00"}}, 0)
	if err != nil || bare.windows != nil || bare.validationBytes() != 0 {
		t.Fatalf("windows %v, %v", bare.windows, err)
	}
	data := sample.Data{Store: store, Train: []string{"case00"}, Validate: []string{"case01"}}
	task, err := compiled(t, dev, c, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	total := bare.bench.Params.Total()
	if task.bench.Params.Total() != total {
		t.Errorf("%d bytes with validation, %d without", task.bench.Params.Total(), total)
	}
	if task, err = compiled(t, dev, c, data, total+task.validationBytes()); err != nil {
		t.Fatal(err)
	}
	if _, err := task.Validate(t.Context(), 0); err != nil {
		t.Error(err)
	}
	if _, err := compiled(t, dev, c, data, bare.bench.Params.Bytes()); err == nil ||
		!strings.Contains(err.Error(), fmt.Sprintf("%.1f MiB for other things",
			float64(task.validationBytes())/(1<<20))) {
		t.Errorf("no room for the sums: %v", err)
	}
}

// A checkpoint of an encoder alone, as pretraining leaves it, goes into the whole network.
// A rehearsal tells to the byte what a run needs that computes no convolution twice: with so much
// it runs as it does without a limit, with less it saves some; and it leaves no folder.
func TestNeedOfARun(t *testing.T) {
	plain := needOfARun(t, voxsaw.Network{Channels: 4, Levels: 3, Norm: "instance"})
	// a quarter of the voxels' logits, and what their loss takes
	if deep := needOfARun(t, voxsaw.Network{Channels: 4, Levels: 3, Norm: "instance",
		DeepSupervision: true}); deep <= plain {
		t.Errorf("deep supervision takes %d bytes, %d without it", deep, plain)
	}
}

func needOfARun(t *testing.T, network voxsaw.Network) int64 {
	store, dev := phantoms(t, 2, [3]int{24, 20, 16}), testDevice(t)
	c := tiny()
	c.Network, c.Crop, c.Batch, c.Labels = network, [3]int{16, 16, 16}, 3, []string{"2"}
	c.Train.Steps, c.Train.Warmup = 1, 0
	c = resolved(t, c, store)
	data := sample.Data{Store: store, Train: []string{"case00"}, Validate: []string{"case01"}}
	path := filepath.Join(t.TempDir(), "run")
	need, err := EstimateMemory(t.Context(), dev, c, data, voxsaw.RunOptions{Folder: path, Memory: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("the rehearsal took the folder")
	}
	if need.Limit != 1<<30 || need.Bytes <= 0 {
		t.Errorf("the need is %+v", need)
	}
	step := func(memory int64) string {
		o := &observer{}
		if _, _, err := Finetune(t.Context(), dev, c, data, "",
			voxsaw.RunOptions{Memory: memory, Observer: o}); err != nil {
			t.Fatal(err)
		}
		return o.notes[0]
	}
	if free, just, less := step(0), step(need.Bytes), step(need.Bytes-1); free != just || free == less {
		t.Errorf("without a limit %q; with what is needed %q; with a byte less %q", free, just, less)
	}
	return need.Bytes
}

func TestInitialWeights(t *testing.T) {
	store, dev := phantoms(t, 2, [3]int{24, 20, 16}), testDevice(t)
	c := tiny()
	c.Crop, c.Train.Steps = [3]int{8, 8, 8}, 0
	c = resolved(t, c, store)
	d, err := device.From(dev)
	if err != nil {
		t.Fatal(err)
	}
	pretrained := func(settings voxsaw.Network) (string, *nn.Params) {
		network, err := backbone.Of(settings)
		if err != nil {
			t.Fatal(err)
		}
		g := nn.NewGraph(nn.Train, d.Activations())
		stages := network.Encoder(g, g.Input("image", 1, 1, 8, 8, 8))
		g.Linear("puzzle", g.Flatten(stages[len(stages)-1]), 3, true)
		params := nn.NewParams(d, 77)
		if err := params.Declare(g); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "pretrained.safetensors")
		if err := checkpoint.Write(path, checkpoint.Description{Kind: "jigsaw"}, params); err != nil {
			t.Fatal(err)
		}
		return path, params
	}
	path, encoder := pretrained(c.Network)
	data := sample.Data{Store: store, Train: []string{"case00"}}
	out, o := filepath.Join(t.TempDir(), "run"), &observer{}
	_, report, err := Finetune(t.Context(), dev, c, data, path, voxsaw.RunOptions{Folder: out, Observer: o})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, name := range encoder.Names() {
		if strings.HasPrefix(name, "encoder.") {
			names = append(names, name)
		}
	}
	if !slices.Equal(report.Loaded, names) || len(report.Skipped) != 2 || len(report.Missing) == 0 ||
		slices.ContainsFunc(report.Missing, func(s string) bool { return strings.HasPrefix(s, "encoder.") }) {
		t.Errorf("report %v", report)
	}
	if len(o.notes) == 0 || !strings.Contains(o.notes[len(o.notes)-1],
		"skipped, not in this network: puzzle.weight, puzzle.bias") {
		t.Errorf("notes %q", o.notes)
	}
	task, err := compiled(t, dev, c, data, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := initialise(path, c, task.bench.Params); err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		a, errA := encoder.Read(name)
		b, errB := task.bench.Params.Read(name)
		if errA != nil || errB != nil || !slices.Equal(a, b) {
			t.Errorf("%s: %v, %v", name, errA, errB)
		}
	}
	other := c.Network
	other.Channels = 8
	path, _ = pretrained(other)
	if _, _, err := Finetune(t.Context(), dev, c, data, path, voxsaw.RunOptions{}); err == nil ||
		!strings.Contains(err.Error(), "no weights") {
		t.Errorf("weights of another network: %v", err)
	}
	if _, err := NewPredictor(dev, []string{path}, DefaultInference(), 0); err == nil ||
		!strings.Contains(err.Error(), "kind") {
		t.Errorf("predicting with a pretraining checkpoint: %v", err)
	}
}

func TestFrozenEncoderStaysAsItIs(t *testing.T) {
	store, dev := phantoms(t, 1, [3]int{24, 20, 16}), testDevice(t)
	for name, freeze := range map[string]func(*Config){
		"freeze_encoder":    func(c *Config) { c.FreezeEncoder = 2 },
		"schedule sawtooth": func(c *Config) { c.Train.Schedule, c.Train.Tooth = "sawtooth", 2 },
	} {
		c := tiny()
		c.Crop, c.Train.Steps = [3]int{8, 8, 8}, 3
		freeze(&c)
		t.Run(name, func(t *testing.T) { frozenForTwoSteps(t, dev, store, resolved(t, c, store)) })
	}
}

func frozenForTwoSteps(t *testing.T, dev voxsaw.Device, store *prepared.Store, c Config) {
	task, err := compiled(t, dev, c, sample.Data{Store: store, Train: []string{"case00"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	read := func() map[string][]float32 {
		values := map[string][]float32{}
		for _, name := range []string{"encoder.1.conv0.weight", "head.logits.weight"} {
			if values[name], err = task.bench.Params.Read(name); err != nil {
				t.Fatal(err)
			}
		}
		return values
	}
	before, after := read(), map[int]map[string][]float32{}
	if _, err := train.Train(t.Context(), task, train.Setup{Options: c.Train, Optimizer: task.bench.Optimizer,
		Observer: &observer{stepped: func(step int) { after[step] = read() }}}); err != nil {
		t.Fatal(err)
	}
	moved := func(step int, name string) bool { return !slices.Equal(before[name], after[step][name]) }
	if moved(2, "encoder.1.conv0.weight") || !moved(3, "encoder.1.conv0.weight") || !moved(1, "head.logits.weight") {
		t.Error("the encoder was not frozen for the first two steps alone")
	}
}

// Of the crops that are taken anywhere, those of air are drawn again.
func TestCropsHaveLittleAir(t *testing.T) {
	v, l, err := phantom.New(3, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	origin, size := [3]int{-16, -16, -16}, [3]int{56, 52, 48}
	if v, err = v.Crop(origin, size, -1000); err != nil {
		t.Fatal(err)
	}
	if l, err = l.Crop(origin, size); err != nil {
		t.Fatal(err)
	}
	how := volume.DefaultPreparation()
	how.Crop = volume.CropNone
	dir := filepath.Join(t.TempDir(), "prepared")
	w, err := prepared.NewWriter(dir, how)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(prepared.Input{ID: "a", Image: v, Labels: l}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	dull := map[float64]int{}
	for _, most := range []float64{1, 0.8} {
		c := tiny()
		c.Crop, c.Foreground, c.MaxAir, c.Augment, c.Batch = [3]int{16, 16, 16}, 0, most, Augmentation{}, 8
		task, err := compiled(t, testDevice(t), resolved(t, c, store), sample.Data{Store: store, Train: []string{"a"}},
			0)
		if err != nil {
			t.Fatal(err)
		}
		for step := range 10 {
			b, err := task.Batch(t.Context(), step)
			if err != nil {
				t.Fatal(err)
			}
			for crop := range slices.Chunk(b.images, 16*16*16) {
				air := 0
				for _, x := range crop {
					if x == -1 {
						air++
					}
				}
				if float64(air) > 0.8*float64(len(crop)) {
					dull[most]++
				}
			}
		}
	}
	if dull[1] < 60 || dull[0.8] > dull[1]*3/4 {
		t.Errorf("crops with more than 0.8 of air, of 80: %v by their largest share", dull)
	}
}

func TestCropsShowWhatIsAskedFor(t *testing.T) {
	store, dev := phantoms(t, 2, [3]int{40, 32, 28}), testDevice(t)
	c := tiny()
	c.Labels, c.Crop, c.Foreground, c.Augment = []string{"1", "3+4"}, [3]int{8, 8, 8}, 1, Augmentation{}
	c = resolved(t, c, store)
	task, err := compiled(t, dev, c, sample.Data{Store: store, Train: []string{"case00", "case01"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	shown := map[float32]int{}
	for step := range 60 {
		b, err := task.Batch(t.Context(), step)
		if err != nil {
			t.Fatal(err)
		}
		classes := slices.Compact(slices.Sorted(slices.Values(b.targets)))
		if len(classes) < 2 && classes[0] == 0 {
			t.Errorf("step %d shows background alone", step)
		}
		for _, class := range classes {
			shown[class]++
		}
		again, err := task.Batch(t.Context(), step)
		if err != nil || !slices.Equal(again.images, b.images) || !slices.Equal(again.targets, b.targets) {
			t.Errorf("step %d is not the same twice: %v", step, err)
		}
	}
	if len(shown) != 3 || shown[1] < 15 || shown[2] < 15 {
		t.Errorf("classes shown in 60 crops: %v", maps.Collect(maps.All(shown)))
	}
}

func TestMistakesAreNamed(t *testing.T) {
	store, dev := phantoms(t, 2, [3]int{24, 20, 16}), testDevice(t)
	for want, labels := range map[string][]string{
		"no case of the data has label 77": {"77"}, "2 is there twice": {"2", "1+2"},
		`no label of the data is called "x": it has 1 pancreas`: {"x"}, `"0" is not a label`: {"0"},
	} {
		c := tiny()
		c.Labels = labels
		if _, err := c.Resolve(store); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("labels %v: %v", labels, err)
		}
	}
	for want, change := range map[string]func(*Config){
		"multiples of 4":     func(c *Config) { c.Crop = [3]int{10, 8, 8} },
		"no loss":            func(c *Config) { c.Loss = "hinge" },
		"batch is 0":         func(c *Config) { c.Batch = 0 },
		"foreground":         func(c *Config) { c.Foreground = 1.5 },
		"overlap":            func(c *Config) { c.ValidateOverlap = 1 },
		"encoder_lr":         func(c *Config) { c.EncoderLR = math.NaN() },
		"no schedule":        func(c *Config) { c.Train.Schedule = "" },
		"augment: mirror is": func(c *Config) { c.Augment.Mirror = "lr" },
		"network preset":     func(c *Config) { c.Network.Preset = "unet" },
	} {
		c := tiny()
		change(&c)
		if _, err := c.Resolve(store); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	all := tiny()
	all.Labels = nil
	if c := resolved(t, all, store); !slices.Equal(c.Labels, []string{"1", "2", "3", "4", "5", "6", "7", "8"}) {
		t.Errorf("all labels are %v", c.Labels)
	}
	c := resolved(t, tiny(), store)
	for want, data := range map[string]sample.Data{
		"no cases to train on": {Store: store},
		"both to train and": {Store: store, Train: []string{"case00", "case01"},
			Validate: []string{"case01"}},
		`no case "nobody"`:                {Store: store, Train: []string{"nobody"}},
		"classes":                         {},
		"smaller than the crop of [16 12": {},
	} {
		if data.Store == nil {
			continue
		}
		if _, err := compiled(t, dev, c, data, 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	if _, err := compiled(t, dev, c, sample.Data{Store: store, Train: []string{"case00"}}, 1000); err == nil ||
		strings.Contains(err.Error(), "--clip 0") != (c.Train.Clip > 0) {
		t.Errorf("a network of many megabytes and 1000 bytes: %v", err)
	}
}

// A label that is one organ in one case and another in the next is not learnt.
func TestContradictoryNamesAreRefused(t *testing.T) {
	var scans []prepared.Input
	for id, name := range map[string]string{"a": "liver", "b": "Liver", "c": "spleen", "d": ""} {
		v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		if l.Names = nil; name != "" {
			l.Names = map[uint16]string{2: name}
		}
		scans = append(scans, prepared.Input{ID: id, Image: v, Labels: l})
	}
	store := traintest.Store(t, volume.DefaultPreparation(), scans...)
	c := tiny()
	c.Labels = []string{"2"}
	c.Crop = [3]int{16, 12, 8}
	c = resolved(t, c, store)
	for _, data := range []sample.Data{{Train: []string{"a", "b", "d"}}, {Train: []string{"a", "c"}},
		{Train: []string{"a", "d"}, Validate: []string{"c"}}} {
		data.Store = store
		_, err := compiled(t, testDevice(t), c, data, 0)
		if contradict := slices.Contains(slices.Concat(data.Train, data.Validate), "c"); contradict != (err != nil) ||
			contradict && !strings.Contains(err.Error(), `label 2 is "liver" in case a and "spleen" in case c`) {
			t.Errorf("%v, %v: %v", data.Train, data.Validate, err)
		}
	}
}

// A scan smaller than the crop is padded with air, and said so once; so is a case without any of
// the labels.
func TestOddCasesAreNoted(t *testing.T) {
	var scans []prepared.Input
	for id, bare := range map[string]bool{"shown": false, "bare": true} {
		v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 6}})
		if err != nil {
			t.Fatal(err)
		}
		if bare {
			clear(l.Labels)
		}
		scans = append(scans, prepared.Input{ID: id, Image: v, Labels: l})
	}
	store := traintest.Store(t, volume.DefaultPreparation(), scans...)
	c := tiny()
	c.Labels = []string{"2"}
	c.Crop = [3]int{16, 12, 8}
	c = resolved(t, c, store)
	task, err := compiled(t, testDevice(t), c, sample.Data{Store: store, Train: []string{"bare", "shown"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if len(task.notes) != 2 || len(task.Notes()) != 1 || !strings.Contains(task.notes[0], "bare") ||
		!strings.Contains(task.notes[1], "smaller than the crop of 16x12x8, and padded with air: 2 cases") {
		t.Errorf("notes %q", task.notes)
	}
	for step := range 8 {
		if _, err := task.Batch(t.Context(), step); err != nil {
			t.Error(err)
		}
	}
	if _, err := compiled(t, testDevice(t), c, sample.Data{Store: store, Train: []string{"bare"}}, 0); err == nil ||
		!strings.Contains(err.Error(), "none of the 1 training cases") {
		t.Errorf("no foreground at all: %v", err)
	}
}

// Two ranks leave the weights and the velocities of one that has twice the batch, with one loss and
// with several. The order of sums is another: biases that a norm takes away again, whose gradient
// is nothing but rounding, differ by 6e-5 after four steps.
func TestTwoRanksEqualOne(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	for _, network := range []voxsaw.Network{tiny().Network, {Kind: "resenc", Channels: 4, Blocks: []int{1, 1, 1, 1}},
		{Channels: 2, Levels: 3, Norm: "instance", DeepSupervision: true}} {
		c := tiny()
		c.Network, c.Crop, c.Batch, c.Train.Steps = network, [3]int{16, 16, 8}, 4, 4
		twoRanks(t, sample.Data{Store: store, Train: []string{"case00", "case01"}, Validate: []string{"case02"}},
			resolved(t, c, store))
	}
}

// Batch norm sees the whole batch, and a rank has only a part of it: ranks refuse it, rather than
// train another network in silence.
func TestRanksRefuseBatchNorm(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	c := tiny()
	c.Network.Norm, c.Crop, c.Batch = "batch", [3]int{16, 16, 8}, 4
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	_, _, err = finetune(t.Context(), dev, resolved(t, c, store), sample.Data{Store: store, Train: []string{"case00"}},
		"",
		voxsaw.RunOptions{}, traintest.Alike(2))
	if err == nil || !strings.Contains(err.Error(), "several ranks cannot share") {
		t.Error(err)
	}
}

// What one rank cannot read is an error of all: of that one its own, of the others that it was
// elsewhere. They would wait for it for ever.
func TestRanksEndTogether(t *testing.T) {
	store := phantoms(t, 3, [3]int{24, 20, 16})
	c := resolved(t, tiny(), store)
	c.Batch = 2
	first := wholeNetwork(t, testDevice(t), c.Network, describe(t, c))
	gone := first + ".gone"
	taught := c
	taught.Targets = gone
	for name, x := range map[string]struct {
		c     [2]Config
		init  [2]string
		tells int // the rank
	}{
		"first weights": {[2]Config{c, c}, [2]string{first, gone}, 1},
		"of rank 0":     {[2]Config{c, c}, [2]string{gone, first}, 0},
		"targets":       {[2]Config{c, taught}, [2]string{}, 1},
	} {
		devices := []voxsaw.Device{directDevice(t), directDevice(t)}
		ended := make(chan error, 2)
		for rank, group := range traintest.Ranks(2) {
			go func() {
				data := sample.Data{Store: store, Train: []string{"case00"}}
				if x.c[rank].Targets != "" {
					data.Unlabelled = []string{"case01"}
				}
				_, _, err := finetune(
					t.Context(),
					devices[rank],
					x.c[rank],
					data,
					x.init[rank],
					voxsaw.RunOptions{},
					group,
				)
				if own := rank == x.tells; own && errors.Is(err, fs.ErrNotExist) ||
					!own && errors.As(err, new(train.ElsewhereError)) {
					ended <- nil
				} else {
					ended <- fmt.Errorf("rank %d: %w", rank, err)
				}
			}()
		}
		for range 2 {
			select {
			case err := <-ended:
				if err != nil {
					t.Errorf("%s: %v", name, err)
				}
			case <-time.After(time.Minute):
				t.Fatalf("%s: a rank waits for ever", name)
			}
		}
	}
}

// directDevice convolves without fast transforms, which are chosen by the batch, and round.
func directDevice(t *testing.T) voxsaw.Device {
	t.Helper()
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 2, Conv: "direct"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// twoRanks compares a run on two ranks with one on a single one.
func twoRanks(t *testing.T, data sample.Data, c Config) {
	alone := filepath.Join(t.TempDir(), "alone")
	if _, _, err := Finetune(t.Context(), directDevice(t), c, data, "", voxsaw.RunOptions{Folder: alone}); err != nil {
		t.Fatal(err)
	}
	folders := []string{filepath.Join(t.TempDir(), "0"), filepath.Join(t.TempDir(), "1")}
	devices := []voxsaw.Device{directDevice(t), directDevice(t)}
	errs := make([]error, 2)
	var all sync.WaitGroup
	for rank, group := range traintest.Ranks(2) {
		all.Go(func() {
			_, _, errs[rank] = finetune(t.Context(), devices[rank], c, data, "",
				voxsaw.RunOptions{Folder: folders[rank]}, group)
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	traintest.Equal(t, filepath.Join(folders[0], "last.safetensors"), filepath.Join(folders[1], "last.safetensors"), 0)
	traintest.Equal(t, filepath.Join(alone, "last.safetensors"), filepath.Join(folders[0], "last.safetensors"), 2e-4)
}

func TestLabelsByName(t *testing.T) {
	names := map[uint16]string{1: "Parotid Left", 2: "parotid_right", 3: "cord", 4: "Cord", 5: "duct+gland", 6: "",
		7: "lesion_1_1", 8: "lesion_11", 9: "दिल", 10: "दल", 11: "Gro\u0308\u00dfe"}
	for want, entries := range map[string][]string{
		"[1 2]":      {"parotid_left", "PAROTID-RIGHT"},
		"[1+2 5]":    {"parotid left + 2", "duct+gland"},
		"[3 6]":      {"3", "6"},
		"[7 8 7]":    {"Lesion 1.1", "Lesion 11", "lesion_1_1"},
		"[9 10]":     {"दिल", "दल"},
		"[11]":       {"gr\u00f6\u00dfe"},
		"are all":    {"cord"},
		"no label o": {"parotid"},
	} {
		got, err := numbered(entries, names)
		if said := fmt.Sprint(got); err != nil && !strings.Contains(err.Error(), want) || err == nil && said != want {
			t.Errorf("%q: %v, %v", entries, got, err)
		}
	}
	c := Config{Labels: []string{"1", "2+3", "3", "4"}, Names: []string{"Parotid, Left", "a+b\x1b[1m", "cord", "Cord"}}
	c.Labels, c.Names = append(c.Labels, "9", "10"), append(c.Names, "दिल", "दल")
	for n, want := range []string{"parotid_left", "a+b_1m", "3", "4", "दिल", "दल"} {
		if got := c.metricName(n); got != want {
			t.Errorf("class %d: %q, want %q", n, got, want)
		}
	}
}
