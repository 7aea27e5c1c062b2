package dicom

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/volume"
)

// Read makes a volume of a series, with the default options. The values are those after
// RescaleSlope and RescaleIntercept (HU for CT): int16 where all of them are whole numbers that
// fit, float32 otherwise. Errors are [volume.FormatError] for damaged files,
// [volume.UnsupportedError] for what is not read or not repaired, and file system errors.
func Read(s *Series) (*volume.Volume, error) { return ReadWith(s, Options{}) }

// ReadWith is [Read] with options.
func ReadWith(s *Series, o Options) (*volume.Volume, error) {
	if err := o.defaults(); err != nil {
		return nil, err
	}
	p, err := s.plan(o)
	if err != nil {
		return nil, err
	}
	for _, note := range slices.Concat(p.notes, s.doubts) {
		o.Note(note)
	}
	whole := true
	for n := range s.slices {
		_, _, w := s.slices[n].image.rescale(&s.slices[n].info)
		whole = whole && w
	}
	if whole {
		voxels, err := decode[int16](s, p, o.Note)
		if !errors.Is(err, errRange) {
			if err != nil {
				return nil, err
			}
			return &volume.Volume{Grid: p.grid, Int16: voxels}, nil
		}
	}
	voxels, err := decode[float32](s, p, o.Note)
	if err != nil {
		return nil, err
	}
	return &volume.Volume{Grid: p.grid, Float32: voxels}, nil
}

// errRange says that a value does not fit int16.
var errRange = errors.New("value out of range")

// decode reads all slices, in parallel, and carries out the plan.
func decode[T int16 | float32](s *Series, p *plan, note func(string)) ([]T, error) {
	first := s.slices[0].image
	area := first.rows * first.columns
	voxels := make([]T, area*len(s.slices))
	doubts := make([]string, len(s.slices))
	workers := min(runtime.GOMAXPROCS(0), len(s.slices))
	type worker struct {
		frameReader
		row []uint32
	}
	idle := make(chan *worker, workers)
	for range workers {
		idle <- &worker{row: make([]uint32, first.columns)}
	}
	g, ctx := errgroup.WithContext(context.Background())
	g.SetLimit(workers)
	for k := range s.slices {
		g.Go(func() error {
			if ctx.Err() != nil {
				return nil // another slice has failed
			}
			w := <-idle
			defer func() { idle <- w }()
			one := &s.slices[k]
			f, err := w.read(one.image, one.frame)
			if err != nil {
				return err
			}
			if !real(&one.info, f, w.row, voxels[k*area:(k+1)*area]) {
				return errRange
			}
			doubts[k] = f.doubt(w.row)
			return nil
		})
	}
	err := g.Wait()
	for range workers {
		(<-idle).close()
	}
	if err != nil {
		return nil, err
	}
	if k := slices.IndexFunc(doubts, func(text string) bool { return text != "" }); k >= 0 {
		note(fmt.Sprintf("slice %d %s", k+1, doubts[k])) // others are of the same scanner
	}
	if p.shifts != nil || p.resample {
		voxels = assemble(voxels, first.columns, first.rows, p, background[T](s, voxels))
	}
	return voxels, nil
}

// background is the value around the slices: PixelPaddingValue, or the smallest one that there is.
func background[T int16 | float32](s *Series, voxels []T) T {
	one := s.slices[0]
	if one.image.padding != nil {
		slope, intercept, _ := one.image.rescale(&one.info)
		if x := slope**one.image.padding + intercept; x >= math.MinInt16 && x <= math.MaxInt16 {
			return T(x)
		}
	}
	least := voxels[0]
	for _, x := range voxels {
		least = min(least, x)
	}
	return least
}

// round turns an interpolated value into a voxel.
func round[T int16 | float32](x float32) T {
	var t T
	if _, small := any(t).(int16); small {
		return T(math.Floor(float64(x) + 0.5)) // between values that fit
	}
	return T(x)
}

// assemble makes the slices of the plan's grid of the known ones: each is moved in its plane onto
// the canvas of p.columns x p.rows, and those that are not known are mixed of their neighbours, all
// linearly interpolated. Where a neighbour does not reach, the other counts alone. Rows are upside
// down, as in the volume.
func assemble[T int16 | float32](voxels []T, columns, rows int, p *plan, outside T) []T {
	out := make([]T, p.grid.Len())
	// sample finds canvas pixel n in a line of count pixels that is moved by shift: between pixels
	// a and b, a fraction f of the way.
	sample := func(n, count int, shift float64) (a, b int, f float32, ok bool) {
		x := float64(n) - shift
		if !(x >= -0.5 && x < float64(count)-0.5) {
			return 0, 0, 0, false
		}
		x = min(max(x, 0), float64(count-1))
		a = int(x)
		return a, min(a+1, count-1), float32(x - float64(a)), true
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for k := range p.grid.Shape[2] {
		g.Go(func() error {
			dst, shares := out[k*p.columns*p.rows:][:p.columns*p.rows], p.shares(k)
			sums, weights := make([]float32, p.columns), make([]float32, p.columns)
			for j := range p.rows {
				clear(sums)
				clear(weights)
				for _, from := range shares {
					// The canvas begins at the lowest shift in DICOM's order of rows: seen from the
					// last row, the shift is the rest.
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
						dst[j*p.columns+i] = round[T](sums[i] / weight)
					}
				}
			}
			return nil
		})
	}
	g.Wait()
	return out
}
