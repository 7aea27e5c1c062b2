package prepared

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// twoChannels are a CT and something else on its voxels.
func twoChannels(t *testing.T) (ct, other *volume.Volume, l *volume.LabelMap, p volume.Preparation) {
	t.Helper()
	ct, l = oblong(t, [3]int{9, 8, 7})
	other = &volume.Volume{Grid: ct.Grid, Float32: make([]float32, ct.Len())}
	for i := range other.Float32 {
		other.Float32[i] = float32(math.Sin(float64(i))) * 40
	}
	return ct, other, l, volume.DefaultPreparation().WithChannels([]string{"CT", "PET"}, []string{"CT", "PT"})
}

// Each channel of a case is what the case would be that has it alone, prepared by its own scheme.
func TestChannels(t *testing.T) {
	ct, other, l, p := twoChannels(t)
	if p.Modality != "CT,PT" || p.Intensity != "ct-window,zscore" || p.Inputs() != 2 {
		t.Fatalf("%+v", p)
	}
	crop := func(p volume.Preparation, in Input) (values []float32, c *Case) {
		in.ID = "a"
		dir := filepath.Join(t.TempDir(), "store")
		w, err := NewWriter(dir, p)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Add(in); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		if err := s.Verify(); err != nil {
			t.Error(err)
		}
		if c, err = s.Open("a"); err != nil {
			t.Fatal(err)
		}
		values = make([]float32, c.Channels()*6*5*9)
		if err := c.Crop(values, [3]int{1, 2, -1}, [3]int{6, 5, 9}); err != nil {
			t.Fatal(err)
		}
		return values, c
	}
	both, c := crop(p, Input{Image: ct, More: []*volume.Volume{other}, Labels: l})
	one, _ := crop(p.Channel(0), Input{Image: ct, Labels: l})
	two, alone := crop(p.Channel(1), Input{Image: other})
	for i, x := range append(one, two...) {
		if both[i] != x {
			t.Fatalf("value %d is %v, alone %v", i, both[i], x)
		}
	}
	if c.Channels() != 2 || c.Range(0) != [2]float32{-1, 1} || c.Range(1) != alone.Range(0) ||
		*c.More[0].Levels != *alone.Levels || c.More[0].Scan != alone.Scan {
		t.Errorf("%+v", c.Record)
	}
	for channel := range 2 {
		if err := c.CropChannel(two, channel, [3]int{1, 2, -1}, [3]int{6, 5, 9}); err != nil ||
			!slices.Equal(two, both[channel*len(two):][:len(two)]) {
			t.Errorf("channel %d by itself is another: %v", channel, err)
		}
	}
	if err := c.CropChannel(two, 2, [3]int{}, [3]int{6, 5, 9}); err == nil ||
		!strings.Contains(err.Error(), "no channel 3") {
		t.Errorf("a channel that is not there: %v", err)
	}
	labels := make([]float32, 6*5*9)
	if err := c.Labels(labels, [3]int{}, [3]int{6, 5, 9}); err != nil {
		t.Error(err)
	}
	if err := c.Crop(labels, [3]int{}, [3]int{6, 5, 9}); err == nil || !strings.Contains(err.Error(), "in 2 channels") {
		t.Errorf("a crop of one channel: %v", err)
	}
}

// A case with fewer channels than the others, or one on other voxels, is refused by name.
func TestChannelsAreComplete(t *testing.T) {
	ct, other, _, p := twoChannels(t)
	w, err := NewWriter(filepath.Join(t.TempDir(), "store"), p)
	if err != nil {
		t.Fatal(err)
	}
	shifted := *other
	shifted.Affine[0][3] += 3
	for want, in := range map[string]Input{
		"1 channel, where 2 are prepared":   {ID: "a", Image: ct},
		"channel PET: lies on other voxels": {ID: "a", Image: ct, More: []*volume.Volume{&shifted}},
		"3 channels, where 2 are prepared":  {ID: "a", Image: ct, More: []*volume.Volume{other, other}},
		"channel PET: all voxels are 0: there": {ID: "a", Image: ct,
			More: []*volume.Volume{{Grid: ct.Grid, Float32: make([]float32, ct.Len())}}},
	} {
		if _, err := w.Add(in); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}
