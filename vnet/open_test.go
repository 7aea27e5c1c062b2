package vnet

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
)

// A model that is opened from a checkpoint has its settings and gives the logits of the model that
// was saved. A checkpoint of another network is refused by its kind.
func TestOpen(t *testing.T) {
	saved := smallModel(t, [3]int{16, 16, 16})
	path := filepath.Join(t.TempDir(), "checkpoint.safetensors")
	write := func(settings string) {
		t.Helper()
		d := checkpoint.Description{Kind: checkpoint.Segmentation, Settings: settings}
		if err := checkpoint.Write(path, d, saved.params); err != nil {
			t.Fatal(err)
		}
	}
	write("network: {preset: monai, channels: 1, classes: 2}\n")
	dev := cputest.New(t, cpu.Options{Threads: 2})
	m, loaded, err := Open(dev, path, [3]int{16, 16, 16})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if len(loaded.Loaded) != len(saved.Names()) || len(loaded.Missing)+len(loaded.Skipped) > 0 {
		t.Errorf("loaded %v", loaded)
	}
	if !reflect.DeepEqual(m.Settings(), saved.Settings()) {
		t.Errorf("settings are %+v, want %+v", m.Settings(), saved.Settings())
	}
	image := make([]float32, 16*16*16)
	for n := range image {
		image[n] = float32(n%7)/3 - 1
	}
	want, err := saved.Logits(image)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := m.Logits(image); err != nil || !slices.Equal(got, want) {
		t.Errorf("the logits are not those of the model that was saved: %v", err)
	}
	write("network: {kind: another}\n")
	if _, _, err := Open(dev, path, [3]int{16, 16, 16}); err == nil || !strings.Contains(err.Error(), `kind "another"`) {
		t.Errorf("another network: %v", err)
	}
}
