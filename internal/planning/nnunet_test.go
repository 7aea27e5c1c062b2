package planning

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"
)

// golden is what testdata/nnunet_plans.py makes. Spacings and shapes are along (k, j, i).
type golden struct {
	Name      string
	Gigabytes float64
	Spacings  [][3]float64
	Shapes    [][3]int
	Outputs   int
	Plans     map[string]struct {
		Forward [3]int
		Full    *goldenConfiguration `json:"3d_fullres"`
		Low     *goldenConfiguration `json:"3d_lowres"`
		Flat    *goldenFlat          `json:"2d"`
	}
}

// goldenFlat is a configuration in two dimensions.
type goldenFlat struct {
	Spacing, Median           [2]float64
	Patch                     [2]int
	Batch                     int
	Features, Blocks, Decoder []int
	Strides, Kernels          [][2]int
}

// whole is the configuration as it is in three dimensions, whose first axis has kernels as given.
func (f goldenFlat) whole(like Configuration) goldenConfiguration {
	g := goldenConfiguration{Spacing: [3]float64{math.Inf(1), f.Spacing[0], f.Spacing[1]},
		Median: [3]float64{math.Inf(1), f.Median[0], f.Median[1]}, Patch: [3]int{1, f.Patch[0], f.Patch[1]},
		Batch: f.Batch, Features: f.Features, Blocks: f.Blocks, Decoder: f.Decoder}
	for n := range f.Strides {
		g.Strides = append(g.Strides, [3]int{1, f.Strides[n][0], f.Strides[n][1]})
		flat := 1
		if n < len(like.Kernels) {
			flat = like.Kernels[n][0] // of which nothing is said
		}
		g.Kernels = append(g.Kernels, [3]int{flat, f.Kernels[n][0], f.Kernels[n][1]})
	}
	return g
}

type goldenConfiguration struct {
	Spacing, Median           [3]float64
	Patch                     [3]int
	Batch                     int
	Features, Blocks, Decoder []int
	Strides, Kernels          [][3]int
}

func goldens(t *testing.T) (all []golden) {
	t.Helper()
	data, err := os.ReadFile("../../testdata/nnunet_plans.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("%d sets", len(all))
	}
	return all
}

// turned turns triples along (k, j, i) into ones along (i, j, k), and back.
func turned[T any](all [][3]T) (r [][3]T) {
	for _, one := range all {
		r = append(r, [3]T{one[2], one[1], one[0]})
	}
	return r
}

// Spacing, transposition, patch, batch, strides, kernels and widths are nnU-Net's, of both
// resolutions, for its default network and its residual ones, for the memory that each planner
// plans for and for another.
func TestNNUNetPlans(t *testing.T) {
	low := 0
	for _, g := range goldens(t) {
		for key, e := range map[string]Encoder{"plain": Plain, "residual": Residual, "residual L": ResidualL,
			"residual XL": ResidualXL} {
			want := g.Plans[key]
			p, err := NNUNetPlan(turned(g.Spacings), turned(g.Shapes), 0, g.Outputs, e, g.Gigabytes)
			if err != nil || want.Full == nil {
				t.Fatalf("%s, %s: %v", g.Name, key, err)
			}
			if p.Forward != want.Forward {
				t.Errorf("%s, %s: transposition %v, nnU-Net has %v", g.Name, key, p.Forward, want.Forward)
			}
			same(t, g.Name+", "+key, p.Full, *want.Full)
			same(t, g.Name+", "+key+", 2D", p.Flat, want.Flat.whole(p.Flat))
			if (p.Low == nil) != (want.Low == nil) {
				t.Errorf("%s, %s: low resolution %+v, nnU-Net has %+v", g.Name, key, p.Low, want.Low)
				continue
			}
			if p.Low != nil {
				low++
				same(t, g.Name+", "+key+", low", *p.Low, *want.Low)
			}
		}
	}
	if low < 4 {
		t.Errorf("only %d low resolutions were compared", low)
	}
}

func same(t *testing.T, name string, got Configuration, want goldenConfiguration) {
	t.Helper()
	for a := range 3 {
		if got.Spacing[a] != want.Spacing[a] && !(math.Abs(got.Spacing[a]-want.Spacing[a]) <= 1e-9*want.Spacing[a]) {
			t.Errorf("%s: spacing %v, nnU-Net has %v", name, got.Spacing, want.Spacing)
		}
	}
	w := Configuration{
		Spacing: got.Spacing, Median: want.Median, Patch: want.Patch, Batch: want.Batch, Features: want.Features,
		Strides: want.Strides, Kernels: want.Kernels, Blocks: want.Blocks, Decoder: want.Decoder,
	}
	if !reflect.DeepEqual(got, w) {
		t.Errorf("%s:\n%+v, nnU-Net has\n%+v", name, got, w)
	}
}

func TestNNUNetRefuses(t *testing.T) {
	one := [][3]float64{{1, 1, 1}}
	for name, call := range map[string]func() (*NNUNet, error){
		"no scan":  func() (*NNUNet, error) { return NNUNetPlan(nil, nil, 0, 2, Plain, 8) },
		"no voxel": func() (*NNUNet, error) { return NNUNetPlan(one, [][3]int{{0, 5, 5}}, 0, 2, Plain, 8) },
		"no spacing": func() (*NNUNet, error) {
			return NNUNetPlan([][3]float64{{0, 1, 1}}, [][3]int{{5, 5, 5}}, 0, 2, Plain, 8)
		},
		"not a number": func() (*NNUNet, error) {
			return NNUNetPlan([][3]float64{{math.NaN(), 1, 1}}, [][3]int{{5, 5, 5}}, 0, 2, Plain, 8)
		},
		"no memory": func() (*NNUNet, error) { return NNUNetPlan(one, [][3]int{{5, 5, 5}}, 0, 2, Plain, -1) },
	} {
		if p, err := call(); err == nil {
			t.Errorf("%s: %+v", name, p)
		}
	}
	// A target that nothing fits into ends with the smallest patch.
	if p, err := NNUNetPlan(one, [][3]int{{64, 64, 64}}, 0, 2, Plain, 1e-9); err != nil || p.Full.Batch != leastBatch {
		t.Errorf("%+v, %v", p, err)
	}
}

// How many scans there are is what the data set says: nnU-Net multiplies the median's voxels by it,
// of which a batch covers no more than a twentieth.
func TestScansThatAreSaid(t *testing.T) {
	of := func(n, said int) *NNUNet {
		t.Helper()
		p, err := NNUNetPlan(slices.Repeat([][3]float64{{1, 1, 1}}, n), slices.Repeat([][3]int{{64, 64, 64}}, n), said,
			2, Plain, 8)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	// One patch is a scan: 200 scans allow 10 of them, 100 allow 5.
	if one, all := of(1, 200), of(200, 0); !reflect.DeepEqual(one, all) || one.Full.Batch != 10 {
		t.Errorf("%+v where 200 scans are said, %+v where they are there", one.Full, all.Full)
	}
	if p := of(200, 100); p.Full.Batch != 5 {
		t.Errorf("a batch of %d, want 5", p.Full.Batch)
	}
}
