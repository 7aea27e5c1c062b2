package volume

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

// Channels are standardised over the mask that they share, and over masks of their own by what an
// older version wrote: a network that was trained so is given what it knows.
func TestMasksOfOlderVersions(t *testing.T) {
	g := Grid{Shape: [3]int{4, 4, 4}, Affine: Affine{{1, 0, 0, 0}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}}}
	channels := []*Volume{{Grid: g, Float32: make([]float32, 64)}, {Grid: g, Float32: make([]float32, 64)}}
	for n := range 64 { // the first shows half of what the second does
		channels[1].Float32[n] = float32(100 + n)
		if n >= 32 {
			channels[0].Float32[n] = float32(n * n)
		}
	}
	now := Preparation{Crop: CropNone, Axcodes: "RAS", Window: DefaultPreparation().Window, Interpolation: "linear",
		Channels: "T1w,FLAIR", Modality: ModalityMR, Intensity: ZScoreNonzero}.WithMasks()
	text, err := json.Marshal(now)
	if err != nil {
		t.Fatal(err)
	}
	var older Preparation
	if err := json.Unmarshal([]byte(strings.Replace(string(text), `,"masks":"common"`, "", 1)), &older); err != nil ||
		now == older {
		t.Fatalf("%s, %v", text, err)
	}
	if d := now.Differences(older); len(d) != 1 || d[0] != (Difference{"masks", "own", "common"}) {
		t.Errorf("differences %v", d)
	}
	part := channels[0].Whole()
	values := func(p Preparation) []int16 {
		got, err := p.Channel(0).ApplyMasked(channels[0], part, p.Mask(part, channels...))
		if err != nil {
			t.Fatal(err)
		}
		return got.Int16
	}
	alone, err := now.Channel(0).Apply(channels[0], part)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(values(older), alone.Int16) {
		t.Error("an older preparation does not standardise the channel over its own mask")
	}
	mean, squares := 0.0, 0.0 // over all voxels, which the second channel has
	for _, x := range channels[0].Float32 {
		mean += float64(x) / 64
	}
	for _, x := range channels[0].Float32 {
		squares += (float64(x) - mean) * (float64(x) - mean) / 64
	}
	want := math.Round((float64(channels[0].Float32[63]) - mean) / math.Sqrt(squares) * 1024)
	if got := float64(values(now)[63]); math.Abs(got-want) > 1 {
		t.Errorf("over the common mask: %v, want %v", got, want)
	}
	for _, p := range []Preparation{DefaultPreparation(), now.Channel(1)} {
		if p.WithMasks().Masks != "" {
			t.Errorf("%+v has a common mask", p)
		}
	}
}
