package sliding

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/nn"
	_ "github.com/voxsaw/voxsaw/internal/resenc" // networks of the windows
	_ "github.com/voxsaw/voxsaw/vnet"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func testDevice(t testing.TB) device.Device {
	t.Helper()
	return cputest.New(t, cpu.Options{Threads: 2})
}

// phantomCase is a made-up patient.
func phantomCase(t testing.TB, shape [3]int) (*prepared.Case, volume.Preparation) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "store")
	w, err := prepared.NewWriter(dir, volume.DefaultPreparation())
	if err != nil {
		t.Fatal(err)
	}
	v, _, err := phantom.New(0, phantom.Options{Shape: shape})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Add(prepared.Input{ID: "case", Image: v}); err != nil {
		t.Fatal(err)
	}
	if err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	c, err := store.Open("case")
	if err != nil {
		t.Fatal(err)
	}
	return c, store.Preparation()
}

// part is a source that claims another extent.
type part struct {
	Source
	extent [3]int
}

func (p part) Size() [3]int { return p.extent }

func TestPositionsCoverTheAxis(t *testing.T) {
	for _, c := range []struct {
		n, size int
		overlap float64
		want    []int
	}{
		{64, 64, 0.5, []int{0}},
		{128, 64, 0.5, []int{0, 32, 64}},
		{128, 64, 0, []int{0, 64}},
		// nnU-Net's example of even spreading: two steps of at most 32
		{100, 64, 0.5, []int{0, 18, 36}},
		{65, 64, 0, []int{0, 1}},
		{60, 64, 0.5, []int{-2}},
		{61, 64, 0.5, []int{-1}},
	} {
		if got := positions(c.n, c.size, c.overlap); !slices.Equal(got, c.want) {
			t.Errorf("%d voxels, windows of %d, overlap %v: %v, want %v", c.n, c.size, c.overlap, got, c.want)
		}
	}
}

// naive keeps the sums of the whole scan, in float64, and looks at every window once.
func naive(t *testing.T, s *Inferer, src Source) []uint16 {
	t.Helper()
	shape := src.Size()
	n := shape[0] * shape[1] * shape[2]
	sums := make([]float64, s.classes*n)
	voxels := s.Size[0] * s.Size[1] * s.Size[2]
	bell := func(i, n int) float64 {
		d := (float64(i) - float64(n-1)/2) / (float64(n) / 8)
		return math.Exp(-d * d / 2)
	}
	for _, z := range positions(shape[2], s.Size[2], s.Overlap) {
		for _, y := range positions(shape[1], s.Size[1], s.Overlap) {
			for _, x := range positions(shape[0], s.Size[0], s.Overlap) {
				image, probability := make([]float32, s.Batch*voxels), make([]float32, s.Batch*s.classes*voxels)
				if err := src.Crop(image[:voxels], [3]int{x, y, z}, s.Size); err != nil {
					t.Fatal(err)
				}
				if err := s.run(image, map[string][]float32{"probability": probability}); err != nil {
					t.Fatal(err)
				}
				for class := range s.classes {
					for k := range s.Size[2] {
						for j := range s.Size[1] {
							for i := range s.Size[0] {
								if x+i < 0 || y+j < 0 || z+k < 0 || x+i >= shape[0] || y+j >= shape[1] ||
									z+k >= shape[2] {
									continue
								}
								w := bell(i, s.Size[0]) * bell(j, s.Size[1]) * bell(k, s.Size[2])
								sums[class*n+x+i+shape[0]*(y+j+shape[1]*(z+k))] += w * float64(probability[class*voxels+
									i+s.Size[0]*(j+s.Size[1]*k)])
							}
						}
					}
				}
			}
		}
	}
	classes := make([]uint16, n)
	for v := range classes {
		for class := range s.classes {
			if sums[class*n+v] > sums[int(classes[v])*n+v] {
				classes[v] = uint16(class)
			}
		}
	}
	return classes
}

func TestClassifyEqualsNaiveLoop(t *testing.T) {
	dev := testDevice(t)
	network, err := backbone.Of(voxsaw.Network{Channels: 2, Levels: 1, Norm: "instance", Classes: 3})
	if err != nil {
		t.Fatal(err)
	}
	size := [3]int{8, 6, 4}
	c, how := phantomCase(t, [3]int{21, 17, 13})
	whole, err := c.Volume()
	if err != nil {
		t.Fatal(err)
	}
	params := nn.NewParams(dev, 5)
	for _, batch := range []int{1, 4} {
		for _, overlap := range []float64{0, 0.3, 0.5, 0.75} {
			s, err := New(dev, params, network, Options{Size: size, Batch: batch, Overlap: overlap}, nn.Options{})
			if err != nil {
				t.Fatal(err)
			}
			for _, src := range []Source{
				Case{c}, Hold(whole, whole, how.Intensities(nil)),
				// smaller than the window along some axes
				part{Case{c}, [3]int{5, 17, 3}}, part{Case{c}, [3]int{21, 3, 4}}, part{Case{c}, [3]int{9, 17, 5}},
				part{Case{c}, [3]int{3, 3, 13}},
			} {
				calls, total := 0, 0
				got, err := s.Classify(t.Context(), src, Ensemble{}, func(done, of int) { calls, total = done, of })
				if err != nil {
					t.Fatal(err)
				}
				want := naive(t, s, src)
				different := 0
				for i := range got {
					if got[i] != want[i] {
						different++
					}
				}
				// Sums in float32 may decide a tie to within 1e-7 in another way; there is none in
				// these few voxels.
				if different > 0 || len(got) != len(want) {
					t.Errorf("batch %d overlap %v shape %v: %d of %d voxels differ", batch, overlap, src.Size(),
						different, len(want))
				}
				if calls != total || total == 0 {
					t.Errorf("progress ended at %d of %d", calls, total)
				}
			}
		}
	}
	// The mean of a network and itself is the network.
	s, err := New(dev, params, network, Options{Size: size, Batch: 2, Overlap: 0.5}, nn.Options{})
	if err != nil {
		t.Fatal(err)
	}
	one, err := s.Classify(t.Context(), Case{c}, Ensemble{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	used := 0
	two, err := s.Classify(t.Context(), Case{c}, Ensemble{Members: 2, Use: func(int) error { used++; return nil }}, nil)
	if err != nil || !slices.Equal(one, two) || used == 0 {
		t.Errorf("two of the same differ from one: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Classify(ctx, Case{c}, Ensemble{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// Where the last layer is a program of its own, sums are those of whole windows, bit for bit;
// those of mirror images are added in another order.
func TestLastLayerApart(t *testing.T) {
	dev := testDevice(t)
	c, _ := phantomCase(t, [3]int{21, 17, 13})
	for _, settings := range []voxsaw.Network{
		{Channels: 2, Levels: 1, Norm: "instance", Classes: 3}, {Kind: "resenc", Channels: 4, Levels: 1, Classes: 20},
	} {
		network, err := backbone.Of(settings)
		if err != nil {
			t.Fatal(err)
		}
		params := nn.NewParams(dev, 5)
		for _, mirror := range []string{"", "k", "ijk"} {
			var results []Result
			var needs []int64
			// whole, planes, pairs of planes
			for _, partBytes := range []int{0, 1, 4 * 2 * 256 * settings.Classes} {
				o := Options{Size: [3]int{16, 16, 12}, Batch: 2, Overlap: 0.5, Logits: true, Mirror: mirror,
					partBytes: partBytes}
				s, err := New(dev, params, network, o, nn.Options{})
				if err != nil {
					t.Fatal(err)
				}
				if s.inParts != (partBytes > 0) || s.inParts && s.parts.Parts < 2 {
					t.Fatalf("in parts: %v", s.inParts)
				}
				r, err := s.Infer(t.Context(), Case{c}, Ensemble{}, Wanted{Probabilities: true, Logits: true}, nil)
				if err != nil {
					t.Fatal(err)
				}
				results, needs = append(results, r), append(needs, s.NetworkBytes()+s.Bytes(Case{c}))
			}
			for n, r := range results[1:] {
				if settings.Classes == 20 && needs[n+1] >= needs[0] {
					t.Errorf("%d bytes in parts, %d whole", needs[n+1], needs[0])
				}
				if mirror == "" && !(slices.Equal(r.Classes, results[0].Classes) &&
					slices.Equal(r.Probabilities, results[0].Probabilities) &&
					slices.Equal(r.Logits, results[0].Logits)) {
					t.Errorf("%s: parts give other values than whole windows", settings.Kind)
				}
				for name, values := range map[string][2][]float32{"probabilities": {r.Probabilities,
					results[0].Probabilities}, "logits": {r.Logits, results[0].Logits}} {
					for i, v := range values[0] {
						if d := math.Abs(float64(v - values[1][i])); d > 2e-6*(1+math.Abs(float64(v))) {
							t.Fatalf("%s, mirrored along %q: %s differ by %v", settings.Kind, mirror, name, d)
						}
					}
				}
			}
		}
		params.Close()
	}
}

func TestHeldVolumeEqualsCase(t *testing.T) {
	c, how := phantomCase(t, [3]int{21, 17, 13})
	whole, err := c.Volume()
	if err != nil {
		t.Fatal(err)
	}
	h := Hold(whole, whole, how.Intensities(nil))
	for _, origin := range [][3]int{{0, 0, 0}, {-3, 2, -1}, {15, 14, 9}} {
		size := [3]int{9, 7, 5}
		a, b := make([]float32, 9*7*5), make([]float32, 9*7*5)
		if err := errors.Join(c.Crop(a, origin, size), h.Crop(b, origin, size)); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a, b) {
			t.Errorf("crop at %v differs", origin)
		}
	}
}

// settleAll settles a slab that holds the given sums, and nothing else, at once.
func settleAll(t *testing.T, shape [3]int, classes int, sums []float32) ([]uint16, error) {
	t.Helper()
	to, err := volume.Stay(volume.Grid{Shape: shape, Affine: volume.Scaling([3]float64{1, 1, 1})})
	if err != nil {
		t.Fatal(err)
	}
	w := Wanted{Classes: to, Maps: to}
	s := w.slab(shape, shape, classes)
	bands := w.bands(s, 1)
	s.allocate(bands)
	var weights [3][]float32
	for a, n := range shape {
		weights[a] = slices.Repeat([]float32{1}, n)
	}
	e := newEmission(to, weights, 1)
	e.classes = make([]uint16, shape[0]*shape[1]*shape[2])
	s.to = []*emission{e}
	s.hold(bands[0])
	copy(s.sums, sums)
	return e.classes, s.settle(s.shape[s.along])
}

func TestNaNIsNoClass(t *testing.T) {
	nan := float32(math.NaN())
	for _, sums := range [][]float32{{nan, nan}, {nan, 0.5}, {0.5, nan}, {0, 0}} {
		if classes, err := settleAll(t, [3]int{1, 1, 1}, 2, sums); !errors.Is(err, errNotFinite) {
			t.Errorf("sums of %v were given class %d, %v", sums, classes, err)
		}
	}
	if classes, err := settleAll(t, [3]int{1, 1, 1}, 3, []float32{0.2, 0.4, 0.4}); err != nil || classes[0] != 1 {
		t.Errorf("of equals the first: got class %d, %v", classes, err)
	}
}

// The sums move along the axis on which they take less memory, whatever the scan's extent along it.
func TestSlabBytes(t *testing.T) {
	for _, c := range []struct {
		shape [3]int
		along int
		bytes int64
	}{
		{[3]int{512, 512, 200}, 1, 4 * 2 * 96 * 512 * 200},
		{[3]int{512, 5120, 200}, 1, 4 * 2 * 96 * 512 * 200},
		{[3]int{100, 100, 600}, 2, 4 * 2 * 96 * 100 * 100},
		{[3]int{40, 50, 60}, 2, 4 * 2 * 40 * 50 * 60},
	} {
		if s := newSlab(c.shape, [3]int{96, 96, 96}, 2, 2, [3]bool{}); s.along != c.along || s.bytes() != c.bytes {
			t.Errorf("%v: %d bytes along axis %d, want %d along %d", c.shape, s.bytes(), s.along, c.bytes, c.along)
		}
	}
}
