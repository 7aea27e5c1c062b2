package sliding

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// blender adds the probabilities of windows up on a device that can do so: they do not visit the
// host, and the host does not wait for them. It keeps the sums of the whole scan there.
type blender struct {
	dev           device.Blender
	spec          device.BlendSpec
	program       *nn.Program
	add, decide   device.Kernel
	probabilities []device.Buffer // of each window of a batch
	sums, classes device.Buffer
	weights       device.Buffer // along planes, rows and columns
	scratch       device.Buffer
	places        device.Buffer // of the windows of a layer, each at a multiple of apart
	apart         int           // in elements
	scan          [3]float32    // where the sums end
}

// shareOfFree is how much of the free memory of a device sums may take.
const shareOfFree = 0.9

// newBlender is nil where the device does not blend, or has no room for the sums of a scan of the
// given shape.
func (s *Inferer) newBlender(dev device.Device, shape [3]int) (b *blender, err error) {
	on, ok := dev.(device.Blender)
	if !ok {
		return nil, nil
	}
	all, tensor, err := s.program.Output("probability")
	if err != nil {
		return nil, err
	}
	one := device.Tensor{Shape: slices.Clone(tensor.Shape), Type: tensor.Type}
	one.Shape[0] = 1
	stride, voxels := dev.Size(one), shape[0]*shape[1]*shape[2]
	need := 4 * int64(s.classes+1) * int64(voxels)
	if s.Batch > 1 && stride%dev.Alignment() != 0 || voxels > 1<<31-1<<10 {
		return nil, nil
	}
	if own, ok := dev.(device.Accountant); ok {
		if free, _, err := own.Memory(); err != nil || float64(need) > shareOfFree*float64(free) {
			return nil, err
		}
	}
	b = &blender{dev: on, program: s.program, apart: int(max(dev.Alignment()/4, 6)), scan: [3]float32{float32(shape[2]), float32(shape[1]), float32(shape[0])}}
	b.spec = device.BlendSpec{Classes: s.classes, Window: [3]int{s.Size[2], s.Size[1], s.Size[0]}, Sums: [3]int{shape[2], shape[1], shape[0]}, Type: tensor.Type}
	for n := range s.Batch {
		b.probabilities = append(b.probabilities, dev.View(all, int64(n)*stride, stride))
	}
	if err = b.take(voxels, slices.Concat(s.weights[2], s.weights[1], s.weights[0])); err != nil {
		b.close()
		return nil, fmt.Errorf("blending windows: %w", err)
	}
	return b, nil
}

// take makes the kernels and takes the memory.
func (b *blender) take(voxels int, weights []float32) (err error) {
	if b.add, err = b.dev.Blend(b.spec); err != nil {
		return err
	}
	if b.decide, err = b.dev.Decide(b.spec); err != nil {
		return err
	}
	for _, part := range []struct {
		to    *device.Buffer
		bytes int64
	}{{&b.sums, 4 * int64(b.spec.Classes) * int64(voxels)}, {&b.classes, 4 * int64(voxels)}, {&b.weights, 4 * int64(len(weights))}, {&b.scratch, max(b.add.Scratch(), b.decide.Scratch())}} {
		if *part.to, err = b.dev.Alloc(part.bytes); err != nil {
			return err
		}
	}
	return b.dev.UploadPlain(b.weights, 0, weights)
}

// begin uploads where the windows of a layer start, (i, j, k).
func (b *blender) begin(origins [][3]int) (err error) {
	places := make([]float32, len(origins)*b.apart)
	for n, o := range origins {
		copy(places[n*b.apart:], []float32{float32(o[2]), float32(o[1]), float32(o[0]), b.scan[0], b.scan[1], b.scan[2]})
	}
	if b.places == nil || b.places.Bytes() < 4*int64(len(places)) {
		if b.places != nil {
			b.dev.Free(b.places)
			b.places = nil
		}
		if b.places, err = b.dev.Alloc(4 * int64(len(places))); err != nil {
			return err
		}
	}
	return b.dev.UploadPlain(b.places, 0, places)
}

// window adds window n of the batch that the network has just taken: the one of the layer whose
// number is given.
func (b *blender) window(n, ofLayer int) {
	place := b.dev.View(b.places, 4*int64(ofLayer)*int64(b.apart), 24)
	b.add.Run([]device.Buffer{b.sums}, []device.Buffer{b.probabilities[n], b.weights, place}, b.scratch)
}

// finish decides all voxels.
func (b *blender) finish(classes []uint16) error {
	b.decide.Run([]device.Buffer{b.classes}, []device.Buffer{b.sums}, b.scratch)
	decided := make([]float32, len(classes))
	if err := b.dev.DownloadPlain(decided, b.classes, 0); err != nil {
		return err
	}
	for i, c := range decided {
		if !(c >= 0) {
			return errNotFinite
		}
		classes[i] = uint16(c)
	}
	return nil
}

func (b *blender) close() {
	for _, m := range []device.Buffer{b.sums, b.classes, b.weights, b.scratch, b.places} {
		if m != nil {
			b.dev.Free(m)
		}
	}
}
