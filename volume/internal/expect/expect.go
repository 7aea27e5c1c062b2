// Package expect holds volumes against what trusted readers say about the same files: the
// expected.json files of the data that tests read.
//
// Start at [Read] and [Entry.Check]. It is for tests only.
package expect

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// Entry is what a trusted reader says about one volume.
type Entry struct {
	Shape    []int
	Spacing  []float64
	Axcodes  string
	Affine   volume.Affine
	Dtype    string
	Min, Max float64
	Mean     float64      // to five digits after the point
	RASShape []int        `json:"ras_shape"`
	Probes   [][4]float64 `json:"ras_probes_xyz_value"` // voxel index after turning to RAS, value
	Error    string
}

// Data returns the folder that VOXSAW_DATA names. The test is skipped, aloud, where it is unset.
func Data(t testing.TB) string {
	t.Helper()
	dir := os.Getenv("VOXSAW_DATA")
	if dir == "" {
		t.Skip("SKIPPED: set VOXSAW_DATA to the folder of real scans to run this test")
	}
	return dir
}

// Read reads a JSON file of the data folder.
func Read[T any](t testing.TB, name string) T {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(Data(t), name))
	if err != nil {
		t.Fatal(err)
	}
	var entries T
	if err := json.Unmarshal(text, &entries); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return entries
}

// CheckGrid compares shape, spacing, orientation and affine.
func (e Entry) CheckGrid(t testing.TB, g volume.Grid) {
	t.Helper()
	if got, want := g.Shape, [3]int(e.Shape[:3]); got != want {
		t.Errorf("shape %v, want %v", got, want)
	}
	sp := g.Spacing()
	for a := range 3 {
		if math.Abs(sp[a]-e.Spacing[a]) > 1e-4 {
			t.Errorf("spacing %v, want %v", sp, e.Spacing)
		}
	}
	if g.Axcodes() != e.Axcodes {
		t.Errorf("axcodes %s, want %s", g.Axcodes(), e.Axcodes)
	}
	for r := range 4 {
		for c := range 4 {
			if math.Abs(g.Affine[r][c]-e.Affine[r][c]) > 1e-4 {
				t.Fatalf("affine %v, want %v", g.Affine, e.Affine)
			}
		}
	}
}

// Check compares everything. Values may differ by tolerance and by the rounding of float32 and of
// the expected file.
func (e Entry) Check(t testing.TB, v *volume.Volume, tolerance float64) {
	t.Helper()
	e.CheckGrid(t, v.Grid)
	// float32 has 24 bits; the file has five digits after the point.
	near := func(got, want float64) bool {
		return math.Abs(got-want) <= tolerance+1e-5+math.Abs(want)/(1<<23)
	}
	s := v.Statistics()
	if len(e.Shape) == 3 && (!near(float64(s.Min), e.Min) || !near(float64(s.Max), e.Max) || !near(s.Mean, e.Mean)) {
		t.Errorf("min, max, mean %v, %v, %v; want %v, %v, %v", s.Min, s.Max, s.Mean, e.Min, e.Max, e.Mean)
	}
	e.CheckProbes(t, v, tolerance)
}

// CheckProbes compares the values at the probes, after turning to RAS.
func (e Entry) CheckProbes(t testing.TB, v *volume.Volume, tolerance float64) {
	t.Helper()
	ras, err := v.Orient("RAS")
	if err != nil {
		t.Fatal(err)
	}
	if ras.Shape != [3]int(e.RASShape[:3]) {
		t.Fatalf("shape %v in RAS, want %v", ras.Shape, e.RASShape)
	}
	if len(e.Probes) == 0 {
		t.Error("no probes to check")
	}
	for _, p := range e.Probes {
		got := float64(ras.At(int(p[0]), int(p[1]), int(p[2])))
		if math.Abs(got-p[3]) > tolerance+1e-5+math.Abs(p[3])/(1<<23) {
			t.Errorf("value %v at %v in RAS, want %v", got, p[:3], p[3])
		}
	}
}
