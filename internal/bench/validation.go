package bench

import (
	"context"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Validation is the work of validating a held-out case, as fine-tuning does it: windows slide over
// the scan, their outputs are blended, and Dice coefficients are taken of what comes of it, with
// all components and with the largest alone.
type Validation struct {
	Settings voxsaw.Network
	Options  sliding.Options
	Memory   int64 // limit in bytes; 0: none
}

// A ValidationPace is how long that takes.
type ValidationPace struct {
	Window time.Duration // for each window
	Voxel  float64       // seconds for each voxel of the scan, beside its windows
	how    sliding.Options
}

// Of is what the validation of a scan of a shape takes.
func (p ValidationPace) Of(shape [3]int) time.Duration {
	voxels := float64(shape[0]) * float64(shape[1]) * float64(shape[2])
	return p.Window*time.Duration(p.how.Windows(shape)) + time.Duration(p.Voxel*voxels*float64(time.Second))
}

// Run measures it with random weights, on a made-up scan that is laid out in four windows, or fewer
// where a window is a voxel thin. The label map is made up, too: compact, like those of a network
// that has learnt, not noise.
func (v Validation) Run(ctx context.Context, dev device.Device) (p ValidationPace, err error) {
	network, err := backbone.Of(v.Settings)
	if err != nil {
		return p, err
	}
	params := nn.NewParams(dev, 0)
	defer params.Close()
	s, err := sliding.New(dev, params, network, v.Options, nn.Options{MemoryLimit: v.Memory})
	if err != nil {
		return p, err
	}
	defer s.Close()
	p.how = v.Options
	scan := noise{shape: v.Options.Size, values: make([]float32, 1<<12)}
	r := seed.Rand(0, "benchmark")
	for n := range scan.values {
		scan.values[n] = float32(r.NormFloat64())
	}
	// The first window is slower: kernels and memory are made ready.
	if _, err := s.Classify(ctx, scan, sliding.Ensemble{}, nil); err != nil {
		return p, err
	}
	for a := range 2 {
		scan.shape[a] += scan.shape[a] / 4
	}
	begun := train.Now()
	predicted, err := s.Classify(ctx, scan, sliding.Ensemble{}, nil)
	if err != nil {
		return p, err
	}
	p.Window = train.Now().Sub(begun) / time.Duration(v.Options.Windows(scan.shape))
	blocks(predicted, scan.shape, v.Settings.Classes)
	reference := slices.Clone(predicted)
	begun = train.Now()
	copied := slices.Clone(reference) // as it is read from the case
	eval.Dice(predicted, copied, nil, v.Settings.Classes-1)
	quality.KeepLargest(predicted, scan.shape, nil)
	eval.Dice(predicted, copied, nil, v.Settings.Classes-1)
	p.Voxel = train.Now().Sub(begun).Seconds() / float64(len(predicted))
	return p, nil
}

// blocks fills the middle half of each line with one class, which changes from plane to plane.
func blocks(labels []uint16, shape [3]int, classes int) {
	for line := range shape[1] * shape[2] {
		of := labels[line*shape[0] : (line+1)*shape[0]]
		clear(of)
		middle := of[len(of)/4 : len(of)-len(of)/4]
		for i := range middle {
			middle[i] = uint16(1 + line/shape[1]*(classes-1)/shape[2])
		}
	}
}

// noise is a scan of random voxels, which repeat.
type noise struct {
	shape  [3]int
	values []float32
}

// Size implements [sliding.Source].
func (n noise) Size() [3]int { return n.shape }

// Bytes implements [sliding.Source].
func (n noise) Bytes() int64 { return 0 }

// Crop implements [sliding.Source].
func (n noise) Crop(dst []float32, _, _ [3]int) error {
	for len(dst) > 0 {
		dst = dst[copy(dst, n.values):]
	}
	return nil
}
