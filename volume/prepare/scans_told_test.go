package prepare

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A prediction that says of which files it is, is no label map of another series of a data set; nor
// are two objects one pair that refer to different series.
func TestPredictionOfAnotherSeries(t *testing.T) {
	root := t.TempDir()
	segs := map[string]string{}
	for n, uid := range []string{"1.2.5", "1.2.6"} {
		v, l := datasettest.Axial(t, uint64(n+1))
		folder := filepath.Join(root, uid)
		segs[uid] = filepath.Join(folder, "seg.dcm")
		datasettest.WriteSeries(t, filepath.Join(folder, "ct"), uid, v, false)
		datasettest.WriteSegmentation(t, segs[uid], filepath.Join(folder, "ct"), l)
	}
	references := dataset.References(root, dataset.Options{})
	if len(references) != 2 {
		t.Fatalf("%+v", references)
	}
	_, l := datasettest.Axial(t, 1)
	for n, c := range detect(t, root).Cases {
		digest, err := c.Digest()
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "a.nii.gz")
		text := fmt.Sprintf(`{"program":"voxsaw predict","version":"1","scan_sha256":%q}`, digest)
		if err := nifti.WriteLabelsWith(path, l, []nifti.Extension{provenance.Extension(text)}); err != nil {
			t.Fatal(err)
		}
		for m, r := range references {
			why := dataset.Labels{Path: path}.OfOtherScan(r.Labels)
			if (n == m) != (why == "") || n != m && !strings.Contains(why, digest[:10]) {
				t.Errorf("prediction of %s with %s: %q", c.ID, r.Path, why)
			}
		}
	}
	one, other := dataset.Labels{Path: segs["1.2.5"]}, dataset.Labels{Path: segs["1.2.6"]}
	if why := one.OfOtherScan(other); !strings.Contains(why, "the series 1.2.5, and ") || one.OfOtherScan(one) != "" {
		t.Errorf("%q, itself %q", why, one.OfOtherScan(one))
	}
}
