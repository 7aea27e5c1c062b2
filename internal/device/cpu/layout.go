package cpu

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// block is the number of channels that lie next to each other: the float32 lanes of an AVX-512 register.
const block = 16

// layout is how an activation (N, C, D, H, W) lies in memory: (N, blocks, D, H, W, lanes), lanes 16, or 1 where there is one channel.
type layout struct {
	n, channels   int
	blocks, lanes int
	size          [3]int
	voxels        int // D*H*W
}

func layoutOf(s device.Shape) layout {
	l := layout{n: s[0], channels: s[1], lanes: block, size: [3]int{s[2], s[3], s[4]}}
	if l.channels == 1 {
		l.lanes = 1
	}
	l.blocks = (l.channels + l.lanes - 1) / l.lanes
	l.voxels = l.size[0] * l.size[1] * l.size[2]
	return l
}

func (l layout) elements() int { return l.n * l.blocks * l.voxels * l.lanes }

// plane is the offset of the first voxel of block b of image n; voxel v's lanes start v*lanes further on.
func (l layout) plane(n, b int) int { return (n*l.blocks + b) * l.voxels * l.lanes }

// Upload implements [device.Device].
func (c *CPU) Upload(dst device.Buffer, s device.Shape, src []float32) error {
	d := dst.(Slice)
	if len(src) != s.Elements() || len(d) < c.Size(s) {
		return fmt.Errorf("uploading %d elements as %v into a buffer of %d", len(src), s, len(d))
	}
	if len(s) != 5 {
		copy(d, src)
		return nil
	}
	packChannels(d, src, layoutOf(s))
	return nil
}

// Download implements [device.Device].
func (c *CPU) Download(dst []float32, src device.Buffer, s device.Shape) error {
	b := src.(Slice)
	if len(dst) != s.Elements() || len(b) < c.Size(s) {
		return fmt.Errorf("downloading %d elements as %v from a buffer of %d", len(dst), s, len(b))
	}
	if len(s) != 5 {
		copy(dst, b)
		return nil
	}
	unpackChannels(dst, b, layoutOf(s))
	return nil
}

// packChannels: dst[n][b][v][lane] = src[n][16 b + lane][v], zero past the last channel.
func packChannels(dst, src []float32, l layout) {
	for n := range l.n {
		for b := range l.blocks {
			out := dst[l.plane(n, b):][:l.voxels*l.lanes]
			for lane := range l.lanes {
				ch := b*l.lanes + lane
				if ch >= l.channels {
					for v := range l.voxels {
						out[v*l.lanes+lane] = 0
					}
					continue
				}
				in := src[(n*l.channels+ch)*l.voxels:][:l.voxels]
				for v, x := range in {
					out[v*l.lanes+lane] = x
				}
			}
		}
	}
}

// unpackChannels is the inverse of packChannels.
func unpackChannels(dst, src []float32, l layout) {
	for n := range l.n {
		for b := range l.blocks {
			in := src[l.plane(n, b):][:l.voxels*l.lanes]
			for lane := range min(l.lanes, l.channels-b*l.lanes) {
				out := dst[(n*l.channels+b*l.lanes+lane)*l.voxels:][:l.voxels]
				for v := range out {
					out[v] = in[v*l.lanes+lane]
				}
			}
		}
	}
}
