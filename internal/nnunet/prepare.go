package nnunet

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// prepared is a scan as the network sees it, and the way back.
type prepared struct {
	channels []array[float32]
	whole    [3]int // shape of the scan, transposed
	box      box    // of it that is not 0
	spacing  [3]float64
}

// prepare does what nnU-Net's DefaultPreprocessor does: transposes the file's axes, which are only
// turned where the plan says so; takes the box of what is not 0; normalises; resamples. It uses the
// voxels of the scans up.
func (p *Plan) prepare(scans []*volume.Volume, t turn) (*prepared, error) {
	r := &prepared{spacing: permuted(t.spacing, p.Forward)}
	var images []view[float32]
	for _, v := range scans {
		images = append(images, turned(t, fileArray(v).view()).transposed(p.Forward))
	}
	r.whole = images[0].shape
	inside, b := nonzero(images)
	r.box = b
	target := p.target(r.spacing)
	var shape [3]int
	for a, n := range b.size() {
		shape[a] = int(math.RoundToEven(r.spacing[a] / target[a] * float64(n)))
		if shape[a] < 1 {
			return nil, fmt.Errorf("the scan of %s voxels of %v mm has no voxel of the model's %v mm along one axis",
				numbers.Extents(r.whole[:]), r.spacing, target)
		}
	}
	if !slices.ContainsFunc(p.Channels, func(c channel) bool { return c.masked }) {
		inside = array[bool]{} // nothing is normalised by it
	}
	for n := range images {
		image := images[n].part(b)
		images[n] = view[float32]{} // each goes when it is used up
		if err := p.Channels[n].normalise(image, inside, b); err != nil {
			return nil, fmt.Errorf("channel %d: %w", n, err)
		}
		if image.shape == shape { // whatever the spacings are
			r.channels = append(r.channels, image.copied())
			continue
		}
		r.channels = append(r.channels, p.data.resampled(image, shape, r.spacing, target))
	}
	return r, nil
}

// fileArray takes the voxels of a scan, with the axes (k, j, i) of its file: it has none
// afterwards.
func fileArray(v *volume.Volume) array[float32] {
	x := array[float32]{[3]int{v.Shape[2], v.Shape[1], v.Shape[0]}, v.Float32}
	if v.Float32 == nil {
		x = newArray[float32](x.shape)
		for i, hu := range v.Int16 {
			x.values[i] = float32(hu)
		}
	}
	v.Int16, v.Float32 = nil, nil
	return x
}

// nonzero says which voxels are not 0 in some channel, or enclosed by such ones, and their box; the
// whole where there is none.
func nonzero(images []view[float32]) (inside array[bool], b box) {
	shape := images[0].shape
	inside = newArray[bool](shape)
	parallel(shape[0], func(i int) {
		n := i * shape[1] * shape[2]
		for j := range shape[1] {
			for k := range shape[2] {
				for _, x := range images {
					if x.values[x.first+i*x.strides[0]+j*x.strides[1]+k*x.strides[2]] != 0 {
						inside.values[n] = true
					}
				}
				n++
			}
		}
	})
	fillHoles(inside)
	b.from, b.to = shape, [3]int{}
	n := 0
	for i := range shape[0] {
		for j := range shape[1] {
			for k := range shape[2] {
				if inside.values[n] {
					for a, at := range [3]int{i, j, k} {
						b.from[a], b.to[a] = min(b.from[a], at), max(b.to[a], at+1)
					}
				}
				n++
			}
		}
	}
	if b.to == [3]int{} {
		b = box{to: shape}
	}
	return inside, b
}

// fillHoles sets what cannot be reached from the array's border without crossing what is set,
// through faces. It sweeps to and fro until nothing more is reached: that takes a byte a voxel.
func fillHoles(x array[bool]) {
	n, shape := len(x.values), x.shape
	strides := [3]int{shape[1] * shape[2], shape[2], 1}
	outside := make([]bool, n)
	for again := true; again; {
		again = false
		for sweep := range 2 {
			for at := range n {
				if sweep == 1 {
					at = n - 1 - at
				}
				if x.values[at] || outside[at] {
					continue
				}
				for a, stride := range strides {
					index := at / stride % shape[a]
					if index == 0 || index == shape[a]-1 || outside[at-stride] || outside[at+stride] {
						outside[at], again = true, true
						break
					}
				}
			}
		}
	}
	for at, out := range outside {
		x.values[at] = !out
	}
}

// each calls do with the index of each element, in order.
func (x view[T]) each(do func(at int)) {
	for i := range x.shape[0] {
		for j := range x.shape[1] {
			at := x.first + i*x.strides[0] + j*x.strides[1]
			for range x.shape[2] {
				do(at)
				at += x.strides[2]
			}
		}
	}
}

// normalise brings the voxels of a channel in a box to what the network was trained on, in float32
// as nnU-Net does. inside, of the whole scan, is looked at where the channel is masked.
func (c channel) normalise(x view[float32], inside array[bool], b box) error {
	finite := true
	x.each(func(at int) {
		finite = finite && !math.IsNaN(float64(x.values[at])) && !math.IsInf(float64(x.values[at]), 0)
	})
	if !finite {
		return errors.New("it has voxels that are not finite: put numbers in their place, such as -1024 for air")
	}
	const least = 1e-8 // of what is divided by
	var change func(v float32) float32
	switch c.scheme {
	case schemeCT:
		low, high, mean, sd := float32(c.Low), float32(c.High), float32(c.Mean), float32(max(c.SD, least))
		change = func(v float32) float32 { return (min(max(v, low), high) - mean) / sd }
	case schemeZScore:
		var in view[bool]
		if c.masked {
			in = inside.view().part(b)
		}
		n, mean, sd := moments(x, in)
		sd = max(sd, least)
		w := walk{x: x, in: in}
		for range n {
			at := w.next()
			x.values[at] = (x.values[at] - mean) / sd
		}
		return nil
	case schemeRescale:
		low, high := x.bounds(func(a, b float32) bool { return a < b })
		span := max(high-low, least)
		change = func(v float32) float32 { return (v - low) / span }
	case schemeRGB:
		low, high := x.bounds(func(a, b float32) bool { return a < b })
		if low < 0 || high > 255 {
			return fmt.Errorf("its values go from %g to %g, and the model was trained on colours of 0 to 255 (%s)", low,
				high, c.scheme)
		}
		change = func(v float32) float32 { return v / 255 }
	default:
		return nil
	}
	x.each(func(at int) { x.values[at] = change(x.values[at]) })
	return nil
}

// walk visits the elements of a view in order, those alone that in says where it has values. None
// of them is copied: scans are large.
type walk struct {
	x        view[float32]
	in       view[bool]
	line     int // to visit next
	left     int // of the present one
	at, inAt int // of the next element
}

// next is the index of the next element. There must be one.
func (w *walk) next() int {
	for {
		if w.left == 0 {
			i, j := w.line/w.x.shape[1], w.line%w.x.shape[1]
			w.at, w.inAt = w.x.index(i, j, 0), w.in.index(i, j, 0)
			w.line, w.left = w.line+1, w.x.shape[2]
		}
		at, chosen := w.at, w.in.values == nil || w.in.values[w.inAt]
		w.at, w.inAt, w.left = at+w.x.strides[2], w.inAt+w.in.strides[2], w.left-1
		if chosen {
			return at
		}
	}
}

// moments are mean and standard deviation over the elements of a view, those alone that in says
// where it has values, summed in float32 as numpy sums them. n is how many they are.
func moments(x view[float32], in view[bool]) (n int, mean, sd float32) {
	if in.values == nil {
		n = x.shape[0] * x.shape[1] * x.shape[2]
	}
	in.each(func(at int) {
		if in.values[at] {
			n++
		}
	})
	if n == 0 {
		return 0, 0, 0
	}
	w := walk{x: x, in: in}
	mean = pairwise(n, func() float32 { return x.values[w.next()] }) / float32(n)
	w = walk{x: x, in: in}
	squares := pairwise(n, func() float32 {
		v := x.values[w.next()] - mean
		return float32(v * v) // rounded by itself on every processor
	})
	return n, mean, float32(math.Sqrt(float64(squares / float32(n))))
}

// pairwise is numpy's sum of an array of n float32 in one piece, which next gives one after the
// other: eight sums side by side of up to 128 values, and sums of halves of more.
func pairwise(n int, next func() float32) float32 {
	switch {
	case n < 8:
		var sum float32
		for range n {
			sum += next()
		}
		return sum
	case n <= 128:
		var r [8]float32
		for k := range r {
			r[k] = next()
		}
		for range n/8 - 1 {
			for k := range r {
				r[k] += next()
			}
		}
		sum := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
		for range n % 8 {
			sum += next()
		}
		return sum
	}
	middle := n / 2
	middle -= middle % 8
	first := pairwise(middle, next)
	return first + pairwise(n-middle, next)
}
