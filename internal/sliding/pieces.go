package sliding

import (
	"sync/atomic"

	"github.com/voxsaw/voxsaw/internal/device"
)

// pieces makes what the sums on a device say to the voxels of a grid, some planes at a time: no
// more of the results is on the device than these.
type pieces struct {
	b      *blender
	e      *emission
	of     *summed
	maps   bool   // they are wanted, not only the classes
	lines  [3]int // of the grid, along the prepared axes k, j, i
	planes int    // at a time

	restore             device.Kernel
	labels, values      device.Buffer // of these planes
	taps, place, memory device.Buffer
	host                []float32
}

func (b *blender) newPieces(e *emission, of *summed, maps bool) (*pieces, error) {
	p := &pieces{b: b, e: e, of: of, maps: maps, lines: [3]int{len(e.taps[2]), len(e.taps[1]), len(e.taps[0])}}
	each := 1
	if maps {
		each += b.classes
	}
	p.planes = min(p.lines[0], max(1, int(b.pieceSize/4)/(each*p.plane())))
	var err error
	p.restore, err = b.dev.Restore(device.RestoreSpec{Classes: b.classes,
		Sums: [3]int{b.shape[2], b.shape[1], b.shape[0]}, Lines: p.lines, Planes: p.planes, Maps: maps})
	if err != nil {
		return nil, err
	}
	var taps []float32
	for _, axis := range []int{2, 1, 0} {
		for n, t := range e.taps[axis] {
			taps = append(taps, float32(t.Index[0]), float32(t.Index[1]), t.Weight[0], t.Weight[1], e.scale[axis][n])
		}
	}
	p.host = make([]float32, p.planes*p.plane())
	for _, part := range []struct {
		to    *device.Buffer
		bytes int
	}{{&p.labels, 4 * len(p.host)}, {&p.values, 4 * (each - 1) * len(p.host)}, {&p.taps, 4 * len(taps)}, {&p.place, 8},
		{&p.memory, int(p.restore.Scratch())}} {
		if *part.to, err = b.borrow(int64(part.bytes)); err != nil {
			return nil, err
		}
	}
	return p, b.dev.UploadPlain(p.taps, 0, taps)
}

// plane is how many voxels one has.
func (p *pieces) plane() int { return p.lines[1] * p.lines[2] }

// emitAll makes one piece after the other.
func (p *pieces) emitAll() error {
	out := []device.Buffer{p.labels, p.values}
	if !p.maps {
		out = out[:1]
	}
	for first := 0; first < p.lines[0]; first += p.planes {
		n := min(p.planes, p.lines[0]-first)
		if err := p.b.dev.UploadPlain(p.place, 0, []float32{float32(first), float32(n)}); err != nil {
			return err
		}
		p.restore.Run(out, []device.Buffer{p.of.sums, p.taps, p.place}, p.memory)
		if err := p.fetch(first, n*p.plane()); err != nil {
			return err
		}
	}
	return nil
}

// fetch brings the results of the planes from the given one on to the host, so many voxels.
func (p *pieces) fetch(first, voxels int) error {
	host := p.host[:voxels]
	if p.e.classes != nil && p.of.first == 0 {
		if err := p.b.dev.DownloadPlain(host, p.labels, 0); err != nil {
			return err
		}
		var failed atomic.Bool
		p.eachLine(first, func(from []float32, to, step int) {
			for n, class := range from {
				if !(class >= 0) {
					failed.Store(true)
					return
				}
				p.e.classes[to+n*step] = uint16(class)
			}
		})
		if failed.Load() {
			return errNotFinite
		}
	}
	if !p.maps {
		return nil
	}
	for class := range p.b.classes {
		if err := p.b.dev.DownloadPlain(host, p.values, class*voxels); err != nil {
			return err
		}
		values := p.e.maps[p.of.first+class]
		p.eachLine(first, func(from []float32, to, step int) {
			for n, x := range from {
				values[to+n*step] = x
			}
		})
	}
	return nil
}

// eachLine calls f for every line of voxels of the planes that the host has, from the given one on:
// with where it goes in the scan, which may lie along other axes.
func (p *pieces) eachLine(first int, f func(from []float32, to, step int)) {
	shape := p.e.Scan.Shape
	strides := [3]int{1, shape[0], shape[0] * shape[1]}
	along := func(prepared int) int { return strides[p.e.Axis[prepared]] }
	width := p.lines[2]
	share(min(p.planes, p.lines[0]-first)*p.lines[1], func(lo, hi int) {
		for n := lo; n < hi; n++ {
			f(p.host[n*width:(n+1)*width], p.e.firstVoxel()+(first+n/p.lines[1])*along(2)+n%p.lines[1]*along(1),
				along(0))
		}
	})
}
