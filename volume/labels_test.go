package volume

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// testdata/labels.json: what scipy says of a label map on finer, coarser, shifted and oblique
// grids.
func TestSharesOfLabelsAgreeWithScipy(t *testing.T) {
	data, err := os.ReadFile("../testdata/labels.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Grid
		Labels []uint16
		One    uint16
		Cases  []struct {
			Grid
			Largest, NNUnet []uint16
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	l := &LabelMap{Grid: golden.Grid, Labels: golden.Labels}
	one := &LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
	for n, label := range l.Labels {
		if label == golden.One {
			one.Labels[n] = 1
		}
	}
	for n, c := range golden.Cases {
		for _, of := range []struct {
			what string
			l    *LabelMap
			want []uint16
		}{{"largest shares", l, c.Largest}, {"one label from half on", one, c.NNUnet}} {
			turned, err := of.l.Orient(c.Axcodes())
			if err != nil {
				t.Fatal(err)
			}
			m, err := between(turned.Grid, c.Grid)
			if err != nil {
				t.Fatal(err)
			}
			got := newSampler(turned, c.Shape, m).largest()
			for at := range got {
				if got[at] != of.want[at] {
					t.Fatalf("case %d, %s: label %d at %d, want %d", n, of.what, got[at], at, of.want[at])
				}
			}
		}
	}
	if len(golden.Cases) < 7 {
		t.Fatal("no cases")
	}
}

// thicket is labels of many shapes: balls, sheets and lines a voxel thick, single voxels and noise.
func thicket(shape [3]int, seed uint64) *LabelMap {
	r := rand.New(rand.NewPCG(seed, 35))
	l := &LabelMap{Grid: Grid{Shape: shape, Affine: Scaling([3]float64{1.1, 0.9, 1.7})},
		Names: map[uint16]string{1: "ball"}}
	l.Labels = make([]uint16, l.Len())
	for n := range l.Labels {
		if r.IntN(150) == 0 {
			l.Labels[n] = uint16(5 + r.IntN(3))
		}
	}
	for k := range shape[2] {
		for j := range shape[1] {
			for i := range shape[0] {
				at := &l.Labels[l.Index(i, j, k)]
				x, y, z := float64(i-shape[0]/3), float64(j-shape[1]/2), float64(k-shape[2]/2)
				switch {
				case x*x+y*y+z*z < 30:
					*at = 1
				case i == shape[0]-5 && j > 2:
					*at = 2 // a sheet
				case j == 1 && k == 3:
					*at = 3 // a line
				case i == 1 && j == shape[1]-2 && k == shape[2]-2:
					*at = 4 // a voxel
				}
			}
		}
	}
	return l
}

// axisOrders are all 48 ways in which the axes of a file may lie.
func axisOrders() (codes []string) {
	for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		for flips := range 8 {
			var code [3]byte
			for a, axis := range order {
				code[a] = "RASLPI"[axis+3*(flips>>a&1)]
			}
			codes = append(codes, string(code[:]))
		}
	}
	return codes
}

var spacings = [][3]float64{{2.2, 1.8, 3.4}, {3.3, 2.7, 5.1}, {0.55, 0.45, 0.85}, {1.5, 1.5, 1.5}, {2.2, 0.9, 1.7},
	{4.4, 3.6, 6.8}}

// Whichever way the axes of a file lie, the same points in space get the same labels.
func TestPreparedLabelsAreThoseOfAllAxisOrders(t *testing.T) {
	orders := axisOrders()
	if len(orders) != 48 {
		t.Fatal(len(orders))
	}
	for seed, shape := range [][3]int{{20, 17, 14}, {21, 16, 15}} {
		l := thicket(shape, uint64(seed))
		l.Affine[0][3], l.Affine[1][3], l.Affine[2][3] = -31.7, 12.3, 901.25
		for _, spacing := range spacings {
			p := DefaultPreparation()
			p.Spacing = spacing
			want, err := p.ApplyLabels(l, l.Whole())
			if err != nil {
				t.Fatal(err)
			}
			for _, codes := range orders {
				turned, err := l.Orient(codes)
				if err != nil {
					t.Fatal(err)
				}
				if turned.Axcodes() != codes {
					t.Fatal(turned.Axcodes())
				}
				got, err := p.ApplyLabels(turned, turned.Whole())
				if err != nil {
					t.Fatal(err)
				}
				if !got.Same(want.Grid, 1e-9) || !slices.Equal(got.Labels, want.Labels) {
					t.Fatalf("stored as %s and prepared at %v: other labels than as RAS", codes, spacing)
				}
			}
		}
	}
}

// The mirror image of labels gets mirrored labels.
func TestMirroredLabelsArePreparedMirrored(t *testing.T) {
	for seed, shape := range [][3]int{{20, 17, 14}, {21, 16, 15}, {19, 19, 19}} {
		l := thicket(shape, uint64(seed))
		for _, spacing := range spacings {
			p := DefaultPreparation()
			p.Spacing = spacing
			want, err := p.ApplyLabels(l, l.Whole())
			if err != nil {
				t.Fatal(err)
			}
			for flips := range 8 {
				var flip [3]bool
				for a := range flip {
					flip[a] = flips>>a&1 == 1
				}
				from := [3]int{0, 1, 2}
				got, err := p.ApplyLabels(&LabelMap{Grid: l.Grid, Labels: permute(l.Labels, shape, from, flip)},
					l.Whole())
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(got.Labels, permute(want.Labels, want.Shape, from, flip)) {
					t.Fatalf("mirrored along %v, at %v: not the mirror image", flip, spacing)
				}
			}
		}
	}
}

// Structures stay where they are: balls at many places, at whole ratios of the voxels.
func TestCentroidsStay(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 35))
	for _, ratio := range []float64{2, 3, 4} {
		for range 12 {
			g := Grid{Shape: [3]int{60, 57, 58}, Affine: Scaling([3]float64{-1, 1.25, 2})}
			l := &LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
			var centre [3]float64
			for a := range centre {
				centre[a] = 26 + 5*r.Float64()
			}
			for k := range g.Shape[2] {
				for j := range g.Shape[1] {
					for i := range g.Shape[0] {
						x, y, z := float64(i)-centre[0], float64(j)-centre[1], float64(k)-centre[2]
						if x*x+y*y+z*z < 24*24 {
							l.Labels[g.Index(i, j, k)] = 1
						}
					}
				}
			}
			p := DefaultPreparation()
			p.Spacing = [3]float64{ratio, 1.25 * ratio, 2 * ratio}
			o, err := p.ApplyLabels(l, g.Whole())
			if err != nil {
				t.Fatal(err)
			}
			a, b := centroid(l), centroid(o)
			for axis := range 3 {
				if away := math.Abs(a[axis]-b[axis]) / p.Spacing[axis]; away > 0.05 {
					t.Errorf("ratio %g, ball at %.2f: its centroid moved by %.3f voxels along %d", ratio, centre, away,
						axis)
				}
			}
			if share := float64(o.Counts()[1]) * ratio * ratio * ratio / float64(l.Counts()[1]); math.Abs(
				share-1,
			) > 0.08 {
				t.Errorf("ratio %g, ball at %.2f: its volume is %.3f times that before", ratio, centre, share)
			}
		}
	}
}

func centroid(l *LabelMap) (c [3]float64) {
	n := 0.0
	for k := range l.Shape[2] {
		for j := range l.Shape[1] {
			for i := range l.Shape[0] {
				if l.At(i, j, k) == 1 {
					n++
					for a, x := range l.World([3]float64{float64(i), float64(j), float64(k)}) {
						c[a] += x
					}
				}
			}
		}
	}
	for a := range c {
		c[a] /= n
	}
	return c
}

// Sheets and lines that are a voxel thick, and single voxels, are still there on voxels that are
// several times as large, wherever they lie; and a sheet has no hole.
func TestThinStructuresStay(t *testing.T) {
	g := Grid{Shape: [3]int{24, 24, 24}, Affine: Scaling([3]float64{1, 1, 1})}
	shapes := map[string]func(at [3]int, p [3]int) bool{
		"sheet": func(at, p [3]int) bool { return p[0] == at[0] },
		"line":  func(at, p [3]int) bool { return p[0] == at[0] && p[1] == at[1] },
		"voxel": func(at, p [3]int) bool { return p == at },
		"slant": func(at, p [3]int) bool { return p[0]+p[1] == at[0]+at[1] },
	}
	for _, name := range slices.Sorted(maps.Keys(shapes)) {
		for _, spacing := range []float64{0.7, 1.5, 2, 2.5, 3, 4} {
			for at := range 6 {
				l := &LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
				place := [3]int{8 + at, 9 + at, 7 + at}
				for n := range l.Labels {
					if shapes[name](place, [3]int{n % 24, n / 24 % 24, n / 576}) {
						l.Labels[n] = 3
					}
				}
				o, err := l.Resample([3]float64{spacing, spacing, spacing})
				if err != nil {
					t.Fatal(err)
				}
				what := fmt.Sprintf("%s at %d, on voxels of %g", name, at, spacing)
				if o.Counts()[3] == 0 {
					t.Errorf("%s: gone", what)
				}
				if name != "sheet" {
					continue
				}
				for k := range o.Shape[2] {
					for j := range o.Shape[1] {
						found := false
						for i := range o.Shape[0] {
							found = found || o.At(i, j, k) == 3
						}
						if !found {
							t.Fatalf("%s: has a hole", what)
						}
					}
				}
			}
		}
	}
}

// Labels that become one are one where a voxel is shared: two halves of an organ, of which neither
// has the largest share, are the organ together.
func TestMergedLabelsShareVoxelsAsOne(t *testing.T) {
	g := Grid{Shape: [3]int{8, 8, 8}, Affine: Scaling([3]float64{1, 1, 1})}
	l := &LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	// Of each block of 8 voxels, 3 are background, 3 are one half of the organ, 2 the other.
	for n := range l.Labels {
		switch n%2 + 2*(n/8%2) + 4*(n/64%2) {
		case 0, 1, 2:
		case 3, 4, 5:
			l.Labels[n] = 1
		default:
			l.Labels[n] = 2
		}
	}
	p := DefaultPreparation()
	p.Spacing, p.Relabel = [3]float64{2, 2, 2}, "2:1"
	o, err := p.ApplyLabels(l, g.Whole())
	if err != nil {
		t.Fatal(err)
	}
	if n := o.Counts()[1]; n != o.Len() {
		t.Errorf("%d of %d voxels are the organ, which has 5/8 of each", n, o.Len())
	}
}

func BenchmarkResampleLabels(b *testing.B) {
	l := thicket([3]int{192, 192, 128}, 1)
	for _, spacing := range [][3]float64{{2.2, 1.8, 3.4}, {1, 1, 1}, {3, 3, 3}} {
		b.Run(fmt.Sprint(spacing), func(b *testing.B) {
			for b.Loop() {
				if _, err := l.Resample(spacing); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(l.Len())*float64(b.N)/b.Elapsed().Seconds()/1e6, "Mvoxels/s")
		})
	}
}
