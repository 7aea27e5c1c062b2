package nnunet

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/pytorch"
	"github.com/voxsaw/voxsaw/internal/unet"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// read is a fold of a golden model, its weights in the parameters to write.
func read(t *testing.T, folder, fold string) (*Model, Results) {
	t.Helper()
	m, err := Open(folder, []string{fold})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	params, err := Parameters(dev, m.Network, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(params.Close)
	found, file, err := weights(m.First())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, name := range params.Names() {
		values, err := file.Read(found[name])
		if err != nil {
			t.Fatal(err)
		}
		if err := params.Write(name, values); err != nil {
			t.Fatal(err)
		}
	}
	r := Results{Plan: m.Plan, Params: params, Channels: m.Labels.Channels}
	for _, s := range m.Structures[1:] {
		r.Labels = append(r.Labels, s.Name)
	}
	return m, r
}

// A model that is read, written and read again predicts the same, and has the same tensors by the
// same names as the one that it came from.
func TestWrite(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	scan := filepath.Join(golden, "scan_0000.nii.gz")
	m, r := read(t, golden, "0")
	folder := filepath.Join(t.TempDir(), "Dataset901_Again", "nnUNetTrainer__otherPlans__3d_small")
	if err := r.Write(folder); err != nil {
		t.Fatal(err)
	}
	again, err := Open(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := *m.Plan
	want.Dataset, want.Name = "Dataset901_Again", "otherPlans"
	if !reflect.DeepEqual(again.Plan, &want) || !reflect.DeepEqual(again.Labels, m.Labels) || again.Mirror != nil {
		t.Errorf("%+v, %+v\nwant %+v, %+v", again.Plan, again.Labels, &want, m.Labels)
	}
	if err := r.Write(folder); err == nil || !strings.Contains(err.Error(), "checkpoint_final.pth is there already") {
		t.Errorf("written twice: %v", err)
	}
	next := r
	next.Fold, next.Cases = 1, 7
	if err := next.Write(folder); err != nil {
		t.Fatal(err)
	}
	if both, err := Open(folder, nil); err != nil || !slices.Equal(both.Folds, []string{"0", "1"}) {
		t.Errorf("two folds: %+v, %v", both, err)
	}
	next.Fold, next.Labels = 2, []string{"other", "labels"}
	if err := next.Write(folder); err == nil || !strings.Contains(err.Error(), "dataset.json is of another network") {
		t.Errorf("other labels: %v", err)
	}
	plan := *r.Plan
	plan.Spacing[0]++
	next.Plan = &plan
	if err := next.Write(folder); err == nil || !strings.Contains(err.Error(), "plans.json is of another network") {
		t.Errorf("another spacing: %v", err)
	}
	theirs, err := predictedBy(t, m.First(), Options{NoMirroring: true}, scan)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := predictedBy(t, again.First(), Options{}, scan)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(ours.Labels, theirs.Labels) || len(ours.Counts()) < 2 {
		t.Errorf("%v voxels of labels, want %v", ours.Counts(), theirs.Counts())
	}
	before, err := pytorch.OpenWeights(m.First())
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	after, err := pytorch.OpenWeights(again.First())
	if err != nil {
		t.Fatal(err)
	}
	defer after.Close()
	same(t, before, after, "")
	pretrained := filepath.Join(t.TempDir(), "weights.pth")
	how := Pretrained{Network: m.Network, Params: r.Params, Spacing: [3]float64{1, 2, 3}, Crop: [3]int{16, 16, 8}}
	if err := how.Write(pretrained); err != nil {
		t.Fatal(err)
	}
	weights, err := pytorch.OpenWeights(pretrained)
	if err != nil {
		t.Fatal(err)
	}
	defer weights.Close()
	same(t, before, weights, ".seg_layers.")
}

// same compares two files of weights, but for names with a part.
func same(t *testing.T, before, after *pytorch.Weights, but string) {
	t.Helper()
	left := func(name string) bool { return but != "" && strings.Contains(name, but) }
	names := slices.DeleteFunc(before.Names(), left)
	slices.Sort(names)
	if got := after.Names(); len(got) != len(names) {
		t.Errorf("%d names, want %d", len(got), len(names))
	}
	for _, name := range names {
		x, err := before.ReadInto(name, nil)
		if err != nil {
			t.Fatal(err)
		}
		y, err := after.ReadInto(name, nil)
		if err != nil || !slices.Equal(x, y) {
			t.Errorf("%s: other values, %v", name, err)
		}
	}
}

// A plan's preparation is said by that plan.
func TestPlanLike(t *testing.T) {
	p, err := PlanOf(filepath.Join("..", "..", "testdata", "nnunet", "thick", "plans.json:3d_small"))
	if err != nil {
		t.Fatal(err)
	}
	for _, turned := range []bool{false, true} {
		p.Turned = turned
		how, err := p.Preparation(volume.DefaultPreparation())
		if err != nil {
			t.Fatal(err)
		}
		got, others, err := PlanLike(how, p.PatchSize(), p.Network)
		if err != nil || len(others) > 0 {
			t.Fatal(err, others)
		}
		if got.Turned != turned || got.Forward != p.Forward || got.Spacing != p.Spacing || got.Patch != p.Patch ||
			!reflect.DeepEqual(got.Channels, p.Channels) || got.data.Order != p.data.Order {
			t.Errorf("%+v\nwant %+v", got, p)
		}
	}
	usual := volume.DefaultPreparation()
	usual.Spacing = [3]float64{1, 2, 3}
	got, others, err := PlanLike(usual, [3]int{8, 16, 24}, p.Network)
	want := channel{scheme: schemeCT, intensities: intensities{Mean: 75, SD: 200, Low: -125, High: 275}}
	if err != nil || !got.Turned || got.Forward != [3]int{0, 1, 2} || got.Patch != [3]int{24, 16, 8} ||
		got.Spacing != [3]float64{3, 2, 1} || got.Channels[0] != want || got.data.Order != 1 || len(others) != 1 ||
		!strings.Contains(others[0], "outside of the box") {
		t.Errorf("%+v, %v, %v", got, others, err)
	}
	// channels with masks of their own
	own := volume.Preparation{Crop: volume.CropNonzero, Axcodes: "RAS", Spacing: [3]float64{1, 2, 3},
		Interpolation: "linear", Channels: "T1w,FLAIR", Modality: volume.ModalityMR,
		Intensity: volume.ZScoreNonzero, Window: volume.DefaultPreparation().Window}
	for _, how := range []volume.Preparation{own, own.WithMasks()} {
		_, others, err := PlanLike(how, [3]int{8, 16, 24}, p.Network)
		told := slices.ContainsFunc(others, func(s string) bool { return strings.Contains(s, "not 0 in any channel") })
		if err != nil || told != (how.Masks == "") {
			t.Errorf("masks %q: %q, %v", how.Masks, others, err)
		}
	}
	for _, c := range []struct {
		change func(*volume.Preparation)
		want   string
	}{
		{func(how *volume.Preparation) { how.Axcodes = "LPS" }, "turned to the axes LPS"},
		{func(how *volume.Preparation) { how.Spacing[1] = 0 }, "kept their own voxels"},
		{func(how *volume.Preparation) { how.Intensity = volume.Percentiles }, "intensity percentiles"},
	} {
		how := usual
		c.change(&how)
		if _, _, err := PlanLike(how, [3]int{8, 16, 24}, p.Network); err == nil ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}

// A scan whose file has other axes gets the same labels, where the plans turn it.
func TestTurned(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	m, r := read(t, golden, "0")
	m.Plan.Turned = true
	folder := t.TempDir()
	if err := r.Write(folder); err != nil {
		t.Fatal(err)
	}
	v, err := nifti.Read(filepath.Join(golden, "scan_0000.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	var want *volume.LabelMap
	for _, codes := range []string{"RAS", "PIL", v.Axcodes()} {
		turned, err := v.Orient(codes)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "scan.nii.gz")
		if err := nifti.Write(path, turned); err != nil {
			t.Fatal(err)
		}
		got, err := predictedBy(t, folder, Options{}, path)
		if err != nil {
			t.Fatal(err)
		}
		if got.Shape != turned.Shape || got.Axcodes() != codes {
			t.Errorf("%v voxels along %s, want %v along %s", got.Shape, got.Axcodes(), turned.Shape, codes)
		}
		if got, err = got.Orient("RAS"); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
		}
		if !slices.Equal(got.Labels, want.Labels) || len(got.Counts()) < 2 {
			t.Errorf("%s: %v voxels of labels, want %v", codes, got.Counts(), want.Counts())
		}
	}
}

// Parameters that nothing was loaded into are nnU-Net's: norms of 1 and 0, biases of 0, the same
// for the same seed.
func TestParameters(t *testing.T) {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	s := unet.Settings{In: 1, Classes: 2, Features: []int{4, 8}, Kernels: [][3]int{{3, 3, 3}, {3, 3, 3}},
		Strides: [][3]int{{1, 1, 1}, {2, 2, 2}}, Blocks: []int{1, 1}, DecoderConvs: []int{1}, Bias: true,
		Epsilon: 1e-5, Slope: 0.01}
	one, err := Parameters(dev, s, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	two, err := Parameters(dev, s, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Close()
	for _, name := range one.Names() {
		x, err := one.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		y, err := two.Read(name)
		if err != nil || !slices.Equal(x, y) {
			t.Errorf("%s is drawn anew: %v", name, err)
		}
		var want float32
		switch {
		case strings.HasSuffix(name, ".norm.weight"):
			want = 1
		case strings.HasSuffix(name, ".weight"):
			continue
		}
		if slices.ContainsFunc(x, func(v float32) bool { return v != want }) {
			t.Errorf("%s is %v", name, x)
		}
	}
}
