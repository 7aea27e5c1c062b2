// Package sliding makes a label for every voxel of a scan that is larger than what a network takes
// at once: it slides a window over the scan.
//
// Start at [New] and [Inferer.Classify].
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
//
// The package does not know what the classes are.
package sliding

import (
	"context"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Options say how windows lie.
type Options struct {
	Size    [3]int  // of a window, along (i, j, k)
	Batch   int     // windows that the network takes at once
	Overlap float64 // share of a window that its neighbour covers too
}

// Check says what is wrong with the options, nil if nothing is.
func (o Options) Check() error {
	if o.Batch < 1 || o.Batch > 1<<16 {
		return fmt.Errorf("batch is %d, must be at least 1", o.Batch)
	}
	if !(o.Overlap >= 0 && o.Overlap <= 0.95) {
		return fmt.Errorf("an overlap of %v: must be a share from 0 to 0.95", o.Overlap)
	}
	return nil
}

// An Inferer runs a network over windows.
type Inferer struct {
	Options
	program *nn.Program
	classes int
	room    int64        // bytes for what Classify holds; negative: no limit
	weights [3][]float32 // Gaussian along each axis
}

// New compiles the network for batches of windows, with the parameters and the limit of memory
// given.
func New(dev device.Device, params *nn.Params, b backbone.Backbone, o Options, compile nn.Options) (*Inferer, error) {
	if err := backbone.Fits(b, o.Size); err != nil {
		return nil, fmt.Errorf("window: %w", err)
	}
	if err := o.Check(); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Eval, dev.Activations())
	x := g.Input("image", o.Batch, 1, o.Size[2], o.Size[1], o.Size[0])
	stages := b.Encoder(g, x)
	if g.Err() != nil {
		return nil, g.Err()
	}
	compile.Outputs = map[string]*nn.Node{"probability": g.Softmax(b.Decoder(g, stages)[0])}
	program, err := nn.Compile(dev, g, params, compile)
	if err != nil {
		return nil, fmt.Errorf("preparing inference on windows of %v: %w", o.Size, err)
	}
	s := &Inferer{Options: o, program: program, classes: b.Settings().Classes, room: -1}
	if compile.MemoryLimit > 0 {
		s.room = max(compile.MemoryLimit-params.Total(), 0)
	}
	for axis, n := range o.Size {
		s.weights[axis] = gaussian(n)
	}
	return s, nil
}

// NetworkBytes is the memory of the network's program, beside its parameters.
func (s *Inferer) NetworkBytes() int64 { return s.program.Bytes() }

// Close gives the memory back.
func (s *Inferer) Close() { s.program.Close() }

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

// An Ensemble is several sets of parameters whose probabilities are averaged: Use(i) puts those of
// member i in place. The zero value uses what is there.
type Ensemble struct {
	Members int
	Use     func(member int) error
}

// Bytes is the memory that Classify takes beside the network and the scan, for a scan of the given
// shape.
func (s *Inferer) Bytes(shape [3]int) int64 { return s.Options.Bytes(shape, s.classes) }

// Bytes is the memory of windows over a scan of the given shape: sums, the probabilities of a
// batch, its crops and those made ahead, and the result.
func (o Options) Bytes(shape [3]int, classes int) int64 {
	patch := int64(o.Size[0]) * int64(o.Size[1]) * int64(o.Size[2])
	return newSlab(shape, o.Size, classes).bytes() + 4*int64(o.Batch)*patch*int64(classes+cropsAhead+1) + 2*int64(shape[0])*int64(shape[1])*int64(shape[2])
}

// cropsAhead is how many batches of windows are cut before they are needed, so that the network
// never waits for them.
const cropsAhead = 2

// Classify gives the class of every voxel of a scan, (K, J, I). progress, if not nil, is told how
// many windows are done.
func (s *Inferer) Classify(ctx context.Context, src Source, of Ensemble, progress func(done, total int)) ([]uint16, error) {
	shape := src.Extent()
	need := s.Bytes(shape) + src.Bytes()
	if s.room >= 0 && need > s.room {
		return nil, fmt.Errorf("a scan of %v in %d classes needs %d MiB of memory beside the network, which leaves %d MiB: make the window or the batch smaller", shape, s.classes, need>>20, s.room>>20)
	}
	var starts [3][]int
	for axis := range 3 {
		starts[axis] = positions(shape[axis], s.Size[axis], s.Overlap)
	}
	slab := newSlab(shape, s.Size, s.classes)
	slab.allocate()
	classes := make([]uint16, shape[0]*shape[1]*shape[2])
	probability := make([]float32, s.Batch*s.classes*s.Size[0]*s.Size[1]*s.Size[2])
	layers, members := starts[slab.along], max(of.Members, 1)
	windows, done := len(starts[0])*len(starts[slab.across]), 0
	for layer := range layers {
		for member := range members {
			if of.Use != nil {
				if err := of.Use(member); err != nil {
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
func (s *Inferer) layer(ctx context.Context, src Source, origins [][3]int, probability []float32, sums *slab, done func()) error {
	patch := s.Size[0] * s.Size[1] * s.Size[2]
	batches := (len(origins) + s.Batch - 1) / s.Batch
	ahead := train.NewPrefetch(ctx, 0, batches, 1, cropsAhead, func(_ context.Context, b int) (crops, error) {
		c := crops{origins: origins[b*s.Batch : min((b+1)*s.Batch, len(origins))], voxels: make([]float32, s.Batch*patch)}
		for n, origin := range c.origins {
			if err := src.Image(c.voxels[n*patch:(n+1)*patch], origin, s.Size); err != nil {
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
			sums.add(probability[n*s.classes*patch:], origin, s.Size, &s.weights)
			done()
		}
	}
	return nil
}

func (s *Inferer) run(voxels, probability []float32) error {
	if err := s.program.Set("image", voxels); err != nil {
		return err
	}
	if err := s.program.Forward(); err != nil {
		return err
	}
	return s.program.Read("probability", probability)
}
