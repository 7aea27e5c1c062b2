package cli

import (
	"image"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/voxsaw/voxsaw/internal/pairing"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// The pictures of evaluate --labels are of these labels alone, as if there were no others.
func TestSheetOfTheLabelsThatAreScored(t *testing.T) {
	g := volume.Grid{Shape: [3]int{20, 20, 12}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	dir := t.TempDir()
	drawn := func(name string, others bool, labels []string, merge bool) image.Image {
		reference := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
		prediction := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
		for i := 5; i < 15; i++ {
			reference.Labels[g.Index(i, 9, 7)] = 1
			prediction.Labels[g.Index(i, 10, 7)] = 1
			for j := range 20 {
				if others { // which the prediction lacks
					reference.Labels[g.Index(i, j, 2)] = 3
				}
			}
		}
		pair := pairing.Pair{Name: name, Prediction: dataset.Labels{Path: filepath.Join(dir, name+"_p.nii.gz")},
			Reference: dataset.Labels{Path: filepath.Join(dir, name+"_r.nii.gz")}}
		for path, l := range map[string]*volume.LabelMap{pair.Prediction.Path: prediction,
			pair.Reference.Path: reference} {
			if err := nifti.WriteLabels(path, l); err != nil {
				t.Fatal(err)
			}
		}
		o := evaluateOptions{Read: dataset.DefaultReadOptions()}
		o.Metrics.Labels, o.Metrics.Merge = labels, merge
		picture, err := drawPair(pair, newScanFinder(), o)
		if err != nil {
			t.Fatal(err)
		}
		return picture
	}
	want := drawn("alone", false, nil, false)
	for _, merge := range []bool{false, true} {
		if got := drawn("others", true, []string{"1", "unknown"}, merge); !reflect.DeepEqual(got, want) {
			t.Errorf("merged %t: the picture is of labels that are not scored", merge)
		}
	}
	if got := drawn("all", true, nil, false); reflect.DeepEqual(got, want) {
		t.Error("the pictures are the same whatever is drawn")
	}
}
