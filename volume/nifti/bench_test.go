package nifti

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// noisy is a volume that compresses about as a CT does.
func noisy(shape [3]int) *volume.Volume {
	g := volume.Grid{Shape: shape, Affine: volume.Scaling([3]float64{0.8, 0.8, 1})}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	state := uint32(1)
	for n := range v.Int16 {
		state = state*1664525 + 1013904223
		v.Int16[n] = int16(n/700%900) + int16(state>>27)
	}
	return v
}

// Set VOXSAW_BENCH_FILE to time a file of your own.
func BenchmarkRead(b *testing.B) {
	path := os.Getenv("VOXSAW_BENCH_FILE")
	if path == "" {
		path = filepath.Join(b.TempDir(), "scan.nii.gz")
		if err := Write(path, noisy([3]int{256, 256, 100})); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		v, err := Read(path)
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(2 * v.Len()))
	}
}

func BenchmarkWrite(b *testing.B) {
	v := noisy([3]int{256, 256, 100})
	path := filepath.Join(b.TempDir(), "scan.nii.gz")
	b.SetBytes(int64(2 * v.Len()))
	for b.Loop() {
		if err := Write(path, v); err != nil {
			b.Fatal(err)
		}
	}
}
