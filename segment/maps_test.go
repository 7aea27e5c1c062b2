package segment

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/eval"
	"github.com/voxsaw/voxsaw/volume"
)

// The label map has the class with the highest probability, on the scan's voxels; on the prepared
// ones the numbers are those of the network, whose interpolation gives the scan's.
func TestMapsAreWhatTheLabelsComeFrom(t *testing.T) {
	dev := testDevice(t)
	store, scans, _ := resampledPhantoms(t, 2, [3]int{48, 40, 36}, 0, 1.7)
	path := quick(t, dev, store, []string{"a"}, 20)
	o := DefaultInference()
	o.Logits = true
	p, err := NewPredictor(dev, []string{path}, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	scan := scans[1]
	l, m, err := p.PredictMaps(t.Context(), scan, MapOptions{Probabilities: true, Logits: true})
	if err != nil {
		t.Fatal(err)
	}
	n := scan.Len()
	if !slices.Equal(m.Labels, []uint16{0, 2, 3}) || m.Grid != scan.Grid || len(m.Probabilities) != 3*n ||
		len(m.Logits) != 3*n {
		t.Fatalf("labels %v, %d and %d numbers on %v", m.Labels, len(m.Probabilities), len(m.Logits), m.Shape)
	}
	for v, label := range l.Labels {
		sum, best := 0.0, 0
		for class := range 3 {
			sum += float64(m.Probabilities[class*n+v])
			if m.Probabilities[class*n+v] > m.Probabilities[best*n+v] {
				best = class
			}
		}
		if m.Labels[best] != label || math.Abs(sum-1) > 1e-5 {
			t.Fatalf("voxel %d: label %d, class %d has the highest probability, sum %v", v, label, best, sum)
		}
	}
	plain, none, err := p.PredictMaps(t.Context(), scan, MapOptions{})
	if err != nil || none != nil || !slices.Equal(plain.Labels, l.Labels) {
		t.Errorf("without maps: %v, %v", none, err)
	}

	if p.CanAgree() == nil {
		t.Error("one network without mirror images has nothing to agree with")
	}
	duo, err := NewPredictor(dev, []string{path, quick(t, dev, store, []string{"a"}, 12)}, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer duo.Close()
	_, agreed, err := duo.PredictMaps(t.Context(), scan, MapOptions{Agreement: true})
	if err != nil {
		t.Fatal(err)
	}
	var alone [2]*volume.LabelMap
	members := duo.members
	for n := range alone {
		duo.members = members[n : n+1]
		if alone[n], err = duo.Predict(t.Context(), scan); err != nil {
			t.Fatal(err)
		}
	}
	scores, err := eval.Compare("", alone[0], alone[1], eval.Options{Overlap: true})
	if err != nil || len(scores) == 0 {
		t.Fatal(len(scores), err)
	}
	for _, s := range scores {
		if got := agreed.Agreement[s.Label]; math.Abs(got-s.DSC) > 1e-12 {
			t.Errorf("label %d: agreement %v, the DSC of the two networks' label maps is %v", s.Label, got, s.DSC)
		}
	}

	again, own, err := p.PredictMaps(t.Context(), scan, MapOptions{Probabilities: true, Logits: true, Prepared: true})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(again.Labels, l.Labels) {
		t.Error("the labels depend on where the maps lie")
	}
	grid, err := store.Preparation().Grid(scan.Grid)
	if err != nil {
		t.Fatal(err)
	}
	if own.Grid != grid {
		t.Errorf("maps on %v, want the prepared %v", own.Grid, grid)
	}
	for class := range 3 {
		from := &volume.Volume{Grid: grid, Float32: own.Logits[class*grid.Len() : (class+1)*grid.Len()]}
		onScan, err := from.ResampleTo(scan.Grid, volume.Linear, float32(math.NaN()))
		if err != nil {
			t.Fatal(err)
		}
		for v, x := range onScan.Float32 {
			// NaN outside the prepared box
			if got := m.Logits[class*n+v]; math.Abs(float64(got-x)) > 1e-4 {
				t.Fatalf("class %d, voxel %d: logit %v, interpolated %v", class, v, got, x)
			}
		}
	}

	// Two of the same network have its means.
	two, err := NewPredictor(dev, []string{path, path}, o, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	_, both, err := two.PredictMaps(t.Context(), scan, MapOptions{Probabilities: true, Logits: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range m.Logits {
		if math.Abs(float64(both.Logits[i]-m.Logits[i])) > 1e-4 ||
			math.Abs(float64(both.Probabilities[i]-m.Probabilities[i])) > 1e-5 {
			t.Fatalf("number %d of two networks: %v and %v, of one %v and %v", i, both.Logits[i], both.Probabilities[i],
				m.Logits[i], m.Probabilities[i])
		}
	}

	without, err := NewPredictor(dev, []string{path}, DefaultInference(), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer without.Close()
	if _, _, err := without.PredictMaps(t.Context(), scan, MapOptions{Logits: true}); err == nil {
		t.Error("logits of a predictor that was made without")
	}
}

// Maps count towards the limit of memory; a scan that they do not fit beside is refused, and what
// would help is noted.
func TestMapsCountTowardsTheLimit(t *testing.T) {
	dev := testDevice(t)
	store, scans, _ := resampledPhantoms(t, 1, [3]int{48, 40, 36}, 0, 1)
	path := quick(t, dev, store, []string{"a"}, 1)
	free, err := NewPredictor(dev, []string{path}, DefaultInference(), 0)
	if err != nil {
		t.Fatal(err)
	}
	network := free.Bytes()
	free.Close()
	p, err := NewPredictor(dev, []string{path}, DefaultInference(), network+1<<20)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if _, err := p.Predict(t.Context(), scans[0]); err != nil {
		t.Fatal(err)
	}
	_, _, err = p.PredictMaps(t.Context(), scans[0], MapOptions{Probabilities: true})
	if err == nil {
		t.Error("0.8 MiB of probabilities were not counted")
	} else if !strings.Contains(err.Error(), "do without probabilities and logits, or take them on the prepared grid") {
		t.Error(err)
	}
	// The grid is enough to know that.
	if known := p.Fits(scans[0].Grid, 2, MapOptions{Probabilities: true}); known == nil || err == nil ||
		known.Error() != err.Error() {
		t.Errorf("before the scan is read: %v, when it is: %v", known, err)
	}
	if err := p.Fits(scans[0].Grid, 2, MapOptions{}); err != nil {
		t.Error(err)
	}
	// A scan that is standardised is there as float32, too: twice as much.
	least := func(preparation volume.Preparation) (room int64) {
		t.Helper()
		for room = 1 << 16; ; room += 1 << 14 {
			p, err := NewPredictor(dev, []string{path}, DefaultInference(), network+room)
			if err != nil {
				t.Fatal(err)
			}
			p.config.Preparation = preparation
			err = p.Fits(scans[0].Grid, 2, MapOptions{})
			p.Close()
			if err == nil || !strings.HasPrefix(err.Error(), "preparing a scan of") {
				return room
			}
		}
	}
	ct, mr := least(p.config.Preparation), least(p.config.Preparation.ForModality(volume.ModalityMR))
	if want := int64(6 * scans[0].Len()); mr-ct < want {
		t.Errorf("preparing MR takes %d bytes, CT %d: less than %d more", mr, ct, want)
	}
}
