package restoration

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"sort"

	"github.com/voxsaw/voxsaw/internal/pretext"
)

// Genesis is how Models Genesis distorts a crop, as in config.py and utils.py of
// github.com/MrGiovanni/ModelsGenesis (pytorch). The order is flip, shuffling, non-linear
// intensity, painting; the target is flipped, too, and otherwise the crop as it was. The original
// works on intensities from 0 to 1 with a sigmoid behind the network; here they are from -1 to 1,
// and the network's output is taken as it is.
type Genesis struct {
	Nonlinear      float64 `yaml:"nonlinear" help:"how often intensities are mapped by a random Bezier curve"`
	Shuffle        float64 `yaml:"shuffle" help:"how often voxels are shuffled within small windows"`
	ShuffleWindows int     `yaml:"shuffle_windows" help:"number of these windows, each up to a tenth of the crop's side"`
	Paint          float64 `yaml:"paint" help:"how often parts of the crop are painted over with noise"`
	PaintOuter     float64 `yaml:"paint_outer" help:"of these times, how often all but a few windows is painted over (out-painting) rather than a few boxes (in-painting)"`
	Flip           float64 `yaml:"flip" help:"how often the crop is flipped along a random axis, and then again, up to three times"`
}

func init() {
	register(pretext.Task{
		Name: "genesis", Short: "restore a distorted crop, as Models Genesis does; trains the decoder, too",
		Title: "Restored crops of unseen cases", Score: "variance of held-out crops that is restored",
	}, func() (pretext.Settings, Genesis) {
		return pretext.DefaultSettings(64, 2), Genesis{Nonlinear: 0.9, Shuffle: 0.5, ShuffleWindows: 10000, Paint: 0.9,
			PaintOuter: 0.8, Flip: 0.4}
	})
}

// The sizes of what is painted, as parts of the crop's side.
const (
	paintBoxes   = 5    // in-painted, at most; and windows that are left by out-painting
	paintAgain   = 0.95 // how often one more box is painted, or one more window left
	paintMargin  = 3    // voxels between them and the crop's faces
	flipsAtMost  = 3
	smallestSide = 16 // of a crop, so that windows have room
)

func (g Genesis) check(crop [3]int) error {
	err := cmp.Or(pretext.CheckShare("nonlinear", g.Nonlinear), pretext.CheckShare("shuffle", g.Shuffle),
		pretext.CheckShare("paint", g.Paint), pretext.CheckShare("paint_outer", g.PaintOuter),
		pretext.CheckShare("flip", g.Flip),
		pretext.CheckRange("shuffle_windows", g.ShuffleWindows, 0, 1<<24))
	if err != nil {
		return err
	}
	if min(crop[0], crop[1], crop[2]) < smallestSide {
		return fmt.Errorf("crop is %dx%dx%d: task genesis wants sides of %d or more", crop[0], crop[1], crop[2],
			smallestSide)
	}
	if g.Nonlinear == 0 && g.Shuffle == 0 && g.Paint == 0 {
		return errors.New("nonlinear, shuffle and paint are all 0: nothing would be left to restore")
	}
	return nil
}

func (g Genesis) outputs() int { return 1 }
func (g Genesis) crops() int   { return 1 }

func (g Genesis) corrupt(r *rand.Rand, crops [][]float32, e example) {
	x := crops[0]
	for range flipsAtMost {
		if r.Float64() >= g.Flip {
			break
		}
		axis := r.IntN(3)
		for _, channel := range e.channels(x) {
			flip(channel, e.size, axis)
		}
	}
	copy(e.target, x)
	copy(e.input, x)
	if r.Float64() < g.Shuffle {
		shuffle(r, e.channels(e.input), e.channels(x), e.size, g.ShuffleWindows)
	}
	if r.Float64() < g.Nonlinear {
		for _, channel := range e.channels(e.input) {
			drawCurve(r).apply(channel)
		}
	}
	if r.Float64() >= g.Paint {
		return
	}
	if r.Float64() < g.PaintOuter {
		paintOuter(r, e.channels(e.input), e.size)
	} else {
		paintInner(r, e.channels(e.input), e.size)
	}
}

// A box is a part of a crop: its first voxel and its size.
type box struct{ origin, size [3]int }

// rows calls f with the first voxel of each row along i, and with the row's length.
func (b box) rows(size [3]int, f func(first, n int)) {
	for k := b.origin[2]; k < b.origin[2]+b.size[2]; k++ {
		for j := b.origin[1]; j < b.origin[1]+b.size[1]; j++ {
			f(b.origin[0]+size[0]*(j+size[1]*k), b.size[0])
		}
	}
}

// drawBox draws a box of a size from least to most (both included) that keeps a margin from the
// crop's faces.
func drawBox(r *rand.Rand, size, least, most [3]int, margin int) box {
	var b box
	for axis := range 3 {
		b.size[axis] = between(r, least[axis], most[axis])
	}
	for axis := range 3 {
		b.origin[axis] = between(r, margin, size[axis]-b.size[axis]-margin)
	}
	return b
}

// between draws a number from low to high, both included.
func between(r *rand.Rand, low, high int) int { return low + r.IntN(high-low+1) }

// part is n times the size, divided by d and rounded down.
func part(size [3]int, n, d int) [3]int {
	return [3]int{n * size[0] / d, n * size[1] / d, n * size[2] / d}
}

// flip mirrors a crop along an axis.
func flip(x []float32, size [3]int, axis int) {
	at := [3]int{}
	stride := [3]int{1, size[0], size[0] * size[1]}
	for at[2] = range size[2] {
		for at[1] = range size[1] {
			for at[0] = range size[0] {
				other := size[axis] - 1 - at[axis]
				if at[axis] >= other {
					continue
				}
				here := at[0]*stride[0] + at[1]*stride[1] + at[2]*stride[2]
				there := here + (other-at[axis])*stride[axis]
				x[here], x[there] = x[there], x[here]
			}
		}
	}
}

// shuffle writes windows of the channels of src, their voxels shuffled, to dst. Where windows
// overlap, the later one stands. A voxel keeps the values of its channels together.
func shuffle(r *rand.Rand, dst, src [][]float32, size [3]int, windows int) {
	most := part(size, 1, 10)
	voxels := make([][]float32, len(src)) // of each channel
	for range windows {
		b := drawBox(r, size, [3]int{1, 1, 1}, most, 0)
		for c := range src {
			voxels[c] = voxels[c][:0]
			b.rows(size, func(first, n int) { voxels[c] = append(voxels[c], src[c][first:first+n]...) })
		}
		r.Shuffle(len(voxels[0]), func(i, j int) {
			for _, v := range voxels {
				v[i], v[j] = v[j], v[i]
			}
		})
		for c := range dst {
			at := 0
			b.rows(size, func(first, n int) { at += copy(dst[c][first:first+n], voxels[c][at:]) })
		}
	}
}

// A curve maps intensities: a cubic Bezier curve with the end points (0, 0) and (1, 1) and two
// control points in the unit square, whose x and y never fall. An inverted one runs through the
// same heights from the other end.
type curve struct{ x, y []float32 }

const curvePoints = 4096

// drawCurve draws the control points, and whether the curve is inverted.
func drawCurve(r *rand.Rand) curve {
	a, b := [2]float64{r.Float64(), r.Float64()}, [2]float64{r.Float64(), r.Float64()}
	return newCurve(a, b, r.Float64() < 0.5)
}

func newCurve(a, b [2]float64, inverted bool) curve {
	c := curve{make([]float32, curvePoints), make([]float32, curvePoints)}
	for n := range curvePoints {
		s := float64(n) / (curvePoints - 1)
		of := func(axis int) float32 {
			return float32(3*s*(1-s)*(1-s)*a[axis] + 3*s*s*(1-s)*b[axis] + s*s*s)
		}
		c.x[n] = of(0)
		if inverted {
			c.y[curvePoints-1-n] = of(1)
		} else {
			c.y[n] = of(1)
		}
	}
	return c
}

// apply maps intensities from -1 to 1, between the points of the curve linearly.
func (c curve) apply(values []float32) {
	for i, v := range values {
		v = (v + 1) / 2
		next := sort.Search(curvePoints, func(n int) bool { return !(c.x[n] <= v) })
		switch next {
		case 0:
			v = c.y[0]
		case curvePoints:
			v = c.y[curvePoints-1]
		default:
			share := (v - c.x[next-1]) / (c.x[next] - c.x[next-1])
			v = c.y[next-1] + share*(c.y[next]-c.y[next-1])
		}
		values[i] = 2*v - 1
	}
}

// noise is an intensity from -1 to 1, each as likely.
func noise(r *rand.Rand) float32 { return 2*r.Float32() - 1 }

// paintInner paints noise over up to five boxes of a sixth to a third of the side.
func paintInner(r *rand.Rand, channels [][]float32, size [3]int) {
	for range paintBoxes {
		if r.Float64() >= paintAgain {
			return
		}
		drawBox(r, size, part(size, 1, 6), part(size, 1, 3), paintMargin).rows(size, func(first, n int) {
			for _, x := range channels {
				for i := range n {
					x[first+i] = noise(r)
				}
			}
		})
	}
}

// paintOuter paints noise over all but one to five windows of three to four sevenths of the side.
func paintOuter(r *rand.Rand, channels [][]float32, size [3]int) {
	painted := make([][]float32, len(channels))
	for c, x := range channels {
		painted[c] = make([]float32, len(x))
		for i := range painted[c] {
			painted[c][i] = noise(r)
		}
	}
	var least, most [3]int
	for axis, side := range size {
		least[axis], most[axis] = side-4*side/7, side-3*side/7
	}
	for n := range paintBoxes {
		if n > 0 && r.Float64() >= paintAgain {
			break
		}
		drawBox(r, size, least, most, paintMargin).rows(size, func(first, n int) {
			for c, x := range channels {
				copy(painted[c][first:first+n], x[first:])
			}
		})
	}
	for c, x := range channels {
		copy(x, painted[c])
	}
}
