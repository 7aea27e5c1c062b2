package train

import "github.com/voxsaw/voxsaw/internal/device"

// An average is the exponential moving average of all parameters. Its decay rises with the steps to
// the one that was asked for, min(decay, (1 + step) / (10 + step)), so that the first weights are
// soon forgotten; the first step takes the weights as they are.
type average struct {
	dev          device.Device
	decay        float64
	values       device.Buffer // of the model
	mean, weight device.Buffer
	scratch      device.Buffer
	kernel       device.Kernel
	uploaded     float32 // the weight that is there
}

// newAverage takes the memory.
func newAverage(params Params, decay float64) (*average, error) {
	values, err := params.Values()
	if err != nil {
		return nil, err
	}
	a := &average{dev: params.Device(), decay: decay, values: values}
	if a.kernel, err = a.dev.Average(int(values.Bytes() / 4)); err != nil {
		return nil, err
	}
	for _, b := range []struct {
		to    *device.Buffer
		bytes int64
	}{{&a.mean, values.Bytes()}, {&a.weight, 4}, {&a.scratch, a.kernel.Scratch()}} {
		if *b.to, err = a.dev.Alloc(b.bytes); err != nil {
			a.close()
			return nil, err
		}
	}
	return a, nil
}

// update takes the weights after a step, counted from 0, into the average.
func (a *average) update(step int) error {
	decay := 0.0
	if step > 0 {
		decay = min(a.decay, float64(1+step)/float64(10+step))
	}
	if weight := float32(1 - decay); weight != a.uploaded {
		a.uploaded = weight
		if err := a.dev.UploadPlain(a.weight, 0, []float32{weight}); err != nil {
			return err
		}
	}
	a.kernel.Run([]device.Buffer{a.mean}, []device.Buffer{a.values, a.weight}, a.scratch)
	return nil
}

// swapped calls f while the average and the parameters have changed places.
func (a *average) swapped(f func() error) error {
	if err := a.swap(); err != nil {
		return err
	}
	err := f()
	if back := a.swap(); err == nil {
		err = back
	}
	return err
}

// pieceLength is how many elements change places at a time.
const pieceLength = 1 << 20

func (a *average) swap() error {
	n := int(a.values.Bytes() / 4)
	x, y := make([]float32, min(n, pieceLength)), make([]float32, min(n, pieceLength))
	for first := 0; first < n; first += pieceLength {
		x, y := x[:min(pieceLength, n-first)], y[:min(pieceLength, n-first)]
		if err := a.dev.DownloadPlain(x, a.values, first); err != nil {
			return err
		}
		if err := a.dev.DownloadPlain(y, a.mean, first); err != nil {
			return err
		}
		if err := a.dev.UploadPlain(a.values, first, y); err != nil {
			return err
		}
		if err := a.dev.UploadPlain(a.mean, first, x); err != nil {
			return err
		}
	}
	return nil
}

func (a *average) close() {
	for _, b := range []device.Buffer{a.mean, a.weight, a.scratch} {
		if b != nil {
			a.dev.Free(b)
		}
	}
}
