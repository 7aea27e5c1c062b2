package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// softmax is Softmax and SoftmaxGrad over the channels: of activations 16 voxels at a time; a
// matrix, or a tensor of one channel, is taken row by row.
type softmax struct {
	c        *CPU
	lanes    *laneKernels
	l        layout
	cut      chunks // of voxels of one lane
	backward bool
	// a worker each: x or p, dp, result of a row; the first also holds the classes of 16 voxels
	workers [][3][]float32

	y, x, dy Slice // backward: x is the softmax, y the gradient
	stream   bool  // y goes past the caches
}

func newSoftmax(c *CPU, t device.Tensor, backward bool) (device.Kernel, error) {
	if err := accept(t, t.Type); err != nil {
		return nil, err
	}
	k := &softmax{c: c, lanes: lanesOf(c.kernels.name), l: forRank(t.Shape), backward: backward}
	k.cut = voxelChunks(k.l)
	k.workers = make([][3][]float32, c.Threads())
	for w := range k.workers {
		k.workers[w] = [3][]float32{alignedSlice(2 * classRows(k.l.channels)), make([]float32, k.l.channels),
			make([]float32, k.l.channels)}
	}
	return k, nil
}

// Softmax implements [device.Device].
func (c *CPU) Softmax(t device.Tensor) (device.Kernel, error) { return newSoftmax(c, t, false) }

// SoftmaxGrad implements [device.Device].
func (c *CPU) SoftmaxGrad(t device.Tensor) (device.Kernel, error) { return newSoftmax(c, t, true) }

// voxelChunks cuts the voxels of each image, whatever the number of channels: chunks of 1024, in a
// plane that is an image.
func voxelChunks(l layout) chunks {
	c := chunks{planes: l.n, plane: l.voxels, perPlane: (l.voxels + chunkVoxels - 1) / chunkVoxels}
	c.perItem = c.neighbours(chunkVoxels)
	return c
}

const chunkVoxels = chunk / block

// voxels is the image of a piece of voxelChunks and the range of its voxels, counted from the
// image's first one.
func (c chunks) voxels(i int) (n, lo, hi int) {
	lo = i % c.perPlane * chunkVoxels
	return i / c.perPlane, lo, min(lo+chunkVoxels, c.plane)
}

func (k *softmax) Scratch() int64 { return 0 }

func (k *softmax) Run(out, in []device.Buffer, _ device.Buffer) {
	k.y, k.x = out[0].(Slice), in[0].(Slice)
	if k.backward {
		k.dy = in[1].(Slice)
	}
	k.stream = pastCaches(k.y, k.x)
	k.c.pool.run(k.cut.items(), k)
}

func (k *softmax) do(worker, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		n, lo, hi := k.cut.voxels(i)
		w, step := k.workers[worker], k.l.voxels*block
		first := k.l.plane(n, 0) + lo*k.l.lanes
		switch {
		case k.l.lanes == block && k.backward:
			k.lanes.runSoftmaxGrad(k.y[first:], k.x[first:], k.dy[first:], hi-lo, k.l.channels, step, w[0], k.stream)
			continue
		case k.l.lanes == block:
			k.lanes.runSoftmax(k.y[first:], k.x[first:], hi-lo, k.l.channels, step, w[0], k.stream)
			continue
		}
		row := w[0][:k.l.channels]
		for v := lo; v < hi; v++ {
			k.l.gather(row, k.x, n, v)
			if k.backward {
				k.l.gather(w[1], k.dy, n, v)
				softmaxGradRow(w[2], row, w[1])
			} else {
				softmaxRow(w[2], row)
			}
			k.l.scatter(k.y, w[2], n, v)
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
