package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// A network that predicts the prepared labels without a mistake scores this on the scan's own
// voxels. Linear interpolation of each label's mask, where a half is the label's, gives 0.963
// (aorta at 3 mm) and 0.845 (61 structures at 6 mm) by scipy; the nearest voxel, halves upwards,
// gave 0.944 and 0.794.
func TestIdealNetworkOnRealScans(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	for _, c := range []struct {
		file    string
		spacing float64
		want    float64
	}{
		{"aorta_seg.nii.gz", 3, 0.963}, {"aorta_seg.nii.gz", 4.5, 0.948}, {"ct_seg.nii.gz", 6, 0.845},
		{"ct_seg.nii.gz", 12, 0.65},
	} {
		l, err := nifti.ReadLabels(filepath.Join(data, "totalsegmentator", c.file))
		if err != nil {
			t.Fatal(err)
		}
		p := volume.DefaultPreparation()
		p.Spacing = [3]float64{c.spacing, c.spacing, c.spacing}
		prepared, err := p.ApplyLabels(l, l.Whole())
		if err != nil {
			t.Fatal(err)
		}
		restored, err := p.Restore(prepared, l.Whole())
		if err != nil {
			t.Fatal(err)
		}
		var both, a, b [1 << 16]int
		for n, label := range l.Labels {
			a[label]++
			b[restored.Labels[n]]++
			if label == restored.Labels[n] {
				both[label]++
			}
		}
		sum, labels := 0.0, 0
		counts := prepared.Counts()
		for label := 1; label < len(a); label++ {
			if a[label] == 0 {
				continue
			}
			labels++
			sum += 2 * float64(both[label]) / float64(a[label]+b[label])
			if counts[uint16(label)] == 0 {
				t.Errorf("%s: label %d of %d voxels vanished", c.file, label, a[label])
			}
		}
		mean := sum / float64(labels)
		t.Logf("%s at %g mm: DSC %.4f over %d labels", c.file, c.spacing, mean, labels)
		if mean < c.want-0.0005 {
			t.Errorf("%s at %g mm: DSC %.4f, want %.3f at least", c.file, c.spacing, mean, c.want)
		}
	}
}
