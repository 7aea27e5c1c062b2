package stack

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
)

// slicesAt makes axial slices of 4x3 pixels of 2 mm x 1 mm (columns x rows), whose first pixels lie
// at the given places.
func slicesAt(places ...Vector) *Stack {
	im := &Image{Image: pixels.Image{Path: "scan", Rows: 3, Columns: 4, Frames: 1}}
	s := &Stack{Number: "7"}
	for _, p := range places {
		info := Info{Position: slices.Clone(p[:]), Orientation: []float64{1, 0, 0, 0, 1, 0}, Spacing: []float64{1, 2}}
		s.Slices = append(s.Slices, Slice{Image: im, Info: info, At: p[2]})
	}
	s.Tilt = TiltOf(s.Slices)
	return s
}

// upwards makes a stack along the normal.
func upwards(at ...float64) *Stack {
	places := make([]Vector, len(at))
	for k, z := range at {
		places[k] = Vector{0, 0, z}
	}
	return slicesAt(places...)
}

func TestDepth(t *testing.T) {
	for name, c := range map[string]struct {
		at        []float64
		thickness float64
		gaps      string
		want      depth
		note, err string // parts of them
	}{
		"even":    {at: []float64{0, 2, 4}, want: depth{count: 3, distance: 2}},
		"rounded": {at: []float64{0, 0.7, 1.3, 2}, want: depth{count: 4, start: 0, distance: 2. / 3}},
		"single": {at: []float64{5}, thickness: 3, want: depth{count: 1, start: 5, distance: 3},
			note: "3 mm is taken from SliceThickness"},
		"bare": {at: []float64{5}, want: depth{count: 1, start: 5, distance: 1},
			note: "nothing says how thick it is, 1 mm is assumed"},
		"sparse": {at: []float64{0, 10, 20}, thickness: 5, want: depth{count: 3, distance: 10},
			note: "10 mm apart, but are only 5 mm thick"},
		"gap": {at: []float64{0, 2, 6, 8}, gaps: "error",
			err: "4.00 mm between slices 2 and 3 (at 2.00 and 6.00 mm along the normal), usually 2.00 mm"},
		"gap, filled": {at: []float64{0, 2, 6, 8}, gaps: "resample",
			want: depth{count: 5, distance: 2, resample: true}, note: "resampled to 5 slices 2 mm apart"},
		"gap, endless": {at: []float64{0, 2, 4, 9000}, gaps: "resample", err: "too far apart to fill in"},
	} {
		s := upwards(c.at...)
		s.Slices[0].Info.Thickness = c.thickness
		got, err := s.depth(Options{Gaps: c.gaps}, c.at)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !strings.Contains(got.note, c.note) || (got.note == "") != (c.note == "") {
			t.Errorf("%s: note %q", name, got.note)
		}
		near := math.Abs(got.start-c.want.start) < 0.06 && math.Abs(got.distance-c.want.distance) < 0.02
		if !near || got.count != c.want.count || got.resample != c.want.resample {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestLateral(t *testing.T) {
	row, column, normal := Vector{1, 0, 0}, Vector{0, 1, 0}, Vector{0, 0, 1}
	for name, c := range map[string]struct {
		places      []Vector
		drift, bend float64
	}{
		"upright": {[]Vector{{}, {0, 0, 2}, {0, 0, 4}}, 0, 0},
		"tilted":  {[]Vector{{}, {0, 1, 2}, {0, 2, 4}}, 2, 0},
		"bent":    {[]Vector{{}, {0, 3, 2}, {0, 0, 4}}, 3, 3},
	} {
		got := slicesAt(c.places...).lateral(row, column, normal)
		if math.Abs(got.drift-c.drift) > 1e-12 || math.Abs(got.bend-c.bend) > 1e-12 || got.height != 4 {
			t.Errorf("%s: drift %g, bend %g, height %g", name, got.drift, got.bend, got.height)
		}
	}
}

// What becomes of slices that are shifted in their planes: the shape and the last column's steps.
func TestPlace(t *testing.T) {
	tilted := []Vector{{}, {0, 1, 2}, {0, 2, 4}}
	bent := []Vector{{}, {4, 0, 2}, {0, 0, 4}}
	for name, c := range map[string]struct {
		places []Vector
		tilt   string
		shape  [3]int
		step   Vector // of k, in RAS
		err    string
	}{
		"straightened":   {tilted, "resample", [3]int{4, 5, 3}, Vector{0, 0, 2}, ""},
		"kept":           {tilted, "keep", [3]int{4, 3, 3}, Vector{0, -1, 2}, ""},
		"refused":        {tilted, "error", [3]int{}, Vector{}, "stacked askew, by 26.57 degrees"},
		"put back":       {bent, "resample", [3]int{6, 3, 3}, Vector{0, 0, 2}, ""},
		"cannot be kept": {bent, "keep", [3]int{}, Vector{}, "no affine tells that"},
		"too far to hold": {[]Vector{{}, {0, 900, 2}, {0, 0, 4}}, "resample", [3]int{}, Vector{},
			"too far to be one volume"},
	} {
		p, err := slicesAt(c.places...).Arrange(Options{Tilt: c.tilt, Gaps: "error"})
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		step := Vector{p.Grid.Affine[0][2], p.Grid.Affine[1][2], p.Grid.Affine[2][2]}
		if p.Grid.Shape != c.shape || step.Minus(c.step).Length() > 1e-12 {
			t.Errorf("%s: shape %v, step %v", name, p.Grid.Shape, step)
		}
	}
}
