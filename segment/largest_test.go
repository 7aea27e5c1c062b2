package segment

import (
	"fmt"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/sample"
)

// Validation decides of which labels only the largest component is kept: of those that people drew
// in one component, and whose DSC on the held-out cases that raises. Predictions follow it unless
// told otherwise; a label of two kidneys is never cut down to one. The DSC that is told is that of
// what predictions keep.
func TestValidationDecidesOnComponents(t *testing.T) {
	shape := [3]int{40, 32, 28}
	store, dev, path := phantoms(t, 21, shape), testDevice(t), filepath.Join(t.TempDir(), "run")
	c := tiny()
	c.Network.Channels, c.Crop, c.Labels, c.Batch = 8, [3]int{24, 20, 16}, []string{"2", "4+5"}, 2
	c.Train.Steps, c.Train.LR, c.Train.Warmup, c.Train.ValidateEvery, c.Train.CheckpointEvery = 80, 0.03, 10, 0, 0
	c = resolved(t, c, store)
	var cases []string
	for n := range 21 {
		cases = append(cases, fmt.Sprintf("case%02d", n))
	}
	learnt, held := cases[:16], cases[16:]
	ear := &listening{}
	summary, _, err := Finetune(t.Context(), dev, c, sample.Data{Store: store, Train: learnt, Validate: held}, "",
		voxsaw.RunOptions{Folder: path, Loaders: 1, Observer: ear})
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(strings.Join(ear.notes, "\n"), "the labels of all 21 cases are looked at, once"); n != 1 ||
		!slices.Contains(ear.items, 21) {
		t.Errorf("told %d times that all labels are looked at, and of %v items", n, ear.items)
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
			one, err := store.Open(id)
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
			one, err := store.Open(id)
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
	told := 0.0
	for n, label := range c.Labels {
		before, after := mean(whole, n+1), mean(largest, n+1)
		t.Logf("label %s: DSC %.4f, of the largest component %.4f", label, before, after)
		if after > before+0.005 {
			want = append(want, label)
			before = after
		}
		told += before / float64(len(c.Labels))
	}
	if got := summary.Validation.Score; math.Abs(got-told) > 1e-6 {
		t.Errorf("DSC %v is told, of what predictions keep it is %v", got, told)
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
	text := regexp.MustCompile(`^only the largest connected component is kept of liver \(\+\d+\.\d\d points of DSC ` +
		`on 5 validation cases, drawn in one component in 21 of 21 cases\)`)
	if !slices.ContainsFunc(said,
		text.MatchString) {
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
	if _, _, err := Finetune(t.Context(), dev, all, sample.Data{Store: store, Train: []string{"case00", "case03"}}, "",
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
		sample.Data{Store: store, Train: learnt, Validate: held}, "",
		voxsaw.RunOptions{Folder: path, Mode: voxsaw.ModeResume, Loaders: 1}); err != nil {
		t.Fatal(err)
	}
	if d, err := checkpoint.Read(last); err != nil || d.Step != c.Train.Steps || d.Validated != c.Train.Steps ||
		d.Largest != "" {
		t.Errorf("a validation that measures decides on %q at step %d: %v", d.Largest, d.Step, err)
	}
}

// listening keeps what is told of a run.
type listening struct {
	notes []string
	items []int // of each validation, or of other work within one
}

func (*listening) Started(int, int)                       {}
func (*listening) Stepped(voxsaw.Progress)                {}
func (*listening) Validated(int, voxsaw.Validation, bool) {}
func (*listening) Saved(string, int)                      {}
func (l *listening) Note(text string)                     { l.notes = append(l.notes, text) }
func (l *listening) Validating(_, done, of int)           { l.items = append(l.items, of) }

// Labels are looked at only where enough cases may speak for the rule, and their memory is counted.
func TestLabelsAreLookedAtWhereTheyDecide(t *testing.T) {
	shape := [3]int{24, 20, 16}
	store, dev := phantoms(t, 21, shape), testDevice(t)
	c := tiny()
	c.Crop = [3]int{8, 8, 8}
	c = resolved(t, c, store)
	for _, test := range []struct {
		cases, held int
		measure     bool
		want        int64
	}{{21, 5, false, 6 * 24 * 20 * 16}, {21, 4, false, 0}, {19, 5, false, 0}, {21, 5, true, 0}} {
		var cases []string
		for n := range test.cases {
			cases = append(cases, fmt.Sprintf("case%02d", n))
		}
		c.MeasureOnly = test.measure
		data := sample.Data{Store: store, Train: cases[test.held:], Validate: cases[:test.held]}
		l, err := compiled(t, dev, c, data, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := l.drawnBytes(); got != test.want || l.validationBytes() < got {
			t.Errorf("%+v: %d bytes", test, got)
		}
		for class := 1; class <= len(l.classes); class++ {
			drawn, one, err := l.drawnInOne(t.Context(), class)
			if read := l.one != nil; err != nil || read != (test.cases >= fewestDrawn) || drawn != test.cases ||
				read && one == 0 && c.Labels[class-1] == "2" {
				t.Errorf("%+v: label %s is drawn in %d, in one component in %d: %v", test, c.Labels[class-1], drawn,
					one, err)
			}
		}
	}
}

// What is deleted may be a lesion: it takes enough cases, a gain, and labels in one piece.
func TestLargestNeedsCasesGainAndDrawnLabels(t *testing.T) {
	for _, c := range []struct {
		gain
		want bool
		said string
	}{
		{gain{5, 0.005, 20, 19}, true,
			"+0.50 points of DSC on 5 validation cases, drawn in one component in 19 of 20 cases"},
		{gain{5, 0.005, 20, 18}, false, "drawn in one component in 18 of 20 cases"},
		{gain{4, 0.3, 20, 20}, false, "on 4 validation cases, and fewer than 5 say too little"},
		{gain{5, 0.1, 19, 19}, false, "drawn in 19 cases, and fewer than 20 say too little"},
		// two lesions in ten of twelve patients, one in the two that were held out
		{gain{2, 0.0057, 12, 2}, false, "+0.57 points of DSC on 2 validation cases"},
	} {
		said := c.against()
		if c.want {
			said = c.because()
		}
		if c.holds() != c.want || !strings.Contains(said, c.said) {
			t.Errorf("%+v: %v, %q", c.gain, c.holds(), said)
		}
	}
}

// Where several lesions were drawn, all that the network finds are kept, whatever the few cases say
// that were held out.
func TestSeveralLesionsAreKept(t *testing.T) {
	c := tiny()
	c.Labels, c.Names = []string{"1", "2"}, []string{"liver", "metastasis"}
	l := &learner{sampler: sampler{config: c, classes: [][]uint16{{1}, {2}}}}
	l.drawn, l.one = []int{0, 40, 40}, []int{0, 40, 4} // as the labels have it
	whole, largest := newDiceMeans(2), newDiceMeans(2)
	for range 8 {
		whole.add([]float64{1, 0.9, 0.95})
		largest.add([]float64{1, 0.92, 0.96})
	}
	refused, err := l.decide(t.Context(), whole, largest, []int{0, 8, 8})
	if got, want := l.Largest(), []checkpoint.Kept{{Label: "1", Because: "+2.00 points of DSC on 8 validation cases, " +
		"drawn in one component in 40 of 40 cases"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, want %v, %v", got, want, err)
	}
	if want := "predictions keep all components: of metastasis the largest alone gives +1.00 points of DSC on 8 " +
		"validation cases, drawn in one component in 4 of 40 cases"; refused != want {
		t.Errorf("%q, want %q", refused, want)
	}
	// four cases in which it was only predicted say nothing
	if _, err := l.decide(t.Context(), whole, largest, []int{0, 4, 8}); err != nil || len(l.decided) > 0 {
		t.Errorf("decided by four cases: %v, %v", l.decided, err)
	}
}

// What is kept, and why, is said of all networks.
func TestDecisionsAreSaid(t *testing.T) {
	p := &Predictor{config: Config{Labels: []string{"2", "4"}, Names: []string{"liver", "spleen"}}}
	now := checkpoint.Progress{Largest: "2,4", LargestBecause: "+1 on 8; +2 on 9"}
	p.decisions = [][]checkpoint.Kept{now.Kept(), now.Kept()}
	if got, want := p.largestNote([]string{"4"}), "only the largest connected component is kept of spleen "+
		"(+2 on 9 / +2 on 9) (--components all keeps all)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// What is kept has one name, whichever key says it.
func TestComponentsAreNamed(t *testing.T) {
	for _, c := range []struct {
		from Inference
		want string // "-": refused
	}{
		{Inference{}, ""}, {Inference{Largest: true}, "largest"},
		{Inference{Components: "validated"}, "validated"},
		{Inference{Components: "all", Largest: true}, "-"}, {Inference{Components: "some"}, "-"},
	} {
		got, err := c.from.Named()
		if (err != nil) != (c.want == "-") || err == nil && (got.Components != c.want || got.Largest) {
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
