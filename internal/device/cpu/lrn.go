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
	k := &lrn{c: c, s: s, l: layoutOf(s.Shape), backward: backward}
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

// row is the number of elements of a voxel's channels, with zeros on both sides for the windows of
// the first and the last ones.
func (k *lrn) row() int { return k.l.channels + 2*k.s.Size }

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
	n := k.row()
	rows := k.rows[worker]
	x, dy, power, sums := rows[:n], rows[n:2*n], rows[2*n:3*n], rows[3*n:]
	for i, end := k.cut.item(item); i < end; i++ {
		image, lo, hi := k.cut.voxels(i)
		for v := lo; v < hi; v++ {
			k.l.gather(x[k.s.Size:][:k.l.channels], k.x, image, v)
			k.scales(x, power, sums)
			if k.backward {
				k.l.gather(dy[k.s.Size:][:k.l.channels], k.dy, image, v)
				k.gradient(x, dy, power, sums)
			} else {
				for c := range power {
					x[c] *= power[c]
				}
			}
			k.l.scatter(k.y, x[k.s.Size:][:k.l.channels], image, v)
		}
	}
}

// scales writes s and s^-Beta of every channel.
func (k *lrn) scales(x, power, s []float32) {
	size, alpha := k.s.Size, k.s.Alpha/float32(k.s.Size)
	for c := size; c < size+k.l.channels; c++ {
		sum := float32(0)
		for _, e := range x[c-size/2 : c+(size-1)/2+1] {
			sum += e * e
		}
		s[c] = k.s.K + alpha*sum
		power[c] = powMinus(s[c], k.s.Beta)
	}
}

// gradient replaces x by dx.
func (k *lrn) gradient(x, dy, power, s []float32) {
	size, factor := k.s.Size, 2*k.s.Alpha*k.s.Beta/float32(k.s.Size)
	for c := size; c < size+k.l.channels; c++ {
		dy[c] *= power[c]
		s[c] = dy[c] * x[c] / s[c]
	}
	for c := size; c < size+k.l.channels; c++ {
		sum := float32(0)
		for _, e := range s[c-(size-1)/2 : c+size/2+1] {
			sum += e
		}
		x[c] = dy[c] - factor*x[c]*sum
	}
}

// powMinus is s^-beta; at 3/4, which is what the networks have, without a logarithm.
func powMinus(s, beta float32) float32 {
	if beta == 0.75 {
		root := float32(math.Sqrt(float64(s)))
		return 1 / (root * float32(math.Sqrt(float64(root))))
	}
	return float32(math.Pow(float64(s), -float64(beta)))
}
