package stack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/internal/ballot"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/pixels"
)

// Read makes a volume of the slices. Note is told what was repaired, and the doubts.
func (s *Stack) Read(o Options, doubts []string, note func(string)) (*volume.Volume, error) {
	p, err := s.Plan(o)
	if err != nil {
		return nil, err
	}
	for _, text := range slices.Concat(p.Notes, doubts) {
		note(text)
	}
	if s.whole() && !o.Fractions {
		voxels, err := decode[int16](s, p, note)
		if !errors.Is(err, errRange) {
			if err != nil {
				return nil, err
			}
			return &volume.Volume{Grid: p.Grid, Int16: voxels}, nil
		}
	}
	voxels, err := decode[float32](s, p, note)
	if err != nil {
		return nil, err
	}
	return &volume.Volume{Grid: p.Grid, Float32: voxels}, nil
}

// whole reports whether all values are whole numbers, as headers say: they are read as int16 where
// they fit, others as float32.
func (s *Stack) whole() bool {
	return !slices.ContainsFunc(s.Slices, func(one Slice) bool {
		_, _, whole := one.Info.Rescale()
		return !whole
	})
}

// VoxelBytes is the bytes of a voxel that [Stack.Read] makes, as headers say: 2 where whatever the
// stored bits may hold is a whole number of int16 after rescaling, otherwise 4. HU are within
// int16, however many bits a CT has for them.
func (s *Stack) VoxelBytes() int {
	if !s.whole() || slices.ContainsFunc(s.Slices, func(one Slice) bool { return !one.fits() }) {
		return 4
	}
	return 2
}

// fits reports whether all values that a slice's stored bits may hold are within int16.
func (s *Slice) fits() bool {
	if s.Image.Modality == "CT" {
		return true
	}
	low, high := 0.0, math.Exp2(float64(s.Image.Stored))-1
	if s.Image.Signed {
		low = -math.Exp2(float64(s.Image.Stored - 1))
		high = -low - 1
	}
	slope, intercept, _ := s.Info.Rescale()
	a, b := slope*low+intercept, slope*high+intercept
	return min(a, b) >= math.MinInt16 && max(a, b) <= math.MaxInt16
}

// fits says whether there is memory for what reading the stack onto a grid takes.
func (s *Stack) fits(g volume.Grid, need int64) error {
	if err := memory.Check(need); err != nil {
		return &volume.UnsupportedError{Path: s.Slices[0].Image.Path,
			Problem: fmt.Sprintf("is of a series of %v voxels", numbers.Extents(g.Shape[:])), Err: err}
	}
	return nil
}

// errRange says that a value does not fit the type of voxel.
var errRange = errors.New("value out of range")

// decode reads all slices, in parallel, and carries out the plan.
func decode[T int16 | float32](s *Stack, p *Plan, note func(string)) ([]T, error) {
	first := s.Slices[0].Image
	area := first.Rows * first.Columns
	need := int64(area*len(s.Slices)) * int64(binary.Size(*new(T)))
	if p.shifts != nil || p.resample { // a second time, on another grid
		need += int64(p.Grid.Len()) * int64(binary.Size(*new(T)))
	}
	if err := s.fits(p.Grid, need); err != nil {
		return nil, err
	}
	voxels := make([]T, area*len(s.Slices))
	doubts := make([]string, len(s.Slices))
	workers := min(runtime.GOMAXPROCS(0), len(s.Slices))
	type worker struct {
		pixels.Reader
		row []uint32
	}
	idle := make(chan *worker, workers)
	for range workers {
		idle <- &worker{row: make([]uint32, first.Columns)}
	}
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(workers)
	for k := range s.Slices {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil // another slice has failed
			}
			w := <-idle
			defer func() { idle <- w }()
			one := &s.Slices[k]
			f, err := w.Read(&one.Image.Image, one.Frame)
			if err != nil {
				return err
			}
			slope, intercept, _ := one.Info.Rescale()
			if !pixels.Values(f, slope, intercept, w.row, voxels[k*area:(k+1)*area]) {
				return errRange
			}
			doubts[k] = f.Doubt(w.row)
			return nil
		})
	}
	err := g.Wait()
	for range workers {
		(<-idle).Close()
	}
	if err != nil {
		return nil, err
	}
	if k := slices.IndexFunc(doubts, func(text string) bool { return text != "" }); k >= 0 {
		note(fmt.Sprintf("slice %d %s", k+1, doubts[k])) // others are of the same scanner
	}
	if p.shifts != nil || p.resample {
		voxels = assemble(voxels, first.Columns, first.Rows, p, background[T](s, voxels))
	}
	return voxels, nil
}

// background returns the value around the slices: PixelPaddingValue, or the smallest one of all.
func background[T int16 | float32](s *Stack, voxels []T) T {
	one := s.Slices[0]
	if one.Image.Padding != nil {
		slope, intercept, _ := one.Info.Rescale()
		if x := slope**one.Image.Padding + intercept; x >= math.MinInt16 && x <= math.MaxInt16 {
			return T(x)
		}
	}
	least := voxels[0]
	for _, x := range voxels {
		least = min(least, x)
	}
	return least
}

// rounded turns an interpolated value into a voxel.
func rounded[T int16 | float32](x float32) T {
	var t T
	if _, small := any(t).(int16); small {
		return T(math.Floor(float64(x) + 0.5)) // between values that fit
	}
	return T(x)
}

// sample finds canvas pixel n in a line of count pixels that is moved by shift: it lies between
// pixels a and b, a fraction f of the way.
func sample(n, count int, shift float64) (a, b int, f float32, ok bool) {
	x := float64(n) - shift
	if !(x >= -0.5 && x < float64(count)-0.5) {
		return 0, 0, 0, false
	}
	x = min(max(x, 0), float64(count-1))
	a = int(x)
	return a, min(a+1, count-1), float32(x - float64(a)), true
}

// assemble makes the slices of the plan's grid from the known ones, by linear interpolation: each
// is moved in its plane onto the canvas of p.columns x p.rows, and those between are mixed from
// their neighbours. Where one neighbour has no pixel, the other counts alone. Rows are upside down,
// as in the volume.
func assemble[T int16 | float32](voxels []T, columns, rows int, p *Plan, outside T) []T {
	out := make([]T, p.Grid.Len())
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k := range p.Grid.Shape[2] {
		g.Go(func() error {
			dst, shares := out[k*p.columns*p.rows:][:p.columns*p.rows], p.shares(k)
			sums, weights := make([]float32, p.columns), make([]float32, p.columns)
			for j := range p.rows {
				clear(sums)
				clear(weights)
				for _, from := range shares {
					// Shifts count from the first row in DICOM's order. From the last row, the
					// shift is what remains of the canvas.
					a, b, f, ok := sample(j, rows, float64(p.rows-rows)-from.shift[1])
					if !ok {
						continue
					}
					src := voxels[from.slice*columns*rows:][:columns*rows]
					for i := range sums {
						c, d, h, in := sample(i, columns, from.shift[0])
						if !in {
							continue
						}
						lower := (1-h)*float32(src[a*columns+c]) + h*float32(src[a*columns+d])
						upper := (1-h)*float32(src[b*columns+c]) + h*float32(src[b*columns+d])
						sums[i] += from.weight * ((1-f)*lower + f*upper)
						weights[i] += from.weight
					}
				}
				for i, weight := range weights {
					dst[j*p.columns+i] = outside
					if weight > 0 {
						dst[j*p.columns+i] = rounded[T](sums[i] / weight)
					}
				}
			}
			return nil
		})
	}
	g.Wait()
	return out
}

// Labels makes a label map of labels that are given pixel by pixel: columns first, then rows (from
// the first) and slices. Where the options move or resample slices, see
// [Plan.Labels].
// It may change stack.
func (s *Stack) Labels(stack []uint16, o Options) (*volume.LabelMap, error) {
	first := s.Slices[0].Image
	if want := first.Columns * first.Rows * len(s.Slices); len(stack) != want {
		return nil, fmt.Errorf("%d labels for the %d pixels of a series", len(stack), want)
	}
	p, err := s.Arrange(o)
	if err != nil {
		return nil, err
	}
	return &volume.LabelMap{Grid: p.Grid, Labels: p.Labels(stack, first.Columns, first.Rows)}, nil
}

// Labels carries out the plan on the labels of the slices, whose rows are in DICOM's order: each
// voxel takes the label that has the largest share of it, by the weights with which images are
// interpolated. It may change stack.
func (p *Plan) Labels(stack []uint16, columns, rows int) []uint16 {
	for image := range slices.Chunk(stack, columns*rows) {
		for low, high := 0, rows-1; low < high; low, high = low+1, high-1 {
			a, b := image[low*columns:][:columns], image[high*columns:][:columns]
			for n := range a {
				a[n], b[n] = b[n], a[n]
			}
		}
	}
	if p.shifts == nil && !p.resample {
		return stack
	}
	order := ballot.Rarest(stack)
	out := make([]uint16, p.Grid.Len())
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k := range p.Grid.Shape[2] {
		g.Go(func() error {
			var b ballot.Ballot
			shares := p.shares(k)
			for j := range p.rows {
				for i := range p.columns {
					b.Clear()
					for _, from := range shares {
						from.vote(&b, stack, columns, rows, i, j, p.rows)
					}
					out[(k*p.rows+j)*p.columns+i] = b.Winner(order)
				}
			}
			return nil
		})
	}
	g.Wait()
	return out
}

// vote adds the labels that a known slice has around pixel (i, j) of the canvas.
func (s share) vote(to *ballot.Ballot, stack []uint16, columns, rows, i, j, canvas int) {
	a, b, f, ok := sample(j, rows, float64(canvas-rows)-s.shift[1])
	c, d, h, in := sample(i, columns, s.shift[0])
	if !ok || !in {
		return
	}
	src := stack[s.slice*columns*rows:][:columns*rows]
	for _, pixel := range [4]struct {
		at     int
		weight float32
	}{{a*columns + c, (1 - f) * (1 - h)}, {a*columns + d, (1 - f) * h}, {b*columns + c, f * (1 - h)},
		{b*columns + d, f * h}} {
		if pixel.weight > 0 {
			to.Add(src[pixel.at], float64(s.weight*pixel.weight))
		}
	}
}
