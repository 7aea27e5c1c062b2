package prepare

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// Two objects that refer to different series are no pair.
func TestObjectsOfDifferentSeries(t *testing.T) {
	root := t.TempDir()
	segs := map[string]string{}
	for n, uid := range []string{"1.2.5", "1.2.6"} {
		v, l := datasettest.Axial(t, uint64(n+1))
		folder := filepath.Join(root, uid)
		segs[uid] = filepath.Join(folder, "seg.dcm")
		datasettest.WriteSeries(t, filepath.Join(folder, "ct"), uid, v, false)
		datasettest.WriteSegmentation(t, segs[uid], filepath.Join(folder, "ct"), l)
	}
	one, other := dataset.Labels{Path: segs["1.2.5"]}, dataset.Labels{Path: segs["1.2.6"]}
	if why := one.OfOtherScan(other); !strings.Contains(why, "the series 1.2.5, and ") || one.OfOtherScan(one) != "" {
		t.Errorf("%q, itself %q", why, one.OfOtherScan(one))
	}
}
