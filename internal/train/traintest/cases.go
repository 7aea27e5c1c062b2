package traintest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Direct is a device without fast transforms, which are chosen by the batch, and round: for tests
// that compare batches, or differences of losses.
func Direct(t testing.TB) voxsaw.Device {
	t.Helper()
	return opened(t, voxsaw.DeviceOptions{Threads: 2, Conv: "direct"})
}

// CPU is a device of two threads, closed when the test ends.
func CPU(t testing.TB) voxsaw.Device {
	t.Helper()
	return opened(t, voxsaw.DeviceOptions{Threads: 2})
}

func opened(t testing.TB, o voxsaw.DeviceOptions) voxsaw.Device {
	t.Helper()
	dev, err := voxsaw.Open("cpu", o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// Checkpoint is a checkpoint of a kind and of no weights.
func Checkpoint(t testing.TB, kind string) (path string) {
	t.Helper()
	dev, err := device.From(CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), kind+".safetensors")
	if err := checkpoint.Write(path, checkpoint.Description{Kind: kind}, nn.NewParams(dev, 0)); err != nil {
		t.Fatal(err)
	}
	return path
}

// Prepared is a store of no cases, which were prepared in some way.
type Prepared struct {
	sample.Store
	How volume.Preparation
}

func (p Prepared) Preparation() volume.Preparation { return p.How }

// Phantoms are prepared cases of n made-up patients with labels, case00 and those after it, small
// enough for a test.
func Phantoms(t testing.TB, n int, shape [3]int) *prepared.Store {
	t.Helper()
	var cases []prepared.Input
	for i := range n {
		v, l, err := phantom.New(uint64(i), phantom.Options{Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		cases = append(cases, prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: v, Labels: l})
	}
	return Store(t, volume.DefaultPreparation(), cases...)
}

// Store is a store of cases that is closed when the test ends.
func Store(t testing.TB, how volume.Preparation, cases ...prepared.Input) *prepared.Store {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "cases")
	w, err := prepared.NewWriter(dir, how)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if _, err := w.Add(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// TwoChannels is a store of labelled cases of two channels: an MR of noise, and one in which alone
// an organ is bright.
func TwoChannels(t testing.TB, n int, shape [3]int) *prepared.Store {
	t.Helper()
	how := volume.DefaultPreparation().WithChannels([]string{"T1w", "FLAIR"}, []string{"MR", "MR"})
	var cases []prepared.Input
	for i := range n {
		_, l, err := phantom.New(uint64(i), phantom.Options{Shape: shape})
		if err != nil {
			t.Fatal(err)
		}
		channels := [2]*volume.Volume{}
		for c := range channels {
			r := seed.Rand(1, "channels", uint64(i), uint64(c))
			v := &volume.Volume{Grid: l.Grid, Float32: make([]float32, l.Len())}
			for at, label := range l.Labels {
				if v.Float32[at] = 100 + 20*float32(r.NormFloat64()); c == 1 && label > 0 {
					v.Float32[at] += 200
				}
			}
			channels[c] = v
		}
		for at, label := range l.Labels {
			l.Labels[at] = min(label, 1)
		}
		l.Names = nil
		cases = append(cases, prepared.Input{ID: fmt.Sprintf("case%02d", i), Image: channels[0], More: channels[1:],
			Labels: l})
	}
	return Store(t, how, cases...)
}
