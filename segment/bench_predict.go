package segment

import (
	"context"
	"errors"
	"time"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/vnet"
	"github.com/voxsaw/voxsaw/volume"
)

// PredictBenchmark is the timing of inference in windows over a whole scan, with a network of
// random weights.
type PredictBenchmark struct {
	Network     vnet.Config
	Preparation volume.Preparation
	Inference   Inference
	Windows     int   // that are run, the rest taken to be as fast; 0: all
	Memory      int64 // limit in bytes; 0: none
}

// PredictTiming is what it measured.
type PredictTiming struct {
	Voxels, Windows, Timed int           // of the scan; all windows, and those that were run
	Elapsed                time.Duration // of those
	Bytes                  int64         // memory of the network, the scan, the sums and the result
}

// Rate is how many voxels of the scan a second are done.
func (t PredictTiming) Rate() float64 {
	return float64(t.Voxels) * float64(t.Timed) / float64(t.Windows) / t.Elapsed.Seconds()
}

// Run prepares the scan and measures what follows.
func (b PredictBenchmark) Run(ctx context.Context, dev device.Device, scan *volume.Volume) (PredictTiming, error) {
	t := PredictTiming{Voxels: scan.Len()}
	network, err := b.Network.Resolve()
	if err != nil {
		return t, err
	}
	prepared, err := b.Preparation.Apply(scan)
	if err != nil {
		return t, err
	}
	params := nn.NewParams(dev, 0)
	s, err := newSlider(dev, params, network, b.Inference.Window, b.Inference.Batch, b.Inference.Overlap, nn.Options{MemoryLimit: b.Memory})
	if err != nil {
		return t, err
	}
	held := hold(scan, prepared, b.Preparation)
	t.Bytes = params.Total() + held.bytes + s.bytes(prepared.Shape)
	enough := errors.New("enough windows")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	start := time.Now()
	_, err = s.classify(ctx, held, prepared.Shape, ensemble{}, func(done, total int) {
		if t.Windows = total; b.Windows == 0 || done <= b.Windows {
			t.Timed, t.Elapsed = done, time.Since(start)
		} else {
			stop(enough)
		}
	})
	if context.Cause(ctx) == enough {
		return t, nil
	}
	t.Elapsed = time.Since(start)
	return t, err
}
