package segment

import (
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

var testDevice, phantoms = traintest.CPU, traintest.Phantoms

// tiny is a network that a test can train.
func tiny() Config {
	c := DefaultConfig()
	c.Network = voxsaw.Network{Preset: "paper", Channels: 4, Levels: 2, Norm: "instance"}
	c.Crop = [3]int{16, 12, 8}
	c.Labels = []string{"2", "3+4"}
	return c
}

func resolved(t testing.TB, c Config, store *prepared.Store) Config {
	t.Helper()
	c, err := c.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// compiled is a fine-tuning that is ready to run.
func compiled(t testing.TB, dev voxsaw.Device, c Config, data sample.Data, memory int64) (*learner, error) {
	t.Helper()
	d, err := device.From(dev)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	var l learner
	if err := l.open(c, labelled{Store: data.Store.(*prepared.Store), Train: data.Train, Validate: data.Validate,
		Unlabelled: data.Unlabelled}, train.Group{}); err != nil {
		return nil, err
	}
	w := train.Workbench{Device: d, Params: nn.NewParams(d, c.Train.Seed), Memory: memory}
	t.Cleanup(w.Params.Close)
	if err := l.declare(w.Params); err != nil {
		return nil, err
	}
	if w.Optimizer, err = train.NewOptimizer(w.Params, c.Train, c.groups(), false); err != nil {
		return nil, err
	}
	t.Cleanup(w.Optimizer.Close)
	t.Cleanup(l.Close)
	return &l, l.compile(w)
}
