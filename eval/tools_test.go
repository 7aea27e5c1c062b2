package eval

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"
)

// measured is a number of testdata/eval_tools.json, which also holds "nan", "inf" and "error".
type measured float64

func (m *measured) UnmarshalJSON(data []byte) error {
	text := string(data)
	if s, err := strconv.Unquote(text); err == nil {
		text = s
	}
	if text == "error" {
		text = "nan"
	}
	v, err := strconv.ParseFloat(text, 64)
	*m = measured(v)
	return err
}

// toolCase is a pair of masks and what other tools measure: testdata/eval_tools.py wrote them.
type toolCase struct {
	Name                   string
	Shape                  [3]int
	Spacing                [3]float64
	Tolerance              float64
	Prediction, Reference  [][2][3]float64
	Monai, Medpy, Deepmind map[string]measured
}

func readTools(t *testing.T) []toolCase {
	t.Helper()
	data, err := os.ReadFile("../testdata/eval_tools.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []toolCase
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) != 11 {
		t.Fatalf("%d cases in the golden file", len(cases))
	}
	return cases
}

// agree takes NaN for equal to NaN, and allows for the single precision of MONAI.
func agree(a, b float64) bool {
	return math.IsNaN(a) && math.IsNaN(b) || a == b || math.Abs(a-b) <= 1e-6*math.Max(1, math.Abs(b))
}

// What the package's documentation says of other tools is what they do.
func TestOtherTools(t *testing.T) {
	differs := map[string]int{}
	for _, c := range readTools(t) {
		p, r := ellipsoids(c.Shape, c.Spacing, c.Prediction), ellipsoids(c.Shape, c.Spacing, c.Reference)
		s := one(t, p, r, Options{Labels: []string{"3"}, Tolerance: c.Tolerance})
		ours := map[string]float64{"dsc": s.DSC, "hd": s.HD, "hd95": s.HD95, "assd": s.ASSD, "nsd": s.NSD}
		same := func(tool string, theirs map[string]measured, metrics ...string) {
			for _, m := range metrics {
				if v, ok := theirs[m]; !ok || !agree(ours[m], float64(v)) {
					t.Errorf("%s: %s is %v, %s has %v", c.Name, m, ours[m], tool, v)
				}
			}
		}
		undefined := func(tool string, theirs map[string]measured, metrics ...string) {
			for _, m := range metrics {
				if v, ok := theirs[m]; !ok || !math.IsNaN(float64(v)) {
					t.Errorf("%s: %s of %s is %v, not undefined", c.Name, m, tool, v)
				}
			}
		}
		switch s.Outcome() {
		case Scored:
			same("MONAI", c.Monai, "dsc", "hd", "hd95", "assd", "nsd")
			same("medpy", c.Medpy, "dsc", "hd", "assd")
			same("surface-distance", c.Deepmind, "dsc")
			if joined := quantileOfBoth(p.Labels, r.Labels, c.Shape, c.Spacing); !agree(joined,
				float64(c.Medpy["hd95"])) {
				t.Errorf("%s: medpy's HD95 is %v, a percentile of both sides together %v", c.Name, c.Medpy["hd95"],
					joined)
			}
			for _, m := range []string{"hd95", "nsd"} {
				if !agree(ours[m], float64(c.Deepmind[m])) {
					differs[m]++
				}
			}
		case Absent:
			same("MONAI", c.Monai, "dsc", "hd", "hd95", "assd", "nsd")
		case Missed:
			same("MONAI", c.Monai, "dsc", "hd", "assd", "nsd")
			undefined("MONAI", c.Monai, "hd95")
		case Invented:
			same("MONAI", c.Monai, "hd", "assd", "nsd")
			undefined("MONAI", c.Monai, "hd95", "dsc")
		}
		if s.Outcome() != Scored {
			same("medpy", c.Medpy, "dsc")
			undefined("medpy", c.Medpy, "hd", "hd95", "assd")
			same("surface-distance", c.Deepmind, "dsc", "nsd")
		}
	}
	if differs["hd95"] < 4 || differs["nsd"] < 4 {
		t.Errorf("surface-distance differs in %v of 8 cases: is it weighed by area?", differs)
	}
}

// quantileOfBoth is the 95th percentile of the distances of both directions in one list.
func quantileOfBoth(p, r []uint16, shape [3]int, spacing [3]float64) float64 {
	ps, rs := surface(p, shape, [3]int{}, shape, 3), surface(r, shape, [3]int{}, shape, 3)
	both := append(distances(ps, rs, shape, spacing), distances(rs, ps, shape, spacing)...)
	slices.Sort(both)
	return Quantile(both, 0.95)
}
