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
	if s.Classes < 1 || min(s.Window[0], s.Window[1], s.Window[2], s.Sums[0], s.Sums[1], s.Sums[2]) < 1 ||
		max(window, sums) > 1<<31-1<<10 {
		return blending{},
			fmt.Errorf("blending windows of %v, %d classes, over %v: every axis must be "+
				"at least 1, and there may be 2^31 voxels", s.Window, s.Classes, s.Sums)
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
	k.launch("blend"+suffix(s.Type), grid{blocksOf(volume(b.Window), 256), 1, 1}, 256, 0, b, out(0), in(0), in(1),
		in(2))
	return k.done()
}

// Restore implements [device.Blender].
func (d *Device) Restore(s device.RestoreSpec) (device.Kernel, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	n := s.Planes * s.Lines[1] * s.Lines[2]
	if n > 1<<31-1<<10 {
		return nil, fmt.Errorf("%d planes of a grid of %v: more than 2^31 voxels", s.Planes, s.Lines)
	}
	k, maps := d.newKernel(), operand{}
	if s.Maps {
		maps = out(1)
	}
	k.launch("restore", grid{blocksOf(n, 256), 1, 1}, 256, 0, struct {
		Classes     int32
		Sums, Lines [3]int32
		Maps        int32
	}{int32(s.Classes), int3(s.Sums), int3(s.Lines), flag(s.Maps)}, out(0), maps, in(0), in(1), in(2))
	return k.done()
}
