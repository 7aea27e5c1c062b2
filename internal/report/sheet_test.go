package report

import (
	"errors"
	"image"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/volume"
)

// A sheet keeps the lowest values, in their order, and draws no other; a case without a value is
// after all that have one.
func TestSheetKeepsTheWorst(t *testing.T) {
	s := Sheet{Most: 2}
	add := func(name string, value float64, picture func() (image.Image, error)) {
		t.Helper()
		if err := s.Add(name, value, MeanDSC(value), picture); err != nil {
			t.Fatal(err)
		}
	}
	drawn := func() (image.Image, error) { return image.NewGray(image.Rect(0, 0, 30, 10)), nil }
	add("none", math.NaN(), drawn)
	add("good", 0.9, drawn)
	add("bad", 0.1, drawn)
	add("fair", 0.5, drawn)
	add("best", 0.95, func() (image.Image, error) { return nil, errors.New("drawn for nothing") })
	var captions []string
	for _, p := range s.Pictures() {
		captions = append(captions, p.Caption)
	}
	if want := []string{"bad: mean DSC 0.1000", "fair: mean DSC 0.5000"}; !slices.Equal(captions, want) {
		t.Errorf("%q, want %q", captions, want)
	}
	if size := s.Image().Bounds().Size(); size != (image.Point{30, 2 * (10 + 22 + panelGap)}) {
		t.Errorf("the sheet has %v pixels", size)
	}
	if text := string(s.Section("Cases", "")[0].Blocks[0].(Text)); !strings.Contains(text, "2 of 5 cases") {
		t.Errorf("%q does not say how many there are", text)
	}
}

// The slices are those with most voxels that differ, not those where the structure is largest.
func TestOverlayShowsTheLargestErrors(t *testing.T) {
	v, reference := patient()
	predicted := &volume.LabelMap{Grid: reference.Grid, Labels: slices.Clone(reference.Labels)}
	for i := range 5 { // invented in slice 1, missed in slice 7
		predicted.Labels[v.Index(i, 2, 1)] = 1
	}
	for i := 28; i < 31; i++ {
		predicted.Labels[v.Index(i, 20, 7)] = 0
	}
	chosen := func(outline *volume.LabelMap, rows ...*volume.LabelMap) (at []int) {
		var segmented []Segmented
		for _, l := range rows {
			segmented = append(segmented, Segmented{Labels: l})
		}
		p, err := newOverlay(v, outline, segmented)
		if err != nil {
			t.Fatal(err)
		}
		p.labels = []uint16{1}
		p.lay(OverlayOptions{Errors: true, AxialOnly: true, Slices: 2, Size: 100})
		for _, s := range p.sections {
			at = append(at, s.at)
		}
		return at
	}
	if got := chosen(reference, predicted); !slices.Equal(got, []int{1, 7}) {
		t.Errorf("slices %v, want 1 and 7", got)
	}
	if got := chosen(nil, reference, predicted); !slices.Equal(got, []int{1, 7}) {
		t.Errorf("slices %v, want 1 and 7, where the second prediction differs from the first", got)
	}
	if got := chosen(reference, reference); !slices.Equal(got, []int{4, 5}) {
		t.Errorf("without an error slices %v, want the first where the structure is largest", got)
	}
	if _, err := Overlay(nil, reference, []Segmented{{Labels: predicted}}, OverlayOptions{Errors: true}); err != nil {
		t.Errorf("without a scan: %v", err)
	}
}

// What scores leave out counts as no error in pictures: voxels of a label called ignore, labels
// that nobody drew in this case, and one label for another where they count as one.
func TestOverlayCountsWhatIsScored(t *testing.T) {
	v, reference := patient()
	const ignore, undrawn = 9, 7
	reference.Names = map[uint16]string{1: "liver", ignore: "Ignore", undrawn: "spleen"}
	reference.Undrawn = []uint16{undrawn}
	predicted := &volume.LabelMap{Grid: reference.Grid, Labels: slices.Clone(reference.Labels)}
	for j := range 30 {
		for i := range 40 {
			reference.Labels[v.Index(i, j, 3)] = ignore
			predicted.Labels[v.Index(i, j, 9)] = undrawn
		}
	}
	for i := 28; i < 36; i++ {
		reference.Labels[v.Index(i, 20, 6)] = 2 // one for the other
	}
	for i := 28; i < 31; i++ {
		predicted.Labels[v.Index(i, 20, 7)] = 0
	}
	for _, test := range []struct {
		o      OverlayOptions
		labels []uint16
		want   []int
	}{
		{OverlayOptions{}, []uint16{1, 2}, []int{6, 7}},
		{OverlayOptions{Together: true}, []uint16{1, 2}, []int{7}},
		{OverlayOptions{Labels: []uint16{1, undrawn}}, []uint16{1, undrawn}, []int{6, 7}},
		{OverlayOptions{Labels: []uint16{ignore}}, []uint16{ignore}, []int{3}},
	} {
		p, err := newOverlay(v, reference, []Segmented{{Labels: predicted}})
		if err != nil {
			t.Fatal(err)
		}
		o := test.o
		o.Errors, o.AxialOnly, o.Slices, o.Size = true, true, 2, 100
		p.choose(o)
		if !slices.Equal(p.labels, test.labels) {
			t.Errorf("%+v: labels %v, want %v", test.o, p.labels, test.labels)
		}
		p.lay(o)
		var got []int
		for _, s := range p.sections {
			got = append(got, s.at)
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%+v: slices %v, want %v", test.o, got, test.want)
		}
	}
}

func TestWorstFirst(t *testing.T) {
	scores := []eval.Score{{Case: "a", DSC: 0.9}, {Case: "b", DSC: math.NaN()}, {Case: "c", DSC: 0.2},
		{Case: "c", DSC: 0.4}, {Case: "a", DSC: 0, Unlearnt: true}}
	names, means := WorstFirst(scores)
	if !slices.Equal(names, []string{"c", "a", "b"}) || math.Abs(means["c"]-0.3) > 1e-12 || means["a"] != 0.9 {
		t.Errorf("%v of means %v", names, means)
	}
}

// Charts over the steps have one horizontal axis, shares one vertical axis.
func TestCurvesShareTheirScales(t *testing.T) {
	charts := Charts{
		{X: "step", Series: []Series{{X: []float64{1, 100}, Y: []float64{3, 1}}}},
		{X: "step", share: true, Series: []Series{{X: []float64{50}, Y: []float64{0.3}}}},
		{X: "step", share: true, Series: []Series{{X: []float64{50}, Y: []float64{0.93}}}},
	}
	shareScales(charts)
	for n, c := range charts {
		if *c.Across != [2]float64{1, 100} {
			t.Errorf("chart %d reaches from %v", n, *c.Across)
		}
	}
	if charts[0].Range != nil || *charts[1].Range != [2]float64{0, 1} || *charts[2].Range != [2]float64{0, 1} {
		t.Errorf("vertical axes %v, %v, %v", charts[0].Range, charts[1].Range, charts[2].Range)
	}
}
