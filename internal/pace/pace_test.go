package pace

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/train/traintest"
	_ "github.com/voxsaw/voxsaw/puzzle3d" // the task that is timed
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func store(t *testing.T, labelled bool) *prepared.Store {
	t.Helper()
	var inputs []prepared.Input
	for n, id := range []string{"a", "b"} {
		v, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{30, 30, 30}})
		if err != nil {
			t.Fatal(err)
		}
		inputs = append(inputs, prepared.Input{ID: id, Image: v})
		if labelled {
			inputs[n].Labels = l
		}
	}
	return traintest.Store(t, volume.DefaultPreparation(), inputs...)
}
