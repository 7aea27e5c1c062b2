package puzzle3d

import (
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// What is advised against air depends on where it comes from.
func TestCauseOfAir(t *testing.T) {
	for _, c := range []struct {
		crop          string
		size          int // of the crop
		want, notWant string
	}{
		{volume.CropNone, 32, "voxsaw prepare --crop body", "already"},
		{"", 32, "voxsaw prepare --crop body", "already"}, // the whole scan
		{volume.CropBody, 32,
			"left out already; a crop of 32x32x32 voxels is 64 x 64 x 96 mm in a: take a smaller crop", "--crop body"},
		{volume.CropAuto, 32, "left out already", "--crop body"},
		{volume.CropBody, 41, "The crop of 41x41x41 voxels is larger than 1 of 1 case looked at, such as a of 40x40x40",
			"--crop body"},
	} {
		config := Config{Crop: [3]int{c.size, c.size, c.size}, Preparation: volume.Preparation{Crop: c.crop}}
		one := &prepared.Case{Record: prepared.Record{ID: "a", Grid: volume.Grid{Shape: [3]int{40, 40, 40}},
			Spacing: [3]float64{2, 2, 3}}}
		if got := config.airCause([]sample.Sample{one}); !strings.Contains(got, c.want) ||
			strings.Contains(got, c.notWant) {
			t.Errorf("crop %q, %d voxels: %s", c.crop, c.size, got)
		}
	}
}

// No advice contradicts another: the smaller crop that is advised against air is one that the
// network takes, and the larger one that is advised against small patches is enough.
func TestAdviceOnCropsCanBeFollowed(t *testing.T) {
	for _, change := range []func(*Config){func(*Config) {}, func(c *Config) { c.Grid = [4]int{2, 2, 2} },
		func(c *Config) { c.Network.Levels = 3 }, func(c *Config) { c.Network.Norm = "none" }} {
		c := DefaultConfig()
		change(&c)
		b, err := backbone.Of(c.Network)
		if err != nil {
			t.Fatal(err)
		}
		least := c.layout().Least(b)
		fits := func(crop [3]int) error {
			of := c
			of.Crop = crop
			_, err := of.layout().Resolve(b)
			return err
		}
		if err := fits(least); err != nil {
			t.Errorf("a crop of %v is advised, and refused: %v", least, err)
		}
		if err := fits([3]int{least[0] - 1, least[1] - 1, least[2] - 1}); err == nil {
			t.Errorf("crops below %v are advised against, and taken", least)
		}
		// 46x63x96: an abdomen at 3 mm
		small := &prepared.Case{Record: prepared.Record{ID: "a", Grid: volume.Grid{Shape: [3]int{46, 63, 96}},
			Spacing: [3]float64{3, 3, 3}}}
		smaller := least[0] < c.Crop[0]
		if got := c.airCause([]sample.Sample{small}); strings.Contains(got,
			"take a smaller crop (--crop, with") != smaller || !strings.Contains(got, numbers.Extents(least[:])) {
			t.Errorf("crop %v, at least %v: %s", c.Crop, least, got)
		}
	}
}
