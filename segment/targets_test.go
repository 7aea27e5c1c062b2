package segment

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
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

// Losses of drawn classes are those of the probabilities: their mean over all 255 draws is the
// cross-entropy that testdata/soft_loss.py computes in PyTorch, and so is that of their gradients,
// also where classes are merged; that of soft Dice over many draws is close to it.
func TestDrawnClassesHaveTheSoftLossOfPyTorch(t *testing.T) {
	data, err := os.ReadFile("../testdata/soft_loss.json")
	if err != nil {
		t.Fatal(err)
	}
	type loss struct {
		Loss     float64
		Gradient []float64
	}
	var cases []struct {
		Shape                []int
		First, Second, Share []int
		Logits, Merged       []float32
		CE, Dice             *loss
	}
	if err := json.Unmarshal(data, &cases); err != nil || len(cases) < 3 {
		t.Fatal(len(cases), err)
	}
	seen := map[string]int{}
	for _, c := range cases {
		for name, want := range map[string]struct {
			*loss
			o       nn.LossOptions
			allowed float64
			draws   int
			drawing func(r *rand.Rand, draw, v int) int
		}{
			"ce": {c.CE, nn.LossOptions{CE: 1}, 2e-6, 255, func(_ *rand.Rand, draw, v int) int {
				if draw < c.Share[v] {
					return c.First[v]
				}
				return c.Second[v]
			}},
			"dice": {c.Dice, nn.LossOptions{Dice: 1}, 0.02, 1000, func(r *rand.Rand, _, v int) int {
				return int(drawn([]byte{byte(c.First[v]), byte(c.Second[v]), byte(c.Share[v])}, r))
			}},
		} {
			if want.loss == nil {
				continue
			}
			seen[name]++
			d, err := device.From(testDevice(t))
			if err != nil {
				t.Fatal(err)
			}
			params, g := nn.NewParams(d, 1), nn.NewGraph(nn.Train, device.Float32)
			logits := g.MergeClasses(g.GradInput("x", c.Shape...), g.Input("merged", c.Shape[0], c.Shape[1]))
			l, _ := g.Loss(logits, g.Input("target", c.Shape[0], c.Shape[2], c.Shape[3], c.Shape[4]), want.o)
			p, err := nn.Compile(d, g, params, nn.Options{Loss: l})
			if err != nil {
				t.Fatal(err)
			}
			target, r := make([]float32, len(c.First)), rand.New(rand.NewPCG(1, 2))
			got, one := loss{Gradient: make([]float64, len(c.Logits))}, make([]float32, 1)
			gradient := make([]float32, len(c.Logits))
			per := len(target) / c.Shape[0]
			for draw := range want.draws {
				for v := range target {
					class := want.drawing(r, draw, v)
					if c.Merged[v/per*c.Shape[1]+class] != 0 {
						class = 0
					}
					target[v] = float32(class)
				}
				if err := errors.Join(p.Set("x", c.Logits), p.Set("merged", c.Merged), p.Set("target", target),
					p.Forward(), p.Read("loss", one), p.Backward(), p.Read("grad:x", gradient)); err != nil {
					t.Fatal(err)
				}
				got.Loss += float64(one[0]) / float64(want.draws)
				for i, x := range gradient {
					got.Gradient[i] += float64(x) / float64(want.draws)
				}
			}
			p.Close()
			params.Close()
			away, size := 0.0, 0.0
			for i, x := range want.Gradient {
				away, size = away+(got.Gradient[i]-x)*(got.Gradient[i]-x), size+x*x
			}
			if !(math.Abs(got.Loss-want.Loss) <= want.allowed*want.Loss) || !(math.Sqrt(away/size) <= want.allowed*3) {
				t.Errorf("%v %s: %v, PyTorch has %v; gradients are %.2g apart", c.Shape, name, got.Loss, want.Loss,
					math.Sqrt(away/size))
			}
		}
	}
	if seen["ce"] < 3 || seen["dice"] < 1 {
		t.Errorf("compared %v", seen)
	}
}

// The two most probable classes of a voxel are kept, with the share of the first.
func TestSoftenedProbabilities(t *testing.T) {
	p := []float32{0.2, 0, 1, 0.25, 0.7, 0, 0, 0.5, 0.1, 3, 0, 0.25}
	got := soften(p, 3)
	if want := []byte{1, 0, 198, 2, 0, 255, 0, 1, 255, 1, 0, 170}; !bytes.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r, n := rand.New(rand.NewPCG(3, 4)), 0
	for range 20000 {
		if class := drawn([]byte{7, 9, 200}, r); class == 7 {
			n++
		} else if class != 9 {
			t.Fatalf("class %d was drawn", class)
		}
	}
	if math.Abs(float64(n)/20000-200.0/255) > 0.012 { // four standard deviations
		t.Errorf("%d of 20000", n)
	}
}

// teachersOf trains so many networks for a moment, and gives their checkpoints.
func teachersOf(t *testing.T, c Config, data sample.Data, n int) (paths []string) {
	t.Helper()
	c.Unlabelled, c.Train.Average, c.UnlabelledConfidence, c.UnlabelledRamp, c.Train.Steps = false, 0, 0, 0, 3
	data.Unlabelled = nil
	for k := range n {
		c.Train.Seed = uint64(10 + k)
		folder := filepath.Join(t.TempDir(), "teacher")
		if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "",
			voxsaw.RunOptions{Folder: folder}); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, train.Last(folder))
	}
	return paths
}

func predictorOf(t *testing.T, checkpoints []string) *Predictor {
	t.Helper()
	p, err := NewPredictor(testDevice(t), checkpoints, DefaultInference(), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

func optionsOf(data sample.Data) TargetOptions {
	return TargetOptions{Scans: data.Unlabelled, Drawn: data.Train, Held: data.Validate}
}

// What is kept of a scan is the mean of what each teacher says of it; label maps are made once,
// whatever stops the process.
func TestTargetsAreMadeAndGoOn(t *testing.T) {
	data := someLabelled(t)
	c := taught(t, data)
	teachers := teachersOf(t, c, data, 2)
	p := predictorOf(t, teachers)
	through := filepath.Join(t.TempDir(), "through")
	whole, err := p.MakeTargets(t.Context(), data.Store, through, optionsOf(data))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(whole.Kept(), data.Unlabelled) || !whole.Scans[0].Predicted {
		t.Errorf("targets of %v", whole.Scans)
	}
	for _, id := range data.Unlabelled {
		scan, err := data.Store.(*prepared.Store).Open(id)
		if err != nil {
			t.Fatal(err)
		}
		var mean []float64
		for _, teacher := range teachers {
			alone := predictorOf(t, []string{teacher})
			_, maps, err := alone.PredictMaps(t.Context(), volumeOf(t, scan),
				MapOptions{Probabilities: true, Prepared: true})
			if err != nil {
				t.Fatal(err)
			}
			if mean == nil {
				mean = make([]float64, len(maps.Probabilities))
			}
			for i, x := range maps.Probabilities {
				mean[i] += float64(x) / 2
			}
		}
		soft, err := os.ReadFile(filepath.Join(through, id+softSuffix))
		if err != nil || len(soft) != 3*scan.Len() {
			t.Fatal(len(soft), err)
		}
		for v := range scan.Len() {
			q := []float64{mean[v], mean[scan.Len()+v], mean[2*scan.Len()+v]}
			order := slices.Clone(q)
			slices.Sort(order)
			first, second, share := soft[3*v], soft[3*v+1], float64(soft[3*v+2])/255
			if math.Abs(q[first]-order[2]) > 1e-4 || math.Abs(q[second]-order[1]) > 1e-4 ||
				math.Abs(order[2]/(order[2]+order[1])-share) > 0.003 {
				t.Fatalf("%s, voxel %d: classes %d and %d, share %v, of %v", id, v, first, second, share, q)
			}
		}
	}
	stopped := filepath.Join(t.TempDir(), "stopped")
	ctx, cancel := context.WithCancel(t.Context())
	o, n := optionsOf(data), 0
	o.Begin = func(string, int) {
		if n++; n == 2 {
			cancel()
		}
	}
	if _, err := p.MakeTargets(ctx, data.Store, stopped, o); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if _, err := ReadTargets(stopped); err == nil || !strings.Contains(err.Error(), "not finished") {
		t.Errorf("half of the targets: %v", err)
	}
	first, err := os.Stat(filepath.Join(stopped, "c"+softSuffix))
	if err != nil {
		t.Fatal(err)
	}
	// a process that was killed between both files of a scan
	if err := os.WriteFile(filepath.Join(stopped, "d"+softSuffix), []byte("half"), 0o666); err != nil {
		t.Fatal(err)
	}
	again, err := p.MakeTargets(t.Context(), data.Store, stopped, optionsOf(data))
	if err != nil || again.Digest != whole.Digest {
		t.Fatalf("digest %v, want %v, %v", again, whole.Digest, err)
	}
	if after, err := os.Stat(filepath.Join(stopped, "c"+softSuffix)); err != nil ||
		!after.ModTime().Equal(first.ModTime()) {
		t.Errorf("the first label map was made again, %v", err)
	}
	traintest.SameFiles(t, through, stopped, targetsFile, scansFile, "c.soft", "c.json", "d.soft", "d.json")
	// as many threads as there are change nothing
	threads, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer threads.Close()
	one, err := NewPredictor(threads, teachers, DefaultInference(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	single := filepath.Join(t.TempDir(), "single")
	if _, err := one.MakeTargets(t.Context(), data.Store, single, optionsOf(data)); err != nil {
		t.Fatal(err)
	}
	traintest.SameFiles(t, through, single, "c.soft", "d.soft", scansFile)
}

// volumeOf is the scan that a phantom was prepared from.
func volumeOf(t *testing.T, c *prepared.Case) *volume.Volume {
	t.Helper()
	v, _, err := phantom.New(uint64(slices.Index([]string{"a", "b", "c", "d", "e"}, c.ID)),
		phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// targetsFor are targets of two teachers, and the settings of a student.
func targetsFor(t *testing.T, data sample.Data, change func(*TargetOptions)) (Config, string) {
	t.Helper()
	c := taught(t, data)
	o := optionsOf(data)
	if change != nil {
		change(&o)
	}
	folder := filepath.Join(t.TempDir(), "targets")
	if _, err := predictorOf(t, teachersOf(t, c, data, 2)).MakeTargets(t.Context(), data.Store, folder, o); err != nil {
		t.Fatal(err)
	}
	c.Unlabelled, c.Train.Average, c.UnlabelledConfidence, c.UnlabelledRamp = false, 0, 0, 0
	c.Targets, c.Train.Steps, c.LabelledLast = folder, 7, 2
	return c, folder
}

// ignore makes a class of a scan one that is ignored.
func ignore(t *testing.T, folder, id string, class int) {
	t.Helper()
	targets, err := ReadTargets(folder)
	if err != nil {
		t.Fatal(err)
	}
	for n := range targets.Scans {
		if targets.Scans[n].ID == id {
			targets.Scans[n].Classes = []int{class}
		}
	}
	if err := writeJSON(filepath.Join(folder, scansFile), targets.Scans); err != nil {
		t.Fatal(err)
	}
}

// Every second crop is of a scan that teachers have labelled, up to the last steps; its targets are
// among the classes that were kept of the voxel which it shows, and ignored ones are background.
func TestHalfOfTheCropsAreReal(t *testing.T) {
	data := someLabelled(t)
	c, folder := targetsFor(t, data, nil)
	ignore(t, folder, "c", 1)
	c.Augment = Augmentation{}
	for _, batch := range []int{1, 2, 3} {
		c.Batch = batch
		l := opened(t, c, data)
		real, all := 0, 0
		for step := range c.Train.Steps {
			b, err := l.Batch(t.Context(), step)
			if err != nil {
				t.Fatal(err)
			}
			for n, id := range b.cases {
				merged := b.merged[3*n : 3*n+3]
				if want := []float32{0, 0, 0}; id != "c" && !slices.Equal(merged, want) ||
					id == "c" && !slices.Equal(merged, []float32{0, 1, 0}) {
					t.Errorf("crop of %s merges %v", id, merged)
				}
				if id == "c" && slices.Contains(b.targets[n*16*12*8:(n+1)*16*12*8], 1) {
					t.Error("a voxel has a class that is ignored")
				}
				if step >= c.Train.Steps-c.LabelledLast && id != "a" {
					t.Errorf("step %d, of the last, learns from %s", step, id)
				} else if step < c.Train.Steps-c.LabelledLast {
					if all++; id == "a" {
						real++
					}
				}
			}
		}
		if real != (all+1)/2 {
			t.Errorf("batches of %d: %d of %d crops are of labelled cases", batch, real, all)
		}
	}
	of := opened(t, c, data).soft[1]
	bytes, err := os.ReadFile(of.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, box := range [][2][3]int{{{0, 0, 0}, {24, 20, 16}}, {{-2, 5, -1}, {9, 30, 6}}, {{40, 0, 0}, {4, 4, 4}}} {
		origin, size := box[0], box[1]
		to := make([]float32, size[0]*size[1]*size[2])
		if err := of.draw(rand.New(rand.NewPCG(5, 6)))(to, origin, size); err != nil {
			t.Fatal(err)
		}
		drawnSecond := 0
		for v, class := range to {
			at := [3]int{v%size[0] + origin[0], v/size[0]%size[1] + origin[1], v/(size[0]*size[1]) + origin[2]}
			if at[0] < 0 || at[1] < 0 || at[2] < 0 || at[0] >= 24 || at[1] >= 20 || at[2] >= 16 {
				if class != 0 {
					t.Fatalf("voxel %v outside the scan is of class %v", at, class)
				}
				continue
			}
			kept := bytes[3*(at[0]+24*(at[1]+20*at[2])):][:3]
			if byte(class) == kept[1] {
				drawnSecond++
			} else if byte(class) != kept[0] {
				t.Fatalf("voxel %v is of class %v, of %v", at, class, kept)
			}
		}
		if origin == [3]int{} && drawnSecond < 100 {
			t.Errorf("the second class of %d voxels was drawn", drawnSecond)
		}
	}
}

// opened is a sampler of a run with targets.
func opened(t *testing.T, c Config, data sample.Data) *sampler {
	t.Helper()
	all := labelled{Store: data.Store.(*prepared.Store), Train: data.Train, Validate: data.Validate,
		Unlabelled: data.Unlabelled}
	var err error
	if all.soft, _, _, err = c.openTargets(all); err != nil {
		t.Fatal(err)
	}
	s, err := newSampler(c, all, 0, c.Batch)
	if err != nil {
		t.Fatal(err)
	}
	return &s
}

// The gradient of a step with crops of both kinds, of which one has an ignored class, is the slope
// of its loss.
func TestSelfTrainingGradient(t *testing.T) {
	data := someLabelled(t)
	c, folder := targetsFor(t, data, nil)
	ignore(t, folder, "c", 2)
	ignore(t, folder, "d", 2)
	l := &learner{sampler: *opened(t, c, data), pass: c.Batch}
	d, err := device.From(testDevice(t))
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(d, 3)
	defer params.Close()
	w := train.Workbench{Device: d, Params: params, Optimizer: traintest.Keep{}}
	if l.network, err = backbone.Of(c.Network); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(l.declare(params), l.compile(w)); err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := l.Batch(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if b.cases[0] != "a" || b.cases[1] == "a" || b.merged[5] != 1 {
		t.Fatalf("crops of %v, merged %v", b.cases, b.merged)
	}
	traintest.Slopes(t, "self-training", params, func() float64 {
		value := make([]float32, 1)
		if err := errors.Join(l.forward(0, b), l.program.Read("loss", value), l.program.Backward()); err != nil {
			t.Fatal(err)
		}
		return float64(value[0])
	}, "encoder.", "decoder.")
}

// A run goes on to the bit, learns something else than without label maps, notes what its teachers
// have learnt from, and is one with two ranks.
func TestSelfTrainedRunsResume(t *testing.T) {
	data := someLabelled(t)
	c, folder := targetsFor(t, data, nil)
	c.Train.CheckpointEvery, c.Train.ValidateEvery = 2, 3
	ignore(t, folder, "d", 2)
	through, _ := traintest.Resumes(t, 4, func(ctx context.Context, o voxsaw.RunOptions) (voxsaw.Summary, error) {
		s, _, err := Finetune(ctx, testDevice(t), c, data, "", o)
		return s, err
	}, "last.safetensors", "best.safetensors", "validation.csv")
	d, err := checkpoint.Read(train.Last(through))
	if err != nil {
		t.Fatal(err)
	}
	var with []string
	for _, s := range d.Learnt.Scans {
		name := s.Name
		if s.Labels {
			name += "+"
		}
		with = append(with, name)
	}
	if !slices.Equal(with, []string{"a+", "c", "d"}) || !strings.Contains(d.Settings, "predicted: ") {
		t.Errorf("learnt from %v; %s", with, d.Settings)
	}
	alone := c
	alone.Targets, alone.LabelledLast = "", 0
	without := filepath.Join(t.TempDir(), "without")
	plain := data
	plain.Unlabelled = nil
	if _, _, err := Finetune(t.Context(), testDevice(t), alone, plain, "",
		voxsaw.RunOptions{Folder: without}); err != nil {
		t.Fatal(err)
	}
	a, b := tensors(t, train.Last(through)), tensors(t, train.Last(without))
	same := true
	for name := range a {
		same = same && slices.Equal(a[name], b[name])
	}
	if same {
		t.Error("the run learnt nothing from label maps of teachers")
	}
	c.Train.ValidateEvery = 0
	twoRanks(t, data, c)
	// where nothing is merged, the scan goes in which something is ignored
	c.Undrawn = UndrawnBackground
	said := &observer{}
	folder = filepath.Join(t.TempDir(), "background")
	if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "", voxsaw.RunOptions{Folder: folder,
		Observer: said}); err != nil {
		t.Fatal(err)
	}
	if d, err = checkpoint.Read(train.Last(folder)); err != nil || len(d.Learnt.Scans) != 2 ||
		d.Learnt.Scans[1].Name != "c" {
		t.Errorf("learnt from %v, %v", d.Learnt.Scans, err)
	}
	if !strings.Contains(strings.Join(said.notes, "\n"), "undrawn is background: d") {
		t.Errorf("said %q", said.notes)
	}
}

// Nothing of the labels of held-out cases is used: other labels there leave every byte of the
// targets and of the student as it was.
func TestHeldOutLabelsChangeNothing(t *testing.T) {
	var folders, targets [2]string
	var teachers []string
	for n := range 2 {
		data := poisoned(t, n == 1)
		c := taught(t, data)
		if n == 0 {
			teachers = teachersOf(t, c, sample.Data{Store: data.Store, Train: data.Train}, 2)
		}
		targets[n], folders[n] = filepath.Join(t.TempDir(), "targets"), filepath.Join(t.TempDir(), "run")
		if _, err := predictorOf(t, teachers).MakeTargets(t.Context(), data.Store, targets[n],
			optionsOf(data)); err != nil {
			t.Fatal(err)
		}
		c.Unlabelled, c.Train.Average, c.UnlabelledConfidence, c.UnlabelledRamp = false, 0, 0, 0
		c.Targets, c.Train.Steps = targets[n], 5
		if _, _, err := Finetune(t.Context(), testDevice(t), c, sample.Data{Store: data.Store, Train: data.Train,
			Unlabelled: data.Unlabelled}, "", voxsaw.RunOptions{Folder: folders[n]}); err != nil {
			t.Fatal(err)
		}
	}
	traintest.SameFiles(t, targets[0], targets[1], "c.soft", "c.json", "d.soft", "d.json", scansFile)
	traintest.Equal(t, train.Last(folders[0]), train.Last(folders[1]), 0)
}

// poisoned is someLabelled, perhaps with labels of the held-out case that are none.
func poisoned(t *testing.T, yes bool) sample.Data {
	t.Helper()
	var cases []prepared.Input
	for n, id := range []string{"a", "b", "c", "d"} {
		scan, labels, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		if n > 1 {
			labels = nil
		} else if yes && n == 1 {
			for v := range labels.Labels {
				labels.Labels[v] = uint16(v%3) + 2
			}
		}
		cases = append(cases, prepared.Input{ID: id, Image: scan, Labels: labels})
	}
	return sample.Data{Store: traintest.Store(t, volume.DefaultPreparation(), cases...), Train: []string{"a"},
		Validate: []string{"b"}, Unlabelled: []string{"c", "d"}}
}

// Structures on which teachers do not agree are ignored, scans of which nothing is left are
// dropped, and so are those whose label map changed since the round before; each with the reason.
func TestWhatIsNotBelieved(t *testing.T) {
	data := someLabelled(t)
	c := taught(t, data)
	teachers := teachersOf(t, c, data, 3)
	first, o := filepath.Join(t.TempDir(), "first"), optionsOf(data)
	o.Agreement = 1
	doubted, err := predictorOf(t, teachers[:2]).MakeTargets(t.Context(), data.Store, first, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(doubted.Kept()) != 0 || len(doubted.Scans[0].Ignored) != 2 ||
		!strings.Contains(doubted.Scans[0].Ignored[0], ": teachers agree to 0.") ||
		!strings.Contains(doubted.Scans[0].Dropped, "all of its structures are ignored") {
		t.Errorf("%+v", doubted.Scans)
	}
	c.Unlabelled, c.Train.Average, c.UnlabelledConfidence, c.UnlabelledRamp, c.Targets = false, 0, 0, 0, first
	if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "", voxsaw.RunOptions{}); err == nil ||
		!strings.Contains(err.Error(), "leaves c out: all of its structures") {
		t.Error(err)
	}
	o.Agreement, o.Before, o.Same = 0, first, 1
	second := filepath.Join(t.TempDir(), "second")
	changed, err := predictorOf(t, teachers).MakeTargets(t.Context(), data.Store, second, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range changed.Scans {
		if !(s.Same > 0 && s.Same < 1) || !strings.Contains(s.Dropped, "changed since the round before: DSC 0.") {
			t.Errorf("%+v", s)
		}
	}
	o.Same = 0
	if again, err := predictorOf(t, teachers).MakeTargets(t.Context(), data.Store, filepath.Join(t.TempDir(), "third"),
		o); err != nil || len(again.Kept()) != 2 {
		t.Error(again, err)
	}
}

// Structures of implausible volume are ignored, held against the labels of cases to train on.
func TestImplausibleVolumesAreIgnored(t *testing.T) {
	var cases []prepared.Input
	data := sample.Data{Unlabelled: []string{"plain"}}
	for n, id := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "plain"} {
		scan, labels, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		in := prepared.Input{ID: id, Image: scan, Labels: labels}
		if id == "plain" {
			in.Labels = nil
		} else {
			data.Train = append(data.Train, id)
		}
		cases = append(cases, in)
	}
	store := traintest.Store(t, volume.DefaultPreparation(), cases...)
	data.Store = store
	c := taught(t, data)
	// networks that have learnt nothing predict volumes that no phantom has
	targets, err := predictorOf(t, teachersOf(t, c, data, 1)).MakeTargets(t.Context(), store,
		filepath.Join(t.TempDir(), "targets"), optionsOf(data))
	if err != nil {
		t.Fatal(err)
	}
	if ignored := strings.Join(targets.Scans[0].Ignored, "; "); !strings.Contains(ignored, "volume") &&
		!strings.Contains(ignored, "missing") {
		t.Errorf("%+v", targets.Scans[0])
	}
}

// Teachers that do not fit are refused, and so are targets of others, and damaged ones.
func TestTargetsRefusals(t *testing.T) {
	data := someLabelled(t)
	c, folder := targetsFor(t, data, nil)
	make := func(data sample.Data, checkpoints []string, change func(*TargetOptions)) error {
		o := optionsOf(data)
		if change != nil {
			change(&o)
		}
		_, err := predictorOf(t, checkpoints).MakeTargets(t.Context(), data.Store, folder, o)
		return err
	}
	plain := taught(t, data)
	teachers := teachersOf(t, plain, data, 2)
	merged := plain
	merged.Labels = []string{"2+3", "4"}
	held := data
	held.Train, held.Validate = []string{"b"}, nil
	how := volume.DefaultPreparation()
	how.Spacing = [3]float64{3, 3, 3}
	scan, _, err := phantom.New(2, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	other := sample.Data{Store: traintest.Store(t, how, prepared.Input{ID: "c", Image: scan}),
		Unlabelled: []string{"c"}}
	for want, err := range map[string]error{
		"other teachers":             make(data, teachers[:1], nil),
		"labels of cases that are h": make(data, teachersOf(t, plain, held, 1), nil),
		"prepared in another way":    make(other, teachers, nil),
		`no case "z"`:                make(data, teachers, func(o *TargetOptions) { o.Scans = []string{"z"} }),
		"must be from 0 to 1":        make(data, teachers, func(o *TargetOptions) { o.Agreement = 2 }),
		"no scans without":           make(data, teachers, func(o *TargetOptions) { o.Scans = nil }),
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	others := teachersOf(t, resolved(t, merged, data.Store.(*prepared.Store)), data, 1)
	if _, err := NewPredictor(testDevice(t), append(others, teachers...), DefaultInference(), 0); err == nil ||
		!strings.Contains(err.Error(), "labels differ") {
		t.Errorf("teachers of other classes: %v", err)
	}
	for want, change := range map[string]func(*Config, *sample.Data){
		"two ways":                func(c *Config, _ *sample.Data) { c.Unlabelled, c.Train.Average = true, 0.9 },
		"no label map of e":       func(_ *Config, d *sample.Data) { d.Unlabelled = []string{"e"} },
		"other label maps than":   func(c *Config, _ *sample.Data) { c.Predicted = "0123" },
		"is to tell apart 2+3":    func(c *Config, _ *sample.Data) { c.Labels = []string{"2+3", "4"} },
		"nothing would be learnt": func(c *Config, _ *sample.Data) { c.LabelledLast = c.Train.Steps },
		"of other prepared":       func(_ *Config, d *sample.Data) { d.Store = elsewhereStore(t) },
		"holds no label maps":     func(c *Config, _ *sample.Data) { c.Targets = t.TempDir() },
		"no folder of them":       func(c *Config, _ *sample.Data) { c.Targets, c.Predicted = "", "0123" },
		"must be a number of":     func(c *Config, _ *sample.Data) { c.LabelledLast = -1 },
	} {
		c, d := c, data
		change(&c, &d)
		if _, _, err := Finetune(t.Context(), testDevice(t), c, d, "", voxsaw.RunOptions{}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	// teachers of structures that have the same numbers
	record := filepath.Join(folder, targetsFile)
	text, err := os.ReadFile(record)
	if err != nil {
		t.Fatal(err)
	}
	resolvedNames := resolved(t, c, data.Store.(*prepared.Store)).Names
	organ := "another organ"
	changed := strings.Replace(string(text), strconv.Quote(resolvedNames[0]), strconv.Quote(organ), 1)
	if changed == string(text) {
		t.Fatalf("%q is not in %s", resolvedNames[0], text)
	}
	write := func(text string) {
		if err := os.WriteFile(record, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(changed)
	if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "", voxsaw.RunOptions{}); err == nil ||
		!strings.Contains(err.Error(), "tell apart 2 "+organ) {
		t.Errorf("teachers of another organ: %v", err)
	}
	write(string(text))
	// a label map that was changed
	path := filepath.Join(folder, "c"+softSuffix)
	bytes, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	bytes[7] ^= 1
	if err := os.WriteFile(path, bytes, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Finetune(t.Context(), testDevice(t), c, data, "", voxsaw.RunOptions{}); err == nil ||
		!strings.Contains(err.Error(), "c.soft is damaged") {
		t.Error(err)
	}
}

// elsewhereStore is a store of other scans of the same names.
func elsewhereStore(t *testing.T) *prepared.Store { return poisoned(t, true).Store.(*prepared.Store) }

// What label maps of teachers would be refused for is known before these are trained.
func TestTeachersAreCheckedFirst(t *testing.T) {
	how := volume.DefaultPreparation()
	how.Spacing = [3]float64{}
	var inputs []prepared.Input
	for n, id := range []string{"a", "b", "large"} {
		scan, organs, err := phantom.New(uint64(n), phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		if id == "large" {
			for row := range 3 {
				for column := range 3 {
					scan.Affine[row][column] *= 4
				}
			}
			organs = nil
		}
		inputs = append(inputs, prepared.Input{ID: id, Image: scan, Labels: organs})
	}
	store := traintest.Store(t, how, inputs...)
	c, many := resolved(t, tiny(), store), resolved(t, tiny(), store)
	many.Network.Classes = mostClasses + 1
	known := teachersOf(t, c, sample.Data{Store: store, Train: []string{"b"}}, 1)[0]
	check := func(c Config, init, scan string) error {
		return CheckTeachers(c, init, store, TargetOptions{Scans: []string{scan}, Drawn: []string{"a"},
			Held: []string{"b"}})
	}
	for want, err := range map[string]error{
		"":                     check(c, "", "b"),
		"apart 257 classes":    check(many, "", "b"),
		"case large: its voxe": check(c, "", "large"),
		"begin with " + known:  check(c, known, "b"),
	} {
		if want == "" && err == nil {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
