package cpu

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
)

// mergeClasses is MergeClasses and MergeClassesGrad, voxel by voxel in images with a merged class;
// other images are copied.
type mergeClasses struct {
	c        *CPU
	l        layout
	cut      chunks // voxelChunks
	backward bool
	workers  [][2][]float32 // a worker each: the classes of a voxel, and their gradient

	y, x, merged, dy Slice // backward: y is dx
}

// MergeClasses implements [device.MergeKernels].
func (c *CPU) MergeClasses(t device.Tensor) (device.Kernel, error) {
	return newMergeClasses(c, t, false)
}

// MergeClassesGrad implements [device.MergeKernels].
func (c *CPU) MergeClassesGrad(t device.Tensor) (device.Kernel, error) {
	return newMergeClasses(c, t, true)
}

func newMergeClasses(c *CPU, t device.Tensor, backward bool) (device.Kernel, error) {
	if err := accept(t, t.Type); err != nil {
		return nil, err
	}
	if len(t.Shape) != 5 || t.Shape[1] < 2 {
		return nil, fmt.Errorf("merging classes of logits %v: want (N, C, D, H, W) of at least two classes", t.Shape)
	}
	k := &mergeClasses{c: c, l: layoutOf(t.Shape), backward: backward, workers: make([][2][]float32, c.Threads())}
	k.cut = voxelChunks(k.l)
	for w := range k.workers {
		k.workers[w] = [2][]float32{make([]float32, k.l.channels), make([]float32, k.l.channels)}
	}
	return k, nil
}

func (k *mergeClasses) Scratch() int64 { return 0 }

func (k *mergeClasses) Run(out, in []device.Buffer, _ device.Buffer) {
	k.y, k.x, k.merged = out[0].(Slice), in[0].(Slice), in[1].(Slice)
	if k.backward {
		k.dy = in[2].(Slice)
	}
	k.c.pool.run(k.cut.items(), k)
}

func (k *mergeClasses) do(worker, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		n, lo, hi := k.cut.voxels(i)
		merged := k.merged[n*k.l.channels:][:k.l.channels]
		if !slices.ContainsFunc(merged[1:], func(m float32) bool { return m != 0 }) {
			from := k.x
			if k.backward {
				from = k.dy
			}
			for b := range k.l.blocks {
				at := k.l.plane(n, b)
				copy(k.y[at+lo*block:at+hi*block], from[at+lo*block:])
			}
			continue
		}
		x, d := k.workers[worker][0], k.workers[worker][1]
		for v := lo; v < hi; v++ {
			k.l.gather(x, k.x, n, v)
			if k.backward {
				k.l.gather(d, k.dy, n, v)
				device.MergeClassesGrad(d, x, merged, d)
			} else {
				device.MergeClasses(d, x, merged)
			}
			k.l.scatter(k.y, d, n, v)
		}
	}
}
