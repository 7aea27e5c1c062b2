package segment

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// wholeNetwork writes a checkpoint of a network, encoder and decoder, as a kind.
func wholeNetwork(t *testing.T, dev voxsaw.Device, settings voxsaw.Network, kind string) string {
	t.Helper()
	network, err := backbone.Of(settings)
	if err != nil {
		t.Fatal(err)
	}
	d, err := device.From(dev)
	if err != nil {
		t.Fatal(err)
	}
	g := nn.NewGraph(nn.Train, d.Activations())
	network.Decoder(g, network.Encoder(g, g.Input("image", 1, 1, 16, 16, 16)))
	params := nn.NewParams(d, 77)
	defer params.Close()
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), kind+".safetensors")
	if err := checkpoint.Write(path, checkpoint.Description{Kind: kind}, params); err != nil {
		t.Fatal(err)
	}
	return path
}

// What is loaded is what Load says; the last layer of a pretext task is not, even where its
// outputs are as many as the classes.
func TestLoad(t *testing.T) {
	dev := testDevice(t)
	for _, network := range []voxsaw.Network{
		{Preset: "monai", Channels: 2, Levels: 1}, {Preset: "paper", Channels: 2, Levels: 1, Norm: "instance"}, {Kind: "resenc", Channels: 2, Levels: 3, Blocks: []int{1, 1, 1, 1}},
	} {
		cache := phantoms(t, 1, [3]int{20, 18, 16})
		c := tiny()
		c.Network, c.Crop, c.Labels = network, [3]int{16, 16, 16}, []string{"1", "2", "3"}
		c = resolved(t, c, cache)
		isLast := func(name string) bool {
			return strings.HasPrefix(name, "head.") || strings.Contains(name, "seg_layers")
		}
		for _, x := range []struct {
			kind, load string
			classes    int
			wanted     func(name string) bool
			reason     string
		}{
			{checkpoint.Segmentation, "", 4, func(string) bool { return true }, ""},
			{checkpoint.Segmentation, "all", 4, func(string) bool { return true }, ""},
			{checkpoint.Segmentation, "encoder", 4, isEncoder, "load: encoder"},
			{"fusion", "all", 4, func(name string) bool { return !isLast(name) }, "the last layer of another task"},
			{"mae", "", 1, func(name string) bool { return !isLast(name) }, "the last layer of another task"},
			{"mae", "encoder", 1, isEncoder, "load: encoder"},
		} {
			from := c.Network
			from.Classes = x.classes
			c.Load = x.load
			learner, err := compiled(t, dev, c, Data{Store: cache, Train: []string{"case00"}}, 0)
			if err != nil {
				t.Fatal(err)
			}
			params := learner.bench.Params
			loaded, err := initialise(wholeNetwork(t, dev, from, x.kind), c, params)
			if err != nil {
				t.Fatal(err)
			}
			var want []string
			for _, name := range params.Names() {
				if x.wanted(name) {
					want = append(want, name)
				}
			}
			slices.Sort(want)
			if slices.Sort(loaded.Loaded); !slices.Equal(loaded.Loaded, want) {
				t.Errorf("%s, %s, load %q: loaded %v", network.Kind, x.kind, x.load, loaded)
			}
			if len(loaded.Skipped) != len(params.Names())-len(want) || len(loaded.Missing) > 0 {
				t.Errorf("%s, %s, load %q: %v", network.Kind, x.kind, x.load, loaded)
			}
			for _, s := range loaded.Skipped {
				if !strings.Contains(s.Reason, x.reason) {
					t.Errorf("%s, %s, load %q: %s was left because it is %s", network.Kind, x.kind, x.load, s.Name, s.Reason)
				}
			}
		}
	}
	c := tiny()
	c.Load = "decoder"
	if err := c.Check(); err == nil || !strings.Contains(err.Error(), `load is "decoder", must be all or encoder`) {
		t.Errorf("error %v", err)
	}
}
