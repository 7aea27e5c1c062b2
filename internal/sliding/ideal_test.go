package sliding

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// What an ideal network loses on the way back to the scan's voxels. A hard one says 1 for the label
// of each prepared voxel. A soft one says how much of the surroundings of each prepared voxel has
// the label, as a network does that has learnt from many cases whose voxels lay otherwise.
// docs/predictions.md has the figures that this logs.
func TestIdealNetworkOnRealLabels(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	labels, err := nifti.ReadLabels(filepath.Join(data, "totalsegmentator", "aorta_seg.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		spacing float64
		soft    bool
		// of linear probabilities at least, of the labels alone at most
		linear, labels float64
	}{
		{3, false, 0.9625, 0.964}, {4.5, false, 0.947, 0.949}, {3, true, 0.987, 0.961}, {4.5, true, 0.954, 0.947},
	} {
		p := volume.DefaultPreparation()
		p.Spacing = [3]float64{c.spacing, c.spacing, c.spacing}
		to, err := p.Restoration(labels.Grid.Whole())
		if err != nil {
			t.Fatal(err)
		}
		ideal := idealNetwork(t, labels, to, p, c.soft)
		hard := &volume.LabelMap{Grid: to.Prepared, Labels: make([]uint16, to.Prepared.Len())}
		for n := range hard.Labels {
			if ideal[len(hard.Labels)+n] > ideal[n] {
				hard.Labels[n] = 1
			}
		}
		restored, err := p.Restore(hard, labels.Grid.Whole())
		if err != nil {
			t.Fatal(err)
		}
		linear := &volume.LabelMap{Grid: labels.Grid, Labels: settle(t, to, ideal, 2, 1).Classes}
		o := eval.DefaultOptions()
		o.Merge, o.Tolerance = true, 1
		score := func(l *volume.LabelMap) eval.Score {
			s, err := eval.Compare("aorta", l, labels, o)
			if err != nil {
				t.Fatal(err)
			}
			return s[0]
		}
		a, b := score(restored), score(linear)
		t.Logf("prepared at %v mm, soft %v: labels alone DSC %.3f, NSD(1 mm) %.3f, HD95 %.2f mm; "+
			"linear DSC %.3f, NSD(1 mm) %.3f, HD95 %.2f mm",
			c.spacing, c.soft, a.DSC, a.NSD, a.HD95, b.DSC, b.NSD, b.HD95)
		if !(b.DSC >= c.linear && a.DSC <= c.labels) {
			t.Errorf("at %v mm: DSC %v and %v, want %v at least and %v at most", c.spacing, b.DSC, a.DSC, c.linear,
				c.labels)
		}
	}
}

// idealNetwork is the probabilities of background and label that an ideal network gives on the
// prepared grid.
func idealNetwork(t *testing.T, labels *volume.LabelMap, to *volume.Restoration, p volume.Preparation,
	soft bool) []float32 {
	t.Helper()
	n := to.Prepared.Len()
	ideal := make([]float32, 2*n)
	if soft {
		is := &volume.Volume{Grid: labels.Grid, Float32: make([]float32, labels.Len())}
		for at, label := range labels.Labels {
			is.Float32[at] = float32(label)
		}
		share, err := is.ResampleTo(to.Prepared, volume.Linear, 0)
		if err != nil {
			t.Fatal(err)
		}
		for at, x := range share.Float32 {
			ideal[at], ideal[n+at] = 1-x, x
		}
		return ideal
	}
	prepared, err := p.ApplyLabels(labels, labels.Grid.Whole())
	if err != nil {
		t.Fatal(err)
	}
	for at, label := range prepared.Labels {
		ideal[int(label)*n+at] = 1
	}
	return ideal
}
