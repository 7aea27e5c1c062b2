package dataset

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A PET on coarser voxels comes onto those of its CT: values that are linear in space stay so, and
// beyond its field of view lies its least value. One that lies elsewhere is refused.
func TestFurtherChannelsComeOntoTheFirst(t *testing.T) {
	dir := t.TempDir()
	ct := volume.Grid{Shape: [3]int{20, 18, 16}, Affine: volume.Scaling([3]float64{1, 1, 2})}
	pet := volume.Grid{Shape: [3]int{6, 6, 6}, Affine: volume.Scaling([3]float64{3, 3, 6})}
	pet.Affine[0][3] = 1
	value := func(p [3]float64) float64 { return 1 + 2*p[0] + 3*p[1] + p[2]/2 }
	v := &volume.Volume{Grid: pet, Float32: make([]float32, pet.Len())}
	for i := range v.Float32 {
		at := [3]float64{float64(i % 6), float64(i / 6 % 6), float64(i / 36)}
		v.Float32[i] = float32(value(pet.World(at)))
	}
	path := filepath.Join(dir, "a_0001.nii.gz")
	if err := nifti.Write(path, v); err != nil {
		t.Fatal(err)
	}
	c := Case{Image: filepath.Join(dir, "a_0000.nii.gz"), More: []Case{{Image: path}}}
	more, notes, err := c.ReadMore(ct, DefaultReadOptions())
	if err != nil {
		t.Fatal(err)
	}
	if len(more) != 1 || more[0].Grid != ct || len(notes) != 1 ||
		!strings.Contains(notes[0], "a_0001.nii.gz: resampled onto the voxels of the first channel") {
		t.Fatalf("%d channels, %q", len(more), notes)
	}
	inside, least := 0, value(pet.World([3]float64{}))
	for i, x := range more[0].Float32 {
		world := ct.World([3]float64{float64(i % 20), float64(i / 20 % 18), float64(i / 360)})
		in, err := pet.Voxel(world)
		if err != nil {
			t.Fatal(err)
		}
		low, high := min(in[0], in[1], in[2]), max(in[0], in[1], in[2])
		switch {
		case low >= 0 && high <= 5:
			inside++
			if math.Abs(float64(x)-value(world)) > 1e-3 {
				t.Fatalf("voxel %v is %v, want %v", world, x, value(world))
			}
		case low < -0.5 || high > 5.5:
			if math.Abs(float64(x)-least) > 1e-3 {
				t.Fatalf("voxel %v, beyond the PET, is %v, want %v", world, x, least)
			}
		}
	}
	if inside < 1000 {
		t.Errorf("%d voxels were compared", inside)
	}
	ct.Affine[0][3] = 500
	if _, _, err := c.ReadMore(ct, DefaultReadOptions()); err == nil ||
		!strings.Contains(err.Error(), "lies nowhere where a_0000.nii.gz does") {
		t.Errorf("a PET of elsewhere: %v", err)
	}
}
