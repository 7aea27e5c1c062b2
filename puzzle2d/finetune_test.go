package puzzle2d

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/safetensors"
	"github.com/voxsaw/voxsaw/internal/voc"
	"github.com/voxsaw/voxsaw/internal/voc/voctest"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// vocOf makes a data set in Pascal VOC's layout, lets a test change its files, and prepares it. It
// returns the folder, too.
func vocOf(t *testing.T, change func(dir string)) (*photos.Store, string) {
	t.Helper()
	return vocOfSize(t, voctest.Options{Train: 40, Val: 8, Test: 16, Side: 64, Seed: 1}, change)
}

func vocOfSize(t *testing.T, size voctest.Options, change func(dir string)) (*photos.Store, string) {
	t.Helper()
	dir := t.TempDir()
	root := filepath.Join(dir, "VOC2007")
	if err := voctest.Write(root, size); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(root)
	}
	return storeOf(t, root, 0, 72, 64), root
}

// roles splits photographs, and numbers them.
func roles(t *testing.T, store *photos.Store, on string) (sample.Data, marked) {
	t.Helper()
	data, err := SplitVOC(store, on)
	if err != nil {
		t.Fatal(err)
	}
	m, err := markedOf(data)
	if err != nil {
		t.Fatal(err)
	}
	return data, m
}

// resolvedFor completes the settings of a task that is trained on some sides.
func resolvedFor[T Finetuning](t *testing.T, c T, store *photos.Store, on string) T {
	t.Helper()
	c.Settings().TrainOn = on
	r, err := c.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	return r.(T)
}

// smallClassify and smallDetect are fine-tunings that a test can wait for.
func smallClassify() *Multilabel {
	c := DefaultMultilabel()
	c.Network, c.FinetuneSettings.Train = small().Network, small().Train
	c.Crop, c.Batch, c.Train.Steps, c.Train.ValidateEvery = 56, 8, 60, 30
	return &c
}

func smallDetect(root string) *Detection {
	c := DefaultDetection()
	c.Network, c.FinetuneSettings.Train = small().Network, small().Train
	c.Proposals, c.Regions, c.Train.Steps, c.Train.ValidateEvery = filepath.Join(root, voctest.Proposals), 16, 200, 200
	return &c
}

// Both tasks are learnt of coloured shapes, and what is scored is what was learnt: random weights
// score less by both rules.
func TestFinetuneLearns(t *testing.T) {
	store, root := vocOf(t, nil)
	dev := open(t)
	for name, c := range map[string]Finetuning{Classify: smallClassify(), Detect: smallDetect(root)} {
		data, _ := roles(t, store, OnTrain)
		c = resolvedFor(t, c, store, OnTrain)
		score := func(steps int, rate float64) (Precision, voxsaw.Summary) {
			c.Settings().Train.Steps, c.Settings().Train.LR = steps, rate
			out := filepath.Join(t.TempDir(), "run")
			summary, err := c.Run(context.Background(), dev, data, voxsaw.RunOptions{Folder: out})
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			p, err := c.Score(context.Background(), dev, filepath.Join(out, "last.safetensors"), data, 0, nil)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			return p, summary
		}
		steps, rate := c.Settings().Train.Steps, c.Settings().Train.LR
		before, _ := score(1, 0)
		after, summary := score(steps, rate)
		t.Logf("%s: %.3f and %.3f without training, %.3f and %.3f with; validated %v", name, before.ElevenPoints,
			before.Area, after.ElevenPoints, after.Area, summary.Validation)
		want := map[string]float64{Classify: 0.8, Detect: 0.4}[name]
		if after.ElevenPoints < want || after.Area < want || before.ElevenPoints > after.ElevenPoints-0.2 ||
			before.Area > after.Area-0.2 {
			t.Errorf("%s: mean average precisions %v and %v, and %v and %v without training", name, after.ElevenPoints,
				after.Area, before.ElevenPoints, before.Area)
		}
		if after.Side != photos.Test || after.Photos != 16 || len(after.Classes) != 3 || summary.BestStep == 0 ||
			len(summary.Validation.Metrics) != 2 {
			t.Errorf("%s: %+v, %+v", name, after, summary)
		}
		sum := 0.0
		for _, class := range after.Classes {
			sum += class.Area / 3
		}
		if math.Abs(sum-after.Area) > 1e-12 {
			t.Errorf("%s: the mean is %v, the classes' %v", name, after.Area, sum)
		}
	}
}

// Fine-tuning that is stopped and resumed leaves the same bytes.
func TestFinetuneResumes(t *testing.T) {
	store, root := vocOf(t, nil)
	dev := open(t)
	data, _ := roles(t, store, OnTrain)
	for name, c := range map[string]Finetuning{Classify: smallClassify(), Detect: smallDetect(root)} {
		c.Settings().Train.Steps, c.Settings().Train.ValidateEvery = 8, 4
		c = resolvedFor(t, c, store, OnTrain)
		whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
		if _, err := c.Run(context.Background(), dev, data, voxsaw.RunOptions{Folder: whole}); err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(context.Background())
		if _, err := c.Run(ctx, dev, data,
			voxsaw.RunOptions{Folder: parts, Observer: interrupter{3, stop}}); !errors.As(err,
			new(*voxsaw.InterruptedError)) {
			t.Fatalf("%s: stopped after 3 steps: %v", name, err)
		}
		if _, err := c.Run(context.Background(), dev, data,
			voxsaw.RunOptions{Folder: parts, Mode: voxsaw.ModeResume}); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"last.safetensors", "best.safetensors", "validation.csv"} {
			a, err := os.ReadFile(filepath.Join(whole, file))
			if err != nil {
				t.Fatal(err)
			}
			if b, err := os.ReadFile(filepath.Join(parts, file)); err != nil || !slices.Equal(a, b) {
				t.Errorf("%s: %s differs (%v)", name, file, err)
			}
		}
	}
}

// The network of a puzzle is taken over, and of a photograph of another size, too; the checkpoint
// of a fine-tuning can be one to start from.
func TestFinetuneStartsFromPuzzles(t *testing.T) {
	store, root := vocOf(t, nil)
	dev := open(t)
	p := small()
	p.Input.Gray, p.Input.Mean, p.Train.Steps = 0.5, MeanPatch, 2
	p, err := p.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	puzzles := filepath.Join(t.TempDir(), "puzzles")
	if _, err := Pretrain(context.Background(), dev, p, Split(store), voxsaw.RunOptions{Folder: puzzles}); err != nil {
		t.Fatal(err)
	}
	data, _ := roles(t, store, OnTrainval)
	path := filepath.Join(puzzles, "last.safetensors")
	for _, c := range []Finetuning{smallClassify(), smallDetect(root), smallClassify()} {
		s := c.Settings()
		source, err := ReadSource(path, s.Network)
		if err != nil {
			t.Fatal(err)
		}
		s.Start(source)
		if s.Input.Mean != MeanPatch || s.Input.Gray != 0 || s.Network.Width != p.Network.Width {
			t.Errorf("%+v of %+v", s, source)
		}
		s.Train.Steps, s.Train.LR = 1, 0
		c = resolvedFor(t, c, store, OnTrainval)
		var notes noteTaker
		out := filepath.Join(t.TempDir(), "run")
		if _, err := c.Run(context.Background(), dev, data,
			voxsaw.RunOptions{Folder: out, Observer: &notes}); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(notes, "\n"); !strings.Contains(text, "tensors loaded") ||
			strings.Contains(text, "left at their initial values: encoder") {
			t.Errorf("what was loaded is not told: %s", text)
		}
		path = filepath.Join(out, "last.safetensors")
	}
	other := smallClassify()
	other.Checkpoint, other.Network.Width = path, 0.125
	other = resolvedFor(t, other, store, OnTrainval)
	if _, err := other.Run(context.Background(), dev, data, voxsaw.RunOptions{}); err == nil ||
		!strings.Contains(err.Error(), "give both the same --backbone and --width") {
		t.Errorf("another width: %v", err)
	}
}

// Weights that fit a part of the backbone alone are refused, unless that is allowed.
func TestStartFromAPart(t *testing.T) {
	store, _ := vocOf(t, nil)
	dev := open(t)
	data, _ := roles(t, store, OnTrainval)
	whole, err := safetensors.Open(pyTorch)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	var tensors []safetensors.Tensor
	for _, name := range whole.Names() {
		if !strings.HasPrefix(name, "layer4.") {
			tensors = append(tensors, safetensors.Tensor{Name: name, Shape: whole.Shape(name),
				Values: func() ([]float32, error) { return whole.Read(name) }})
		}
	}
	part := filepath.Join(t.TempDir(), "part.safetensors")
	f, err := os.Create(part)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(safetensors.Write(f, map[string]string{"format": "pt"}, tensors), f.Close()); err != nil {
		t.Fatal(err)
	}
	for _, allowed := range []bool{false, true} {
		c := smallClassify()
		c.Checkpoint, c.Network, c.InitPartial, c.Train.Steps = part, thin(), allowed, 1
		c = resolvedFor(t, c, store, OnTrainval)
		var refused *voxsaw.PartialError
		// of ResNet-18's 60 parameters without the classifier, the last stage has 15
		switch _, err := c.Run(context.Background(), dev, data, voxsaw.RunOptions{}); {
		case allowed && err != nil:
			t.Error(err)
		case !allowed && (!errors.As(err, &refused) || refused.Fit != 45 || refused.Of != 60):
			t.Errorf("a part of the weights: %v", err)
		}
	}
}

// noteTaker keeps the notes of a run.
type noteTaker []string

func (*noteTaker) Started(int, int)                       {}
func (*noteTaker) Stepped(voxsaw.Progress)                {}
func (*noteTaker) Validated(int, voxsaw.Validation, bool) {}
func (*noteTaker) Saved(string, int)                      {}
func (n *noteTaker) Note(text string)                     { *n = append(*n, text) }

// A class of which only difficult objects are on a photograph counts neither way.
func TestTruthsAreVOCs(t *testing.T) {
	store, root := vocOf(t, nil)
	_, data := roles(t, store, OnTrain)
	ignored := 0
	for n := range store.Len() {
		for class, truth := range data.truths(n) {
			lines, err := os.ReadFile(filepath.Join(root, "ImageSets", "Main", voctest.Classes[class]+"_"+
				store.Split(n)+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			want := map[voc.Truth]string{voc.Present: "  1", voc.Absent: " -1", voc.Ignored: "  0"}[truth]
			if !strings.Contains(string(lines), stem(store.Name(n))+want+"\n") {
				t.Errorf("%s: class %s is %v; its list says otherwise", store.Name(n), voctest.Classes[class], truth)
			}
			if truth == voc.Ignored {
				ignored++
			}
		}
	}
	if ignored == 0 {
		t.Error("no photograph has only difficult objects of a class")
	}
	if scored, err := json.Marshal(ClassPrecision{Class: "cat", ElevenPoints: math.NaN(), Area: 0.5}); err != nil ||
		string(scored) != `{"class":"cat","positives":0,"ap_11_points":null,"ap_area":0.5}` {
		t.Errorf("%s, %v", scored, err)
	}
}

func TestViews(t *testing.T) {
	c := smallClassify()
	c.Crop = 10
	if got := c.places(1, 21, 16); !slices.Equal(got, []place{{3, 5, false}}) {
		t.Errorf("one view: %v", got)
	}
	want := []place{{0, 0, false}, {0, 11, false}, {6, 0, false}, {6, 11, false}, {3, 5, false}}
	for _, p := range want[:5] {
		want = append(want, place{p.top, p.left, true})
	}
	if got := c.places(10, 21, 16); !slices.Equal(got, want) {
		t.Errorf("ten views: %v, want %v", got, want)
	}
}

func TestFinetuneRefuses(t *testing.T) {
	write := func(name, text string) func(string) {
		return func(dir string) {
			if err := os.WriteFile(filepath.Join(dir, filepath.FromSlash(name)), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(names ...string) func(string) {
		return func(dir string) {
			for _, name := range names {
				if err := os.Remove(filepath.Join(dir, filepath.FromSlash(name))); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	plain := func(dir string, c *Detection) {}
	for want, test := range map[string]struct {
		change func(dir string)
		on     string
		set    func(dir string, c *Detection)
	}{
		"no photograph is on the side test: complete ImageSets/Main/test.txt": {remove("ImageSets/Main/test.txt"),
			OnTrainval, plain},
		"no photograph is on the side val: complete ImageSets/Main/val.txt": {remove("ImageSets/Main/val.txt",
			"ImageSets/Main/trainval.txt"), OnTrain, plain},
		"no object of class cat is to be trained on": {write("ImageSets/Main/cat_train.txt", "000001 -1\n"), OnTrain,
			plain},
		"Annotations/000001.xml: the box from 1,1 to 900,2 does not lie on": {write("Annotations/000001.xml",
			"<annotation><object><name>disc</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>900</xmax><ymax>"+
				"2</ymax></bndbox></object></annotation>"), OnTrain, plain},
		"proposals.csv:2: there is no photograph \"999999\" in the data set": {write("proposals.csv",
			proposalColumns+"\n999999,1,1,2,2\n"), OnTrain, plain},
		"proposals.csv:2: the box from 0,1 to 2,2 does not lie on JPEGImages/0": {write("proposals.csv",
			proposalColumns+"\n000001,0,1,2,2\n"), OnTrain, plain},
		"proposals.csv:3: the box from 1,1 to 2,900 does not lie on JPEGImages/0": {write("proposals.csv",
			proposalColumns+"\n000001,1,1,2,2\n000001,1,1,2,900\n"), OnTrain, plain},
		"proposals.csv:2: \"000001,1,1,2\" is no line of photo,xmin": {write("proposals.csv",
			proposalColumns+"\n000001,1,1,2\n"), OnTrain, plain},
		"proposals.csv:2: \"000001,1,1,2,2,0.5\" is no line of photo,xmin": {write("proposals.csv",
			proposalColumns+"\n000001,1,1,2,2,0.5\n"), OnTrain, plain},
		"proposals.csv:1: begins with \"a,b\": the first line of proposals is": {write("proposals.csv", "a,b\n"),
			OnTrain, plain},
		"proposals.csv is empty": {write("proposals.csv", ""), OnTrain, plain},
		"has no proposal for 5 of the 6 photographs, 000002, 000003, 000004": {write("proposals.csv",
			proposalColumns+"\n000001,1,1,2,2\n"), OnTrain, plain},
		"no such file": {nil, OnTrain,
			func(_ string, c *Detection) { c.Proposals = "nowhere.csv" }},
		"no proposals: name their file":        {nil, OnTrain, func(_ string, c *Detection) { c.Proposals = "" }},
		"regions and":                          {nil, OnTrain, func(_ string, c *Detection) { c.Regions = 0 }},
		"foreground is 2, must be from 0 to 1": {nil, OnTrain, func(_ string, c *Detection) { c.Foreground = 2 }},
		"the three must rise": {nil, OnTrain,
			func(_ string, c *Detection) { c.BackgroundOverlap = [2]float64{0.5, 0.1} }},
		"train_on \"test\": want": {nil, "test", plain},
	} {
		t.Run(want, func(t *testing.T) {
			store, root := vocOfSize(t, voctest.Options{Train: 6, Val: 3, Test: 3, Side: 64, Seed: 1}, test.change)
			c := smallDetect(root)
			c.TrainOn = test.on
			test.set(root, c)
			_, err := c.Resolve(store)
			if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%v", err)
			}
		})
	}
	store := prepare(t, 8, 60, 60)
	if _, err := SplitVOC(store, OnTrain); err == nil ||
		!strings.Contains(err.Error(), "layout folder: fine-tuning takes Pascal VOC's") {
		t.Errorf("a folder of classes: %v", err)
	}
	// The first of the photographs to validate on shows what is too difficult to count.
	store, root := vocOfSize(t, voctest.Options{Train: 6, Val: 3, Test: 3, Side: 64, Seed: 1},
		write("Annotations/000007.xml", "<annotation><object><name>disc</name><difficult>1</difficult>"+
			"<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox></object></annotation>"))
	for n, want := range map[int]string{
		0: "", 1: "validate_photos is 1, and nothing is marked on that many of the 3", 2: "",
	} {
		for _, c := range []Finetuning{smallClassify(), smallDetect(root)} {
			c.Settings().ValidatePhotos, c.Settings().TrainOn = n, OnTrain
			_, err := c.Resolve(store)
			if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("validate_photos %d: %v", n, err)
			}
		}
	}
	store, _ = vocOf(t, nil)
	for want, set := range map[string]func(*Multilabel){
		"prepare them larger":         func(c *Multilabel) { c.Crop = 65 },
		"views is 5, must be 1 or 10": func(c *Multilabel) { c.Views = 5 },
		"a batch of 0 crops":          func(c *Multilabel) { c.Batch = 0 },
		"validate_photos is -1":       func(c *Multilabel) { c.ValidatePhotos = -1 },
	} {
		c := smallClassify()
		set(c)
		if _, err := c.Resolve(store); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// What a study keeps of each class, it reads again: also of one that is not there.
func TestPrecisionsAreReadAgain(t *testing.T) {
	text, err := json.Marshal([]ClassPrecision{{"bird", 7, 0.25, 0.5}, {"boat", 0, math.NaN(), math.NaN()}})
	if err != nil {
		t.Fatal(err)
	}
	if want := `[{"class":"bird","positives":7,"ap_11_points":0.25,"ap_area":0.5},` +
		`{"class":"boat","positives":0,"ap_11_points":null,"ap_area":null}]`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
	var got []ClassPrecision
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got[0] != (ClassPrecision{"bird", 7, 0.25, 0.5}) || got[1].Class != "boat" || !math.IsNaN(got[1].ElevenPoints) ||
		!math.IsNaN(got[1].Area) {
		t.Errorf("%+v", got)
	}
}
