package bench

import (
	"context"
	"errors"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/sliding"
)

// Windows is the work of inference over a whole scan, with a network of random weights.
type Windows struct {
	Settings voxsaw.Network
	Options  sliding.Options
	Limit    int   // windows that are run, the rest taken to be as fast; 0: all
	Memory   int64 // limit in bytes; 0: none
}

// WindowsTiming is what [Windows] measured.
type WindowsTiming struct {
	Voxels, Windows, Timed int           // of the scan; all windows, and those that were run
	Elapsed                time.Duration // of those
	Bytes                  int64         // memory of the network, the scan, the sums and the result
}

// Rate is how many voxels of the scan a second are done.
func (t WindowsTiming) Rate() float64 {
	return float64(t.Voxels) * float64(t.Timed) / float64(t.Windows) / t.Elapsed.Seconds()
}

// Run measures. The rate is that of a scan of so many voxels, which may be more or less than the
// prepared one's.
func (b Windows) Run(ctx context.Context, dev device.Device, scan sliding.Source, voxels int) (WindowsTiming, error) {
	t := WindowsTiming{Voxels: voxels}
	network, err := backbone.Of(b.Settings)
	if err != nil {
		return t, err
	}
	params := nn.NewParams(dev, 0)
	defer params.Close()
	s, err := sliding.New(dev, params, network, b.Options, nn.Options{MemoryLimit: b.Memory})
	if err != nil {
		return t, err
	}
	defer s.Close()
	t.Bytes = params.Total() + scan.Bytes() + s.Bytes(scan)
	enough := errors.New("enough windows")
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	start := time.Now()
	_, err = s.Classify(ctx, scan, sliding.Ensemble{}, func(done, total int) {
		if t.Windows = total; b.Limit == 0 || done <= b.Limit {
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
