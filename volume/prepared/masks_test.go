package prepared

import (
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// Cases that were prepared over a mask of each channel are not mixed with others: they are of other
// settings.
func TestMasksAreSettings(t *testing.T) {
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
			w.preparation.Masks = ""
		} else {
			_, kept := w.Keep(Input{ID: "a"}, nil)
			if _, retained := w.Retain("a", ""); kept || retained {
				t.Errorf("kept: %v, retained: %v", kept, retained)
			}
			ids, was, err := w.Unlike(map[string][]string{"a": nil})
			if differ := how.WithMasks().Differences(was); err != nil || !slices.Equal(ids, []string{"a"}) ||
				len(differ) != 1 || differ[0].Key != "masks" {
				t.Errorf("refused for other settings: %v, %+v, %v", ids, differ, err)
			}
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
