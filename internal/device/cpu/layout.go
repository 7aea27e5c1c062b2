package cpu

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// block is the number of channels that lie next to each other: the float32 lanes of an AVX-512
// register.
const block = 16

// layout is how an activation (N, C, D, H, W) lies in memory: (N, blocks, D, H, W, lanes), lanes
// 16, or 1 where there is one channel.
type layout struct {
	n, channels   int
	blocks, lanes int
	size          [3]int
	voxels        int // D*H*W
	// blocks from one image to the next: more than blocks for a part of the channels
	between int
}

func layoutOf(s device.Shape) layout {
	l := layout{n: s[0], channels: s[1], lanes: block, size: [3]int{s[2], s[3], s[4]}}
	if l.channels == 1 {
		l.lanes = 1
	}
	l.blocks = (l.channels + l.lanes - 1) / l.lanes
	l.between = l.blocks
	l.voxels = l.size[0] * l.size[1] * l.size[2]
	return l
}

func (l layout) elements() int { return l.n * l.blocks * l.voxels * l.lanes }

// plane is the offset of the first voxel of block b of image n; voxel v's lanes start v*lanes
// further on.
func (l layout) plane(n, b int) int { return (n*l.between + b) * l.voxels * l.lanes }

// Upload implements [device.Device].
func (c *CPU) Upload(dst device.Buffer, t device.Tensor, src []float32) error {
	d, s := dst.(Slice), t.Shape
	if err := onlyFloat32(t.Type); err != nil {
		return err
	}
	if len(src) != s.Elements() || len(d) < elementsOf(s) {
		return fmt.Errorf("uploading %d elements as %v into a buffer of %d", len(src), s, len(d))
	}
	if len(s) != 5 {
		copy(d, src)
		return nil
	}
	(&packing{l: layoutOf(s), blocked: d, plain: src}).run(c)
	return nil
}

// Download implements [device.Device].
func (c *CPU) Download(dst []float32, src device.Buffer, t device.Tensor) error {
	b, s := src.(Slice), t.Shape
	if err := onlyFloat32(t.Type); err != nil {
		return err
	}
	if len(dst) != s.Elements() || len(b) < elementsOf(s) {
		return fmt.Errorf("downloading %d elements as %v from a buffer of %d", len(dst), s, len(b))
	}
	if len(s) != 5 {
		copy(dst, b)
		return nil
	}
	(&packing{l: layoutOf(s), blocked: b, plain: dst, back: true}).run(c)
	return nil
}

// packing moves an activation from row-major order to the device's layout, or back: one item a
// piece of one block of one image.
//
//	blocked[n][b][v][lane] = plain[n][16 b + lane][v], zero past the last channel
type packing struct {
	l              layout
	blocked, plain []float32
	back           bool
	cut            chunks
	transpose      transposeFunc
}

// run shares the work among the device's workers. What has one lane lies in row-major order.
func (k *packing) run(c *CPU) {
	k.transpose, k.cut = c.kernels.transpose, planeChunks(k.l)
	if k.l.lanes == 1 {
		k.cut = chunksOf(1, k.l.elements())
	}
	c.pool.run(k.cut.items(), k)
}

func (k *packing) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		plane, lo, hi := k.cut.piece(i)
		switch {
		case k.l.lanes == block:
			n, b := plane/k.l.blocks, plane%k.l.blocks
			first := (n*k.l.channels+b*block)*k.l.voxels + (lo-plane*k.cut.plane)/block
			k.voxels(k.blocked[lo:hi], k.plain[first:], k.l.liveLanes(b))
		case k.back:
			copy(k.plain[lo:hi], k.blocked[lo:hi])
		default:
			copy(k.blocked[lo:hi], k.plain[lo:hi])
		}
	}
}

// voxels moves the live lanes of some voxels of one block: 16 x 16 at a time where all are live.
func (k *packing) voxels(blocked, plain []float32, live int) {
	voxels, done := len(blocked)/block, 0
	if live == block {
		for ; done+block <= voxels; done += block {
			if k.back {
				k.transpose(&plain[done], &blocked[done*block], k.l.voxels, block)
			} else {
				k.transpose(&blocked[done*block], &plain[done], block, k.l.voxels)
			}
		}
	} else if !k.back {
		clear(blocked)
	}
	for lane := range live {
		row := plain[lane*k.l.voxels:][:voxels]
		for v := done; v < voxels; v++ {
			if k.back {
				row[v] = blocked[v*block+lane]
			} else {
				blocked[v*block+lane] = row[v]
			}
		}
	}
}
