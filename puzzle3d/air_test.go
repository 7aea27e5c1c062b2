package puzzle3d

import (
	"strings"
	"testing"

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
		{"", 32, "voxsaw prepare --crop body", "already"}, // older versions
		{volume.CropBody, 32, "left out already; a crop of 32x32x32 voxels is 64 x 64 x 96 mm in a: take a smaller crop", "--crop body"},
		{volume.CropAuto, 32, "left out already", "--crop body"},
		{volume.CropBody, 41, "The crop of 41x41x41 voxels is larger than 1 of 1 case looked at, such as a of 40x40x40", "--crop body"},
	} {
		config := Config{Crop: [3]int{c.size, c.size, c.size}, Preparation: volume.Preparation{Crop: c.crop}}
		one := &prepared.Case{Record: prepared.Record{ID: "a", Grid: volume.Grid{Shape: [3]int{40, 40, 40}}, Spacing: [3]float64{2, 2, 3}}}
		if got := config.airCause([]*prepared.Case{one}); !strings.Contains(got, c.want) || strings.Contains(got, c.notWant) {
			t.Errorf("crop %q, %d voxels: %s", c.crop, c.size, got)
		}
	}
}
