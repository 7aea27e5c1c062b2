package dicom

import (
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// blobs draws labels on a grid: boxes that end in odd places, the slice before the last and its neighbours empty.
func blobs(g volume.Grid, labels ...uint16) *volume.LabelMap {
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len()), Names: map[uint16]string{}}
	for n, label := range labels {
		l.Names[label] = fmt.Sprintf("organ %d", label)
		for k := range g.Shape[2] {
			for j := range g.Shape[1] {
				for i := range g.Shape[0] {
					if k != 1 && i >= 2*n && i < 2*n+3-k%2 && j > n && j < g.Shape[1]-n-k%3 {
						l.Labels[g.Index(i, j, k)] = label
					}
				}
			}
		}
	}
	return l
}

// written writes a label map of a series and opens it.
func written(t testing.TB, l *volume.LabelMap, s *Series, o WriteOptions) *Segmentation {
	t.Helper()
	path := filepath.Join(t.TempDir(), "seg.dcm")
	if err := WriteSegmentation(path, l, s, o); err != nil {
		t.Fatal(err)
	}
	g, err := OpenSegmentation(path)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// describe gives the differences between label maps, or "".
func difference(a, b *volume.LabelMap) string {
	if !a.Same(b.Grid, 1e-6) {
		return fmt.Sprintf("grids %v and %v", a.Grid, b.Grid)
	}
	for n := range a.Labels {
		if a.Labels[n] != b.Labels[n] {
			return fmt.Sprintf("voxel %d is %d and %d", n, a.Labels[n], b.Labels[n])
		}
	}
	if !maps.Equal(a.Names, b.Names) {
		return fmt.Sprintf("names %v and %v", a.Names, b.Names)
	}
	return ""
}

func TestSegmentationRoundTrip(t *testing.T) {
	for _, c := range []struct {
		name        string
		orientation [6]float64
		direction   vector
		distances   []float64
		labels      []uint16
		options     Options
		exact       bool
	}{
		{"axial", axial, vector{0, 0, 1}, []float64{0, 2.5, 5, 7.5, 10}, []uint16{1, 2, 3}, Options{}, true},
		{"numbers with gaps", axial, vector{0, 0, 1}, []float64{0, 2.5, 5, 7.5, 10}, []uint16{3, 7, 1000}, Options{}, true},
		{"sagittal", sagittal, vector{-1, 0, 0}, []float64{0, 2.5, 5, 7.5, 10}, []uint16{2}, Options{}, true},
		{"oblique", oblique, vector{0.8, 0.6, 0}.cross(vector{-0.36, 0.48, -0.8}), []float64{0, 1.25, 2.5, 3.75}, []uint16{1, 2}, Options{}, true},
		{"one slice", axial, vector{0, 0, 1}, []float64{0}, []uint16{1}, Options{}, true},
		{"tilt kept", gantry, vector{0, 0, 1}, []float64{0, 3, 6, 9, 12}, []uint16{1, 2}, Options{Tilt: TiltKeep}, true},
		{"tilt", gantry, vector{0, 0, 1}, []float64{0, 3, 6, 9, 12}, []uint16{1, 2}, Options{}, false},
		{"gap", axial, vector{0, 0, 1}, []float64{0, 2, 4, 8, 10}, []uint16{1, 2}, Options{Gaps: GapsResample}, false},
	} {
		dir := t.TempDir()
		stack(t, dir, "1.2", c.orientation, line(vector{-50, 20, 100}, c.direction, c.distances...), nil)
		s := scanOne(t, dir)
		v, err := ReadWith(s, c.options)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		l := blobs(v.Grid, c.labels...)
		g := written(t, l, s, WriteOptions{Algorithm: "test", Version: "1", Read: c.options})
		if g.Find([]*Series{{UID: "9"}, s}) != s {
			t.Errorf("%s: the series is not found", c.name)
		}
		got, err := g.ReadOn(s, c.options)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if c.exact {
			if d := difference(l, got); d != "" {
				t.Errorf("%s: %s", c.name, d)
			}
			if got, err = g.ReadOnGrid(v.Grid, c.options); err != nil || difference(l, got) != "" {
				t.Errorf("%s: on its grid: %v, %v", c.name, err, difference(l, got))
			}
			continue
		}
		// Labels were rounded to pixels and these to voxels: half a voxel twice, in a slice or between two.
		same, of := 0, 0
		for n, label := range l.Labels {
			if label != 0 {
				of++
				if got.Labels[n] == label {
					same++
				}
			}
		}
		if !got.Same(v.Grid, 1e-6) || float64(same) < 0.8*float64(of) {
			t.Errorf("%s: %d of %d labelled voxels come back", c.name, same, of)
		}
		if again := written(t, got, s, WriteOptions{Read: c.options}); c.name == "tilt" {
			back, err := again.ReadOn(s, c.options)
			if err != nil || difference(got, back) != "" {
				t.Errorf("%s: what was rounded is rounded again: %v %s", c.name, err, difference(got, back))
			}
		}
	}
}
