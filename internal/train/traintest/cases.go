package traintest

import (
	"fmt"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
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
