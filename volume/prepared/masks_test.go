package prepared

import (
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// Cases that an older version prepared, over a mask of each channel, say so to whoever trains on
// them, are prepared again by the same command, and are not mixed with others.
func TestMasksOfOlderCases(t *testing.T) {
	dir := t.TempDir()
	how := volume.DefaultPreparation().WithChannels([]string{"T1w", "FLAIR"}, []string{"MR", "MR"})
	how.Intensity = volume.ZScoreNonzero
	g := volume.Grid{Shape: [3]int{8, 8, 8}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	image := func(from int) *volume.Volume {
		v := &volume.Volume{Grid: g, Float32: make([]float32, g.Len())}
		for n := from; n < g.Len(); n++ {
			v.Float32[n] = float32(n)
		}
		return v
	}
	for _, masks := range []string{"", volume.MasksCommon} {
		w, err := NewWriter(dir, how)
		if err != nil {
			t.Fatal(err)
		}
		if masks == "" {
			w.preparation.Masks = "" // as the older version
		} else {
			_, kept := w.Keep(Input{ID: "a"}, nil)
			_, retained := w.Retain("a", "")
			if kept || retained || !w.OtherMasks("a", "") || w.OtherMasks("b", "") ||
				!slices.Equal(w.Remasked(), []string{"a"}) || len(w.Reread()) > 0 {
				t.Errorf("kept: %v, retained: %v, over other masks: %v, read in another way: %v", kept, retained,
					w.Remasked(), w.Reread())
			}
		}
		if ids, _, err := w.Unlike(map[string][]string{"a": nil}); err != nil || len(ids) > 0 {
			t.Errorf("refused for other settings: %v, %v", ids, err)
		}
		if _, err := w.Add(Input{ID: "a", Image: image(200), More: []*volume.Volume{image(0)}}); err != nil {
			t.Fatal(err)
		}
		if err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		s, err := Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Preparation().Masks; got != masks {
			t.Errorf("masks %q, want %q", got, masks)
		}
		s.Close()
	}
}
