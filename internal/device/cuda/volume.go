//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// blending is volume.cu's Blend.
type blending struct {
	Classes      int32
	Window, Sums [3]int32
}

func blendingOf(s device.BlendSpec) (blending, error) {
	window, sums := s.Window[0]*s.Window[1]*s.Window[2], s.Sums[0]*s.Sums[1]*s.Sums[2]
	if s.Classes < 1 || min(s.Window[0], s.Window[1], s.Window[2], s.Sums[0], s.Sums[1], s.Sums[2]) < 1 || max(window, sums) > 1<<31-1<<10 {
		return blending{}, fmt.Errorf("blending windows of %v, %d classes, over %v: every axis must be at least 1, and there may be 2^31 voxels", s.Window, s.Classes, s.Sums)
	}
	return blending{int32(s.Classes), int3(s.Window), int3(s.Sums)}, nil
}

// Blend implements [device.Blender].
func (d *Device) Blend(s device.BlendSpec) (device.Kernel, error) {
	b, err := blendingOf(s)
	if err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.launch("blend"+suffix(s.Type), grid{blocksOf(volume(b.Window), 256), 1, 1}, 256, 0, b, out(0), in(0), in(1), in(2))
	return k.done()
}

// Decide implements [device.Blender].
func (d *Device) Decide(s device.BlendSpec) (device.Kernel, error) {
	b, err := blendingOf(s)
	if err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.launch("decide", grid{blocksOf(volume(b.Sums), 256), 1, 1}, 256, 0, b, out(0), in(0))
	return k.done()
}
