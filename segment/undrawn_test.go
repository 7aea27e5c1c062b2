package segment

import (
	"errors"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Validation and scores leave out what nobody drew in a case, whatever the network says there. A
// class of several labels is left out where one of them was not drawn.
func TestUndrawnClassesAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	w, err := prepared.NewWriter(filepath.Join(dir, "prepared"), volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	scan, labels, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	partly := &volume.LabelMap{Grid: labels.Grid, Labels: slices.Clone(labels.Labels), Names: labels.Names}
	for n, label := range partly.Labels {
		if label == 2 || label == 3 {
			partly.Labels[n] = 0
		}
	}
	for _, in := range []prepared.Input{
		{ID: "all", Image: scan, Labels: labels},
		{ID: "trained", Image: scan, Labels: labels},
		// there are voxels of label 4: it was drawn
		{ID: "partly", Image: scan, Labels: partly, Undrawn: []uint16{2, 4}},
	} {
		if _, err := w.Add(in); err != nil {
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

	c := tiny()
	c.Labels = []string{"2", "3+4"}
	c.ValidateCases = 0
	c = resolved(t, c, store)
	if got, want := c.UndrawnIn(store, []string{"all", "partly"}), "liver in 1 of 2 (partly)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	l, err := compiled(t, testDevice(t), c, sample.Data{Store: store, Train: []string{"trained"},
		Validate: []string{"all", "partly"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for n, undrawn := range []bool{false, true} {
		v, err := l.validateCase(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		// it predicts the same in both: they are one scan
		if !v.Found[1] || math.IsNaN(v.Whole[2]) || math.IsNaN(v.Largest[2]) {
			t.Errorf("case %d: the network says nothing that this test could look at: %+v", n, v)
		}
		if math.IsNaN(v.Whole[1]) != undrawn || math.IsNaN(v.Largest[1]) != undrawn {
			t.Errorf("case %d: DSC %v, of the largest component %v", n, v.Whole[1], v.Largest[1])
		}
	}

	// 2 was drawn in this case, and other structures have all its voxels: as evaluate leaves it out
	l.held[1].Undrawn, l.held[1].Emptied = nil, []uint16{2, 3}
	v, err := l.validateCase(t.Context(), 1)
	if err != nil || !math.IsNaN(v.Whole[1]) || !math.IsNaN(v.Largest[1]) || math.IsNaN(v.Whole[2]) {
		t.Errorf("emptied: %+v, %v", v, err)
	}
	// what no held-out case counts for, and what no training case shows, has no DSC and not 0
	all := l.held
	for n, held := range [][]*prepared.Case{all[1:], all[:1]} {
		l.held, l.unlearnt[2] = held, n == 1
		v, err := l.Validate(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if math.IsNaN(v.Metrics[1].Value) != (n == 0) || math.IsNaN(v.Metrics[2].Value) != (n == 1) ||
			v.Score != v.Metrics[0].Value || v.Score != v.Metrics[2-n].Value {
			t.Errorf("validation %d: score %v of %v", n, v.Score, v.Metrics)
		}
	}
	l.held[0].Undrawn = []uint16{2}
	if v, err := l.Validate(t.Context(), 0); err != nil || v.Score != 0 || !math.IsNaN(v.Metrics[0].Value) {
		t.Errorf("nothing to score: %v of %v, %v", v.Score, v.Metrics, err)
	}

	partly.Undrawn = []uint16{2, 3}
	if r := c.Reference(partly); !slices.Equal(r.Undrawn, []uint16{2, 3}) {
		t.Errorf("the reference lacks %v", r.Undrawn)
	}
	c.Labels = []string{"4", "2+3"}
	if r := c.Reference(partly); !slices.Equal(r.Undrawn, []uint16{2}) {
		t.Errorf("of merged labels the reference lacks %v", r.Undrawn)
	}
}

// Where all cases of a batch lack a class, the loss is the same if the network calls its voxels
// background and the background so: at every resolution that has a loss.
func TestUndrawnClassesAreOneWithTheBackground(t *testing.T) {
	store := hiding(t, 3, func(n int) bool { return n < 2 })
	for _, network := range []voxsaw.Network{tiny().Network, {Kind: "resenc", Channels: 4, Levels: 3,
		Blocks: []int{1, 1, 1, 1}}} {
		for _, undrawn := range []string{"", UndrawnBackground} {
			c := tiny()
			c.Network, c.Crop, c.Undrawn, c.Batch = network, [3]int{16, 16, 16}, undrawn, 2
			c = resolved(t, c, store)
			l, err := compiled(t, testDevice(t), c, sample.Data{Store: store, Train: []string{"0", "1"}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			b, err := l.Batch(t.Context(), 0)
			if err != nil {
				t.Fatal(err)
			}
			loss := func() float32 {
				t.Helper()
				value := make([]float32, 1)
				if err := errors.Join(l.forward(0, b), l.program.Read("loss", value)); err != nil {
					t.Fatal(err)
				}
				return value[0]
			}
			before := loss()
			heads, err := outputsOf(l.network, l.bench.Params)
			if err != nil || len(heads) < 2 {
				t.Fatalf("outputs %v, %v", heads, err)
			}
			for _, name := range heads { // classes 0 and 1 change places
				values, err := l.bench.Params.Read(name)
				if err != nil {
					t.Fatal(err)
				}
				n := len(values) / c.Network.Classes
				for i := range n {
					values[i], values[n+i] = values[n+i], values[i]
				}
				if err := l.bench.Params.Write(name, values); err != nil {
					t.Fatal(err)
				}
			}
			after := loss()
			if same := math.Abs(float64(before-after)) < 1e-5; same != (undrawn == "") {
				t.Errorf(
					"%s, undrawn %q: loss %v, and %v with classes that changed places",
					network.Kind,
					undrawn,
					before,
					after,
				)
			}
		}
	}
}

// A batch says of each crop what nobody drew in its case, and no crop of a case that lacks a class
// has a voxel of it.
func TestBatchesMixCases(t *testing.T) {
	store := hiding(t, 4, func(n int) bool { return n%2 == 1 })
	c := tiny()
	c.Batch = 8
	c = resolved(t, c, store)
	l, err := compiled(t, testDevice(t), c, sample.Data{Store: store, Train: []string{"0", "1", "2", "3"}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	b, err := l.Batch(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	mixed := map[bool]int{}
	for item, id := range b.cases {
		hidden := id == "1" || id == "3"
		mixed[hidden]++
		if m := b.merged[3*item:][:3]; m[0] != 0 || (m[1] == 1) != hidden || m[2] != 0 {
			t.Errorf("case %s: merged %v", id, m)
		}
		if hidden && slices.Contains(b.targets[16*12*8*item:][:16*12*8], 1) {
			t.Errorf("case %s shows what nobody drew", id)
		}
	}
	if len(mixed) != 2 {
		t.Errorf("no mixed batch: %v", b.cases)
	}
	half := l.MicroBatch(b, 1, 2)
	if !slices.Equal(half.merged, b.merged[12:]) || !slices.Equal(half.cases, b.cases[4:]) {
		t.Errorf("the second half of the batch merges %v of %v", half.merged, half.cases)
	}
}

// What is hidden in half of the training cases loses at most a fifth of what it loses where hidden
// structures are learnt as background.
func TestHiddenStructuresAreLearnt(t *testing.T) {
	if !turns.Has(t, 0, 2) {
		return
	}
	if testing.Short() {
		t.Skip("trains three networks")
	}
	const hidden, all = 16, 20
	var cases []string
	for n := range all {
		cases = append(cases, strconv.Itoa(n))
	}
	score := func(store *prepared.Store, undrawn string) float64 {
		c := tiny()
		c.Network.Channels, c.Crop, c.Batch, c.Undrawn = 8, [3]int{24, 20, 16}, 2, undrawn
		c.Train.Steps, c.Train.LR, c.Train.Warmup, c.Train.ValidateEvery = 250, 0.03, 10, 250
		c.MeasureOnly = true
		summary, _, err := Finetune(t.Context(), testDevice(t), resolved(t, c, store), sample.Data{Store: store,
			Train: cases[:hidden], Validate: cases[hidden:]}, "",
			voxsaw.RunOptions{Folder: filepath.Join(t.TempDir(), "run"), Loaders: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range summary.Validation.Metrics {
			if m.Name == "dsc_liver" {
				return m.Value
			}
		}
		t.Fatalf("no score of the liver: %+v", summary.Validation)
		return 0
	}
	half := hiding(t, all, func(n int) bool { return n < hidden && n%2 == 1 })
	whole := score(hiding(t, all, func(int) bool { return false }), "")
	merged, background := score(half, ""), score(half, UndrawnBackground)
	t.Logf("DSC of the liver: %.3f where all drew it; hidden in half of the cases: %.3f merged, %.3f as background",
		whole, merged, background)
	if whole-background < 0.03 || whole-merged > (whole-background)/5 {
		t.Errorf("hidden structures lose %.3f merged, %.3f as background", whole-merged, whole-background)
	}
}

// hiding is a store of phantoms "0", "1" and so on; of those that are hidden, nobody drew label 2,
// the liver.
func hiding(t *testing.T, n int, hidden func(n int) bool) *prepared.Store {
	t.Helper()
	var cases []prepared.Input
	for i := range n {
		scan, labels, err := phantom.New(uint64(i), phantom.Options{Shape: [3]int{40, 32, 28}})
		if err != nil {
			t.Fatal(err)
		}
		in := prepared.Input{ID: strconv.Itoa(i), Image: scan, Labels: labels}
		if hidden(i) {
			labels.Labels, in.Undrawn = slices.Clone(labels.Labels), []uint16{2}
			for v, label := range labels.Labels {
				if label == 2 {
					labels.Labels[v] = 0
				}
			}
		}
		cases = append(cases, in)
	}
	return traintest.Store(t, volume.DefaultPreparation(), cases...)
}

// partlyDrawn has a case of which all is drawn, and one of the same scan without label 3.
func partlyDrawn(t *testing.T) *prepared.Store {
	t.Helper()
	scan, labels, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	partly := &volume.LabelMap{Grid: labels.Grid, Labels: slices.Clone(labels.Labels), Names: labels.Names}
	for n, label := range partly.Labels {
		if label == 3 {
			partly.Labels[n] = 0
		}
	}
	return traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "all", Image: scan, Labels: labels},
		prepared.Input{ID: "partly", Image: scan, Labels: partly, Undrawn: []uint16{3}})
}

// A class of which one label was drawn in a case, and another was not, is one with the background
// there, and nothing that is drawn of it is learnt or scored: the rest would be learnt as
// background.
func TestPartlyDrawnClassesAreUndrawn(t *testing.T) {
	store := partlyDrawn(t)
	for _, undrawn := range []string{"", UndrawnBackground} {
		c := tiny()
		c.Labels, c.Crop, c.Foreground, c.Undrawn, c.Batch = []string{"2", "3+4"}, [3]int{24, 20, 16}, 0, undrawn, 1
		c.Augment = Augmentation{}
		c = resolved(t, c, store)
		shown := c.ShownIn(store, []string{"all", "partly"})
		s, err := newSampler(c, labelled{Store: store, Train: []string{"partly", "all"}}, 0, 1)
		if err != nil {
			t.Fatal(err)
		}
		s.train = []string{"partly"}
		b, err := s.Batch(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		if record, _ := store.Record("partly"); undrawn == "" {
			// the spleen alone, of a class that is drawn in part, is learnt nowhere
			delete(record.LabelCounts, 2)
			if s.shows(record) {
				t.Error("a case shows what nothing is learnt of")
			}
			whole, err := store.Open("partly")
			if err != nil {
				t.Fatal(err)
			}
			if got := s.shown(whole.Record); !slices.EqualFunc(got, [][]uint16{{2}}, slices.Equal) {
				t.Errorf("crops are taken around %v", got)
			}
		}
		there := slices.Contains(b.targets, 2)
		if undrawn == "" &&
			(!slices.Equal(b.merged, []float32{0, 0, 1}) || there || !slices.Equal(shown, []int{2, 1})) {
			t.Errorf("merged %v, its voxels are of the class: %v, shown in %v", b.merged, there, shown)
		}
		if undrawn != "" && (!there || !slices.Equal(shown, []int{2, 2})) {
			t.Errorf("as background: its voxels are of the class: %v, shown in %v", there, shown)
		}
		if got := c.UndrawnIn(store, []string{"all", "partly"}); !strings.Contains(got, "in 1 of 2 (partly)") {
			t.Errorf("said %q", got)
		}
		r, _ := store.Record("partly")
		if got := incomparable(s.classes, r); !slices.Equal(got, []int{2}) {
			t.Errorf("not scored are %v", got)
		}
	}
}

// No case is validated on whose labels are predicted, whoever chose it.
func TestPredictedLabelsAreNotValidatedOn(t *testing.T) {
	scan, labels, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	store := traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "drawn", Image: scan, Labels: labels},
		prepared.Input{ID: "guess", Image: scan, Labels: labels, Predicted: true})
	c := resolved(t, tiny(), store)
	if _, err := newSampler(c, labelled{Store: store, Train: []string{"guess"}, Validate: []string{"drawn"}}, 0,
		1); err != nil {
		t.Error(err)
	}
	_, err = newSampler(c, labelled{Store: store, Train: []string{"drawn"}, Validate: []string{"guess"}}, 0, 1)
	if err == nil || !strings.Contains(err.Error(), "case guess is to be validated on, and its labels are predicted") {
		t.Error(err)
	}
}
