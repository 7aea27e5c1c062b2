package voc

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
)

// goldens are those of testdata/voc.py.
type goldens struct {
	Classification []struct {
		Confidences []float64
		Truths      []Truth
		Points      float64 `json:"11 points"`
		Area, Steps float64
	}
	Detection []struct {
		Truth  []Object
		Found  []Detection
		Points float64 `json:"11 points"`
		Area   float64
	}
	NMS []struct {
		Boxes       []Box
		Confidences []float64
		Threshold   float64
		Kept        []int
	}
}

func read(t *testing.T) (g goldens) {
	t.Helper()
	data, err := os.ReadFile("testdata/voc.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Classification) < 5 || len(g.Detection) < 3 || len(g.NMS) < 3 {
		t.Fatal("few goldens")
	}
	return g
}

func near(t *testing.T, what string, got float64, err error, want float64) {
	t.Helper()
	if err != nil || !(math.Abs(got-want) < 1e-12) {
		t.Errorf("%s: %v (%v), want %v", what, got, err, want)
	}
}

func TestClassificationIsTheKits(t *testing.T) {
	for _, c := range read(t).Classification {
		for rule, want := range map[Rule]float64{ElevenPoints: c.Points, Area: c.Area, Steps: c.Steps} {
			got, err := AveragePrecision(c.Confidences, c.Truths, rule)
			near(t, string(rule), got, err, want)
		}
	}
}

func TestDetectionIsTheKits(t *testing.T) {
	for _, c := range read(t).Detection {
		for rule, want := range map[Rule]float64{ElevenPoints: c.Points, Area: c.Area} {
			got, err := Detections{c.Found, c.Truth}.AveragePrecision(rule)
			near(t, string(rule), got, err, want)
		}
	}
}

func TestSuppressIsFastRCNNs(t *testing.T) {
	for _, c := range read(t).NMS {
		kept, err := Suppress(c.Boxes, c.Confidences, c.Threshold)
		if err != nil || !slices.Equal(kept, c.Kept) {
			t.Errorf("%d boxes: %v (%v), want %v", len(c.Boxes), kept, err, c.Kept)
		}
	}
}

// A class by hand: two objects, one found twice, one missed, one difficult.
func TestByHand(t *testing.T) {
	box := Box{1, 1, 10, 10}
	d := Detections{
		Truth: []Object{{Photo: 0, Box: box}, {Photo: 1, Box: box}, {Photo: 2, Box: box, Difficult: true}},
		Found: []Detection{{0, box, 0.9}, {0, box, 0.8}, {2, box, 0.7}, {1, Box{50, 50, 60, 60}, 0.6}},
	}
	// ranked: right, wrong, not counted, wrong: precision 1 up to recall 1/2, and no further
	got, err := d.AveragePrecision(Area)
	near(t, "area", got, err, 0.5)
	got, err = d.AveragePrecision(ElevenPoints)
	near(t, "11 points", got, err, 6.0/11)
	// half of the larger box is enough, less is not
	for width, want := range map[float64]float64{5: 1, 4: 0} {
		d := Detections{[]Detection{{0, Box{1, 1, width, 10}, 1}}, []Object{{0, box, false}}}
		got, err := d.AveragePrecision(Area)
		near(t, "overlap", got, err, want)
	}
	if o := box.Overlap(Box{11, 1, 20, 10}); o != 0 {
		t.Errorf("neighbours overlap by %v", o)
	}
	if o := box.Overlap(Box{10, 10, 10, 10}); o != 0.01 {
		t.Errorf("a pixel overlaps by %v, want 1/100", o)
	}
}

// The order in which photographs come changes nothing where no confidences are equal.
func TestOrderDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, c := range read(t).Detection {
		for n := range c.Found {
			c.Found[n].Confidence += r.Float64() * 1e-3
		}
		want, err := Detections{c.Found, c.Truth}.AveragePrecision(Area)
		if err != nil {
			t.Fatal(err)
		}
		r.Shuffle(len(c.Found), func(a, b int) { c.Found[a], c.Found[b] = c.Found[b], c.Found[a] })
		got, err := Detections{c.Found, c.Truth}.AveragePrecision(Area)
		near(t, "shuffled", got, err, want)
	}
}

func TestMean(t *testing.T) {
	if got := Mean([]float64{0.25, math.NaN(), 0.75}); got != 0.5 {
		t.Errorf("mean %v, want 0.5", got)
	}
	if got := Mean([]float64{math.NaN()}); !math.IsNaN(got) {
		t.Errorf("no class has mean %v", got)
	}
}

func TestMistakes(t *testing.T) {
	if got, err := AveragePrecision([]float64{1, 2}, []Truth{Absent, Ignored}, Area); err != nil || !math.IsNaN(got) {
		t.Errorf("no photograph has the class: %v, %v", got, err)
	}
	inside := Box{5, 1, 1, 5}
	for want, f := range map[string]func() error{
		"1 confidences for 2 photographs": func() error {
			_, err := AveragePrecision([]float64{1}, []Truth{1, 1}, Area)
			return err
		},
		"not a number": func() error {
			_, err := AveragePrecision([]float64{math.NaN()}, []Truth{1}, Area)
			return err
		},
		`unknown rule "mean"`: func() error { _, err := AveragePrecision([]float64{1}, []Truth{1}, "mean"); return err },
		"corners exchanged": func() error {
			_, err := Suppress([]Box{inside}, []float64{1}, 0.5)
			return err
		},
		"a detection on photograph 3": func() error {
			_, err := Detections{Found: []Detection{{3, inside, 1}}}.AveragePrecision(Area)
			return err
		},
		"an object of photograph 4": func() error {
			_, err := Detections{Truth: []Object{{4, inside, false}}}.AveragePrecision(Area)
			return err
		},
		"1 boxes with 0 confidences": func() error { _, err := Suppress([]Box{{}}, nil, 0.5); return err },
	} {
		if err := f(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
