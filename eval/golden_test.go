package eval

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// golden is testdata/eval_golden.json, which testdata/eval_golden.py wrote with scipy.
type golden struct {
	Cases []struct {
		Name                  string
		Shape                 [3]int
		Spacing               [3]float64
		Tolerance             float64
		Prediction, Reference [][2][3]float64
		DSC, HD, HD95         float64
		ASSD, NSD             float64
		Predicted             float64 `json:"predicted_ml"`
		Reference_            float64 `json:"reference_ml"`
	}
	Transforms []struct {
		Shape     [3]int
		Spacing   [3]float64
		Set       []int
		Distances []float64
	}
	Wilcoxon []struct {
		D            []float64
		Statistic, P float64
	}
	Quantiles []struct{ Values, Q, Want []float64 }
	Means     []struct {
		Differences             []float64
		Statistic, P, Low, High float64
	}
}

func readGolden(t *testing.T) golden {
	t.Helper()
	data, err := os.ReadFile("../testdata/eval_golden.json")
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	if len(g.Cases) == 0 || len(g.Transforms) == 0 || len(g.Wilcoxon) == 0 || len(g.Quantiles) == 0 ||
		len(g.Means) == 0 {
		t.Fatal("the golden file is empty")
	}
	return g
}

// ellipsoids is a label map that holds 3 (any label will do) inside a union of ellipsoids (centre,
// radii in voxels).
func ellipsoids(shape [3]int, spacing [3]float64, all [][2][3]float64) *volume.LabelMap {
	l := &volume.LabelMap{Grid: volume.Grid{Shape: shape, Affine: volume.Scaling(spacing)},
		Labels: make([]uint16, shape[0]*shape[1]*shape[2])}
	for k := range shape[2] {
		for j := range shape[1] {
			for i := range shape[0] {
				for _, e := range all {
					if sq((float64(i)-e[0][0])/e[1][0])+sq((float64(j)-e[0][1])/e[1][1])+
						sq((float64(k)-e[0][2])/e[1][2]) <= 1 {
						l.Labels[l.Index(i, j, k)] = 3
					}
				}
			}
		}
	}
	return l
}

// near allows for single precision between the passes of the distance transform: three roundings of
// 6e-8, halved by the root.
func near(a, b float64) bool { return math.Abs(a-b) <= 2e-7*math.Max(1, math.Abs(b)) }

func TestMetricsEqualScipy(t *testing.T) {
	for _, c := range readGolden(t).Cases {
		t.Run(c.Name, func(t *testing.T) {
			p, r := ellipsoids(c.Shape, c.Spacing, c.Prediction), ellipsoids(c.Shape, c.Spacing, c.Reference)
			scores, err := Compare("case", p, r, Options{Tolerance: c.Tolerance})
			if err != nil {
				t.Fatal(err)
			}
			if len(scores) != 1 || scores[0].Label != 3 || scores[0].Case != "case" {
				t.Fatalf("got %+v", scores)
			}
			s := scores[0]
			for name, v := range map[string][2]float64{
				"DSC": {s.DSC, c.DSC}, "HD": {s.HD, c.HD}, "HD95": {s.HD95, c.HD95}, "ASSD": {s.ASSD, c.ASSD},
				"NSD":              {s.NSD, c.NSD},
				"predicted volume": {s.Predicted, c.Predicted}, "reference volume": {s.Reference, c.Reference_},
				"difference": {s.VolumeDifference(), c.Predicted - c.Reference_},
				"Dice":       {Dice(p.Labels, r.Labels, nil, 3)[3], c.DSC},
			} {
				if !near(v[0], v[1]) {
					t.Errorf("%s: got %v, want %v", name, v[0], v[1])
				}
			}
		})
	}
}

func TestDistanceTransformEqualsScipy(t *testing.T) {
	for _, c := range readGolden(t).Transforms {
		set := make([]bool, len(c.Distances))
		for _, n := range c.Set {
			set[n] = true
		}
		for n, d := range squaredDistances(set, c.Shape, c.Spacing) {
			if !near(math.Sqrt(float64(d)), c.Distances[n]) {
				t.Fatalf("%v voxel %d: got %v, want %v", c.Shape, n, math.Sqrt(float64(d)), c.Distances[n])
			}
		}
	}
}

func TestWilcoxonEqualsScipy(t *testing.T) {
	exact := map[bool]int{}
	for n, c := range readGolden(t).Wilcoxon {
		got, err := Wilcoxon(c.D, make([]float64, len(c.D)))
		if err != nil {
			t.Fatal(err)
		}
		if got.Statistic != c.Statistic || math.Abs(got.P-c.P) > 1e-12 {
			t.Errorf("%d, differences %v: got %+v, want %v, %v", n, c.D, got, c.Statistic, c.P)
		}
		exact[got.Exact]++
	}
	if exact[true] < 100 || exact[false] < 50 {
		t.Errorf("exact and approximated: %v", exact)
	}
}

func TestMeanTestEqualsScipy(t *testing.T) {
	for n, c := range readGolden(t).Means {
		interval, got := MeanTest(c.Differences)
		if !near(got.Statistic, c.Statistic) || math.Abs(got.P-c.P) > 1e-9 || !near(interval.Low, c.Low) ||
			!near(interval.High, c.High) || got.Pairs != len(c.Differences) {
			t.Errorf("%d: got %+v, %+v, want %+v", n, interval, got, c)
		}
	}
}

func TestQuantileEqualsNumpy(t *testing.T) {
	for _, c := range readGolden(t).Quantiles {
		slices.Sort(c.Values)
		for n, q := range c.Q {
			if got := Quantile(c.Values, q); math.Abs(got-c.Want[n]) > 1e-12 {
				t.Errorf("quantile %v of %v: got %v, want %v", q, c.Values, got, c.Want[n])
			}
		}
	}
}
