package sliding

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// blender adds the outputs of windows up on a device that can do so: they do not visit the host,
// and the host does not wait for them. It keeps the sums of the whole scan there, and emits from
// them as an [emission] does from a slab.
type blender struct {
	dev       device.Blender
	program   *nn.Program
	shape     [3]int // of the prepared scan
	classes   int
	add       device.Kernel
	summed    []*summed
	weights   device.Buffer // along planes, rows and columns
	scratch   device.Buffer
	places    device.Buffer // of the windows of a layer, each at a multiple of apart
	apart     int           // in elements
	borrowed  []device.Buffer
	pieceSize int64 // bytes of results that are on the device at once
}

// summed is an output of the network, class by class, and its sums.
type summed struct {
	first   int             // channel
	windows []device.Buffer // of a batch
	sums    device.Buffer
}

// shareOfFree is how much of the free memory of a device sums may take; pieceSize how many bytes of
// results are on the device at once.
const (
	shareOfFree = 0.9
	pieceSize   = 64 << 20
)

// newBlender is nil where the device does not blend, or has no room for the sums of a scan of the
// given shape.
func (s *Inferer) newBlender(dev device.Device, shape [3]int, wanted Wanted) (b *blender, err error) {
	on, ok := dev.(device.Blender)
	if !ok || s.Mirror != "" { // what a network says of mirror images is turned back on the host
		return nil, nil
	}
	outputs := []string{"probability", "logits"}[:wanted.channels(s.classes)/s.classes]
	voxels := shape[0] * shape[1] * shape[2]
	need := 4*int64(wanted.channels(s.classes))*int64(voxels) + pieceSize
	if voxels > 1<<31-1<<10 {
		return nil, nil
	}
	if own, ok := dev.(device.Accountant); ok {
		if free, _, err := own.Memory(); err != nil || float64(need) > shareOfFree*float64(free) {
			return nil, err
		}
	}
	b = &blender{dev: on, program: s.program, shape: shape, classes: s.classes, apart: int(max(dev.Alignment()/4, 6)),
		pieceSize: pieceSize}
	spec := device.BlendSpec{Classes: s.classes, Window: [3]int{s.Size[2], s.Size[1], s.Size[0]},
		Sums: [3]int{shape[2], shape[1], shape[0]}}
	for n, output := range outputs {
		all, tensor, err := s.program.Output(output)
		if err != nil {
			return nil, err
		}
		one := device.Tensor{Shape: slices.Clone(tensor.Shape), Type: tensor.Type}
		one.Shape[0] = 1
		stride := dev.Size(one)
		if s.Batch > 1 && stride%dev.Alignment() != 0 {
			return nil, nil
		}
		of := &summed{first: n * s.classes}
		for w := range s.Batch {
			of.windows = append(of.windows, dev.View(all, int64(w)*stride, stride))
		}
		b.summed, spec.Type = append(b.summed, of), tensor.Type
	}
	if err = b.take(spec, voxels, slices.Concat(s.weights[2], s.weights[1], s.weights[0])); err != nil {
		b.close()
		return nil, fmt.Errorf("blending windows: %w", err)
	}
	return b, nil
}

// take makes the kernel and takes the memory.
func (b *blender) take(spec device.BlendSpec, voxels int, weights []float32) (err error) {
	if b.add, err = b.dev.Blend(spec); err != nil {
		return err
	}
	for _, of := range b.summed {
		if of.sums, err = b.borrow(4 * int64(spec.Classes) * int64(voxels)); err != nil {
			return err
		}
	}
	if b.scratch, err = b.borrow(b.add.Scratch()); err != nil {
		return err
	}
	if b.weights, err = b.borrow(4 * int64(len(weights))); err != nil {
		return err
	}
	return b.dev.UploadPlain(b.weights, 0, weights)
}

// borrow takes memory until the blender is closed.
func (b *blender) borrow(bytes int64) (device.Buffer, error) {
	m, err := b.dev.Alloc(bytes)
	if err == nil {
		b.borrowed = append(b.borrowed, m)
	}
	return m, err
}

// begin uploads where the windows of a layer start, (i, j, k).
func (b *blender) begin(origins [][3]int) (err error) {
	places := make([]float32, len(origins)*b.apart)
	for n, o := range origins {
		copy(places[n*b.apart:], []float32{float32(o[2]), float32(o[1]), float32(o[0]), float32(b.shape[2]),
			float32(b.shape[1]), float32(b.shape[0])})
	}
	if b.places == nil { // every layer has as many
		if b.places, err = b.borrow(4 * int64(len(places))); err != nil {
			return err
		}
	}
	return b.dev.UploadPlain(b.places, 0, places)
}

// window adds window n of the batch that the network has just taken: the one of the layer whose
// number is given.
func (b *blender) window(n, ofLayer int) {
	place := b.dev.View(b.places, 4*int64(ofLayer)*int64(b.apart), 24)
	for _, of := range b.summed {
		b.add.Run([]device.Buffer{of.sums}, []device.Buffer{of.windows[n], b.weights, place}, b.scratch)
	}
}

// emit writes what the sums say to all voxels of a grid.
func (b *blender) emit(e *emission) error {
	for _, of := range b.summed {
		maps := len(e.maps) > of.first && e.maps[of.first] != nil
		if classes := e.classes != nil && of.first == 0; !maps && !classes {
			continue
		}
		p, err := b.newPieces(e, of, maps)
		if err == nil {
			err = p.emitAll()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *blender) close() {
	for _, m := range b.borrowed {
		b.dev.Free(m)
	}
}
