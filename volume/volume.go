// Package volume holds what a scan is to the rest of the program: voxels on a grid, and where that
// grid lies in the patient.
//
// Start at [Volume] and [LabelMap]. Decoders (volume/nifti, volume/dicom) make them, [Preparation]
// turns them into what a network sees and back, and volume/prepared keeps the results on disk. The
// package knows no file format, and nothing about networks.
//
// Volumes and label maps are values: no method changes its receiver. Where there is nothing to do,
// a method may return the receiver itself: write into voxels only if you allocated them.
package volume

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Grid is a lattice of voxels in the patient: Shape voxels along the axes i, j, k, and the affine
// that takes voxel indices to millimetres.
type Grid struct {
	Shape  [3]int `json:"shape"`
	Affine Affine `json:"affine"`
}

// Volume is a scan. Exactly one of Int16 and Float32 holds the voxels; i runs fastest: voxel (i, j,
// k) is element i + Shape[0]*(j + Shape[1]*k).
type Volume struct {
	Grid
	Int16   []int16
	Float32 []float32
	// Pixdim are the voxel sizes along the axes, in mm, that the header of a NIfTI file says beside
	// the affine and that ITK takes; zero where there is no such file.
	Pixdim [3]float64
}

// LabelMap holds one label a voxel, 0 for background, in the same order as [Volume].
type LabelMap struct {
	Grid
	Labels []uint16
	Names  map[uint16]string // of the labels, where known
	// Undrawn are labels that nobody drew here, though they may be in the patient, in ascending
	// order: none of their voxels are known. A label that is neither here nor in Labels is absent.
	Undrawn []uint16
	// Emptied are labels that were drawn here and have lost all their voxels to others that share
	// them, in ascending order: they are neither absent nor undrawn.
	Emptied []uint16
}

// EmptiedOf lists, in ascending order, which of the drawn labels have no voxel.
func EmptiedOf(drawn map[uint16]bool, labels []uint16) (emptied []uint16) {
	if len(drawn) == 0 {
		return nil
	}
	left := make([]bool, 1<<16)
	for _, label := range labels {
		left[label] = true
	}
	for label := range drawn {
		if !left[label] {
			emptied = append(emptied, label)
		}
	}
	slices.Sort(emptied)
	return emptied
}

// ToLabel returns the label that a value of a file is, and whether it is one: a whole number from 0
// to 65535, but for the rounding of a scaled or interpolated file, within 0.001.
func ToLabel(x float64) (label uint16, ok bool) {
	const rounding = 1e-3
	n := math.Round(x)
	if !(math.Abs(x-n) <= rounding) || n < 0 || n > math.MaxUint16 {
		return 0, false
	}
	return uint16(n), true
}

// IgnoreName is the name of the label of voxels that nobody decided about, as nnU-Net's
// dataset.json has it: losses and scores leave them out.
const IgnoreName = "ignore"

// IgnoredLabels are the labels of that name among the names of labels, in ascending order. Data
// sets that were prepared together may have one each.
func IgnoredLabels(names map[uint16]string) (labels []uint16) {
	for label, name := range names {
		if label > 0 && strings.EqualFold(name, IgnoreName) {
			labels = append(labels, label)
		}
	}
	slices.Sort(labels)
	return labels
}

// Affine takes voxel indices (i, j, k, 1) to world coordinates in millimetres, RAS+: x grows to the
// right of the patient, y to the front, z to the head.
type Affine [4][4]float64

// Check says whether v is whole: a grid that passes [Grid.Check] and one voxel for each of its
// points in exactly one of Int16 and Float32.
func (v *Volume) Check() error {
	if err := v.Grid.Check(); err != nil {
		return err
	}
	if (v.Int16 == nil) == (v.Float32 == nil) {
		return fmt.Errorf("a volume holds its voxels in exactly one of Int16 and Float32")
	}
	if n := len(v.Int16) + len(v.Float32); n != v.Len() {
		return fmt.Errorf("shape %v needs %d voxels, there are %d", numbers.Extents(v.Shape[:]), v.Len(), n)
	}
	return nil
}

// Check says whether l is whole: a grid that passes [Grid.Check] and one label for each of its
// points.
func (l *LabelMap) Check() error {
	if err := l.Grid.Check(); err != nil {
		return err
	}
	if len(l.Labels) != l.Len() {
		return fmt.Errorf("shape %v needs %d labels, there are %d", numbers.Extents(l.Shape[:]), l.Len(), len(l.Labels))
	}
	return nil
}

// At returns the value of voxel (i, j, k).
func (v *Volume) At(i, j, k int) float32 {
	n := v.Index(i, j, k)
	if v.Int16 != nil {
		return float32(v.Int16[n])
	}
	return v.Float32[n]
}

// At returns the label of voxel (i, j, k).
func (l *LabelMap) At(i, j, k int) uint16 { return l.Labels[l.Index(i, j, k)] }

// Statistics describes the voxels that are finite.
type Statistics struct {
	Min, Max  float32 // 0 where no voxel is finite
	Mean      float64 // 0 where no voxel is finite
	NonFinite int     // voxels that are NaN or infinite, left out of the others
}

// Statistics returns the range and mean of the voxels.
func (v *Volume) Statistics() Statistics {
	if v.Int16 != nil {
		return statistics(v.Int16, addWhole)
	}
	return statistics(v.Float32, addFloats)
}

// addFloats adds voxels to what is known of others, and returns their sum.
func addFloats(to *Statistics, voxels []float32) (sum float64) {
	for _, x := range voxels {
		if !numbers.Finite(x) {
			to.NonFinite++
			continue
		}
		to.Min, to.Max = min(to.Min, x), max(to.Max, x)
		sum += float64(x)
	}
	return sum
}

// addWhole is addFloats of whole numbers, whose sum is exact.
func addWhole(to *Statistics, voxels []int16) float64 {
	low, high, sum := voxels[0], voxels[0], int64(0)
	for _, x := range voxels {
		low, high, sum = min(low, x), max(high, x), sum+int64(x)
	}
	to.Min, to.Max = min(to.Min, float32(low)), max(to.Max, float32(high))
	return float64(sum)
}

func statistics[T int16 | float32](voxels []T, add func(to *Statistics, voxels []T) (sum float64)) Statistics {
	t := NewTally(len(voxels))
	parallel(len(t.parts), func(b int) { tally(t, b, voxels[b*TallyBlock:min((b+1)*TallyBlock, len(voxels))], add) })
	return t.Statistics()
}

// TallyBlock is how many voxels a block of a [Tally] has; the last one may have fewer.
const TallyBlock = 1 << 16

// A Tally is the statistics of a volume whose voxels come block by block, in any order, and on
// several goroutines: they are those of the whole volume, to the bit.
type Tally struct {
	voxels int
	parts  []Statistics
	sums   []float64
}

// NewTally is for so many voxels.
func NewTally(voxels int) *Tally {
	blocks := (voxels + TallyBlock - 1) / TallyBlock
	return &Tally{voxels, make([]Statistics, blocks), make([]float64, blocks)}
}

// AddInt16 takes a block of whole numbers. Each block comes once.
func (t *Tally) AddInt16(block int, voxels []int16) { tally(t, block, voxels, addWhole) }

// AddFloat32 takes a block of other numbers. Each block comes once.
func (t *Tally) AddFloat32(block int, voxels []float32) { tally(t, block, voxels, addFloats) }

func tally[T int16 | float32](t *Tally, block int, voxels []T, add func(to *Statistics, voxels []T) (sum float64)) {
	part := Statistics{Min: float32(math.Inf(1)), Max: float32(math.Inf(-1))}
	t.sums[block] = add(&part, voxels)
	t.parts[block] = part
}

// Statistics sums the blocks up, all of which have come.
func (t *Tally) Statistics() Statistics {
	all := Statistics{Min: float32(math.Inf(1)), Max: float32(math.Inf(-1))}
	var sum float64
	for b, part := range t.parts {
		all.Min, all.Max = min(all.Min, part.Min), max(all.Max, part.Max)
		all.NonFinite += part.NonFinite
		sum += t.sums[b]
	}
	n := t.voxels - all.NonFinite
	if n == 0 {
		return Statistics{NonFinite: all.NonFinite}
	}
	all.Mean = sum / float64(n)
	return all
}

// CheckFinite returns an error that counts the voxels that are NaN or infinite and names the first,
// or nil if there is none.
func (v *Volume) CheckFinite() error {
	const exponent, carry = 0x7f800000, 1 << 31 // all ones in the exponent of what is not finite
	odd := uint32(0)
	for _, x := range v.Float32 {
		odd |= math.Float32bits(x)&exponent + 1<<23
	}
	if odd&carry == 0 { // as nearly always, and faster than counting
		return nil
	}
	count, first := 0, 0
	for n, x := range v.Float32 {
		if !numbers.Finite(x) {
			if count == 0 {
				first = n
			}
			count++
		}
	}
	i, j, k := first%v.Shape[0], first/v.Shape[0]%v.Shape[1], first/v.Shape[0]/v.Shape[1]
	return fmt.Errorf("%d of %d voxels are not finite, the first at (%d, %d, %d)", count, v.Len(), i, j, k)
}

// Counts returns how many voxels each label has, background included.
func (l *LabelMap) Counts() map[uint16]int {
	var table [1 << 16]int
	for _, label := range l.Labels {
		table[label]++
	}
	counts := map[uint16]int{}
	for label, n := range table {
		if n > 0 {
			counts[uint16(label)] = n
		}
	}
	return counts
}

// Window returns the volume with every value below lo raised to lo and every value above hi lowered
// to hi (HU). NaN becomes lo. An int16 volume stays one, its bounds rounded inwards.
func (v *Volume) Window(lo, hi float64) (*Volume, error) {
	if !(lo < hi) {
		return nil, fmt.Errorf("window [%g, %g]: the lower end must be below the upper one", lo, hi)
	}
	o := &Volume{Grid: v.Grid}
	if v.Int16 != nil {
		a := int16(min(max(math.Ceil(lo), math.MinInt16), math.MaxInt16))
		b := int16(min(max(math.Floor(hi), math.MinInt16), math.MaxInt16))
		if a > b {
			return nil, fmt.Errorf("window [%g, %g] holds no whole number", lo, hi)
		}
		o.Int16 = make([]int16, len(v.Int16))
		blocks(len(o.Int16), func(from, to int) {
			dst, src := o.Int16[from:to], v.Int16[from:to]
			for n, x := range src {
				dst[n] = min(max(x, a), b)
			}
		})
		return o, nil
	}
	a, b := float32(lo), float32(hi)
	o.Float32 = make([]float32, len(v.Float32))
	blocks(len(o.Float32), func(from, to int) {
		dst, src := o.Float32[from:to], v.Float32[from:to]
		for n, x := range src {
			if !(x >= a) {
				x = a
			}
			dst[n] = min(x, b)
		}
	})
	return o, nil
}

// Crop returns size voxels from origin on. Voxels outside v get the value pad, rounded for an int16
// volume.
func (v *Volume) Crop(origin, size [3]int, pad float32) (*Volume, error) {
	o := &Volume{Grid: v.Cropped(origin, size)}
	if err := o.Grid.Check(); err != nil {
		return nil, fmt.Errorf("crop: %w", err)
	}
	if v.Int16 != nil {
		o.Int16 = crop(v.Int16, v.Shape, origin, size, toInt16(pad))
	} else {
		o.Float32 = crop(v.Float32, v.Shape, origin, size, pad)
	}
	return o, nil
}

// Crop returns size voxels from origin on. Voxels outside l are background.
func (l *LabelMap) Crop(origin, size [3]int) (*LabelMap, error) {
	o := &LabelMap{Grid: l.Cropped(origin, size), Names: l.Names, Undrawn: l.Undrawn, Emptied: l.Emptied}
	if err := o.Grid.Check(); err != nil {
		return nil, fmt.Errorf("crop: %w", err)
	}
	o.Labels = crop(l.Labels, l.Shape, origin, size, 0)
	return o, nil
}

func crop[T comparable](src []T, shape, origin, size [3]int, pad T) []T {
	dst := make([]T, size[0]*size[1]*size[2])
	var zero T
	if pad != zero {
		for n := range dst {
			dst[n] = pad
		}
	}
	i0, i1 := max(0, -origin[0]), min(size[0], shape[0]-origin[0])
	if i0 >= i1 {
		return dst
	}
	for k := range size[2] {
		sk := k + origin[2]
		if sk < 0 || sk >= shape[2] {
			continue
		}
		for j := range size[1] {
			sj := j + origin[1]
			if sj < 0 || sj >= shape[1] {
				continue
			}
			s := origin[0] + shape[0]*(sj+shape[1]*sk)
			d := size[0] * (j + size[1]*k)
			copy(dst[d+i0:d+i1], src[s+i0:s+i1])
		}
	}
	return dst
}

// toInt16 rounds to the nearest whole number, halves upwards, and stays within int16. NaN becomes
// 0.
func toInt16(x float32) int16 {
	f := math.Floor(float64(x) + 0.5)
	switch {
	case f >= math.MaxInt16:
		return math.MaxInt16
	case f <= math.MinInt16:
		return math.MinInt16
	case f != f:
		return 0
	}
	return int16(f)
}
