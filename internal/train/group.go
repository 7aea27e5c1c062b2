package train

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// A Group is the ranks of one training: processes or goroutines, each of which computes a part of
// every batch. Their weights are the same at every step. The zero value is a training alone.
type Group struct {
	Rank, Size int
	// AllReduce replaces values by their sums over the ranks, the same bits on every rank. All
	// ranks call it as often, with as many values each time.
	AllReduce func(values []float32) error
}

// Alone says whether there are no other ranks.
func (g Group) Alone() bool { return g.Size < 2 }

// Share divides the items of a whole batch: this rank has n of them, from the given one on. So the
// ranks together see the items that one rank alone would see.
func (g Group) Share(batch int) (first, n int, err error) {
	if g.Alone() {
		return 0, batch, nil
	}
	if batch%g.Size != 0 {
		return 0, 0, fmt.Errorf("a batch of %d cannot be divided evenly over %d ranks: take a multiple of %d", batch, g.Size, g.Size)
	}
	n = batch / g.Size
	return g.Rank * n, n, nil
}

// Seed is the run's seed for random numbers that every rank draws for itself, such as those of a
// dropout: rank 0 has the run's own.
func (g Group) Seed(run uint64) uint64 {
	if g.Rank == 0 {
		return run
	}
	return seed.Rand(run, "rank", uint64(g.Rank)).Uint64()
}

// sumGradients adds up the gradients of all ranks, parameter by parameter.
func (g Group) sumGradients(dev device.Device, o Optimizer) error {
	if g.Alone() {
		return nil
	}
	host, direct := dev.(device.HostMemory)
	var values []float32
	return o.Gradients(func(name string, gradient device.Buffer) error {
		if direct {
			if err := g.AllReduce(host.Host(gradient)); err != nil {
				return fmt.Errorf("summing the gradient of %s over the ranks: %w", name, err)
			}
			return nil
		}
		n := int(gradient.Bytes() / 4)
		if cap(values) < n {
			values = make([]float32, n)
		}
		values = values[:n]
		if err := dev.DownloadPlain(values, gradient, 0); err != nil {
			return err
		}
		if err := g.AllReduce(values); err != nil {
			return fmt.Errorf("summing the gradient of %s over the ranks: %w", name, err)
		}
		return dev.UploadPlain(gradient, 0, values)
	})
}
