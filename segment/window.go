package segment

import (
	"context"
	"errors"
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
//   - Windows of one size lie on a lattice that covers the scan, neighbours overlapping by at least the asked share. A scan smaller than the window
//     is centred in it, with air around.
//   - Each window adds its class probabilities, weighted by a Gaussian around its centre (sigma an eighth of its size, as nnU-Net has it), to a
//     sum for each voxel and class. The class with the highest sum wins; dividing by the sum of weights would not change which one that is.
//   - The lattice is walked along k. Voxels below the next layer of windows are final: they are decided and their sums forgotten. So the sums take
//     classes x Ni x Nj x (window's extent along k) x 4 bytes, whatever the scan's length.

// source is what windows are cut from: *volume.Case, or a volume in memory.
type source interface {
	Image(dst []float32, origin, size [3]int) error // normalised, air outside
}

// held is a prepared volume in memory.
type held struct {
	volume      *volume.Volume
	preparation volume.Preparation
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

// newSlider compiles the network for batches of windows of the given size, with the parameters given.
func newSlider(dev device.Device, params *nn.Params, network vnet.Config, size [3]int, batch int, overlap float64, memory int64) (*slider, error) {
	if err := network.Check(size); err != nil {
		return nil, fmt.Errorf("window: %w", err)
	}
	if err := checkOverlap(overlap); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Eval)
	x := g.Input("image", batch, 1, size[2], size[1], size[0])
	probability := g.Softmax(network.Decoder(g, network.Encoder(g, x)))
	program, err := nn.Compile(dev, g, params, nn.Options{Outputs: map[string]*nn.Node{"probability": probability}, MemoryLimit: memory})
	if err != nil {
		return nil, fmt.Errorf("preparing inference on windows of %v: %w", size, err)
	}
	s := &slider{program: program, classes: network.Classes, batch: batch, size: size, overlap: overlap, room: -1}
	if memory > 0 {
		s.room = max(memory-params.Total(), 0)
	}
	for axis, n := range size {
		s.weights[axis] = gaussian(n)
	}
	return s, nil
}

// gaussian is a bell over n voxels, 1 at its centre, with a standard deviation of n/8.
func gaussian(n int) []float32 {
	w := make([]float32, n)
	for i := range w {
		d := (float64(i) - float64(n-1)/2) / (float64(n) / 8)
		w[i] = float32(math.Exp(-d * d / 2))
	}
	return w
}

// positions are where windows of the given size start along an axis of n voxels: evenly spread, the first at 0, the last at the end.
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

// ensemble says whose parameters are used: use(i) puts those of member i in place. The zero value uses what is there.
type ensemble struct {
	members int
	use     func(member int) error
}

// classify gives the class of every voxel of a source of the given shape. progress, if not nil, is told how many windows are done.
func (s *slider) classify(ctx context.Context, src source, shape [3]int, of ensemble, progress func(done, total int)) ([]uint16, error) {
	xs, ys, zs := positions(shape[0], s.size[0], s.overlap), positions(shape[1], s.size[1], s.overlap), positions(shape[2], s.size[2], s.overlap)
	depth := min(s.size[2], shape[2])
	plane := shape[0] * shape[1]
	patch := s.size[0] * s.size[1] * s.size[2]
	need := 4*int64(s.classes)*(int64(depth)*int64(plane)+int64(s.batch)*int64(patch)) + 2*int64(plane)*int64(shape[2])
	if s.room >= 0 && need > s.room {
		return nil, fmt.Errorf("a scan of %v in %d classes needs %d MiB of memory beside the network, which leaves %d MiB: make the window or the batch smaller", shape, s.classes, need>>20, s.room>>20)
	}
	sums := make([]float32, s.classes*depth*plane) // (class, k - base, j, i)
	classes := make([]uint16, plane*shape[2])
	members := max(of.members, 1)
	windows, done := len(xs)*len(ys), 0
	probability := make([]float32, s.batch*s.classes*patch)
	for layer, z := range zs {
		base := max(z, 0) // the k of the first plane of sums
		for member := range members {
			if of.use != nil {
				if err := of.use(member); err != nil {
					return nil, err
				}
			}
			batches := (windows + s.batch - 1) / s.batch
			ahead := train.NewPrefetch(ctx, 0, batches, 1, 2, func(_ context.Context, b int) (crops, error) {
				c := crops{voxels: make([]float32, s.batch*patch)}
				for n := b * s.batch; n < min((b+1)*s.batch, windows); n++ {
					origin := [3]int{xs[n%len(xs)], ys[n/len(xs)], z}
					at := len(c.origins) * patch
					if err := src.Image(c.voxels[at:at+patch], origin, s.size); err != nil {
						return c, err
					}
					c.origins = append(c.origins, origin)
				}
				return c, nil
			})
			err := func() error {
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
						s.add(sums, probability[n*len(probability)/s.batch:], origin, base, depth, shape)
					}
					done += len(c.origins)
					if progress != nil {
						progress(done, windows*len(zs)*members)
					}
				}
				return nil
			}()
			if err != nil {
				return nil, err
			}
		}
		final := shape[2] // planes below it are decided now
		if layer+1 < len(zs) {
			final = zs[layer+1]
		}
		if err := decide(classes[base*plane:final*plane], sums, s.classes, depth*plane); err != nil {
			return nil, err
		}
		shift(sums, s.classes, depth*plane, (final-base)*plane)
	}
	return classes, nil
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

// add adds the weighted probabilities of a window, as far as it lies in the scan, to the sums.
func (s *slider) add(sums, probability []float32, origin [3]int, base, depth int, shape [3]int) {
	var from, to [3]int // of the window, in the scan
	for axis := range 3 {
		from[axis], to[axis] = max(-origin[axis], 0), min(s.size[axis], shape[axis]-origin[axis])
	}
	for class := range s.classes {
		for k := from[2]; k < to[2]; k++ {
			for j := from[1]; j < to[1]; j++ {
				w := s.weights[2][k] * s.weights[1][j]
				row := probability[s.size[0]*(j+s.size[1]*(k+s.size[2]*class)):]
				at := shape[0]*(origin[1]+j+shape[1]*(origin[2]+k-base+depth*class)) + origin[0]
				for i := from[0]; i < to[0]; i++ {
					sums[at+i] += w * s.weights[0][i] * row[i]
				}
			}
		}
	}
}

var errNotFinite = errors.New("the network's output is not a number: were the weights damaged in training?")

// decide writes the class with the highest sum, the lowest of equals.
func decide(classes []uint16, sums []float32, n, stride int) error {
	for v := range classes {
		best := sums[v]
		for class := 1; class < n; class++ {
			if sum := sums[class*stride+v]; sum > best {
				best, classes[v] = sum, uint16(class)
			}
		}
		if !(best > 0) { // probabilities and weights are positive; a NaN never is
			return errNotFinite
		}
	}
	return nil
}

// shift forgets the first voxels of each class's sums, moves the rest down and clears the end.
func shift(sums []float32, n, stride, voxels int) {
	for class := range n {
		of := sums[class*stride : (class+1)*stride]
		kept := copy(of, of[min(voxels, stride):])
		clear(of[kept:])
	}
}
