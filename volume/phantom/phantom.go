// Package phantom makes abdominal CT scans of patients who do not exist, with labels: for the demo,
// and for tests that need many cases of known anatomy. Start at [New].
//
// A patient is a list of shapes, drawn one over the other: body wall, lungs, liver, spleen,
// kidneys, stomach, bowel, vessels, and a pancreas that bends from the duodenum over the aorta to
// the spleen. The seed varies place, size, form, contrast medium and how fat the patient is. Bowel
// and vessels around the pancreas share its HU, so that brightness alone does not find it; organs
// keep their places, so that a puzzle of it can be solved.
//
// It is no simulation of a scanner: no physics, no pathology, no artefacts but noise and partial
// volume.
package phantom

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/volume"
)

// The labels of a phantom.
const (
	Pancreas uint16 = iota + 1
	Liver
	Spleen
	RightKidney
	LeftKidney
	Stomach
	Aorta
	Vertebrae
)

// Names returns what the labels stand for.
func Names() map[uint16]string {
	return map[uint16]string{Pancreas: "pancreas", Liver: "liver", Spleen: "spleen", RightKidney: "right kidney",
		LeftKidney: "left kidney",
		Stomach:    "stomach", Aorta: "aorta", Vertebrae: "vertebrae"}
}

// fieldOfView is what a phantom covers, in mm, where no spacing is given.
var fieldOfView = [3]float64{380, 300, 260}

// Options says how a phantom is sampled. The patient always fills the scan.
type Options struct {
	Shape   [3]int     // voxels along right, front, head
	Spacing [3]float64 // mm; 0: such that the scan covers 380 x 300 x 260 mm
	Noise   float64    // standard deviation in HU; 0: 15
}

// New makes the patient of this seed. The grid is RAS, its centre at the origin; the voxels are
// int16 HU.
func New(number uint64, o Options) (*volume.Volume, *volume.LabelMap, error) {
	for axis := range o.Shape {
		if o.Spacing[axis] == 0 && o.Shape[axis] > 0 {
			o.Spacing[axis] = fieldOfView[axis] / float64(o.Shape[axis])
		}
	}
	o.Noise = cmp.Or(o.Noise, 15)
	grid := volume.Grid{Shape: o.Shape, Affine: volume.Scaling(o.Spacing)}
	for axis, n := range o.Shape {
		grid.Affine[axis][3] = -o.Spacing[axis] * float64(n-1) / 2
	}
	if err := grid.Check(); err != nil {
		return nil, nil, fmt.Errorf("phantom: %w", err)
	}
	if !(min(o.Spacing[0], o.Spacing[1], o.Spacing[2]) > 0) {
		return nil, nil, fmt.Errorf("phantom: spacing %v mm: must be positive", numbers.Extents(o.Spacing[:]))
	}
	if !(o.Noise > 0) || math.IsInf(o.Noise, 0) {
		return nil, nil, fmt.Errorf("phantom: noise of %g HU", o.Noise)
	}

	p := patient(seed.Rand(number, "phantom"))
	hu := make([]float32, grid.Len())
	v := &volume.Volume{Grid: grid, Int16: make([]int16, grid.Len())}
	l := &volume.LabelMap{Grid: grid, Labels: make([]uint16, grid.Len()), Names: Names()}
	slice := grid.Shape[0] * grid.Shape[1]
	eachSlice(grid.Shape[2], func(k int) { p.draw(grid.Shape, k, hu[k*slice:][:slice], l.Labels[k*slice:][:slice]) })
	eachSlice(grid.Shape[2], func(k int) {
		r := seed.Rand(number, "phantom/noise", uint64(k))
		finish(hu, grid.Shape, k, o.Noise, r, v.Int16[k*slice:][:slice])
	})
	return v, l, nil
}

// eachSlice calls f for every slice, on every core.
func eachSlice(n int, f func(k int)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		workers.Go(func() {
			for k := int(next.Add(1)) - 1; k < n; k = int(next.Add(1)) - 1 {
				f(k)
			}
		})
	}
	workers.Wait()
}

// draw fills slice k: HU and labels.
func (p *anatomy) draw(shape [3]int, k int, hu []float32, labels []uint16) {
	tissues := make([]tissue, len(hu))
	z := coordinate(k, shape[2])
	for _, s := range p.shapes {
		if z < s.low[2]-bend || z > s.high[2]+bend {
			continue
		}
		j0, j1 := span(s.low[1]-bend, s.high[1]+bend, shape[1])
		i0, i1 := span(s.low[0]-bend, s.high[0]+bend, shape[0])
		for j := j0; j < j1; j++ {
			y := coordinate(j, shape[1])
			for i := i0; i < i1; i++ {
				n := i + shape[0]*j
				if s.over&tissues[n] == 0 && s.over != anywhere {
					continue
				}
				// The patient's own coordinates: the warp makes every one a little different all
				// over.
				x := coordinate(i, shape[0])
				a, b, c := x+p.warp[0].at(y, z), y+p.warp[1].at(z, x), z+p.warp[2].at(x, y)
				value, painted, what := s.inside(a, b, c)
				if what == 0 {
					continue
				}
				hu[n], labels[n], tissues[n] = value, painted, what
			}
		}
	}
}

// coordinate puts voxel i of n between -1 and 1.
func coordinate(i, n int) float64 { return (2*float64(i)+1)/float64(n) - 1 }

// span returns the voxels of n with coordinates between low and high: [from, to).
func span(low, high float64, n int) (from, to int) {
	from = int(math.Ceil(((low+1)*float64(n) - 1) / 2))
	to = int(math.Floor(((high+1)*float64(n)-1)/2)) + 1
	return max(from, 0), min(to, n)
}

// finish adds what a scanner does: neighbouring voxels share their values (partial volume), and
// noise.
func finish(hu []float32, shape [3]int, k int, noise float64, r *rand.Rand, dst []int16) {
	ni, nj, nk := shape[0], shape[1], shape[2]
	at := func(i, j, k int) float32 {
		return hu[min(max(i, 0), ni-1)+ni*(min(max(j, 0), nj-1)+nj*min(max(k, 0), nk-1))]
	}
	for j := range nj {
		for i := range ni {
			n := i + ni*j
			smooth := 0.46*hu[n+ni*nj*k] + 0.09*(at(i-1, j, k)+at(i+1, j, k)+at(i, j-1, k)+at(i, j+1, k)+at(i, j, k-1)+
				at(i, j, k+1))
			value := math.Round(float64(smooth) + noise*r.NormFloat64())
			dst[n] = int16(min(max(value, -1024), 3071))
		}
	}
}
