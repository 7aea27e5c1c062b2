package prepare

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// A case does not change to another series of its study, or to another SEG object, unless that is
// asked for by force. A study whose files are others is prepared again.
func TestOtherSeriesAndObjectsAreRefused(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	study := filepath.Join(root, "pat")
	v, l := datasettest.Axial(t, 1)
	datasettest.WriteStudy(t, study, "1.2.1", "1.2.9", 2, "CT", v, nil)
	datasettest.WriteSegmentation(t, filepath.Join(root, "seg", "a.dcm"), study, l)
	clear(l.Labels[:len(l.Labels)/2])
	datasettest.WriteSegmentation(t, filepath.Join(root, "seg", "b.dcm"), study, l)
	datasettest.WriteStudy(t, study, "1.2.2", "1.2.9", 3, "CT", v, nil)
	prepare := func(o dataset.Options, force bool) (*Summary, error) {
		t.Helper()
		d, err := dataset.Detect(root, o)
		if err != nil {
			t.Fatal(err)
		}
		return Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{Force: force}, nil)
	}
	if s, err := prepare(dataset.Options{Series: "2", Segmentation: "a.dcm"}, false); err != nil || s.Labelled != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	before := times(t, dir)
	for _, test := range []struct {
		options dataset.Options
		want    []string
	}{
		{dataset.Options{Series: "2", Segmentation: "b.dcm"}, []string{"the labels (from other files now) of pat"}},
		{dataset.Options{Series: "3"}, []string{"the image (from another series of the study now) of pat",
			"the labels of pat"}},
	} {
		var refused *LossError
		if _, err := prepare(test.options, false); !errors.As(err, &refused) ||
			!slices.Equal(refused.Losses, test.want) || !slices.Equal(refused.Cases, []string{"pat"}) {
			t.Errorf("%+v: %v", test.options, err)
		}
	}
	if now := times(t, dir); !slices.Equal(now, before) {
		t.Errorf("a run that was refused changed the folder: %q, before %q", now, before)
	}
	if s, err := prepare(dataset.Options{Series: "1.2.1", Segmentation: "a.dcm"}, false); err != nil || s.Kept != 1 {
		t.Errorf("the same series by its UID: %+v, %v", s, err)
	}
	if s, err := prepare(dataset.Options{Series: "3"}, true); err != nil || s.Prepared != 1 || s.Labelled != 0 {
		t.Errorf("forced: %+v, %v", s, err)
	}
	if err := os.RemoveAll(study); err != nil {
		t.Fatal(err)
	}
	datasettest.WriteStudy(t, study, "1.2.3", "1.2.9", 3, "CT", v, nil)
	if s, err := prepare(dataset.Options{}, false); err != nil || s.Prepared != 1 {
		t.Errorf("a study of other files: %+v, %v", s, err)
	}
}
