package segment

import (
	"context"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/vnet"
	"github.com/voxsaw/voxsaw/volume"
)

// Inference in windows.
//
//   - Windows of one size lie on a lattice that covers the scan, neighbours overlapping by at least
//     the asked share. A scan smaller than the window is centred in it, with air around.
//   - Each window adds its class probabilities, weighted by a Gaussian around its centre (sigma an
//     eighth of its size, as nnU-Net has it), to a sum for each voxel and class. The class with the
//     highest sum wins; dividing by the sum of weights would not change which one that is.
//   - The lattice is walked along j or k, whichever keeps fewer voxels waiting. Voxels below the
//     next layer of windows are final: they are decided and their sums forgotten ([slab]). So the
//     sums take classes x window's extent x the scan's other two extents x 4 bytes, however long
//     the scan is along that axis.

// source is what windows are cut from: *prepared.Case, or a volume in memory.
type source interface {
	Image(dst []float32, origin, size [3]int) error // normalised, air outside
}

// held is a prepared volume in memory.
type held struct {
	volume      *volume.Volume
	preparation volume.Preparation
	bytes       int64 // that it and the scan that it was made of take
}

// hold makes a source of a prepared volume, and of the scan that it was made of.
func hold(scan, prepared *volume.Volume, how volume.Preparation) held {
	h := held{volume: prepared, preparation: how}
	for i, v := range []*volume.Volume{scan, prepared} {
		if i == 0 || v != scan {
			h.bytes += 2*int64(len(v.Int16)) + 4*int64(len(v.Float32))
		}
	}
	return h
}

func (h held) Image(dst []float32, origin, size [3]int) error {
	crop, err := h.volume.Crop(origin, size, float32(h.preparation.Window[0]))
	if err != nil {
		return err
	}
	h.preparation.Normalise(dst, crop.Int16)
	return nil
}

// slider runs a network over windows.
type slider struct {
	program *nn.Program
	classes int
	batch   int
	size    [3]int // i, j, k
	overlap float64
	room    int64        // bytes for what classify holds; negative: no limit
	weights [3][]float32 // Gaussian along each axis
}

func checkOverlap(overlap float64) error {
	if !(overlap >= 0 && overlap <= 0.95) {
		return fmt.Errorf("an overlap of %v: must be a share from 0 to 0.95", overlap)
	}
	return nil
}

// newSlider compiles the network for batches of windows of the given size, with the parameters and
// the limit of memory given.
func newSlider(dev device.Device, params *nn.Params, network vnet.Config, size [3]int, batch int, overlap float64, o nn.Options) (*slider, error) {
	if err := network.Check(size); err != nil {
		return nil, fmt.Errorf("window: %w", err)
	}
	if err := checkOverlap(overlap); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Eval, dev.Activations())
	x := g.Input("image", batch, 1, size[2], size[1], size[0])
	probability := g.Softmax(network.Decoder(g, network.Encoder(g, x)))
	o.Outputs = map[string]*nn.Node{"probability": probability}
	program, err := nn.Compile(dev, g, params, o)
	if err != nil {
		return nil, fmt.Errorf("preparing inference on windows of %v: %w", size, err)
	}
	s := &slider{program: program, classes: network.Classes, batch: batch, size: size, overlap: overlap, room: -1}
	if o.MemoryLimit > 0 {
		s.room = max(o.MemoryLimit-params.Total(), 0)
	}
	for axis, n := range size {
		s.weights[axis] = gaussian(n)
	}
	return s, nil
}

// positions are where windows of the given size start along an axis of n voxels: evenly spread, the
// first at 0, the last at the end.
func positions(n, size int, overlap float64) []int {
	if n <= size {
		return []int{-((size - n) / 2)}
	}
	step := max(float64(size)*(1-overlap), 1)
	count := int(math.Ceil(float64(n-size)/step)) + 1
	out := make([]int, count)
	for i := range out {
		out[i] = int(math.Round(float64(i) * float64(n-size) / float64(count-1)))
	}
	return out
}

// crops are the windows of a batch.
type crops struct {
	origins [][3]int
	voxels  []float32
}

// ensemble says whose parameters are used: use(i) puts those of member i in place. The zero value
// uses what is there.
type ensemble struct {
	members int
	use     func(member int) error
}

// bytes is the memory that classify takes beside the network and the scan, for a scan of the given
// shape.
func (s *slider) bytes(shape [3]int) int64 { return slidingBytes(shape, s.size, s.classes, s.batch) }

// slidingBytes is the memory of windows of the given size over a scan of the given shape: sums, the
// probabilities of a batch, its crops and those made ahead, and the result.
func slidingBytes(shape, size [3]int, classes, batch int) int64 {
	patch := int64(size[0]) * int64(size[1]) * int64(size[2])
	return newSlab(shape, size, classes).bytes() + 4*int64(batch)*patch*int64(classes+cropsAhead+1) + 2*int64(shape[0])*int64(shape[1])*int64(shape[2])
}

// cropsAhead is how many batches of windows are cut before they are needed, so that the network
// never waits for them.
const cropsAhead = 2

// classify gives the class of every voxel of a source of the given shape. progress, if not nil, is
// told how many windows are done.
func (s *slider) classify(ctx context.Context, src source, shape [3]int, of ensemble, progress func(done, total int)) ([]uint16, error) {
	need := s.bytes(shape)
	if h, ok := src.(held); ok {
		need += h.bytes
	}
	if s.room >= 0 && need > s.room {
		return nil, fmt.Errorf("a scan of %v in %d classes needs %d MiB of memory beside the network, which leaves %d MiB: make the window or the batch smaller", shape, s.classes, need>>20, s.room>>20)
	}
	var starts [3][]int
	for axis := range 3 {
		starts[axis] = positions(shape[axis], s.size[axis], s.overlap)
	}
	slab := newSlab(shape, s.size, s.classes)
	slab.allocate()
	classes := make([]uint16, shape[0]*shape[1]*shape[2])
	probability := make([]float32, s.batch*s.classes*s.size[0]*s.size[1]*s.size[2])
	layers, members := starts[slab.along], max(of.members, 1)
	windows, done := len(starts[0])*len(starts[slab.across]), 0
	for layer := range layers {
		for member := range members {
			if of.use != nil {
				if err := of.use(member); err != nil {
					return nil, err
				}
			}
			origins := make([][3]int, windows)
			for n := range origins {
				origins[n][0] = starts[0][n%len(starts[0])]
				origins[n][slab.across] = starts[slab.across][n/len(starts[0])]
				origins[n][slab.along] = layers[layer]
			}
			if err := s.layer(ctx, src, origins, probability, slab, func() {
				if done++; progress != nil {
					progress(done, windows*len(layers)*members)
				}
			}); err != nil {
				return nil, err
			}
		}
		final := shape[slab.along] // planes before it are decided now
		if layer+1 < len(layers) {
			final = layers[layer+1]
		}
		if err := slab.settle(classes, final); err != nil {
			return nil, err
		}
	}
	return classes, nil
}

// layer adds the windows at the given origins to the sums.
func (s *slider) layer(ctx context.Context, src source, origins [][3]int, probability []float32, sums *slab, done func()) error {
	patch := s.size[0] * s.size[1] * s.size[2]
	batches := (len(origins) + s.batch - 1) / s.batch
	ahead := train.NewPrefetch(ctx, 0, batches, 1, cropsAhead, func(_ context.Context, b int) (crops, error) {
		c := crops{origins: origins[b*s.batch : min((b+1)*s.batch, len(origins))], voxels: make([]float32, s.batch*patch)}
		for n, origin := range c.origins {
			if err := src.Image(c.voxels[n*patch:(n+1)*patch], origin, s.size); err != nil {
				return c, err
			}
		}
		return c, nil
	})
	defer ahead.Close()
	for range batches {
		c, err := ahead.Next()
		if err != nil {
			return err
		}
		if err := s.run(c.voxels, probability); err != nil {
			return err
		}
		for n, origin := range c.origins {
			sums.add(probability[n*s.classes*patch:], origin, s.size, &s.weights)
			done()
		}
	}
	return nil
}

func (s *slider) run(voxels, probability []float32) error {
	if err := s.program.Set("image", voxels); err != nil {
		return err
	}
	if err := s.program.Forward(); err != nil {
		return err
	}
	return s.program.Read("probability", probability)
}
