package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// roi is RoIPool and RoIPoolGrad: a region an item on the way forth, a block of channels of an
// image on the way back, because regions overlap. A region of no image gets NaN, which nobody takes
// for a result.
type roi struct {
	c        *CPU
	s        device.RoISpec
	in, out  layout
	backward bool

	x, regions, y, dx, dy Slice
}

func (c *CPU) newRoI(s device.RoISpec, backward bool) (device.Kernel, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	return &roi{c: c, s: s, in: layoutOf(s.Shape), out: layoutOf(s.OutShape()), backward: backward}, nil
}

// RoIPool implements [device.ImageKernels].
func (c *CPU) RoIPool(s device.RoISpec) (device.Kernel, error) { return c.newRoI(s, false) }

// RoIPoolGrad implements [device.ImageKernels].
func (c *CPU) RoIPoolGrad(s device.RoISpec) (device.Kernel, error) { return c.newRoI(s, true) }

func (k *roi) Scratch() int64 { return 0 }

func (k *roi) Run(out, in []device.Buffer, _ device.Buffer) {
	k.x, k.regions = in[0].(Slice), in[1].(Slice)
	if k.backward {
		k.dx, k.dy = out[0].(Slice), in[2].(Slice)
		k.c.pool.run(k.in.n*k.in.blocks, k)
	} else {
		k.y = out[0].(Slice)
		k.c.pool.run(k.s.Regions, k)
	}
	k.x, k.regions, k.y, k.dx, k.dy = nil, nil, nil, nil, nil
}

// image is the image of a region; ok is false if there is none such.
func (k *roi) image(region []float32) (n int, ok bool) {
	if !(region[0] >= 0 && region[0] < float32(k.in.n)) {
		return 0, false
	}
	return int(region[0]), true
}

func (k *roi) do(_, item int) {
	if !k.backward {
		region := k.regions[5*item:][:5]
		n, ok := k.image(region)
		for b := range k.in.blocks {
			k.pool(region, n, b, item, ok)
		}
		return
	}
	n, b := item/k.in.blocks, item%k.in.blocks
	clear(k.dx[k.in.plane(n, b):][:k.in.voxels*k.in.lanes])
	for r := range k.s.Regions {
		region := k.regions[5*r:][:5]
		if image, ok := k.image(region); ok && image == n {
			k.spread(region, n, b, r)
		}
	}
}

// pool takes the greatest elements of the bins of a region.
func (k *roi) pool(region []float32, n, b, r int, ok bool) {
	at := k.out.plane(r, b)
	for h := range k.s.OutSize[0] {
		for w := range k.s.OutSize[1] {
			var best [block]float32
			if ok {
				var where [block]int
				k.greatest(region, n, b, h, w, &best, &where)
			} else {
				for lane := range k.in.liveLanes(b) {
					best[lane] = float32(math.NaN())
				}
			}
			copy(k.y[at:][:k.out.lanes], best[:])
			at += k.out.lanes
		}
	}
}

// spread adds the gradients of the bins of a region to where the greatest elements are.
func (k *roi) spread(region []float32, n, b, r int) {
	dx, at := k.dx[k.in.plane(n, b):], k.out.plane(r, b)
	for h := range k.s.OutSize[0] {
		for w := range k.s.OutSize[1] {
			var best [block]float32
			var where [block]int
			if k.greatest(region, n, b, h, w, &best, &where) {
				for lane := range k.in.lanes {
					dx[where[lane]*k.in.lanes+lane] += k.dy[at+lane]
				}
			}
			at += k.out.lanes
		}
	}
}

// greatest finds the greatest elements of a bin, and says whether there is any: of equals the first
// one, as [pooling] does.
func (k *roi) greatest(region []float32, n, b, h, w int, best *[block]float32, where *[block]int) bool {
	y1, y2, x1, x2 := k.s.Bin(region, h, w)
	x := k.x[k.in.plane(n, b):]
	start := true
	for i := y1; i < y2; i++ {
		for j := x1; j < x2; j++ {
			v := i*k.in.size[2] + j
			for lane, value := range x[v*k.in.lanes:][:k.in.lanes] {
				if start || value > best[lane] || value != value {
					best[lane], where[lane] = value, v
				}
			}
			start = false
		}
	}
	return !start
}
