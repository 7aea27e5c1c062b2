package segment

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Augmentation is how training crops are varied. Intensities are those that the network sees, most
// of which lie in [-1, 1] or in another range that the scheme of the preparation has.
type Augmentation struct {
	// nnunet: crops are varied by the transforms of nnU-Net's default training (docs/own-scans.md
	// says what differs), and mirrored along the axes of mirror; left out: as the other keys say
	Preset string `yaml:"preset,omitempty" oneof:"nnunet"`
	// intensities are multiplied by 1 plus or minus up to this
	Gain float64 `yaml:"gain" range:"[0,1]"`
	// plus or minus up to this is added to intensities
	Shift float64 `yaml:"shift"`
	// gamma correction with an exponent of e to the plus or minus up to this
	Gamma float64 `yaml:"gamma"`
	// standard deviation of noise is drawn from 0 up to this
	Noise float64 `yaml:"noise"`
	// share of crops that are rotated, scaled and deformed
	Spatial float64 `yaml:"spatial" range:"[0,1]"`
	// degrees, plus or minus, about each axis
	Rotation float64 `yaml:"rotation"`
	// crops are enlarged or shrunk by up to this share
	Scale float64 `yaml:"scale" range:"[0,1)"`
	// elastic deformation: standard deviation of its control points' displacement in voxels
	Elastic float64 `yaml:"elastic"`
	// axes along which crops are mirrored with probability 1/2, such as i or ij; off by default: on
	// CT, left and right are information
	Mirror string `yaml:"mirror"`
	// preset nnunet: how often each of nnU-Net's transforms is applied
	NNUNet NNUNetAugmentation `yaml:"nnunet,omitempty" flag:"-"`
}

// DefaultAugmentation varies intensities in every crop, and the shape of one in three.
func DefaultAugmentation() Augmentation {
	return Augmentation{Gain: 0.1, Shift: 0.1, Gamma: 0.1, Noise: 0.03, Spatial: 0.33, Rotation: 10, Scale: 0.1,
		Elastic: 2, NNUNet: DefaultNNUNetAugmentation()}
}

// Unused says whether a key does nothing beside the others; files are written without it.
func (a Augmentation) Unused(key string) bool {
	if a.Preset == "" {
		return key == "nnunet"
	}
	return !slices.Contains([]string{"preset", "mirror", "nnunet"}, key)
}

func (a Augmentation) check() error {
	if a.Preset != "" && a.Preset != PresetNNUNet {
		return fmt.Errorf("augment: there is no preset %q: choose %s", a.Preset, PresetNNUNet)
	}
	none, usual := NNUNetAugmentation{}, DefaultAugmentation()
	own := usual
	own.Preset, own.Mirror, own.NNUNet = a.Preset, a.Mirror, a.NNUNet
	switch {
	case a.Preset == "" && a.NNUNet != none && a.NNUNet != usual.NNUNet:
		return errors.New("augment.nnunet does nothing without augment.preset nnunet")
	case a.Preset != "" && a.NNUNet == none:
		return errors.New("augment.nnunet: all shares are 0: for crops that are not varied leave preset and nnunet " +
			"out, and set gain, shift, gamma, noise and spatial to 0")
	case a.Preset != "" && a != own && a != (Augmentation{Preset: a.Preset, Mirror: a.Mirror, NNUNet: a.NNUNet}):
		return fmt.Errorf("augment: with preset %s, gain, shift, gamma, noise, spatial, rotation, scale and elastic "+
			"do nothing: leave them out", a.Preset)
	}
	if err := a.NNUNet.check(); err != nil {
		return err
	}
	for _, v := range []struct {
		name         string
		value, limit float64
	}{
		{"gain", a.Gain, 0.9}, {"shift", a.Shift, 10}, {"gamma", a.Gamma, 3}, {"noise", a.Noise, 10},
		{"spatial", a.Spatial, 1}, {"rotation", a.Rotation, 180}, {"scale", a.Scale, 0.9}, {"elastic", a.Elastic, 64},
	} {
		if !(v.value >= 0 && v.value <= v.limit) {
			return fmt.Errorf("augment: %s is %v, must be from 0 to %v", v.name, v.value, v.limit)
		}
	}
	if err := sliding.CheckMirror(a.Mirror); err != nil {
		return fmt.Errorf("augment: %w", err)
	}
	return nil
}

// sample reads a crop of a case, all channels of it, and its labels, varied by a generator.
func (a Augmentation) sample(image, labels []float32, c *prepared.Case, origin, size [3]int, r *rand.Rand) error {
	return a.marked(image, labels, c, c.Labels, origin, size, r)
}

// A reader reads a value of each voxel of a crop, of the nearest of which deformed crops are made:
// labels, for one.
type reader func(to []float32, origin, size [3]int) error

// marked is sample with other values of the voxels than the case's labels.
func (a Augmentation) marked(image, labels []float32, c *prepared.Case, marks reader, origin, size [3]int,
	r *rand.Rand) error {
	var w *warp
	if a.Preset == PresetNNUNet {
		w = a.NNUNet.warp(c.Spacing, size, r)
	} else if r.Float64() < a.Spatial {
		w = a.warp(c.Spacing, size, r)
	}
	read := func() error { return readCrop(c, marks, image, labels, origin, size) }
	if w != nil {
		read = func() error { return w.deform(image, labels, c, marks, origin) }
	}
	if err := read(); err != nil {
		return err
	}
	for axis, name := range "ijk" {
		if strings.ContainsRune(a.Mirror, name) && r.IntN(2) == 1 {
			sliding.Mirror(image, size, axis)
			sliding.Mirror(labels, size, axis)
		}
	}
	if a.Preset == PresetNNUNet {
		a.NNUNet.intensities(image, size, r)
		return nil
	}
	for channel := range c.Channels() {
		a.intensities(image[channel*len(labels):(channel+1)*len(labels)], c.Range(channel), r)
	}
	return nil
}

func readCrop(c *prepared.Case, marks reader, image, labels []float32, origin, size [3]int) error {
	if err := c.Crop(image, origin, size); err != nil {
		return err
	}
	return marks(labels, origin, size)
}

// plusMinus draws from [-x, x).
func plusMinus(r *rand.Rand, x float64) float64 { return x * (2*r.Float64() - 1) }

// intensities varies gamma, gain and shift, and adds noise. Gamma is that of the usual range of
// intensities: its curve goes on above it; what lies below stays as it is, for the curve has no
// values there, and voxels that differ are to differ still, as they do in prediction. nnU-Net takes
// the range of each crop instead.
func (a Augmentation) intensities(image []float32, usual [2]float32, r *rand.Rand) {
	gain, shift := float32(1+plusMinus(r, a.Gain)), float32(plusMinus(r, a.Shift))
	gamma, noise := math.Exp(plusMinus(r, a.Gamma)), float32(a.Noise*r.Float64())
	low, width := float64(usual[0]), float64(usual[1]-usual[0])
	for i, x := range image {
		if a.Gamma > 0 && x > usual[0] {
			x = float32(width*math.Pow(float64(x-usual[0])/width, gamma) + low)
		}
		x = x*gain + shift
		if a.Noise > 0 {
			x += noise * float32(r.NormFloat64())
		}
		image[i] = x
	}
}

// deform reads a crop through a warp: the image linearly interpolated, the label of the nearest
// voxel.
func (w *warp) deform(image, labels []float32, c *prepared.Case, read reader, origin [3]int) error {
	size := w.size
	low, high := w.bounds()
	var from, extent [3]int // of the part of the scan that is looked at, in voxels from origin
	for axis := range 3 {
		from[axis] = int(math.Floor(low[axis]))
		// the voxel above the highest is interpolated with
		extent[axis] = int(math.Floor(high[axis])) + 2 - from[axis]
	}
	source := [3]int{origin[0] + from[0], origin[1] + from[1], origin[2] + from[2]}
	n := extent[0] * extent[1] * extent[2]
	values, marks := make([]float32, c.Channels()*n), make([]float32, n)
	if err := readCrop(c, read, values, marks, source, extent); err != nil {
		return err
	}
	at := 0
	for k := range size[2] {
		for j := range size[1] {
			w.line(j, k, func(p [3]float64) {
				for axis := range p {
					p[axis] -= float64(from[axis])
				}
				for channel := range c.Channels() {
					image[channel*len(labels)+at] = volume.Trilinear(values[channel*n:(channel+1)*n], extent, p)
				}
				labels[at] = volume.NearestValue(marks, extent, p)
				at++
			})
		}
	}
	return nil
}

// A warp says for each voxel of a crop where in the scan, in voxels from the crop's origin, its
// value is taken from:
//
//	M (p - centre) + centre + d(p)
//
// with M a rotation and scaling in millimetres, and d a cubic B-spline over control points that lie
// spacing voxels apart.
type warp struct {
	size   [3]int
	matrix [3][3]float64
	// displacements along each axis at the control points; nil without elastic deformation
	control [3][]float64
	lattice [3]int  // of control points
	reach   float64 // the largest displacement
}

// spacing of the control points, in voxels.
const controlSpacing = 16

func (a Augmentation) warp(spacing [3]float64, size [3]int, r *rand.Rand) *warp {
	var degrees [3]float64
	for axis := range 3 {
		degrees[axis] = plusMinus(r, a.Rotation)
	}
	zoom := 1 + plusMinus(r, a.Scale)
	w := linearWarp(spacing, size, degrees, [3]float64{zoom, zoom, zoom})
	if a.Elastic == 0 {
		return w
	}
	w.reach = 2 * a.Elastic
	for axis, n := range size {
		// a cubic spline looks at four control points around
		w.lattice[axis] = (n-1)/controlSpacing + 4
	}
	for axis := range 3 {
		w.control[axis] = make([]float64, w.lattice[0]*w.lattice[1]*w.lattice[2])
		for i := range w.control[axis] {
			w.control[axis][i] = a.Elastic * min(max(r.NormFloat64(), -2), 2)
		}
	}
	return w
}

// linearWarp turns a crop about each axis, and looks at so many times its extent along each.
func linearWarp(spacing [3]float64, size [3]int, degrees, zoom [3]float64) *warp {
	w := &warp{size: size, matrix: [3][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}}
	for axis, d := range degrees {
		w.matrix = product(rotation(axis, d*math.Pi/180), w.matrix)
	}
	for row := range 3 {
		for column := range 3 {
			// voxels -> mm -> voxels
			w.matrix[row][column] *= zoom[column] * spacing[column] / spacing[row]
		}
	}
	return w
}

func rotation(axis int, angle float64) [3][3]float64 {
	m := [3][3]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
	b, c := (axis+1)%3, (axis+2)%3
	m[b][b], m[b][c], m[c][b], m[c][c] = math.Cos(angle), -math.Sin(angle), math.Sin(angle), math.Cos(angle)
	return m
}

func product(a, b [3][3]float64) [3][3]float64 {
	var m [3][3]float64
	for i := range 3 {
		for j := range 3 {
			for k := range 3 {
				m[i][j] += a[i][k] * b[k][j]
			}
		}
	}
	return m
}

// bounds encloses all points that the warp looks at. Those of the linear part are extreme at
// corners; a B-spline stays within its control points.
func (w *warp) bounds() (low, high [3]float64) {
	for row := range 3 {
		half := 0.0
		for column, n := range w.size {
			half += math.Abs(w.matrix[row][column]) * float64(n-1) / 2
		}
		centre := float64(w.size[row]-1) / 2
		low[row], high[row] = centre-half-w.reach, centre+half+w.reach
	}
	return low, high
}

// line calls point for each voxel of line (j, k), in order. The spline is first evaluated in j and
// k, which leaves one along i.
func (w *warp) line(j, k int, point func(p [3]float64)) {
	var centre, start [3]float64
	for axis, n := range w.size {
		centre[axis] = float64(n-1) / 2
	}
	for row := range 3 {
		m := w.matrix[row]
		start[row] = centre[row] - m[0]*centre[0] + m[1]*(float64(j)-centre[1]) + m[2]*(float64(k)-centre[2])
	}
	var along [3][]float64
	if w.reach > 0 {
		for axis := range 3 {
			along[axis] = w.collapse(axis, j, k)
		}
	}
	for i := range w.size[0] {
		var p [3]float64
		for row := range 3 {
			p[row] = start[row] + w.matrix[row][0]*float64(i)
		}
		if w.reach > 0 {
			first, b := basis(i)
			for axis := range 3 {
				for t := range 4 {
					p[axis] += b[t] * along[axis][first+t]
				}
			}
		}
		point(p)
	}
}

// collapse sums the control points of an axis's displacement over j and k.
func (w *warp) collapse(axis, j, k int) []float64 {
	firstJ, bj := basis(j)
	firstK, bk := basis(k)
	sum := make([]float64, w.lattice[0])
	for c := range 4 {
		for b := range 4 {
			row := w.control[axis][w.lattice[0]*(firstJ+b+w.lattice[1]*(firstK+c)):]
			for i := range sum {
				sum[i] += bk[c] * bj[b] * row[i]
			}
		}
	}
	return sum
}

// basis is the first of the four control points that voxel i depends on, and their weights.
func basis(i int) (first int, b [4]float64) {
	return i / controlSpacing, volume.CubicBSpline(float64(i%controlSpacing) / controlSpacing)
}
