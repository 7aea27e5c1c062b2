package nnunet

import (
	"errors"

	"github.com/voxsaw/voxsaw/volume"
)

// turn is how the axes of a file become those that a plan's arrays are made of: axis a of these is
// axis from[a] of the file, backwards where flip[a]. Voxels stay where they are, and are seen
// through a view, so that turning takes no memory.
type turn struct {
	from [3]int
	flip [3]bool
	grid volume.Grid // turned
	// along the turned axes (k, j, i), as SimpleITK reads it: headers of NIfTI hold float32
	spacing [3]float64
}

// turnedAxes are where axes grow to that are turned.
const turnedAxes = "RAS"

// turn is that of scans on a grid, whose files say so of their voxel sizes, see
// [volume.Volume.Pixdim].
func (p *Plan) turn(g volume.Grid, pixdim [3]float64) (turn, error) {
	t := turn{from: [3]int{0, 1, 2}, grid: g}
	if p.Turned {
		if err := t.towards(turnedAxes); err != nil {
			return t, err
		}
	}
	if pixdim == [3]float64{} || t.grid != g { // where nibabel turns axes, it writes pixdim anew
		pixdim = t.grid.Spacing()
	}
	for a := range t.spacing {
		t.spacing[a] = float64(float32(pixdim[2-a]))
	}
	return t, nil
}

// Seen is a scan's grid with the spacing that the plan goes by: [volume.Volume.Pixdim], but where
// axes are turned.
func (p *Plan) Seen(g volume.Grid, pixdim [3]float64) volume.Grid {
	if p.Turned {
		return g
	}
	return g.Sized(pixdim)
}

// towards turns the axes to where they shall grow to.
func (t *turn) towards(axes string) (err error) {
	own := t.grid
	if t.grid, err = own.Oriented(axes); err != nil {
		return err
	}
	for a := range 3 {
		found := false
		for b := range 3 {
			same, opposite := true, true
			for row := range 3 {
				x, y := t.grid.Affine[row][a], own.Affine[row][b]
				same, opposite = same && x == y, opposite && x == -y
			}
			if same || opposite {
				t.from[a], t.flip[a], found = b, opposite, true
			}
		}
		if !found {
			return errors.New("its axes cannot be turned to those of the patient")
		}
	}
	return nil
}

// turned is a view of an array of the file's axes (k, j, i) along the turned ones.
func turned[T any](t turn, x view[T]) view[T] {
	y := x
	for a := range 3 {
		n, from := 2-a, 2-t.from[a]
		y.shape[n], y.strides[n] = x.shape[from], x.strides[from]
		if t.flip[a] {
			y.first += (y.shape[n] - 1) * y.strides[n]
			y.strides[n] = -y.strides[n]
		}
	}
	return y
}
