package segment

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A run is not resumed with labels that are called otherwise than it has learnt them, or of which
// others are ignored.
func TestNamesOfAResumedRun(t *testing.T) {
	named := func(name, other string) *prepared.Store {
		v, l, err := phantom.New(1, phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			t.Fatal(err)
		}
		l.Names = map[uint16]string{2: name, 3: other}
		return traintest.Store(t, volume.DefaultPreparation(), prepared.Input{ID: "a", Image: v, Labels: l})
	}
	c := tiny()
	c.Labels, c.Crop, c.Augment = []string{"2"}, [3]int{8, 8, 8}, Augmentation{}
	c.Train.Steps, c.Train.ValidateEvery, c.Train.CheckpointEvery = 1, 0, 1
	folder := filepath.Join(t.TempDir(), "run")
	run := func(store *prepared.Store, mode voxsaw.Mode) error {
		_, _, err := Finetune(t.Context(), testDevice(t), c, sample.Data{Store: store, Train: []string{"a"}}, "",
			voxsaw.RunOptions{Folder: folder, Mode: mode})
		return err
	}
	if err := run(named("tumour", "ignore"), voxsaw.ModeNew); err != nil {
		t.Fatal(err)
	}
	refused := func(name, other, key string) {
		t.Helper()
		var changed *voxsaw.ChangedError
		if err := run(named(name, other), voxsaw.ModeResume); !errors.As(err, &changed) || len(changed.Changes) != 1 ||
			!strings.HasPrefix(changed.Changes[0], key+":") {
			t.Errorf("labels %s, %s: %v", name, other, err)
		}
	}
	refused("pancreas", "ignore", "names")
	refused("tumour", "cyst", "ignored")
}
