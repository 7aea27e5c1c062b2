package train_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// layers are parameters of several buckets.
func layers(t *testing.T) *nn.Params {
	t.Helper()
	dev, err := device.From(traintest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	g := nn.NewGraph(nn.Train, dev.Activations())
	x := g.Input("x", 2, 700)
	for _, name := range []string{"a", "b", "c"} {
		x = g.Linear(name, x, 700, true)
	}
	params := nn.NewParams(dev, 1)
	t.Cleanup(params.Close)
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	return params
}

// Ranks that compute gradients in different orders, as those do that have less memory and compute
// layers again, send them in the same one.
func TestGradientsAreSentInOneOrder(t *testing.T) {
	const ranks = 3
	params := layers(t)
	order := params.Names()
	computed := [][]string{order, slices.Clone(order), append(slices.Clone(order[2:]), order[:2]...)}
	slices.Reverse(computed[1])
	gradients, want := make([]map[string][]float32, ranks), map[string][]float32{}
	for rank := range ranks {
		gradients[rank] = map[string][]float32{}
		for _, name := range order {
			r := seed.Rand(1, name, uint64(rank))
			values := make([]float32, params.Shape(name).Elements())
			for i := range values {
				values[i] = float32(r.IntN(100)) // whose sums are exact
			}
			gradients[rank][name] = values
			if want[name] == nil {
				want[name] = make([]float32, len(values))
			}
			for i, v := range values {
				want[name][i] += v
			}
		}
	}
	each := make([]*nn.Params, ranks)
	for rank := range each {
		each[rank] = layers(t)
	}
	onRanks(ranks, func(g train.Group) {
		sums, err := train.SendDuringBackward(each[g.Rank], g, order, computed[g.Rank], gradients[g.Rank])
		if err != nil {
			t.Error(err)
		}
		for _, name := range order {
			if !slices.Equal(sums[name], want[name]) {
				t.Errorf("rank %d: the sum of %s is another", g.Rank, name)
			}
		}
	})
}

// A backward pass that leaves a gradient out is an error, and no sum of the step before.
func TestGradientThatIsNotThere(t *testing.T) {
	params := layers(t)
	order := params.Names()
	_, err := train.SendDuringBackward(params, traintest.Alike(2), order, order[:len(order)-1], map[string][]float32{})
	if err == nil || !strings.Contains(err.Error(), "gradients") {
		t.Error(err)
	}
}
