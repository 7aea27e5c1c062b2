package cli

import (
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// A checkpoint of a run that had a dropout which did nothing may be started from: its network has
// none. Deep supervision is the run's own, whatever the checkpoint's was trained with.
func TestNetworkOfCheckpoint(t *testing.T) {
	dev, err := device.From(traintest.CPU(t))
	if err != nil {
		t.Fatal(err)
	}
	g := nn.NewGraph(nn.Train, dev.Activations())
	g.Linear("head", g.Flatten(g.Input("image", 1, 1, 2, 2, 2)), 3, true)
	params := nn.NewParams(dev, 1)
	defer params.Close()
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	for settings, want := range map[string]float64{
		"network: {preset: paper, channels: 4, dropout: 0.3}": -1,
		"network: {preset: monai, channels: 4, dropout: 0.3}": 0.3,
		"network: {channels: 4, deep_supervision: true}":      -1,
	} {
		path := filepath.Join(t.TempDir(), "last.safetensors")
		d := checkpoint.Description{Kind: "jigsaw", Settings: settings}
		if err := checkpoint.Write(path, d, params); err != nil {
			t.Fatal(err)
		}
		for _, deep := range []bool{false, true} {
			own := voxsaw.DefaultNetwork()
			own.DeepSupervision = deep
			n, _, err := networkOf(path, own)
			if err != nil || n.Dropout != want || n.Channels != 4 || n.DeepSupervision != deep {
				t.Errorf("%s: %+v, %v", settings, n, err)
			}
		}
	}
}
