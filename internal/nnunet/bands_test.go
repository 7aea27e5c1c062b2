package nnunet

import (
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// predictor opens a model, whose windows it does not mirror.
func predictor(t *testing.T, folder string) (*Predictor, *Model) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	m, err := Open(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewPredictor(dev, m, Options{NoMirroring: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p, m
}

// What takes less memory gives the label maps of numpy and PyTorch, too: the last layer by itself,
// and windows for a band of the scan at a time, of which there are as few as fit.
func TestSparing(t *testing.T) {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for name, channels := range map[string]int{"thick": 1, "regions": 2, "flat": 1, "flat_thick": 1} {
		folder := filepath.Join("..", "..", "testdata", "nnunet", name)
		m, err := Open(folder, nil)
		if err != nil {
			t.Fatal(err)
		}
		for plain, file := range map[bool]string{false: "labels_mirrored.nii.gz", true: "labels_plain.nii.gz"} {
			p, err := NewPredictor(dev, m, Options{NoMirroring: plain, partBytes: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			if p.network.apart == nil {
				t.Fatal("the last layer is none by itself")
			}
			want, err := nifti.ReadLabels(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			var before int64 = math.MaxInt64
			for _, bands := range []int{1, 2, 4} {
				e, err := p.scanned(want.Grid, 2)
				if err != nil {
					t.Fatal(err)
				}
				need := p.inferring(e, bands)
				if need >= before {
					t.Errorf("%s: %d bands take %d bytes, fewer %d", name, bands, need, before)
				}
				p.memory, before = p.Bytes()+need, need
				if n := p.count(e, p.room()); n != bands {
					t.Errorf("%s: %d bands, want %d", name, n, bands)
				}
				var scans []*volume.Volume
				for c := range channels {
					v, err := nifti.Read(filepath.Join(folder, fmt.Sprintf("scan_%04d.nii.gz", c)))
					if err != nil {
						t.Fatal(err)
					}
					scans = append(scans, v)
				}
				seen, all, said := 0, 0, ""
				p.Note = func(text string) { said = text }
				p.Progress = func(done, total int) { seen, all = done, total }
				got, err := p.Predict(t.Context(), scans)
				if err != nil {
					t.Fatal(err)
				}
				if bands > 2 && name == "thick" && !strings.Contains(said, "bands, to keep to the memory") ||
					bands == 1 && said != "" {
					t.Errorf("%s, %d bands: said %q", name, bands, said)
				}
				if seen != all || all == 0 {
					t.Errorf("%s: %d of %d windows", name, seen, all)
				}
				if bands > 2 && all <= p.windows(e, 1) && name == "thick" {
					t.Errorf("%s: %d windows in %d bands", name, all, bands)
				}
				if !slices.Equal(got.Labels, want.Labels) {
					t.Errorf("%s, %s, %d bands: %v voxels of labels, want %v", name, file, bands, got.Counts(),
						want.Counts())
				}
				for c, v := range scans {
					if v.Int16 != nil || v.Float32 != nil {
						t.Errorf("%s: channel %d is held", name, c)
					}
				}
			}
		}
	}
}

// allocated is how many bytes have been made so far, garbage included.
func allocated() int64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.TotalAlloc)
}

// Bands follow one another in the memory of the first, and planes and rows too: what each made anew
// would be garbage beside what is counted.
func TestBandsTakeNoMore(t *testing.T) {
	p, _ := predictor(t, filepath.Join("..", "..", "testdata", "nnunet", "thick"))
	shape, own := [3]int{8, 256, 192}, [3]int{16, 512, 384}
	f := &inference{Plan: p.Plan, channels: []array[float32]{newArray[float32](shape)}, mirror: p.mirror, step: 1,
		members: 1, network: p.network, progress: func() {}}
	orders := [3]int{1, 1, 1}
	bands := bandsOf(rowTaps(shape, own, orders), 4)
	labels := newArray[uint16](own)
	work := f.newWorkspace(rowsOf(bands))
	d := p.decide(p.Labels, shape, labels.view(), orders, rowsOf(bands))
	var sums int64
	for _, s := range work.all[0].heads {
		sums += 2 * int64(len(s.values))
	}
	run := func(b band) {
		d.begin(b)
		if err := f.over(t.Context(), work, b.logits, d.plane); err != nil {
			t.Fatal(err)
		}
	}
	run(bands[0])
	before := allocated()
	for _, b := range bands {
		run(b)
	}
	made := allocated() - before
	t.Logf("%d bytes beside sums of %d", made, sums)
	if made > 2*sums {
		t.Errorf("%d bands make %d bytes beside sums of %d", len(bands), made, sums)
	}
}

// A scan that does not fit in the most bands either is refused, before it is read and where it is
// predicted all the same. With what it is said to need, it is predicted.
func TestTooLarge(t *testing.T) {
	folder := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	p, _ := predictor(t, folder)
	for _, over := range []int64{0, 1} {
		scan, err := nifti.Read(filepath.Join(folder, "scan_0000.nii.gz"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.scanned(scan.Grid, 2)
		if err != nil {
			t.Fatal(err)
		}
		p.memory = p.Bytes() + max(p.inferring(e, mostBands), e.preparing-p.Bytes()) - over
		fits := p.Fits(scan.Grid, 2)
		_, err = p.Predict(t.Context(), []*volume.Volume{scan})
		for _, err := range []error{fits, err} {
			if (err != nil) != (over > 0) || err != nil && !strings.Contains(err.Error(), "raise --memory") {
				t.Errorf("%d bytes too few: %v", over, err)
			}
		}
	}
}

// A plan whose reader turns the axes gives what it gives of a scan that was turned before, and the
// label map lies on the scan's own voxels. Where the scan cannot be prepared beside the network, it
// is the same, too.
func TestTurnedViews(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	scan := func() *volume.Volume {
		v, err := nifti.Read(filepath.Join(golden, "scan_0000.nii.gz"))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	p, _ := predictor(t, golden)
	before, err := scan().Orient(turnedAxes)
	if err != nil {
		t.Fatal(err)
	}
	own := scan().Grid
	if before.Axcodes() == own.Axcodes() {
		t.Fatalf("a scan of axes %s is turned already", own.Axcodes())
	}
	l, err := p.Predict(t.Context(), []*volume.Volume{before})
	if err != nil {
		t.Fatal(err)
	}
	want, err := l.Orient(own.Axcodes())
	if err != nil {
		t.Fatal(err)
	}
	for _, crowded := range []bool{false, true} {
		p, _ := predictor(t, golden)
		p.Turned = true
		if crowded {
			e, err := p.scanned(own, 2)
			if err != nil {
				t.Fatal(err)
			}
			p.memory = p.Bytes() + e.preparing - 1
		}
		if p.crowded(own, 2) != crowded {
			t.Errorf("crowded: %v", !crowded)
		}
		got, err := p.Predict(t.Context(), []*volume.Volume{scan()})
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(got.Labels, want.Labels) || got.Grid != own || len(got.Counts()) < 2 {
			t.Errorf("crowded %v: %v voxels of labels, want %v", crowded, got.Counts(), want.Counts())
		}
	}
}
