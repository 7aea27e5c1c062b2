package eval

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/volume"
)

// labels is a row of voxels, 2 mm apart, that hold the given labels.
func labels(values ...uint16) *volume.LabelMap {
	return &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{len(values), 1, 1},
		Affine: volume.Scaling([3]float64{2, 1, 1})}, Labels: values}
}

func one(t *testing.T, p, r *volume.LabelMap, o Options) Score {
	t.Helper()
	scores, err := Compare("c", p, r, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(scores) != 1 {
		t.Fatalf("got %d scores, want 1", len(scores))
	}
	return scores[0]
}

func TestEmptyOnes(t *testing.T) {
	infinite, undefined := math.Inf(1), math.NaN()
	unknown := labels(0, 0, 0)
	unknown.Undrawn = []uint16{1}
	for name, c := range map[string]struct {
		p, r    *volume.LabelMap
		penalty bool
		want    [4]float64 // DSC, NSD, HD95, ASSD
		outcome Outcome
	}{
		"both": {labels(0, 0, 0), labels(0, 0, 0), false, [4]float64{undefined, undefined, undefined, undefined},
			Absent},
		"missed":   {labels(0, 0, 0), labels(0, 1, 0), false, [4]float64{0, 0, infinite, infinite}, Missed},
		"invented": {labels(0, 1, 0), labels(0, 0, 0), false, [4]float64{0, 0, infinite, infinite}, Invented},
		"penalised": {labels(0, 1, 0), labels(0, 0, 0), true,
			[4]float64{0, 0, math.Sqrt(36 + 1 + 1), math.Sqrt(36 + 1 + 1)}, Invented},
		"undrawn": {labels(0, 1, 0), unknown, true, [4]float64{undefined, undefined, undefined, undefined}, Undrawn},
		"neither": {labels(0, 0, 0), unknown, false, [4]float64{undefined, undefined, undefined, undefined}, Undrawn},
		"found":   {labels(0, 1, 0), labels(0, 1, 0), false, [4]float64{1, 1, 0, 0}, Scored},
	} {
		s := one(t, c.p, c.r, Options{Labels: []string{"1"}, Penalise: c.penalty})
		if d := cmp.Diff(c.want, [4]float64{s.DSC, s.NSD, s.HD95, s.ASSD}, cmpopts.EquateNaNs()); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if s.Outcome() != c.outcome {
			t.Errorf("%s: outcome %s, want %s", name, s.Outcome(), c.outcome)
		}
	}
}

func TestLabelsAreScoredOneByOneOrMerged(t *testing.T) {
	p, r := labels(1, 1, 2, 0, 9), labels(1, 2, 2, 0, 0)
	r.Names = map[uint16]string{1: "liver", 2: "spleen"}
	scores, err := Compare("c", p, r, Options{Overlap: true})
	if err != nil {
		t.Fatal(err)
	}
	var got []float64
	for _, s := range scores {
		got = append(got, s.DSC)
	}
	if !slices.Equal(Labels(scores), []uint16{1, 2, 9}) || !slices.Equal(got, []float64{2. / 3, 2. / 3, 0}) ||
		scores[0].Name != "liver" || !math.IsNaN(scores[0].HD95) {
		t.Errorf("got %+v", scores)
	}
	if s := one(t, p, r, Options{Merge: true}); s.DSC != 6./7 || s.Predicted != 4*2./1000 {
		t.Errorf("merged: got %+v", s)
	}
	for _, c := range []struct {
		some []string
		want float64
	}{{[]string{"1", "9"}, 2. / 4}, {[]string{"liver", "2"}, 6. / 6}, {[]string{"spleen", "9"}, 2. / 4}} {
		some, want := c.some, c.want
		s := one(t, p, r, Options{Merge: true, Labels: some})
		if s.DSC != want || s.Name != strings.Join(some, "+") {
			t.Errorf("%v merged: got %+v, want %v", some, s, want)
		}
	}
	lost := labels(0, 0, 0, 0, 3)
	lost.Emptied = []uint16{1}
	if s := one(t, p, lost, Options{Merge: true, Labels: []string{"1", "2"}}); s.Outcome() != Emptied {
		t.Errorf("merged of what lost its voxels: got %+v", s)
	}
	for _, label := range []string{"2", "Spleen", " SPLEEN_"} {
		if s := one(t, p, r, Options{Labels: []string{label}}); s.Label != 2 {
			t.Errorf("one of them, %q: got %+v", label, s)
		}
	}
	var unknown *LabelError
	if _, err := Compare("c", p, r, Options{Labels: []string{"kidney"}}); !errors.As(err, &unknown) ||
		!strings.Contains(err.Error(), `no label is called "kidney": there are liver`) {
		t.Errorf("a label that is not there: %v", err)
	}
	// Of labels that are merged all must be known.
	r.Undrawn = []uint16{9}
	if s := one(t, p, r, Options{Merge: true}); s.Outcome() != Undrawn {
		t.Errorf("merged with what nobody drew: got %+v", s)
	}
}

// Classes may be made of several labels; a label of no class is background.
func TestDiceOfClasses(t *testing.T) {
	classOf := make([]uint16, 10)
	classOf[7], classOf[2], classOf[3], classOf[9] = 1, 2, 2, 3
	got := Dice([]uint16{0, 1, 1, 2, 2, 0}, []uint16{0, 7, 2, 3, 2, 5}, classOf, 3)
	if d := cmp.Diff([]float64{1, 2. / 3, 0.8, math.NaN()}, got, cmpopts.EquateNaNs()); d != "" {
		t.Error(d)
	}
}

func TestDifferentGridsAreRefused(t *testing.T) {
	r := labels(1, 1, 0)
	short, moved, nudged := labels(1, 1), labels(1, 1, 0), labels(1, 1, 0)
	moved.Affine[0][3] = 5
	nudged.Affine[0][3] = 0.01 // a hundredth of a millimetre is rounding in a header
	var geometry *GeometryError
	for name, p := range map[string]*volume.LabelMap{
		"is on different grids: prediction has 2x1x1": short, "first voxel lies at (5.0, 0.0, 0.0) mm": moved,
	} {
		_, err := Compare("pancreas_007", p, r, DefaultOptions())
		if !errors.As(err, &geometry) || !strings.Contains(err.Error(), strings.TrimPrefix(name, "is on ")) ||
			!strings.Contains(err.Error(), "pancreas_007") {
			t.Errorf("got %v, want ...%s...", err, name)
		}
	}
	one(t, nudged, r, DefaultOptions())
	if _, err := Compare("c", &volume.LabelMap{Grid: r.Grid}, r, DefaultOptions()); err == nil {
		t.Error("a label map without voxels was accepted")
	}
	if _, err := Compare("c", r, r, Options{Tolerance: -1}); err == nil {
		t.Error("a negative tolerance was accepted")
	}
	if _, err := Compare("c", r, r, Options{Labels: []string{"0"}}); err == nil {
		t.Error("the background was accepted as a label")
	}
}

// A prediction whose axes are in another order or direction lies on the same voxels.
func TestOtherAxesAreTheSameVoxels(t *testing.T) {
	r := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{4, 5, 6}, Affine: volume.Scaling([3]float64{1, 2, 3})},
		Labels: make([]uint16, 120)}
	p := &volume.LabelMap{Grid: r.Grid, Labels: make([]uint16, 120)}
	for n := range r.Labels {
		r.Labels[n], p.Labels[n] = uint16(n%7/5), uint16(n%11/7)
	}
	want := one(t, p, r, DefaultOptions())
	for _, codes := range []string{"LPS", "SAL", "ARI"} {
		turned, err := p.Orient(codes)
		if err != nil {
			t.Fatal(err)
		}
		if got := one(t, turned, r, DefaultOptions()); got != want {
			t.Errorf("%s: %+v, want %+v", codes, got, want)
		}
		turned.Affine[0][3] += 3
		if _, err := Compare("c", turned, r, DefaultOptions()); err == nil {
			t.Errorf("%s and moved is accepted", codes)
		}
	}
}

func TestSummarise(t *testing.T) {
	got := Summarise([]float64{1, 2, 6, math.NaN(), math.Inf(1)})
	want := Spread{Mean: 3, SD: math.Sqrt(7), N: 3, Infinite: 1, Undefined: 1}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if s := Summarise(nil); !math.IsNaN(s.Mean) || !math.IsNaN(s.SD) {
		t.Errorf("of nothing: %+v", s)
	}
}

// What nobody drew in a case is in no count and no mean of its label, nor in those of all labels:
// the volumes are means over the same cases as the DSC.
// The distances of a label that fills a large box are held to the limit of memory, and labels that
// fit alone take turns.
func TestDistancesWithinALimit(t *testing.T) {
	const side = 100
	g := volume.Grid{Shape: [3]int{side, side, side}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	for i := range l.Labels {
		l.Labels[i] = uint16(1 + i/side%4) // four labels, each in the box of the whole
	}
	free, err := Compare("a", l, l, Options{Tolerance: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer memory.Limit(0)
	memory.Limit(64 << 20) // 48 MiB to plan with, of which one label takes some 14
	held, err := Compare("a", l, l, Options{Tolerance: 1})
	if err != nil || !reflect.DeepEqual(held, free) {
		t.Errorf("%+v, %v; want %+v", held, err, free)
	}
	memory.Limit(12 << 20)
	if _, err := Compare("a", l, l, Options{Tolerance: 1}); !errors.As(err, new(*memory.Error)) ||
		!strings.Contains(err.Error(), "distances of label 1 (--overlap-only leaves them out): needs") {
		t.Error(err)
	}
	if _, err := Compare("a", l, l, Options{Overlap: true}); err != nil {
		t.Error(err)
	}
}

// A structure that other structures have taken all voxels of is not scored as absent: what is
// predicted there is not invented.
func TestEmptiedIsNotAbsent(t *testing.T) {
	g := volume.Grid{Shape: [3]int{4, 1, 1}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	reference := &volume.LabelMap{Grid: g, Labels: []uint16{1, 1, 0, 0}, Emptied: []uint16{2}}
	prediction := &volume.LabelMap{Grid: g, Labels: []uint16{1, 2, 2, 0}}
	scores, err := Compare("a", prediction, reference, Options{Overlap: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(scores) != 2 || scores[0].Outcome() != Scored || scores[1].Outcome() != Emptied || scores[1].Counts() ||
		!math.IsNaN(scores[1].DSC) {
		t.Errorf("%+v", scores)
	}
	for _, s := range ByLabel(scores) {
		if s.Label == 2 && (s.Emptied != 1 || s.Cases != 0 || s.Invented != 0) || s.Label == 0 && s.Cases != 1 {
			t.Errorf("%+v", s)
		}
	}
}

func TestUndrawnIsInNoMean(t *testing.T) {
	nan := math.NaN()
	undrawn := func(name string, label uint16) Score {
		return Score{Case: name, Label: label, DSC: nan, HD95: nan, HD: nan, ASSD: nan, NSD: nan, Predicted: 100,
			Reference: nan}
	}
	scores := []Score{
		{Case: "a", Label: 1, DSC: 0.5, Predicted: 2, Reference: 4}, {Case: "b", Label: 1, DSC: 0.7, Predicted: 4,
			Reference: 6}, undrawn("c", 1), undrawn("d", 1),
		{Case: "c", Label: 2, DSC: 0.9, Predicted: 3, Reference: 5}, undrawn("d", 2), undrawn("d", 3),
	}
	want := map[uint16]struct {
		cases, undrawn       int
		predicted, reference float64
	}{1: {2, 2, 3, 5}, 2: {1, 1, 3, 5}, 3: {0, 1, nan, nan}, 0: {3, 4, 3, 5}}
	equal := func(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
	for _, s := range ByLabel(scores) {
		w, known := want[s.Label]
		if !known || s.Cases != w.cases || s.Undrawn != w.undrawn {
			t.Errorf("label %d: %d cases, %d undrawn", s.Label, s.Cases, s.Undrawn)
		}
		for n, m := range Metrics {
			spread := s.Metrics[n]
			if spread.N != s.Metrics[0].N {
				t.Errorf("label %d: %s over %d scores, DSC over %d", s.Label, m.Key, spread.N, s.Metrics[0].N)
			}
			if m.Key == "predicted_ml" && !equal(spread.Mean, w.predicted) ||
				m.Key == "reference_ml" && !equal(spread.Mean, w.reference) ||
				m.Key == "difference_ml" && !equal(spread.Mean, w.predicted-w.reference) {
				t.Errorf("label %d: mean %s %v", s.Label, m.Key, spread.Mean)
			}
		}
		delete(want, s.Label)
	}
	if len(want) > 0 {
		t.Errorf("not summed up: %v", want)
	}
	volume, err := MetricNamed("predicted")
	if err != nil {
		t.Fatal(err)
	}
	if means := caseMeans(scores, volume, 0); !maps.Equal(means, map[string]float64{"a": 2, "b": 4, "c": 3}) {
		t.Errorf("mean volumes of the cases: %v", means)
	}
}

func TestWilcoxonWithoutDifferences(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		a, b []float64
		want float64
	}{{[]float64{1, 2, nan}, []float64{1, 2, 3}, 1}, {[]float64{nan}, []float64{1}, nan}, {nil, nil, nan}} {
		got, err := Wilcoxon(c.a, c.b)
		if err != nil || cmp.Diff(c.want, got.P, cmpopts.EquateNaNs()) != "" || got.Pairs != 0 {
			t.Errorf("%v and %v: got %+v, %v", c.a, c.b, got, err)
		}
	}
	if _, err := Wilcoxon([]float64{1}, nil); err == nil {
		t.Error("unpaired values were accepted")
	}
}

// Two seeds, two folds of two cases: worked out by hand.
func TestFolds(t *testing.T) {
	run := func(initialisation string, fraction float64, fold int, seed uint64, a, b float64) Trial {
		names := [][2]string{{"c1", "c2"}, {"c3", "c4"}}[fold]
		return Trial{Initialisation: initialisation, Fraction: fraction, Fold: fold, Seed: seed,
			Scores: []Score{{Case: names[0], Label: 1, DSC: a}, {Case: names[1], Label: 1, DSC: b}}}
	}
	runs := []Trial{
		run("3x3x3", 1, 0, 0, 0.82, 0.84), run("3x3x3", 1, 0, 1, 0.80, 0.86), run("3x3x3", 1, 1, 0, 0.75, 0.80),
		run("scratch", 1, 0, 0, 0.80, 0.80), run("scratch", 1, 0, 1, 0.80, 0.80), run("scratch", 1, 1, 0, 0.69, 0.78),
		run("scratch", 0.1, 0, 0, 0.5, 0.6),
	}
	f, err := Folds(runs, FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(f.Initialisations, []string{"scratch", "3x3x3"}) || !slices.Equal(f.Fractions, []float64{0.1, 1}) {
		t.Fatalf("got %v x %v", f.Fractions, f.Initialisations)
	}
	cell := f.Cells[1][1]
	if d := cmp.Diff(Summarise([]float64{83, 83, 77.5}), cell.Spread, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	// of the run of fold 0 and seed 0, fold 0 and seed 1, fold 1
	if d := cmp.Diff(Summarise([]float64{3, 3, 4}), cell.Gain, cmpopts.EquateApprox(0, 1e-9)); d != "" {
		t.Error(d)
	}
	// t = (10/3) / sqrt(1/3 / 3) = 10 with 2 degrees of freedom; the quantile is 4.30265.
	if math.Abs(cell.Test.Statistic-10) > 1e-9 || cell.Test.Pairs != 3 ||
		math.Abs(cell.Interval.Low-(10./3-4.30265/3)) > 1e-4 || math.Abs(cell.Interval.High-(10./3+4.30265/3)) > 1e-4 {
		t.Errorf("got %+v", cell)
	}
	if cell.Holm != cell.Test.P {
		t.Errorf("one comparison needs no adjustment: %v, not %v", cell.Holm, cell.Test.P)
	}
	// c1 +1, c2 +5, c3 +6, c4 +2
	if cases := cell.Cases; cases != (CaseDifferences{Higher: 4, Median: 3.5, RankBiserial: 1}) {
		t.Errorf("cases: %+v", cases)
	}
	if empty := f.Cells[0][1]; empty.Spread.N != 0 || empty.Gain.N != 0 || !math.IsNaN(empty.Test.P) {
		t.Errorf("runs that are not there: %+v", empty)
	}
	if _, err := Folds(runs, FoldOptions{Metric: "iou"}); err == nil {
		t.Error("an unknown metric was accepted")
	}
}

// However many cases each run tests, and however alike they come out, what is tested is as many
// pairs as there are runs: one pair proves nothing.
func TestCasesOfOneRunAreNoRepetitions(t *testing.T) {
	scratch, puzzles := Trial{Initialisation: "scratch", Fraction: 1}, Trial{Initialisation: "3x3x3", Fraction: 1}
	for n := range 50 {
		name := fmt.Sprintf("c%d", n)
		scratch.Scores = append(scratch.Scores, Score{Case: name, Label: 1, DSC: 0.5})
		puzzles.Scores = append(puzzles.Scores, Score{Case: name, Label: 1, DSC: 0.5 + float64(n+1)/1000})
	}
	// A case that only one of the two has is no part of the difference.
	puzzles.Scores = append(puzzles.Scores, Score{Case: "another", Label: 1, DSC: 0.9})
	f, err := Folds([]Trial{scratch, puzzles}, FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	cell := f.Cells[0][1]
	if math.Abs(cell.Gain.Mean-2.55) > 1e-9 || cell.Gain.N != 1 || !math.IsNaN(cell.Test.P) ||
		!math.IsNaN(cell.Interval.Low) {
		t.Errorf("one pair of runs: %+v", cell)
	}
}

func BenchmarkCompare(b *testing.B) {
	shape, spacing := [3]int{256, 256, 160}, [3]float64{0.8, 0.8, 1}
	p := ellipsoids(shape, spacing, [][2][3]float64{{{120, 130, 80}, {50, 40, 30}}})
	r := ellipsoids(shape, spacing, [][2][3]float64{{{122, 129, 82}, {52, 38, 31}}})
	for b.Loop() {
		if _, err := Compare("c", p, r, DefaultOptions()); err != nil {
			b.Fatal(err)
		}
	}
}

// What nnU-Net's metrics do with a label to ignore: its voxels count in neither map
// (compute_metrics of nnunetv2/evaluation/evaluate_predictions.py with ignore_label). For label 1:
// TP 1, FP 1, FN 1 without the three ignored voxels.
func TestIgnoredVoxels(t *testing.T) {
	grid := volume.Grid{Shape: [3]int{7, 1, 1}, Affine: volume.Affine{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0},
		{0, 0, 0, 1}}}
	prediction := &volume.LabelMap{Grid: grid, Labels: []uint16{1, 1, 0, 1, 2, 0, 0}}
	reference := &volume.LabelMap{Grid: grid, Labels: []uint16{1, 0, 1, 3, 3, 3, 0},
		Names: map[uint16]string{1: "liver", 3: "ignore"}}
	scores, err := Compare("a", prediction, reference, DefaultOptions())
	if err != nil || len(scores) != 1 || scores[0].Label != 1 || scores[0].DSC != 0.5 || scores[0].Predicted != 0.002 ||
		scores[0].Reference != 0.002 {
		t.Errorf("%+v, %v", scores, err)
	}
	if !slices.Equal(prediction.Labels, []uint16{1, 1, 0, 1, 2, 0, 0}) {
		t.Error("the prediction was changed")
	}
	classOf := []uint16{0, 1, 2, Ignored}
	if dice := Dice(prediction.Labels, reference.Labels, classOf, 2); dice[1] != 0.5 || !math.IsNaN(dice[2]) {
		t.Errorf("DSC %v", dice)
	}
}

// A label that a network was never shown is in no mean, and in none of a run that it is compared
// with: more labelled cases that show a label are no gain of the labels that both know.
func TestUnlearntLabelsAreInNoMean(t *testing.T) {
	run := func(init string, fraction float64, a, b float64, unlearnt bool) Trial {
		score := func(label uint16, dsc float64) Score {
			return Score{Case: "c", Label: label, DSC: dsc, HD95: math.Inf(1), Predicted: 1, Reference: 1,
				Unlearnt: unlearnt && label == 2}
		}
		return Trial{Initialisation: init, Fraction: fraction, Fold: 1, Seed: 1,
			Scores: []Score{score(1, a), score(2, b)}}
	}
	runs := []Trial{run("scratch", 0.1, 0.5, 0.001, true), run("hard", 0.1, 0.7, 0.3, true),
		run("scratch", 1, 0.8, 0.6, false), run("hard", 1, 0.9, 0.7, false)}
	folds, err := Folds(runs, FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for row, want := range [][2]float64{{50, 70}, {70, 80}} {
		for n, cell := range folds.Cells[row] {
			if math.Abs(cell.Spread.Mean-want[n]) > 1e-9 {
				t.Errorf("fraction %v, %s: mean %v, want %v", folds.Fractions[row], folds.Initialisations[n],
					cell.Spread.Mean, want[n])
			}
		}
	}
	if got := folds.Unlearnt; len(got) != 1 || got[0].Label != 2 || got[0].Runs != 2 || got[0].Of != 4 {
		t.Errorf("said of %+v", got)
	}
	gains, err := LabelGains(runs, FoldOptions{})
	if err != nil || len(gains) != 3 || math.Abs(gains[0].Gain.Mean-30) > 1e-9 ||
		math.Abs(gains[1].Gain.Mean-20) > 1e-9 {
		t.Errorf("more labels: %+v, %v; want 30 and 20 points of label 1", gains, err)
	}
	// one of a pair was shown the label, as of two studies
	runs[1].Scores[1].Unlearnt = false
	pairs, err := Pairs(runs[:2], "hard", FoldOptions{})
	if err != nil || len(pairs) != 1 || math.Abs(pairs[0].Mean()-20) > 1e-9 {
		t.Errorf("a pair: %+v, %v; want 20 points of label 1", pairs, err)
	}
	summary := ByLabel(runs[0].Scores)
	if len(summary) != 3 || summary[1].Unlearnt != 1 || summary[1].Cases != 0 || summary[2].Metrics[0].Mean != 0.5 {
		t.Errorf("by label: %+v", summary)
	}
}

// Where the share of the training cases is an effect of the mixed model, each share has the mean
// over the same structures: one that few cases do not show is in none.
func TestMixedModelOfOneSetOfLabels(t *testing.T) {
	runs := func(both bool) (all []Trial) {
		for at := range 24 {
			r := Trial{Initialisation: []string{"scratch", "hard"}[at%2], Fraction: []float64{0.1, 1}[at/2%2],
				Fold: at/4%3 + 1, Seed: uint64(at/12 + 1)}
			for n := range 5 {
				noise := math.Sin(float64(7*at + 3*n))
				r.Scores = append(r.Scores, Score{Case: fmt.Sprint(r.Fold, n), Label: 1, DSC: 0.8 + 0.05*noise +
					0.02*r.Fraction, Predicted: 1, Reference: 1})
				if both {
					r.Scores = append(r.Scores, Score{Case: fmt.Sprint(r.Fold, n), Label: 2, DSC: 0.3,
						Unlearnt: r.Fraction < 1, Predicted: 1, Reference: 1})
				}
			}
			all = append(all, r)
		}
		return all
	}
	want, err := Mixed(runs(false), FoldOptions{})
	if err != nil {
		t.Fatal(err)
	}
	got, err := Mixed(runs(true), FoldOptions{})
	if err != nil || len(got.Effects) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	for n, e := range got.Effects {
		if e.Estimate != want.Effects[n].Estimate || e.SE != want.Effects[n].SE {
			t.Errorf("%s is %v ± %v, want %v ± %v", e.Name, e.Estimate, e.SE, want.Effects[n].Estimate,
				want.Effects[n].SE)
		}
	}
}

// A run that misses what is hard has no smaller distances beside one that finds it: both are
// compared by what both have found.
func TestDistancesAreComparedWhereBothFound(t *testing.T) {
	run := func(init string, fraction, liver, pancreas float64) Trial {
		r := Trial{Initialisation: init, Fraction: fraction, Fold: 1, Seed: 1}
		for n, hd95 := range []float64{liver, pancreas} {
			r.Scores = append(r.Scores, Score{Case: "c", Label: uint16(n + 1), DSC: 0.5, HD95: hd95,
				Predicted: 1, Reference: 1})
		}
		return r
	}
	missed := math.Inf(1)
	runs := []Trial{run("scratch", 0.1, 5, missed), run("hard", 0.1, 4, 40), run("lost", 0.1, missed, 3),
		run("scratch", 1, 3, 20)}
	o := FoldOptions{Metric: "hd95"}
	folds, err := Folds(runs, o)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range []struct {
		mean, gain float64
		infinite   int
	}{{5, math.NaN(), 0}, {22, -1, 1}, {3, math.NaN(), 2}} {
		cell := folds.Cells[0][n]
		same := cell.Gain.Mean == want.gain || math.IsNaN(cell.Gain.Mean) && math.IsNaN(want.gain)
		if cell.Spread.Mean != want.mean || !same || cell.Gain.Infinite != want.infinite {
			t.Errorf("%s: mean %v, difference %+v; want %+v", folds.Initialisations[n], cell.Spread.Mean, cell.Gain,
				want)
		}
	}
	gains, err := LabelGains(runs[:2:2], o)
	if err != nil || len(gains) > 0 {
		t.Errorf("of one fraction: %+v, %v", gains, err)
	}
	gains, err = LabelGains([]Trial{runs[0], runs[3]}, o)
	if err != nil || len(gains) != 1 || gains[0].Gain.Mean != -2 {
		t.Errorf("more labels: %+v, %v; want 2 mm less of label 1", gains, err)
	}
	changes, err := Changes(runs[:1], []Trial{run("scratch", 0.1, 4, 10)}, o)
	if err != nil || len(changes) != 1 || changes[0].Gain.Mean != -1 {
		t.Errorf("two experiments: %+v, %v; want 1 mm less of label 1", changes, err)
	}
}

// A number that another label is called by is an error where there is a label of that number, too;
// where there is none, the label that is called so is meant.
func TestNumbersThatAreNames(t *testing.T) {
	grades := map[uint16]string{3: "2", 4: "4", 5: "6"}
	for _, c := range []struct {
		label                 string
		prediction, reference *volume.LabelMap
		want                  uint16 // 0: an error
	}{
		{"2", labels(0, 2), labels(0, 3), 0}, // its voxels are predicted
		{"2", labels(0, 3), labels(2, 3), 0}, // or drawn
		{"2", labels(0, 3), labels(0, 3), 3},
		{"4", labels(0, 4), labels(0, 3), 4},
		{"3", labels(0, 3), labels(0, 3), 3},
		{"9", labels(0, 3), labels(0, 3), 9},
	} {
		c.reference.Names = grades
		got, err := Find(c.label, c.prediction, c.reference)
		if got != c.want || (err == nil) != (c.want > 0) || err != nil && !strings.Contains(err.Error(),
			`label "2" may be label 3, which is called so, or label 2 by its number`) {
			t.Errorf("label %q of %v and %v: %d, %v", c.label, c.prediction.Labels, c.reference.Labels, got, err)
		}
	}
	prediction, reference := labels(0, 3), labels(0, 3)
	reference.Names, prediction.Names = grades, map[uint16]string{2: "liver"}
	if _, err := Find("2", prediction, reference); err == nil {
		t.Error("label 2 of the prediction has a name of its own")
	}
}
