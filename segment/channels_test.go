package segment

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
)

// What the second channel alone shows is learnt, with all augmentations, and predicted.
func TestSecondChannelIsLearnt(t *testing.T) {
	store := traintest.TwoChannels(t, 4, [3]int{24, 20, 16})
	c := DefaultConfig()
	c.Network.Channels, c.Network.Levels, c.Crop, c.Batch = 4, 2, [3]int{16, 16, 16}, 2
	c.Train.Steps, c.Train.LR, c.Augment.Spatial, c.Augment.Mirror = 40, 0.05, 0.5, "ijk"
	c, err := c.Resolve(store)
	if err != nil {
		t.Fatal(err)
	}
	if c.Network.Inputs != 2 {
		t.Fatalf("%+v", c.Network)
	}
	data := sample.Data{Store: store, Train: []string{"case00", "case01", "case02"}, Validate: []string{"case03"}}
	run := filepath.Join(t.TempDir(), "run")
	summary, _, err := Finetune(t.Context(), traintest.Direct(t), c, data, "", voxsaw.RunOptions{Folder: run})
	if err != nil {
		t.Fatal(err)
	}
	if summary.Validation.Score < 0.8 { // the first channel is noise
		t.Errorf("DSC %v", summary.Validation.Score)
	}
	last := filepath.Join(run, "last.safetensors")
	p, err := NewPredictor(traintest.Direct(t), []string{last}, Inference{Overlap: 0.5, Batch: 1, Mirror: "ij"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	held, err := store.Open("case03")
	if err != nil {
		t.Fatal(err)
	}
	l, err := p.PredictCase(t.Context(), held)
	if err != nil {
		t.Fatal(err)
	}
	truth, err := held.LabelMap()
	if err != nil {
		t.Fatal(err)
	}
	both, either := 0, 0
	for i, label := range l.Labels {
		both, either = both+int(label*truth.Labels[i])*2, either+int(label+truth.Labels[i])
	}
	if dice := float64(both) / float64(either); dice < 0.8 {
		t.Errorf("DSC %v", dice)
	}

	// Weights for scans of another number of channels are refused, and taken but for the first
	// convolution where that is asked for.
	one := traintest.Phantoms(t, 2, [3]int{24, 20, 16})
	c.Labels, c.Names, c.Network.Inputs = []string{"1"}, nil, 0
	if c, err = c.Resolve(one); err != nil {
		t.Fatal(err)
	}
	err = CheckInit(traintest.Direct(t), c, last)
	if err == nil || !strings.Contains(err.Error(), "scans of 2 channels (T1w, FLAIR), and these have 1") {
		t.Errorf("weights of two channels for scans of one: %v", err)
	}
	c.InitPartial = true
	if err := CheckInit(traintest.Direct(t), c, last); err != nil {
		t.Error(err)
	}
}
