package volume

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// intensities is what nnU-Net and numpy make of two scans: testdata/intensities.py.
type intensities struct {
	Shape [3]int
	Every int
	Scans []struct {
		Step, Offset, Low, High float64
		Inside                  int
		ZScore                  []float32 `json:"zscore"`
		ZScoreNonzero           []float32 `json:"zscore-nonzero"`
		Percentiles             []float32 `json:"percentiles"`
	}
	CT struct {
		Foreground  [4]float64
		Percentiles []float32 `json:"ct-percentiles"`
	}
}

func readIntensities(t *testing.T) (g intensities) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("..", "testdata", "intensities.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil || len(g.Scans) != 2 || len(g.CT.Percentiles) < 100 {
		t.Fatal("the golden file is not whole", err)
	}
	return g
}

// ball is the scan that the script makes: noise in a ball with a hole.
func ball(shape [3]int, step, offset float64) *Volume {
	v := &Volume{Grid: Grid{Shape: shape, Affine: Scaling([3]float64{1, 1, 1})},
		Float32: make([]float32, shape[0]*shape[1]*shape[2])}
	for n := range v.Float32 {
		i, j, k := n%shape[0], n/shape[0]%shape[1], n/shape[0]/shape[1]
		far := (2*i-13)*(2*i-13) + (2*j-11)*(2*j-11) + (2*k-9)*(2*k-9)
		if far < 90 && far > 6 {
			v.Float32[n] = float32(float64((uint64(n)*2654435761%(1<<32))>>22)*step + offset)
		}
	}
	return v
}

// wholeNumbers is a volume of float32 as int16.
func (v *Volume) wholeNumbers() *Volume {
	o := &Volume{Grid: v.Grid}
	for _, x := range v.Float32 {
		o.Int16 = append(o.Int16, int16(x))
	}
	return o
}

// seen is what a network sees of a prepared scan.
func seen(t *testing.T, p Preparation, v *Volume) (values []float32, how Intensities) {
	t.Helper()
	o, err := p.Apply(v, v.Whole())
	if err != nil {
		t.Fatal(err)
	}
	if err := p.CheckLevels(o.Levels); err != nil {
		t.Fatal(err)
	}
	how = p.Intensities(o.Levels)
	values = make([]float32, len(o.Int16))
	how.Normalise(values, o.Int16)
	return values, how
}

func TestSchemesAreNNUNets(t *testing.T) {
	g := readIntensities(t)
	compare := func(name string, p Preparation, v *Volume, want []float32, tolerance float64) {
		t.Helper()
		got, _ := seen(t, p, v)
		for n, x := range want {
			if d := math.Abs(float64(got[n*g.Every] - x)); d > tolerance {
				t.Fatalf("%s: voxel %d is %v, want %v", name, n*g.Every, got[n*g.Every], x)
			}
		}
	}
	// Half a step of the stored numbers, and what float32 leaves of numpy's means.
	half := map[string]float64{ZScore: 0.5/1024 + 2e-5, ZScoreNonzero: 0.5/1024 + 2e-5, Percentiles: 0.5/16384 + 2e-6,
		CTPercentiles: 0.5/2048 + 2e-5}
	for _, s := range g.Scans {
		v := ball(g.Shape, s.Step, s.Offset)
		for scheme, want := range map[string][]float32{ZScore: s.ZScore, ZScoreNonzero: s.ZScoreNonzero,
			Percentiles: s.Percentiles} {
			p := Preparation{Axcodes: "RAS", Window: [2]float64{-125, 275}, Interpolation: "linear", Modality: "MR",
				Intensity: scheme}
			compare(scheme, p, v, want, half[scheme])
			if s.Step == 3 {
				compare(scheme+" of whole numbers", p, v.wholeNumbers(), want, half[scheme])
			}
		}
		if found, err := measure(v, nil); err != nil || math.Abs(found.Low-s.Low) > 1e-4 ||
			math.Abs(found.High-s.High) > 1e-4 {
			t.Errorf("percentiles %v and %v, want %v and %v, %v", found.Low, found.High, s.Low, s.High, err)
		}
		inside := 0
		for _, is := range present(v.Whole(), []*Volume{v}) {
			if is {
				inside++
			}
		}
		if inside != s.Inside {
			t.Errorf("%d voxels are not 0 or enclosed, want %d", inside, s.Inside)
		}
	}
	p := Preparation{Axcodes: "RAS", Window: [2]float64{-125, 275}, Interpolation: "linear", Intensity: CTPercentiles,
		Foreground: g.CT.Foreground}
	v := ball(g.Shape, 3, -1100)
	compare(CTPercentiles, p, v, g.CT.Percentiles, half[CTPercentiles])
	compare(CTPercentiles+" of whole numbers", p, v.wholeNumbers(), g.CT.Percentiles, half[CTPercentiles])
}

// A quantile of any shares is that of the values in order.
func TestQuantiles(t *testing.T) {
	v := ball([3]int{14, 12, 10}, -0.37, 11)
	v.Float32[5] = float32(math.NaN())
	v.Float32[6] = float32(math.Inf(1))
	var order []float64
	for _, x := range v.Float32 {
		if x-x == 0 {
			order = append(order, float64(x))
		}
	}
	slices.Sort(order)
	shares := []float64{0, 0.001, 0.005, 0.1, 0.5, 0.731, 0.995, 1}
	for n, got := range quantilesOf(v, nil, len(order), shares...) {
		at := shares[n] * float64(len(order)-1)
		low := int(at)
		want := order[low] + (at-float64(low))*(order[min(low+1, len(order)-1)]-order[low])
		if math.Abs(got-want) > 1e-9*math.Abs(want) {
			t.Errorf("quantile %v is %v, want %v", shares[n], got, want)
		}
	}
}

// A scan that is stored with other axes is prepared to the same numbers.
func TestSchemesDoNotGoByStorage(t *testing.T) {
	v := ball([3]int{14, 12, 10}, 3, -1100).wholeNumbers()
	v.Int16[3] = 999
	for _, scheme := range []string{ZScore, ZScoreNonzero, Percentiles} {
		for _, spacing := range [][3]float64{{}, {2, 1, 1}} {
			p := Preparation{Crop: CropAuto, Axcodes: "RAS", Spacing: spacing, Window: [2]float64{-125, 275},
				Interpolation: "linear", Modality: "MR", Intensity: scheme}
			want, err := p.Apply(v, v.Whole())
			if err != nil {
				t.Fatal(err)
			}
			for _, codes := range []string{"LPS", "SRA", "IPR"} {
				turned, err := v.Orient(codes)
				if err != nil {
					t.Fatal(err)
				}
				got, err := p.Apply(turned, turned.Whole())
				if err != nil || *got.Levels != *want.Levels || !slices.Equal(got.Int16, want.Int16) {
					t.Errorf("%s, spacing %v, stored as %s: other numbers, %v", scheme, spacing, codes, err)
				}
			}
		}
	}
}

// What is no number is air, what is infinite or far off is held within what can be stored, and a
// scan of one value is refused.
func TestSchemesOfOddVoxels(t *testing.T) {
	p := Preparation{Axcodes: "RAS", Window: [2]float64{-125, 275}, Interpolation: "linear", Modality: "MR",
		Intensity: ZScore}
	v := ball([3]int{14, 12, 10}, 0.375, 12.25)
	v.Float32[700], v.Float32[701], v.Float32[702] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
	got, how := seen(t, p, v)
	if got[700] != how.Of(how.Outside) || got[701] < 31 || got[702] > -31 {
		t.Errorf("voxels that are not finite become %v", got[700:703])
	}
	for _, value := range []float32{0, 3, float32(math.NaN())} {
		for n := range v.Float32 {
			v.Float32[n] = value
		}
		var blank *BlankError
		if _, err := p.Apply(v, v.Whole()); !errors.As(err, &blank) {
			t.Errorf("a scan of %v: %v", value, err)
		}
	}
}

// Preparations that say nothing of a scheme mean the window of HU.
func TestOlderPreparationsAreOfCT(t *testing.T) {
	var p Preparation
	const old = `{"crop":"auto","axcodes":"RAS","spacing":[0,0,0],"window":[-125,275],"interpolation":"linear"}`
	if err := json.Unmarshal([]byte(old), &p); err != nil {
		t.Fatal(err)
	}
	if p.ModalityName() != ModalityCT || p.Scheme() != CTWindow ||
		p != DefaultPreparation().ForModality(ModalityCT).Choose([3]float64{}) {
		t.Errorf("%+v", p)
	}
	if text, err := json.Marshal(p); err != nil || string(text) != old {
		t.Errorf("%s, %v", text, err)
	}
	how := p.Intensities(nil)
	if how.Scale != 2.0/400 || how.Shift != -150.0/400 || how.Outside != -125 || how.Of(275) != 1 {
		t.Errorf("%+v", how)
	}
	if mr := DefaultPreparation().ForModality(ModalityMR); mr.Scheme() != ZScore ||
		len(mr.Differences(DefaultPreparation())) != 2 {
		t.Errorf("%+v differs in %v", mr, mr.Differences(DefaultPreparation()))
	}
}

// A setting that the scheme has no use for is refused: nobody would notice that it does nothing.
func TestSettingsOfOtherSchemesAreRefused(t *testing.T) {
	for _, c := range []struct {
		change func(p *Preparation)
		want   string // "": it is fine
	}{
		{func(p *Preparation) { p.Window = [2]float64{0, 80} }, ""},
		{func(p *Preparation) { p.Modality, p.Intensity, p.Window = ModalityMR, CTWindow, [2]float64{0, 3000} }, ""},
		{func(p *Preparation) { p.Modality, p.Intensity, p.Window = ModalityMR, ZScore, [2]float64{0, 80} },
			"window is of intensity ct-window, and these scans are prepared by zscore"},
		{func(p *Preparation) { p.Foreground = [4]float64{1, 5, 3, 1} },
			"foreground is of intensity ct-percentiles, and these scans are prepared by ct-window"},
		{func(p *Preparation) { p.Intensity, p.Foreground = CTPercentiles, [4]float64{1, 5, 3, 1} }, ""},
		{func(p *Preparation) { p.Modality, p.Intensity = ModalityPT, CTPercentiles },
			"intensity ct-percentiles goes by whole HU, and PT has none: choose zscore or percentiles"},
	} {
		p := DefaultPreparation()
		c.change(&p)
		if err := p.Check(); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", p, err, c.want)
		}
	}
	// Those of an earlier run are told so that they can be given again.
	old, now := DefaultPreparation(), DefaultPreparation()
	old.Intensity, old.Foreground = CTPercentiles, [4]float64{67.8632, 254, 163.3229, 52.4343}
	now.Intensity, now.Foreground = CTPercentiles, [4]float64{67.8633, 254, 163.3229, 52.4343}
	want := []Difference{{"foreground", "67.8632,254,163.3229,52.4343", "67.8633,254,163.3229,52.4343"}}
	if got := now.Differences(old); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
