package bench

import (
	"context"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// A program's kernels, its inputs and the optimiser are all there, once a step, and add up to no
// more than the step.
func TestProfile(t *testing.T) {
	dev := cputest.New(t, cpu.Options{Threads: 1})
	params := nn.NewParams(dev, 1)
	g := nn.NewGraph(nn.Train, dev.Activations())
	logits := g.Linear("b", g.Linear("a", g.Input("x", 64, 32), 32, true), 4, true)
	loss, _ := g.Loss(logits, g.Input("target", 64), nn.LossOptions{CE: 1})
	p, err := nn.Compile(dev, g, params, nn.Options{Loss: loss})
	if err != nil {
		t.Fatal(err)
	}
	steps := Steps{
		Warmup: 1, Timed: 3, Programs: []*nn.Program{p},
		Compute: func(int) error {
			if err := p.Set("x", make([]float32, 64*32)); err != nil {
				return err
			}
			if err := p.Forward(); err != nil {
				return err
			}
			return p.Backward()
		},
		Update: func(int) error { time.Sleep(time.Millisecond); return nil },
	}
	plain, err := steps.Measure(t.Context(), Options{})
	if err != nil || plain.Profile != nil || plain.Median < plain.Min || plain.Min < time.Millisecond {
		t.Fatalf("%+v, %v", plain, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := steps.Measure(stopped, Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: %v", err)
	}
	timing, err := steps.Measure(t.Context(), Options{Profile: true})
	if err != nil {
		t.Fatal(err)
	}
	if want := 3 * 2 * 64 * (32*32 + 32*4.0); timing.FLOPs != want {
		t.Errorf("%v floating-point operations, want %v", timing.FLOPs, want)
	}
	profile := timing.Profile
	if n := p.Summary().Steps + 2; len(profile.Entries) != n { // and one input, and the optimiser
		t.Errorf("%d entries, want %d", len(profile.Entries), n)
	}
	if share := profile.Accounted(); !(share > 0.5 && share <= 1) {
		t.Errorf("%v of the step is accounted for", share)
	}
	var sum [2]float64
	for i, parts := range [][]Entry{profile.Entries, profile.Kinds} {
		for _, part := range parts {
			sum[i] += part.Seconds
		}
	}
	if math.Abs(sum[0]-sum[1]) > 1e-9 {
		t.Errorf("the kernels take %v, their kinds %v", sum[0], sum[1])
	}
	for _, phase := range []string{Forward, Backward, Host, Update} {
		if !slices.ContainsFunc(profile.Entries, func(p Entry) bool { return p.Phase == phase && p.Calls == 1 }) {
			t.Errorf("nothing of phase %q", phase)
		}
	}
}

func TestKinds(t *testing.T) {
	parts := []Entry{
		{Name: "conv 1x1->16 5x5x5/1 of 64x64x64", Phase: Forward, Calls: 1, Seconds: 1},
		{Name: "conv 8x32->32 5x5x5/1 of 24x24x24", Phase: Forward, Calls: 1, Seconds: 3},
		{Name: "conv 8x32->32 5x5x5/1 of 24x24x24", Phase: Backward, Calls: 1, Seconds: 1},
		{Name: "matMul 8x1024x6912", Phase: Forward, Calls: 1, Seconds: 2},
		{Name: "update encoder.4.conv1.weight", Phase: Backward, Calls: 1, Seconds: 0.25},
		{Name: "update encoder.4.conv1.bias", Phase: Backward, Calls: 1, Seconds: 0.25},
		{Name: "activate instance norm + residual prelu 8x64x12x12x12", Phase: Forward, Calls: 1, Seconds: 5},
	}
	want := []Entry{
		{Name: "activate instance norm + residual prelu", Phase: Forward, Calls: 1, Seconds: 5},
		{Name: "conv 5x5x5/1", Phase: Forward, Calls: 2, Seconds: 4},
		{Name: "matMul", Phase: Forward, Calls: 1, Seconds: 2},
		{Name: "conv 5x5x5/1", Phase: Backward, Calls: 1, Seconds: 1},
		{Name: "update", Phase: Backward, Calls: 2, Seconds: 0.5},
	}
	if got := kinds(parts); !slices.Equal(got, want) {
		t.Errorf("%+v\nwant %+v", got, want)
	}
}
