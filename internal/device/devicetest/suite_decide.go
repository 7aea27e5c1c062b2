package devicetest

import (
	"math"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// decisions checks what decides on a step, where the device has it: on the sum of squares of one
// parameter and of more than a block has threads, clipped and not, with and without a loss.
func decisions(t *testing.T, dev device.Device) {
	t.Helper()
	if _, ok := dev.(device.StepDecider); !ok {
		return
	}
	r := newRand(2)
	for _, s := range []device.DecideSpec{
		{Squares: 1, Rates: 1, Width: 4, Pitch: 16, Factor: 3, One: 1},
		{Squares: 700, Rates: 3, Width: 8, Pitch: 32, Factor: 5, One: -1, Clip: 5, Loss: true, Values: 300},
		{Squares: 40, Rates: 70, Width: 4, Pitch: 16, Factor: 3, One: 1, Clip: 1e6, Values: 2},
	} {
		out := []operand{random(r, 3+s.Values), random(r, s.Rates*s.Pitch)}
		in := []operand{positive(r, s.Squares*s.Pitch), random(r, s.Rates*s.Pitch)}
		if s.Loss {
			in = append(in, random(r))
		}
		if s.Values > 0 {
			in = append(in, random(r, s.Values))
		}
		compare(t, dev, tight, decide(s), out, in)
		for _, bad := range []float32{float32(math.NaN()), float32(math.Inf(1))} {
			declined(t, dev, s, out, in, 0, (s.Squares-1)*s.Pitch, bad)
			if s.Loss {
				declined(t, dev, s, out, in, 2, 0, bad)
			}
		}
	}
	refuses(t, dev, decide(device.DecideSpec{Squares: 1, Rates: 1, Width: 4, Pitch: 2}))
}

func decide(s device.DecideSpec) maker {
	return func(d device.Device) (device.Kernel, error) { return d.(device.StepDecider).DecideStep(s) }
}

// declined checks that a step is made one that changes nothing where an element of an input is bad.
func declined(t *testing.T, dev device.Device, s device.DecideSpec, out, in []operand, input, element int,
	bad float32) {
	t.Helper()
	in = slices.Clone(in)
	in[input].data = slices.Clone(in[input].data)
	in[input].data[element] = bad
	k := prepare(t, dev, decide(s), out, in)
	k.run()
	want := slices.Clone(out[1].data) // between the rows nothing is written
	for i := range want {
		switch column := i % s.Pitch; {
		case column == s.One:
			want[i] = 1
		case column < s.Width:
			want[i] = 0
		}
	}
	if got := download(t, dev, k.out[1], out[1]); !slices.Equal(got, want) {
		t.Errorf("input %d holds %v: the hyperparameters are not those of a step that changes nothing", input, bad)
	}
	if taken := download(t, dev, k.out[0], out[0])[1]; taken != 0 {
		t.Errorf("input %d holds %v, and the step is taken", input, bad)
	}
}
