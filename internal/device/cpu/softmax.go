package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// softmax is Softmax and SoftmaxGrad over the channels. Up to 16 classes are one block, softmax over whose lanes is one assembly kernel; more are gathered voxel by voxel.
type softmax struct {
	c        *CPU
	lanes    *laneKernels
	l        layout
	cut      chunks // of voxels of one lane
	backward bool
	live     [block]float32
	gathered [][3][]float32 // a worker each: x or p, dp, result

	y, x, dy Slice // backward: x is the softmax, y the gradient
}

func newSoftmax(c *CPU, s device.Shape, backward bool) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	k := &softmax{c: c, lanes: lanesOf(c.kernels.name), l: forRank(s), backward: backward}
	k.cut = voxelChunks(k.l)
	k.live = k.l.live()
	k.gathered = make([][3][]float32, c.Threads())
	for w := range k.gathered {
		for i := range k.gathered[w] {
			k.gathered[w][i] = make([]float32, k.l.channels)
		}
	}
	return k, nil
}

// Softmax implements [device.Device].
func (c *CPU) Softmax(s device.Shape) (device.Kernel, error) { return newSoftmax(c, s, false) }

// SoftmaxGrad implements [device.Device].
func (c *CPU) SoftmaxGrad(s device.Shape) (device.Kernel, error) { return newSoftmax(c, s, true) }

// voxelChunks cuts the voxels of each image, whatever the number of channels: chunks of 1024, in a plane that is an image.
func voxelChunks(l layout) chunks {
	c := chunks{planes: l.n, plane: l.voxels, perPlane: (l.voxels + chunkVoxels - 1) / chunkVoxels, perItem: 1}
	if c.perPlane == 1 {
		c.perItem = max(1, chunkVoxels/l.voxels)
	}
	return c
}

const chunkVoxels = chunk / block

// voxels is the image of a piece of voxelChunks and the range of its voxels, counted from the image's first one.
func (c chunks) voxels(i int) (n, lo, hi int) {
	lo = i % c.perPlane * chunkVoxels
	return i / c.perPlane, lo, min(lo+chunkVoxels, c.plane)
}

// live is 1 in the lanes of the only block that hold a channel.
func (l layout) live() (live [block]float32) {
	for lane := range l.liveLanes(0) {
		live[lane] = 1
	}
	return live
}

// oneBlock says whether the channels lie in the lanes of one block.
func (l layout) oneBlock() bool { return l.blocks == 1 && l.lanes == block }

func (k *softmax) Scratch() int { return 0 }

func (k *softmax) Run(out, in []device.Buffer, _ device.Buffer) {
	k.y, k.x = out[0].(Slice), in[0].(Slice)
	if k.backward {
		k.dy = in[1].(Slice)
	}
	k.c.pool.run(k.cut.items(), k)
}

func (k *softmax) do(worker, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		n, lo, hi := k.cut.voxels(i)
		if k.l.oneBlock() && !k.backward {
			first, last := k.l.plane(n, 0)+lo*block, k.l.plane(n, 0)+hi*block
			k.lanes.softmax(k.y[first:last], k.x[first:last], &k.live)
			continue
		}
		g := k.gathered[worker]
		for v := lo; v < hi; v++ {
			k.l.gather(g[0], k.x, n, v)
			if k.backward {
				k.l.gather(g[1], k.dy, n, v)
				softmaxGradRow(g[2], g[0], g[1])
			} else {
				softmaxRow(g[2], g[0])
			}
			k.l.scatter(k.y, g[2], n, v)
		}
	}
}

// gather: dst[c] = src[n, c, v]
func (l layout) gather(dst []float32, src Slice, n, v int) {
	for b := range l.blocks {
		at := l.plane(n, b) + v*l.lanes
		copy(dst[b*l.lanes:], src[at:at+l.liveLanes(b)])
	}
}

// scatter: dst[n, c, v] = src[c], and 0 in the lanes past the last channel
func (l layout) scatter(dst Slice, src []float32, n, v int) {
	for b := range l.blocks {
		at := l.plane(n, b) + v*l.lanes
		out := dst[at : at+l.lanes]
		clear(out[copy(out[:l.liveLanes(b)], src[b*l.lanes:]):])
	}
}
