package sliding

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/volume"
)

// Where the memory is too little for all sums, windows are computed for as few bands as fit, and
// nothing else changes: classes and probabilities are the same to the bit.
func TestBands(t *testing.T) {
	dev := testDevice(t)
	network, err := backbone.Of(voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance", Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := phantomCase(t, [3]int{21, 17, 13})
	s, err := New(dev, nn.NewParams(dev, 5), network, Options{Size: [3]int{8, 6, 4}, Batch: 2, Overlap: 0.5},
		nn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	said := ""
	s.Note = func(text string) { said = text }
	for _, src := range []Source{Case{c}, part{Case{c}, [3]int{5, 17, 3}}, part{Case{c}, [3]int{21, 3, 9}}} {
		for _, w := range []Wanted{{}, {Probabilities: true}} {
			s.room = -1
			whole, err := s.Infer(t.Context(), src, Ensemble{}, w, nil)
			if err != nil || said != "" {
				t.Fatal(err, said)
			}
			full, err := w.complete(src.Size())
			if err != nil {
				t.Fatal(err)
			}
			for _, bands := range []int{1, 2, 3} {
				s.room = s.bytes(src.Size(), s.classes, full, bands)
				if s.Fits(src.Size(), 0, w) != nil {
					t.Errorf("%v in %d bands: %v", src.Size(), bands, s.Fits(src.Size(), 0, w))
				}
				done, all := 0, 0
				r, err := s.Infer(t.Context(), src, Ensemble{}, w, func(n, of int) { done, all = n, of })
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(r.Classes, whole.Classes) || !slices.Equal(r.Probabilities, whole.Probabilities) {
					t.Errorf("%v in %d bands: something else", src.Size(), bands)
				}
				if done != all || (bands > 1) != strings.Contains(said, "bands, to keep to the memory") {
					t.Errorf("%v in %d bands: %d of %d windows, said %q", src.Size(), bands, done, all, said)
				}
				said = ""
			}
			s.room = s.bytes(src.Size(), s.classes, full, mostBands) - 1
			if err := s.Fits(src.Size(), 0, w); err == nil {
				t.Errorf("%v: less than the least fits", src.Size())
			}
		}
	}
}

// What a plan counts for the windows of many classes is what they take: the last layer is made a
// few planes at a time.
func TestBytesOfManyClasses(t *testing.T) {
	dev := testDevice(t)
	c, _ := phantomCase(t, [3]int{40, 40, 40})
	for _, classes := range []int{3, 105} {
		network, err := backbone.Of(voxsaw.Network{Channels: 4, Levels: 1, Norm: "instance", Classes: classes})
		if err != nil {
			t.Fatal(err)
		}
		params := nn.NewParams(dev, 5)
		o := Options{Size: [3]int{64, 64, 64}, Batch: 1, Overlap: 0.5}
		s, err := New(dev, params, network, o, nn.Options{})
		if err != nil {
			t.Fatal(err)
		}
		takes := s.Bytes(Case{c})
		if s.inParts != (classes == 105) {
			t.Fatalf("%d classes in parts: %v", classes, s.inParts)
		}
		if s.inParts {
			takes += s.parts.HostBytes()
		}
		if said := o.BytesOf(dev, network, c.Size()); float64(said) < 0.9*float64(takes) ||
			float64(said) > 1.1*float64(takes) {
			t.Errorf("%d classes: %d MiB are counted, and %d taken", classes, said>>20, takes>>20)
		}
		s.Close()
		params.Close()
	}
}

// Windows are cut into memory that was used before: what is made for each would be garbage beside
// what is counted.
func TestCropsAreUsedAgain(t *testing.T) {
	dev := testDevice(t)
	network, err := backbone.Of(voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance", Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(dev, nn.NewParams(dev, 5), network, Options{Size: [3]int{32, 32, 32}, Batch: 1, Overlap: 0.5},
		nn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	shape := [3]int{32, 32, 800}
	v := &volume.Volume{Grid: volume.Grid{Shape: shape, Affine: volume.Scaling([3]float64{1, 1, 1})}}
	v.Int16 = make([]int16, v.Len())
	scan := Hold(v, v, volume.DefaultPreparation().Intensities(nil))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := s.Infer(t.Context(), scan, Ensemble{}, Wanted{}, nil); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	crops := int64(s.Windows(shape)) * 4 * 32 * 32 * 32
	if made := int64(after.TotalAlloc - before.TotalAlloc); made > s.Bytes(scan)+crops/4 {
		t.Errorf("%d bytes were made, where %d are counted, in crops of %d", made, s.Bytes(scan), crops)
	} else {
		t.Logf("%d bytes were made, where %d are counted, in crops of %d", made, s.Bytes(scan), crops)
	}
}
