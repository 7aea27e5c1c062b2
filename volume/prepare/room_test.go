package prepare

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// What preparing will write is known before: the room that is taken then, and nothing once all is
// there.
func TestRoom(t *testing.T) {
	v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{80, 72, 64}})
	if err != nil {
		t.Fatal(err)
	}
	root, out := t.TempDir(), filepath.Join(t.TempDir(), "not", "there")
	for _, id := range []string{"a", "b", "c"} {
		err = errors.Join(err, nifti.Write(filepath.Join(root, id+".nii.gz"), v))
	}
	if err = errors.Join(err, nifti.WriteLabels(filepath.Join(root, "a_seg.nii.gz"), l)); err != nil {
		t.Fatal(err)
	}
	p := volume.DefaultPreparation()
	p.Crop, p.Spacing = volume.CropNone, [3]float64{0.9, 1, 1.1}
	need, free, err := Room(detect(t, root), out, p, dataset.Part{})
	if err != nil || free == 0 {
		t.Fatalf("%d bytes free, %v", free, err)
	}
	if here, err := atomicfile.Free(filepath.Dir(filepath.Dir(out))); err == nil && (free < here/2 || free > here*2) {
		t.Errorf("%d bytes free, and in the folder above %d", free, here)
	}
	part, _, err := Room(detect(t, root), out, p, dataset.Part{Number: 1, Of: 3})
	if err != nil || part < need/3 || part > need/2 {
		t.Errorf("a third of the cases, with the labels, takes %d of %d bytes, %v", part, need, err)
	}
	if _, err := Run(t.Context(), detect(t, root), out, p, Options{}, nil); err != nil {
		t.Fatal(err)
	}
	files, taken := 0, int64(0)
	err = filepath.WalkDir(out, func(_ string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		files, taken = files+1, taken+info.Size()
		return err
	})
	if err != nil || need < taken*9/10 || need > taken {
		t.Errorf("%d files take %d bytes, and %d were foretold, %v", files, taken, need, err)
	}
	if left, _, err := Room(detect(t, root), out, p, dataset.Part{}); left != 0 || err != nil {
		t.Errorf("all is prepared, and %d bytes are yet to be written, %v", left, err)
	}
}
