package bench

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/sliding"
	"github.com/voxsaw/voxsaw/internal/train"
	_ "github.com/voxsaw/voxsaw/vnet" // the network that works
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

func testDevice(t testing.TB) device.Device {
	t.Helper()
	return cputest.New(t, cpu.Options{Threads: 2})
}

var tiny = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 2, Norm: "instance", Classes: 3}

func TestNetwork(t *testing.T) {
	for _, infer := range []bool{false, true} {
		n := Network{Settings: tiny, Crop: [3]int{8, 8, 8}, Batch: 1, Infer: infer}
		got, err := n.Run(t.Context(), testDevice(t), 1, 2, Options{})
		// The first convolution alone: 8^3 voxels, 125 taps, 4 channels, 2 for multiply and add.
		if first := 8.0 * 8 * 8 * 125 * 4 * 2; err != nil || got.Median < got.Min || got.Min <= 0 ||
			got.FLOPs < first || got.Bytes <= 0 {
			t.Errorf("%+v, %v", got, err)
		}
		plan, err := n.Plan(testDevice(t))
		if err != nil {
			t.Fatal(err)
		}
		if plan.Total != got.Bytes {
			t.Errorf("planned %d bytes, took %d", plan.Total, got.Bytes)
		}
	}
	if _, err := (Network{Settings: tiny, Crop: [3]int{10, 8, 8}, Batch: 1}).Run(t.Context(), testDevice(t), 0, 1,
		Options{}); err == nil {
		t.Error("a crop that does not fit was timed")
	}
}

// A step fits into whatever limit leaves room for what its highest kernel needs: half of what it
// takes without a limit. The tighter the limit, the more is computed again.
func TestTrainingFitsTheLimit(t *testing.T) {
	plan := func(limit int64) Footprint {
		f, err := Network{Settings: voxsaw.Network{Channels: 2, Norm: "instance"}, Crop: [3]int{48, 48, 48}, Batch: 1,
			Memory: limit}.Plan(testDevice(t))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	whole := plan(0)
	before := whole.Repeats
	for share := 95; share >= 50; share -= 5 {
		limit := whole.Total - whole.Bytes*int64(100-share)/100
		got := plan(limit)
		if got.Total > limit {
			t.Errorf("%d bytes with a limit of %d", got.Total, limit)
		}
		// in between, the search may find something a little better with less memory
		if share%15 == 5 {
			if got.Repeats.Bytes <= before.Bytes {
				t.Errorf("%d %% of the program's memory: %+v is computed again, with more memory it is %+v", share,
					got.Repeats, before)
			}
			before = got.Repeats
		}
	}
}

func TestPuzzle(t *testing.T) {
	b, err := backbone.Of(tiny)
	if err != nil {
		t.Fatal(err)
	}
	p := Puzzle{
		Game: jigsaw.Config{Grid: puzzle.Grid{2, 2, 2}, Shuffles: 1, Puzzle: voxsaw.Puzzle{Head: jigsaw.Paper,
			Features: 12, Hidden: 10, Rounds: 1, Distance: 2, Batch: 2}},
		Encoder: backbone.Patches{Backbone: b, Size: [3]int{8, 8, 8}},
	}
	timing, err := p.Run(t.Context(), testDevice(t), 1, 2, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if timing.Min <= 0 || timing.Median < timing.Min || timing.FLOPs <= 0 || timing.Bytes <= 0 {
		t.Errorf("timing %+v", timing)
	}
	if _, err := p.Run(t.Context(), testDevice(t), 1, 0, Options{}); err == nil {
		t.Error("no steps were timed")
	}
}

// The limit of a prediction is for the scan, too, and what is said to be needed is enough.
func TestWindowsCountTheScan(t *testing.T) {
	dev := testDevice(t)
	scan, _, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	b := Windows{Settings: tiny, Options: sliding.Options{Size: [3]int{8, 8, 8}, Batch: 1, Overlap: 0.5}}
	source := sliding.Hold(scan, scan, volume.DefaultPreparation().Intensities(nil))
	whole, err := b.Run(t.Context(), dev, source, scan.Len())
	if err != nil {
		t.Fatal(err)
	}
	if whole.Timed != whole.Windows || whole.Windows < 2 || whole.Rate() <= 0 {
		t.Errorf("%+v", whole)
	}
	b.Memory = whole.Bytes
	if got, err := b.Run(t.Context(), dev, source, scan.Len()); err != nil || got.Bytes != whole.Bytes ||
		got.Windows != whole.Windows {
		t.Errorf("a limit of as much as is needed: %+v, %v", got, err)
	}
	b.Memory-- // in bands, which have windows in common
	if got, err := b.Run(t.Context(), dev, source, scan.Len()); err != nil || got.Bytes > b.Memory ||
		got.Windows <= whole.Windows {
		t.Errorf("a limit of %d bytes where %d are needed: %+v, %v", b.Memory, whole.Bytes, got, err)
	}
	b.Memory = whole.Bytes / 2
	if got, err := b.Run(t.Context(), dev, source, scan.Len()); err == nil {
		t.Errorf("a limit of half of what is needed: %+v", got)
	}
	b.Memory, b.Limit = 0, 2
	if got, err := b.Run(t.Context(), dev, source, scan.Len()); err != nil || got.Timed != 2 ||
		got.Windows != whole.Windows {
		t.Errorf("two windows: %+v, %v", got, err)
	}
}

// A validation takes its windows, which are blended, and what is done with each voxel of the label
// map. The clock goes on by a second whenever it is looked at: one for four windows, one for the
// voxels.
func TestValidation(t *testing.T) {
	now := time.Unix(0, 0)
	defer func(clock func() time.Time) { train.Now = clock }(train.Now)
	train.Now = func() time.Time {
		now = now.Add(time.Second)
		return now
	}
	options := sliding.Options{Size: [3]int{8, 8, 8}, Batch: 1, Overlap: 0.5}
	p, err := Validation{Settings: tiny, Options: options}.Run(t.Context(), testDevice(t))
	if err != nil {
		t.Fatal(err)
	}
	const voxels = 10 * 10 * 8 // of the four windows
	if p.Window != time.Second/4 || math.Abs(p.Voxel*voxels-1) > 1e-9 {
		t.Errorf("%+v", p)
	}
	for _, shape := range [][3]int{{8, 8, 8}, {10, 10, 8}, {24, 20, 16}} {
		windows := time.Duration(options.Windows(shape)) * time.Second / 4
		of, beside := p.Of(shape), float64(shape[0]*shape[1]*shape[2])/voxels
		if math.Abs((of-windows).Seconds()-beside) > 1e-6 {
			t.Errorf("a scan of %v takes %v, its windows %v, its voxels %g s", shape, of, windows, beside)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	_, err = Validation{Settings: tiny, Options: options}.Run(ctx, testDevice(t))
	if !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
}
