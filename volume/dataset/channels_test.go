package dataset

import (
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// For models that take voxels as they are stored, a channel whose header differs by rounding keeps
// its own, and voxels that are no numbers are not told to be replaced. By more than a quarter of a
// voxel, or another spacing, it is refused, and resampled for other models.
func TestChannelsAsStored(t *testing.T) {
	dir := t.TempDir()
	first := volume.Grid{Shape: [3]int{5, 4, 3}, Affine: volume.Scaling([3]float64{1, 1, 2})}
	path := filepath.Join(dir, "a_0001.nii.gz")
	v := &volume.Volume{Grid: first, Float32: make([]float32, first.Len())}
	for i := range v.Float32 {
		v.Float32[i] = float32(i * i)
	}
	v.Float32[7] = float32(math.NaN())
	c := Case{Image: filepath.Join(dir, "a_0000.nii.gz"), More: []Case{{Image: path}}}
	for _, n := range []struct {
		offset, spacing float64
		stored, want    bool
	}{{0.2, 1, true, true}, {0.2, 1, false, false}, {0.3, 1, true, false}, {0, 1.01, true, false},
		{0, 1.0001, true, false}} {
		v.Affine = volume.Scaling([3]float64{n.spacing, 1, 2})
		v.Affine[0][3] = n.offset
		if err := nifti.Write(path, v); err != nil {
			t.Fatal(err)
		}
		one := c
		if n.stored {
			one = c.AsStored()
		}
		more, notes, err := one.ReadMore(first, DefaultReadOptions())
		refused := err != nil && strings.Contains(err.Error(), "does not lie on the voxels of a_0000.nii.gz")
		if refused != (n.stored && !n.want) || err != nil && !refused {
			t.Errorf("%+v: %v", n, err)
		}
		if err != nil {
			continue
		}
		said := strings.Join(notes, "\n")
		if strings.Contains(said, "taken as they are, as in nnU-Net") != n.want ||
			strings.Contains(said, "resampled onto") == n.want || (more[0].Float32[9] == 81) != n.want ||
			strings.Contains(said, "NaN is taken for air") == n.stored || more[0].Grid != first {
			t.Errorf("%+v: voxel 9 is %v, %s", n, more[0].Float32[9], said)
		}
	}
}

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
