package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// lrn is LRN and LRNGrad, some voxels an item. With s = K + Alpha/Size sum of x^2 over the window:
//
//	y = x s^-Beta        dx = dy s^-Beta - 2 Alpha Beta/Size x sum of dy x s^(-Beta-1) over the windows that x is in
type lrn struct {
	c        *CPU
	lanes    *laneKernels
	s        device.LRNSpec
	l        layout
	cut      chunks // voxelChunks
	backward bool
	rows     [][]float32 // of each worker

	x, dy, y Slice
}

func (c *CPU) newLRN(s device.LRNSpec, backward bool) (device.Kernel, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	k := &lrn{c: c, lanes: lanesOf(c.kernels.name), s: s, l: layoutOf(s.Shape), backward: backward}
	k.cut = voxelChunks(k.l)
	for range c.opt.Threads {
		k.rows = append(k.rows, make([]float32, 4*k.row()))
	}
	return k, nil
}

// LRN implements [device.ImageKernels].
func (c *CPU) LRN(s device.LRNSpec) (device.Kernel, error) { return c.newLRN(s, false) }

// LRNGrad implements [device.ImageKernels].
func (c *CPU) LRNGrad(s device.LRNSpec) (device.Kernel, error) { return c.newLRN(s, true) }

// row is the number of elements of a voxel's channels, whole vectors of them, with zeros on both
// sides for the windows of the first and the last ones.
func (k *lrn) row() int { return k.vectors()*block + 2*k.s.Size }

func (k *lrn) vectors() int { return (k.l.channels + block - 1) / block }

func (k *lrn) Scratch() int64 { return 0 }

func (k *lrn) Run(out, in []device.Buffer, _ device.Buffer) {
	k.y, k.x = out[0].(Slice), in[0].(Slice)
	if k.backward {
		k.dy = in[1].(Slice)
	}
	k.c.pool.run(k.cut.items(), k)
	k.x, k.dy, k.y = nil, nil, nil
}

func (k *lrn) do(worker, item int) {
	n, from := k.row(), k.s.Size
	rows := k.rows[worker]
	x, dy, power, scale := rows[:n], rows[n:2*n], rows[2*n:3*n], rows[3*n:]
	live := x[from:][:k.l.channels]
	for i, end := k.cut.item(item); i < end; i++ {
		image, lo, hi := k.cut.voxels(i)
		for v := lo; v < hi; v++ {
			k.l.gather(live, k.x, image, v)
			k.scales(x, power, scale)
			if k.backward {
				k.l.gather(dy[from:][:k.l.channels], k.dy, image, v)
				k.gradient(x, dy, power, scale)
			} else {
				for c := range live {
					live[c] *= power[from+c]
				}
			}
			k.l.scatter(k.y, live, image, v)
			clear(x[from+k.l.channels:])
		}
	}
}

// scales writes s and s^-Beta of every channel. Without a logarithm where Beta is 3/4, which is
// what the networks have.
func (k *lrn) scales(x, power, scale []float32) {
	from, size := k.s.Size, k.s.Size
	k.lanes.lrnScale(&power[from], &scale[from], &x[from-size/2], k.vectors(), size, k.s.Alpha/float32(size), k.s.K)
	if k.s.Beta != 0.75 {
		for c := from; c < from+k.l.channels; c++ {
			power[c] = float32(math.Pow(float64(scale[c]), -float64(k.s.Beta)))
		}
	}
}

// gradient replaces x by dx. The terms take the place of the powers.
func (k *lrn) gradient(x, dy, power, scale []float32) {
	from, size := k.s.Size, k.s.Size
	k.lanes.lrnTerms(&dy[from], &power[from], &x[from], &power[from], &scale[from], k.vectors())
	k.lanes.lrnSpread(&x[from], &dy[from], &power[from-(size-1)/2], k.vectors(), size,
		2*k.s.Alpha*k.s.Beta/float32(size))
}
