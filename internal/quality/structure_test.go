package quality

import (
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// golden is what scipy says: see testdata/quality.py.
type golden struct {
	Maps []struct {
		Shape      [3]int
		Affine     volume.Affine
		Labels     string
		Structures []Structure
	}
	Sets   []struct{ Values, Z []float64 }
	Curves []struct{ X, Y, At, Want []float64 }
}

func readGolden(t *testing.T) (g golden) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/quality.json")
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err != nil || len(g.Maps) == 0 || len(g.Sets) == 0 {
		t.Fatal(err)
	}
	return g
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(1, math.Abs(b)) }

func TestMeasuresFollowScipy(t *testing.T) {
	for n, m := range readGolden(t).Maps {
		l := &volume.LabelMap{Grid: volume.Grid{Shape: m.Shape, Affine: m.Affine}}
		for _, digit := range m.Labels {
			l.Labels = append(l.Labels, uint16(digit-'0'))
		}
		got := Measure(l)
		if len(got) != len(m.Structures) || len(got) == 0 {
			t.Fatalf("map %d: %d structures, want %d", n, len(got), len(m.Structures))
		}
		for i, want := range m.Structures {
			s := got[i]
			if s.Label != want.Label || s.Voxels != want.Voxels || s.Components != want.Components ||
				s.Cut != want.Cut || !near(s.Volume, want.Volume) || !near(s.Height, want.Height) ||
				!near(s.Largest, want.Largest) || !near(s.Centre[0], want.Centre[0]) ||
				!near(s.Centre[1], want.Centre[1]) || !near(s.Centre[2], want.Centre[2]) {
				t.Errorf("map %d: %+v, scipy says %+v", n, s, want)
			}
		}
	}
}

func TestRobustScoresFollowScipy(t *testing.T) {
	for n, s := range readGolden(t).Sets {
		r := RangeOf(s.Values)
		for i, x := range s.Values {
			if !near(r.Z(x), s.Z[i]) {
				t.Errorf("set %d: z of %g is %g, scipy says %g", n, x, r.Z(x), s.Z[i])
			}
		}
	}
	if few := RangeOf([]float64{1, 2, 3, 4, 5, 6, 100}); few.Z(100) != 0 {
		t.Error("seven values say nothing")
	}
	alike := RangeOf([]float64{3, 3, 3, 3, 3, 3, 3, 3})
	if alike.Z(3) != 0 || alike.Z(4) < Unusual || alike.Z(2) > -Unusual {
		t.Errorf("of eight threes 4 is %g and 2 is %g away", alike.Z(4), alike.Z(2))
	}
}

func TestIsotonicFollowsScikitLearn(t *testing.T) {
	curves := readGolden(t).Curves
	if len(curves) == 0 {
		t.Fatal("no curves")
	}
	for n, c := range curves {
		curve := isotonic(c.X, c.Y)
		for i, x := range c.At {
			if got := curve.at(x); !near(got, c.Want[i]) {
				t.Errorf("curve %d at %g: %g, scikit-learn says %g", n, x, got, c.Want[i])
			}
		}
	}
}

// An estimate follows the agreement, and nine tenths of other cases lie within its interval.
func TestEstimates(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(n int) (cases []Case) {
		for n := range n {
			x := r.Float64()
			dsc := min(max(x*x+0.1*(r.Float64()-0.5), 0), 1)
			cases = append(cases, Case{ID: strconv.Itoa(n),
				Structures: []Structure{{Label: 1, Volume: 20, Components: 1}},
				Agreement:  map[uint16]float64{1: x}, DSC: map[uint16]float64{1: dsc}})
		}
		return cases
	}
	calibration := draw(100)
	set := NewSet(calibration)
	var file bytes.Buffer
	if err := Table(calibration, set, nil).CSV(&file); err != nil || !IsTable(file.Bytes()) {
		t.Fatal(err)
	}
	read, err := ReadTable(&file)
	if err != nil || len(read) != len(calibration) {
		t.Fatal(len(read), err)
	}
	e := NewEstimator(read)
	within, tests := 0, draw(1000)
	for _, c := range tests {
		got, known := e.Of(c, c.Structures[0])
		dsc := c.DSC[1]
		if !known || math.Abs(got.DSC-dsc) > 0.2 {
			t.Fatalf("%+v, is %g", got, dsc)
		}
		if got.Low <= dsc && dsc <= got.High {
			within++
		}
	}
	if within < 880 || within > 960 {
		t.Errorf("%d of %d within the interval of 90 %%", within, len(tests))
	}
	if _, known := NewEstimator(calibration[:9]).Of(tests[0], tests[0].Structures[0]); known {
		t.Error("nine cases say nothing")
	}
	few := NewEstimator(calibration[:18])
	got, known := few.Of(tests[0], tests[0].Structures[0])
	if !known || !math.IsNaN(got.Low) || !math.IsNaN(got.High) || !strings.Contains(few.Note(), " 1 (18)") {
		t.Errorf("of 18 cases: %+v; %s", got, few.Note())
	}
	if note := e.Note(); note != "" {
		t.Error(note)
	}
	var short bytes.Buffer
	if err := Table(tests[:1], set, few).CSV(&short); err != nil || !strings.Contains(short.String(), ",,,\n") {
		t.Error(short.String(), err)
	}
}

// A new error lies within the interval of n errors in at least nine tenths of the draws. The ends
// are order statistics of numpy: quantile(range(1, n+1), [(k-1)/(n-1), (n-k)/(n-1)]) of the split
// conformal k = floor((n+1)/20).
func TestIntervals(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for n, want := range map[int][2]float64{19: {1, 19}, 20: {1, 20}, 38: {1, 38}, 39: {2, 38}, 40: {2, 39},
		100: {5, 96}} {
		ranks := make([]float64, n)
		for at := range ranks {
			ranks[at] = float64(at + 1)
		}
		if low, high := interval(ranks); low != want[0] || high != want[1] {
			t.Errorf("of %d errors the ends are numbers %g and %g, not %v", n, low, high, want)
		}
		const draws = 20000
		within := 0
		for range draws {
			for at := range ranks {
				ranks[at] = r.NormFloat64()
			}
			slices.Sort(ranks)
			low, high := interval(ranks)
			if x := r.NormFloat64(); low <= x && x <= high {
				within++
			}
		}
		if sd := math.Sqrt(0.9 * 0.1 * draws); float64(within) < 0.9*draws-4*sd {
			t.Errorf("of %d errors: %d of %d new ones within", n, within, draws)
		}
	}
}

func TestPartners(t *testing.T) {
	for name, want := range map[string]string{
		"Parotid_L": "Parotid_R", "kidney_right": "kidney_left", "Left Lung": "Right Lung", "rt-femur": "lt-femur",
		"lung_upper_lobe_left": "lung_upper_lobe_right", "liver": "", "Brainstem": "", "left_right": "",
	} {
		got, left, paired := Partner(name)
		if got != want || paired != (want != "") {
			t.Errorf("%s: %q", name, got)
		}
		if back, other, _ := Partner(got); paired && (back != name || left == other) {
			t.Errorf("%s: its partner's is %q", name, back)
		}
	}
}

// A part of a scan ends where the scan goes on: only its own edges cut.
func TestEdgesOfPreparedParts(t *testing.T) {
	scan := volume.Grid{Shape: [3]int{4, 4, 10}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	r := prepared.Record{ID: "a", Original: scan, Box: &volume.Box{Origin: [3]int{0, 0, 4}, Size: [3]int{4, 4, 6}}}
	r.Grid = scan.Cropped(r.Box.Origin, r.Box.Size)
	l := &volume.LabelMap{Grid: r.Grid, Labels: slices.Repeat([]uint16{1}, r.Len())}
	if cut := Measure(l)[0].Cut; cut != "LRPAIS" {
		t.Errorf("of the part: %q", cut)
	}
	if cut := MeasurePrepared(r, l).Structures[0].Cut; cut != "LRPAS" {
		t.Errorf("of the scan: %q", cut)
	}
}

// Each thing that can be odd about a case is found where it is so, and only there.
func TestJudge(t *testing.T) {
	usual := func() Case {
		c := Case{ID: "usual"}
		for n, name := range []string{"Parotid_L", "Parotid_R", "Cord"} {
			c.Structures = append(c.Structures, Structure{Label: uint16(n + 1), Name: name, Volume: 25, Height: 50,
				Components: 1, Centre: [3]float64{float64(60*n - 60), 0, 0}})
		}
		c.Structures[2].Cut = "I"
		return c
	}
	var cases []Case
	for n := range 12 {
		c := usual()
		for i := range c.Structures {
			c.Structures[i].Volume *= 1 + 0.02*float64((n*(i+2))%7)
			c.Structures[i].Height += float64((3*n + i) % 5)
		}
		cases = append(cases, c)
	}
	set := NewSet(cases)
	for _, c := range cases {
		if found := set.Judge(c); len(found) > 0 {
			t.Errorf("a usual case: %v", found)
		}
	}
	for _, c := range []struct {
		want   string
		change func(*Case)
	}{
		{"Cord: volume 8 ml", func(c *Case) { c.Structures[2].Volume = 8 }},
		{"Cord: height 20 mm, where others have 52 mm (z -", func(c *Case) { c.Structures[2].Height = 20 }},
		{"Parotid_R: cut by the scan's upper edge", func(c *Case) { c.Structures[1].Cut = "S" }},
		{"Parotid_L: lies to the right of Parotid_R", func(c *Case) { c.Structures[0].Centre[0] = 70 }},
		{"Parotid_L: volume 0.6", func(c *Case) { c.Structures[0].Volume = 17 }},
		{"Parotid_R: missing, and 12 of 12", func(c *Case) { c.Structures = slices.Delete(c.Structures, 1, 2) }},
	} {
		odd := usual()
		c.change(&odd)
		found := set.Judge(odd)
		if !slices.ContainsFunc(found, func(f Finding) bool { return strings.HasPrefix(f.String(), c.want) }) {
			t.Errorf("want %q, found %v", c.want, found)
		}
	}
	undrawn := usual()
	undrawn.Structures, undrawn.Undrawn = undrawn.Structures[:2], []string{"Cord"}
	if found := set.Judge(undrawn); len(found) > 0 {
		t.Errorf("nobody drew the cord: %v", found)
	}
	pieces := append(slices.Clone(cases), usual())
	pieces[12].Structures[2].Components = 4
	if found := NewSet(pieces).Judge(pieces[12]); len(found) != 1 || found[0].Key != "Cord" ||
		!strings.HasPrefix(found[0].Reason, "4 components, where others have 1") {
		t.Errorf("pieces: %v", found)
	}
	// One of eight drawn cases has three, as the label map of another case does: no twentieth.
	few := slices.Clone(cases[:8])
	few[7].ID, few[7].Structures = "in three", slices.Clone(few[7].Structures)
	few[7].Structures[2].Components = 3
	for _, c := range []struct {
		id      string
		pieces  int
		unusual bool
	}{{"another", 3, false}, {"another", 4, true}, {"in three", 3, true}} {
		odd := usual()
		odd.ID, odd.Structures[2].Components = c.id, c.pieces
		if found := NewSet(few).Judge(odd); (len(found) > 0) != c.unusual {
			t.Errorf("%s in %d pieces: %v", c.id, c.pieces, found)
		}
	}
}

// Where a structure was drawn in few cases, label maps are held against each other; where it was
// left undrawn in some, a map without it still misses it.
func TestJudgePartlyDrawn(t *testing.T) {
	// of every sixth case the cord alone is left undrawn, the pancreas is drawn in six of twenty
	var drawn, maps []Case
	for n := range 60 {
		of := func(label uint16, name string) Structure {
			return Structure{Label: label, Name: name, Volume: 25 + float64(n*int(label)%7),
				Height: 50 + float64(n%5), Components: 1}
		}
		maps = append(maps, Case{Structures: []Structure{of(1, "Cord"), of(2, "Pancreas")}})
		if n >= 20 {
			continue
		}
		c := Case{Structures: []Structure{of(1, "Cord")}, Undrawn: []string{"Pancreas"}}
		switch {
		case n < 6:
			c = Case{Structures: []Structure{of(1, "Cord"), of(2, "Pancreas")}}
		case n >= 16:
			c = Case{Undrawn: []string{"Cord", "Pancreas"}}
		}
		drawn = append(drawn, c)
	}
	set := NewSetFor(maps, drawn)
	if got := strings.Join(set.SeldomDrawn, ", "); got != "Pancreas" {
		t.Errorf("seldom drawn: %q", got)
	}
	if found := set.Judge(maps[3]); len(found) > 0 {
		t.Errorf("a usual map: %v", found)
	}
	huge := maps[3]
	huge.Structures = slices.Clone(huge.Structures)
	huge.Structures[1].Volume = 400
	if found := set.Judge(huge); len(found) != 1 || found[0].Key != "Pancreas" {
		t.Errorf("a huge pancreas: %v", found)
	}
	without := Case{Structures: maps[3].Structures[1:]}
	found := set.Judge(without)
	if len(found) != 1 || !strings.HasPrefix(found[0].String(), "Cord: missing, and 16 of 16") {
		t.Errorf("no cord: %v", found)
	}
}

// A network draws the labels that it has learnt better than others, mistakes included: the DSC of
// either is held against that of its kind.
func TestDSCIsHeldAgainstItsKind(t *testing.T) {
	of := func(id string, learnt bool, dsc float64) Case {
		return Case{ID: id, Structures: []Structure{{Label: 1, Volume: 20, Components: 1}},
			DSC: map[uint16]float64{1: dsc}, Learnt: learnt}
	}
	var cases []Case
	for n := range 40 {
		cases = append(cases, of(strconv.Itoa(n), true, 0.95+0.002*float64(n%5)))
	}
	for n := range 10 {
		cases = append(cases, of("held "+strconv.Itoa(n), false, 0.86+0.01*float64(n%5)))
	}
	set := NewSet(cases)
	for _, c := range cases {
		if found := set.Judge(c); len(found) > 0 {
			t.Errorf("%s: %v", c.ID, found)
		}
	}
	for _, c := range []struct {
		learnt    bool
		dsc       float64
		elsewhere string
	}{{false, 0.6, "0.88"}, {true, 0.88, "0.95"}} {
		found := set.Judge(of("odd", c.learnt, c.dsc))
		if len(found) != 1 || !strings.HasSuffix(found[0].Reason, "elsewhere "+c.elsewhere) {
			t.Errorf("DSC %g, learnt %v: %v", c.dsc, c.learnt, found)
		}
	}
}
