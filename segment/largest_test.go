package segment

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/sample"
)

// Validation decides of which labels only the largest component is kept: of those whose DSC on the
// held-out cases that raises. Predictions follow it unless told otherwise; a label of two kidneys
// is never cut down to one.
func TestValidationDecidesOnComponents(t *testing.T) {
	shape := [3]int{40, 32, 28}
	cache, dev, path := phantoms(t, 5, shape), testDevice(t), filepath.Join(t.TempDir(), "run")
	c := tiny()
	c.Network.Channels, c.Crop, c.Labels, c.Batch = 8, [3]int{24, 20, 16}, []string{"2", "4+5"}, 2
	c.Train.Steps, c.Train.LR, c.Train.Warmup, c.Train.ValidateEvery, c.Train.CheckpointEvery = 80, 0.03, 10, 0, 0
	c = resolved(t, c, cache)
	held := []string{"case03", "case04"}
	if _, _, err := Finetune(t.Context(), dev, c,
		sample.Data{Store: cache, Train: []string{"case00", "case01", "case02"}, Validate: held}, "",
		voxsaw.RunOptions{Folder: path, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	last := filepath.Join(path, "last.safetensors")
	var said []string
	predict := func(change func(*Inference)) (maps [][]uint16, of []string) {
		t.Helper()
		o := DefaultInference()
		o.Overlap = c.ValidateOverlap
		change(&o)
		p, err := NewPredictor(dev, []string{last}, o, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		said = p.Notes()
		for _, id := range held {
			one, err := cache.Open(id)
			if err != nil {
				t.Fatal(err)
			}
			l, err := p.PredictCase(t.Context(), one)
			if err != nil {
				t.Fatal(err)
			}
			maps = append(maps, toClasses(l.Labels, p.labels))
		}
		return maps, p.Provenance().LargestOf
	}
	whole, none := predict(func(o *Inference) { o.Components = ComponentsAll })
	largest, _ := predict(func(o *Inference) { o.Largest = true })
	// the mean DSC of a class over the held-out cases
	mean := func(maps [][]uint16, class int) (sum float64) {
		for n, id := range held {
			one, err := cache.Open(id)
			if err != nil {
				t.Fatal(err)
			}
			reference, err := one.LabelMap()
			if err != nil {
				t.Fatal(err)
			}
			sum += eval.Dice(maps[n], reference.Labels, classTable([][]uint16{{2}, {4, 5}}), 2)[class]
		}
		return sum / float64(len(held))
	}
	var want []string
	for n, label := range c.Labels {
		before, after := mean(whole, n+1), mean(largest, n+1)
		t.Logf("label %s: DSC %.4f, of the largest component %.4f", label, before, after)
		if after > before {
			want = append(want, label)
		}
	}
	if !slices.Equal(want, []string{"2"}) {
		t.Fatalf("the largest component raises the DSC of %v: the test needs a liver with crumbs beside it", want)
	}
	d, err := checkpoint.Read(last)
	if err != nil || d.Largest != strings.Join(want, ",") {
		t.Errorf("the checkpoint keeps the largest component of %q, want %v: %v", d.Largest, want, err)
	}
	decided, of := predict(func(*Inference) {})
	if !slices.Equal(of, want) || len(none) > 0 {
		t.Errorf("predictions say %v, and %v", of, none)
	}
	if text := "only the largest connected component of liver is kept"; !slices.ContainsFunc(said,
		func(note string) bool { return strings.HasPrefix(note, text) }) {
		t.Errorf("people are told %q, want %q", said, text)
	}
	for n := range decided {
		for i, class := range decided[n] {
			expect := whole[n][i]
			if expect == 1 {
				expect = largest[n][i]
			}
			if class != expect {
				t.Fatalf("case %s, voxel %d: class %d, want %d", held[n], i, class, expect)
			}
		}
	}
	// Who held nothing out has no vote; alone, it keeps all.
	all := c
	all.Train.Steps, all.Train.Warmup = 2, 0
	folder := filepath.Join(t.TempDir(), "all")
	if _, _, err := Finetune(t.Context(), dev, all, sample.Data{Store: cache, Train: []string{"case00", "case03"}}, "",
		voxsaw.RunOptions{Folder: folder, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	blind := filepath.Join(folder, "last.safetensors")
	for _, test := range []struct{ paths, want []string }{{[]string{last, blind}, want}, {[]string{blind}, nil}} {
		p, err := NewPredictor(dev, test.paths, DefaultInference(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if of := p.Provenance().LargestOf; !slices.Equal(of, test.want) {
			t.Errorf("%d networks, one of which held nothing out, keep the largest component of %v, want %v",
				len(test.paths), of, test.want)
		}
		p.Close()
	}
	// Validations that are to measure only decide nothing.
	c.Train.Steps++
	c.MeasureOnly = true
	if _, _, err := Finetune(t.Context(), dev, c,
		sample.Data{Store: cache, Train: []string{"case00", "case01", "case02"}, Validate: held}, "",
		voxsaw.RunOptions{Folder: path, Mode: voxsaw.ModeResume, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	if d, err := checkpoint.Read(last); err != nil || d.Step != c.Train.Steps || d.Validated != c.Train.Steps ||
		d.Largest != "" {
		t.Errorf("a validation that measures decides on %q at step %d: %v", d.Largest, d.Step, err)
	}
}

// What is kept has one name, whichever key says it.
func TestComponentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		from Inference
		want string // "-": refused
	}{
		{Inference{}, ""}, {Inference{Largest: true}, "largest"}, {Inference{Whole: true}, "all"},
		{Inference{Components: "validated"}, "validated"},
		{Inference{Components: "all", Whole: true}, "all"}, {Inference{Components: "all", Largest: true}, "-"},
		{Inference{Largest: true, Whole: true}, "-"}, {Inference{Components: "some"}, "-"},
	} {
		got, err := c.from.Named()
		if (err != nil) != (c.want == "-") || err == nil && (got.Components != c.want || got.Largest || got.Whole) {
			t.Errorf("%+v is %+v, %v; want %q", c.from, got, err, c.want)
		}
	}
}

// People read names of labels, where there are any.
func TestLabelsAreDescribedByName(t *testing.T) {
	c := Config{Labels: []string{"2", "4+5", "7"}, Names: []string{"liver", "left kidney+right kidney", "7"}}
	if got, want := c.DescribeLabels("2,4+5,7"), "liver, left kidney+right kidney, label 7"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
