package nnunet

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/pytorch"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// theirs is the folder of models that nnU-Net 2.8.1 trained, scans, and its predictions of them.
func theirs(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(os.Getenv("VOXSAW_DATA"), "..", "nnunet")
	if _, err := os.Stat(filepath.Join(folder, "results")); os.Getenv("VOXSAW_DATA") == "" || err != nil {
		t.Skip("no models of nnU-Net beside the folder that VOXSAW_DATA names")
	}
	return folder
}

// No voxel differs from what nnU-Net itself predicts.
func TestPredictionsOfNNUNet(t *testing.T) {
	folder := theirs(t)
	for n, c := range []struct {
		predictions, model string
		folds              []string
		plain              bool // without mirroring
		cases              string
	}{
		{"501_plain_fold_0_no_mirroring", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres",
			[]string{"0"}, true, "013 016 020 033"},
		{"501_plain_folds_0_1_no_mirroring", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres", nil, true,
			"013 016 020 033"},
		{"501_plain_folds_0_1_mirrored", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres", nil, false,
			"013 016"},
		{"501_resenc_fold_0_no_mirroring", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetResEncUNetMPlans__3d_fullres",
			nil, true, "013 016 020 033"},
		{"501_resenc_fold_0_mirrored", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetResEncUNetMPlans__3d_fullres", nil,
			false, "013 016"},
		{"502_thick_fold_0_no_mirroring", "Dataset502_Thick/nnUNetTrainerDiceLoss__nnUNetResEncUNetMPlans__3d_small",
			nil, true, "013 016 020 033"},
		{"502_thick_fold_0_mirrored", "Dataset502_Thick/nnUNetTrainerDiceLoss__nnUNetResEncUNetMPlans__3d_small", nil,
			false, "013 016 020 033"},
		{"503_regions_fold_all", "Dataset503_Regions/nnUNetTrainer_250epochs_NoMirroring__nnUNetPlans__3d_small", nil,
			false, "013 016 020 033"},
	} {
		if !turns.Has(t, n, 2) {
			continue
		}
		t.Run(c.predictions, func(t *testing.T) {
			dev, err := cpu.New(cpu.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			m, err := Open(filepath.Join(folder, "results", c.model), c.folds)
			if err != nil {
				t.Fatal(err)
			}
			p, err := NewPredictor(dev, m, Options{NoMirroring: c.plain})
			if err != nil {
				t.Fatal(err)
			}
			defer p.Close()
			cases := strings.Fields(c.cases)
			if testing.Short() {
				cases = cases[1:2] // resampled, and smaller than the patch
			}
			for _, name := range cases {
				var channels []*volume.Volume
				for n := range m.Plan.Channels {
					v, err := nifti.Read(
						filepath.Join(
							folder,
							"scans",
							strings.Split(c.model, "/")[0],
							"kbp_"+name+"_000"+string(rune('0'+n))+".nii.gz",
						),
					)
					if err != nil {
						t.Fatal(err)
					}
					channels = append(channels, v)
				}
				got, err := p.Predict(t.Context(), channels)
				if err != nil {
					t.Fatal(err)
				}
				want, err := nifti.ReadLabels(
					filepath.Join(folder, "predictions", c.predictions, "kbp_"+name+".nii.gz"),
				)
				if err != nil {
					t.Fatal(err)
				}
				sameGrid(t, got, want)
				differ, foreground := 0, 0
				for i, label := range want.Labels {
					if label > 0 {
						foreground++
					}
					if got.Labels[i] != label {
						differ++
					}
				}
				t.Logf(
					"%s: %d of %d voxels differ, %d of them foreground",
					name,
					differ,
					len(want.Labels),
					foreground,
				)
				if differ > 0 || foreground == 0 {
					t.Errorf(
						"%s: %d of %d voxels differ from nnU-Net's, of which %d are foreground",
						name,
						differ,
						len(want.Labels),
						foreground,
					)
				}
			}
		})
	}
}

// sameGrid wants the grid that nnU-Net's file has, once ours is in a file, too: of shape, spacing
// and affine, which headers hold in single precision.
func sameGrid(t *testing.T, got, want *volume.LabelMap) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "labels.nii.gz")
	if err := nifti.WriteLabels(path, got); err != nil {
		t.Fatal(err)
	}
	written, err := nifti.ReadLabels(path)
	if err != nil {
		t.Fatal(err)
	}
	if written.Shape != want.Shape {
		t.Fatalf("a grid of %v voxels, want %v", written.Shape, want.Shape)
	}
	for a, mm := range want.Spacing() {
		if s := written.Spacing()[a]; math.Abs(s-mm) > 1e-6*mm {
			t.Errorf("spacing %v, want %v", written.Spacing(), want.Spacing())
		}
	}
	for row := range 3 {
		for column, mm := range want.Affine[row] {
			if math.Abs(written.Affine[row][column]-mm) > 1e-6*max(1, math.Abs(mm)) {
				t.Errorf("affine %v, want %v", written.Affine, want.Affine)
			}
		}
	}
}

// predictedBy predicts a scan with a model, all of whose folds are taken.
func predictedBy(t *testing.T, folder string, o Options, files ...string) (*volume.LabelMap, error) {
	t.Helper()
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	m, err := Open(folder, nil)
	if err != nil {
		return nil, err
	}
	p, err := NewPredictor(dev, m, o)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var channels []*volume.Volume
	for _, path := range files {
		v, err := nifti.Read(path)
		if err != nil {
			t.Fatal(err)
		}
		channels = append(channels, v)
	}
	return p.Predict(t.Context(), channels)
}

// copied is a copy of a model's folder, to be changed.
func copied(t *testing.T, from string) string {
	t.Helper()
	to := t.TempDir()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return to
}

// A flat network sees slices, with plans as they are and as they were before nnU-Net 2.4, and says
// so. What is of two dimensions in the plans alone, or in the network alone, is refused.
func TestFlatPlans(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet", "flat")
	_, m := predictor(t, golden)
	if !m.Flat || m.Patch != [3]int{1, 20, 32} || m.Spacing != [3]float64{0, 1.5, 1.9} ||
		!slices.Equal(m.Mirror, []int{1, 2}) {
		t.Errorf("%+v, mirrored along %v", m.Plan, m.Mirror)
	}
	p, _ := predictor(t, golden)
	if notes := strings.Join(p.Notes(), "\n"); !strings.Contains(notes, "a 2D plain convolution U-Net of 3 stages") ||
		!strings.Contains(notes, "slice by slice, windows of 20x32 at 1.5x1.9 mm") {
		t.Errorf("notes %s", notes)
	}
	changed := func(change func(configuration map[string]any)) (*Model, error) {
		folder := copied(t, golden)
		path := filepath.Join(folder, plansName)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var plans map[string]any
		if err := json.Unmarshal(text, &plans); err != nil {
			t.Fatal(err)
		}
		change(plans["configurations"].(map[string]any)["2d"].(map[string]any))
		if text, err = json.Marshal(plans); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return Open(folder, nil)
	}
	old, err := changed(func(c map[string]any) {
		a := c["architecture"].(map[string]any)["arch_kwargs"].(map[string]any)
		delete(c, "architecture")
		c["UNet_class_name"], c["UNet_base_num_features"], c["unet_max_num_features"] = "PlainConvUNet", 4, 7
		c["n_conv_per_stage_encoder"] = a["n_conv_per_stage"]
		c["n_conv_per_stage_decoder"] = a["n_conv_per_stage_decoder"]
		c["conv_kernel_sizes"], c["pool_op_kernel_sizes"] = a["kernel_sizes"], a["strides"]
	})
	if err != nil {
		t.Fatal(err)
	}
	if old.Network.Features[1] = 6; !reflect.DeepEqual(old.Network, m.Network) { // 8 by doubling
		t.Errorf("%+v\nwant %+v", old.Network, m.Network)
	}
	for want, change := range map[string]func(c map[string]any){
		"its patch has 3 axes, and its network others": func(c map[string]any) {
			c["patch_size"], c["spacing"] = []int{8, 20, 32}, []float64{3, 1.5, 1.9}
		},
		"kernel_sizes": func(c map[string]any) {
			a := c["architecture"].(map[string]any)["arch_kwargs"].(map[string]any)
			a["kernel_sizes"] = [][]int{{1, 3, 3}, {3, 3, 3}, {3, 3, 3}}
		},
		"a patch of 20x0 at": func(c map[string]any) { c["patch_size"] = []int{20, 0} },
	} {
		if _, err := changed(change); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// Plans as they were written before nnU-Net 2.4 mean the same network.
func TestOldPlans(t *testing.T) {
	folder := theirs(t)
	model := copied(
		t,
		filepath.Join(folder, "results", "Dataset501_Iso/nnUNetTrainer_5epochs__nnUNetPlans__3d_fullres"),
	)
	before, err := Open(model, nil)
	if err != nil {
		t.Fatal(err)
	}
	old, err := os.ReadFile(filepath.Join(folder, "plans-old-format.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(filepath.Join(model, plansName)), os.WriteFile(filepath.Join(model, plansName), old,
		0o666)); err != nil {
		t.Fatal(err)
	}
	after, err := Open(model, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(before.Plan, after.Plan) {
		t.Errorf("%+v\nwant %+v", after.Plan, before.Plan)
	}
}

// The small models of testdata, without data of others: what numpy and PyTorch make of the same
// files, and nnU-Net of those of two dimensions.
func TestGoldenModels(t *testing.T) {
	for name, channels := range map[string]int{"thick": 1, "regions": 2, "flat": 1, "flat_thick": 1} {
		for plain, file := range map[bool]string{false: "labels_mirrored.nii.gz", true: "labels_plain.nii.gz"} {
			folder := filepath.Join("..", "..", "testdata", "nnunet", name)
			var files []string
			for c := range channels {
				files = append(files, filepath.Join(folder, fmt.Sprintf("scan_%04d.nii.gz", c)))
			}
			got, err := predictedBy(t, folder, Options{NoMirroring: plain}, files...)
			if err != nil {
				t.Fatal(err)
			}
			want, err := nifti.ReadLabels(filepath.Join(folder, file))
			if err != nil {
				t.Fatal(err)
			}
			sameGrid(t, got, want)
			if !slices.Equal(got.Labels, want.Labels) {
				t.Errorf("%s, %s: %v voxels of labels, want %v", name, file, got.Counts(), want.Counts())
			}
			if len(want.Counts()) < 2 {
				t.Errorf("%s: only labels %v", name, want.Counts())
			}
		}
	}
}

// Weights that make no numbers, or more than float16 holds, are told with the model's name, where
// comparisons would make all voxels background, or the head that overflows win.
func TestLogitsThatAreNotFinite(t *testing.T) {
	for name, channels := range map[string]int{"thick": 1, "regions": 2} {
		for value, want := range map[float32]error{float32(math.NaN()): errNotNumbers, 1e6: errInfinite,
			-1e6: errInfinite} {
			folder := filepath.Join("..", "..", "testdata", "nnunet", name)
			p, m := predictor(t, folder)
			bias := ""
			for _, name := range p.params.Names() {
				if strings.Contains(name, "seg_layers") && strings.HasSuffix(name, "bias") {
					bias = max(bias, name)
				}
			}
			values := make([]float32, p.params.Shape(bias).Elements())
			values[0] = value
			for n := range p.members { // several are written before their windows
				if p.members[n] != nil {
					p.members[n][bias] = values
				}
			}
			if err := p.params.Write(bias, values); err != nil {
				t.Fatal(err)
			}
			var scan []*volume.Volume
			for c := range channels {
				v, err := nifti.Read(filepath.Join(folder, fmt.Sprintf("scan_%04d.nii.gz", c)))
				if err != nil {
					t.Fatal(err)
				}
				scan = append(scan, v)
			}
			labels, err := p.Predict(t.Context(), scan)
			if !errors.Is(err, want) || !strings.Contains(fmt.Sprint(err), m.Folder) {
				t.Errorf("%s, bias %v: error %v", name, value, err)
			}
			if labels != nil {
				t.Errorf("%s, bias %v: labels %v", name, value, labels.Counts())
			}
		}
	}
}

// A file that is no plans.json, or has no such configuration, is named for what it is, with what to
// name instead.
func TestWrongPlans(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	written := func(text string) string {
		path := filepath.Join(t.TempDir(), "other.json")
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	plans := filepath.Join(golden, plansName)
	const elsewhere = "plans.json lies beside the trained model"
	for _, c := range []struct{ plans, want, advice string }{
		{filepath.Join(golden, datasetName),
			"dataset.json: is no plans.json of nnU-Net: it plans no configuration", elsewhere},
		{written(`{"a": 1}`), "is no plans.json of nnU-Net", elsewhere},
		{written(`[1, 2]`), "other.json: it is not the JSON that nnU-Net writes: the whole is of the kind array", ""},
		{written(`{"configurations": {"3d_fullres": 3}}`), "writes: configurations is of the kind number", ""},
		{written(`{"configurations": {"3d_fullres": {"patch_size": "big"}}}`),
			"configuration 3d_fullres: patch_size is of the kind string", ""},
		{written(`hello`), "it is not the JSON that nnU-Net writes: invalid character 'h'", ""},
		{written(``), "it is not the JSON that nnU-Net writes: unexpected end", ""},
		{golden, "thick: is a folder, not a file", "its plans are " + plans},
		{filepath.Join(golden, "nowhere.json"), "nowhere.json: ", ""},
		{plans + ":3d_lowres", `plans.json: there is no configuration "3d_lowres", only 3d_fullres, 3d_small`,
			"a configuration is chosen by its name behind a colon: " + plans + ":3d_fullres"},
		{filepath.Join(golden, "..", "flat", plansName) + ":2d", "configuration 2d: it is a 2D network, which predicts",
			"plans.json:3d_fullres"},
		{plans + ":", `there is no configuration ""`, plans + ":3d_fullres"},
	} {
		_, err := PlanOf(c.plans)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.plans, err, c.want)
		}
		advice := ""
		if hinted := (interface{ Advice() string })(nil); errors.As(err, &hinted) {
			advice = hinted.Advice()
		}
		if !strings.Contains(advice, c.advice) || c.advice == "" && advice != "" {
			t.Errorf("%s: advice %q, want %q", c.plans, advice, c.advice)
		}
	}
}

// What cannot be done as nnU-Net does it is refused by its name.
func TestRefused(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	scan := filepath.Join(golden, "scan_0000.nii.gz")
	for _, c := range []struct{ file, from, to, want string }{
		{plansName, `"inherits_from": "3d_fullres"`, `"inherits_from": "3d_fullres", "previous_stage": "3d_lowres"`,
			"second stage of a cascade after 3d_lowres"},
		{plansName, "\n    8,\n", "\n", "a patch of 2 axes, a spacing of 3"},
		{plansName, "Conv3d", "Conv2d", "its norm is \"torch.nn.modules.instancenorm.InstanceNorm3d\""},
		{plansName, `"inherits_from": "3d_fullres"`, `"inherits_from": "3d_small"`, "inherits from itself"},
		{plansName, `"inherits_from": "3d_fullres"`, `"inherits_from": "3d_lowres"`,
			`no configuration "3d_lowres", only 3d_fullres, 3d_small`},
		{plansName, "CTNormalization", "MyNormalization",
			"channel 0 is normalised by MyNormalization, which is not known"},
		{plansName, "resample_data_or_seg_to_shape", "resample_torch_fornnunet",
			"it resamples by resample_torch_fornnunet"},
		// by its name, not by arguments of its own
		{plansName, "resample_data_or_seg_to_shape\",\n   \"resampling_fn_data_kwargs\": {",
			"resample_torch_fornnunet\",\n   \"resampling_fn_data_kwargs\": {\"memefficient\": 1,",
			"it resamples by resample_torch_fornnunet"},
		{plansName, "ResidualEncoderUNet", "Primus",
			"its network dynamic_network_architectures.architectures.unet.Primus is not known"},
		{plansName, "InstanceNorm3d", "BatchNorm3d", "BatchNorm3d"},
		{plansName, `"n_stages": 3`, `"n_stages": 4`, "3 values for 4 stages"},
		{plansName, "SimpleITKIO", "SimpleITKIOWithReorient", "reads images by SimpleITKIOWithReorient"},
		{plansName, "SimpleITKIO", "MyReader", "reads images by MyReader: only SimpleITKIO, "},
		{plansName, `"image_reader_writer"`, `"label_manager": "MyHeads", "image_reader_writer"`,
			"its label_manager MyHeads is not known, only LabelManager"},
		{plansName, `"is_seg": false`, `"is_seg": true`, "how images are resampled, or as labels"},
		{plansName, `"order_z": 0`, `"order_z": 0, "mode": "wrap"`, `resampling: what "mode" does is not known here`},
		{plansName, `"resampling_fn_probabilities_kwargs"`, `"other"`, "want resampling_fn_probabilities_kwargs"},

		{plansName, "DefaultPreprocessor", "CellPreprocessor", "CellPreprocessor"},
		{datasetName, `"lesion": 2`, `"lesion": 3`, "lesion is 3, where 2 is expected"},
		{datasetName, `"0": "CT"`, `"0": "CT", "1": "PET"`, "it has 2 channels, and the plans 1"},
		{datasetName, `"lesion": 2`, `"lesion": 2, "more": 3`,
			"decoder.seg_layers.1.weight has the shape 3x3x1x1x1, where the plans ask for 4x3x1x1x1"},
	} {
		folder := copied(t, golden)
		path := filepath.Join(folder, c.file)
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.ReplaceAll(string(text), c.from, c.to)
		if changed == string(text) {
			t.Fatalf("%s has no %q", c.file, c.from)
		}
		if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := predictedBy(t, folder, Options{}, scan); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", c.to, err, c.want)
		}
	}
	if _, err := predictedBy(t, golden, Options{}, scan, scan); err == nil ||
		!strings.Contains(err.Error(), "wants 1 channel (CT), there are 2") {
		t.Error(err)
	}
	if _, err := Open(golden, []string{"3"}); err == nil ||
		!strings.Contains(err.Error(), "has no fold 3, only 0, 1") {
		t.Error(err)
	}
	if _, err := Open(t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "has no folder fold_0") {
		t.Error(err)
	}
}

// Arguments of resampling that plans leave out are those of nnU-Net's function.
func TestResamplingDefaults(t *testing.T) {
	for text, want := range map[string]resampling{
		`{}`: {Order: 3, Separate: new(bool), Threshold: 3},
		`{"is_seg": false, "order": 1, "order_z": 1, "force_separate_z": null}`: {Order: 1, OrderZ: 1, Threshold: 3},
		`{"separate_z_anisotropy_threshold": 1.5, "force_separate_z": null}`:    {Order: 3, Threshold: 1.5},
	} {
		var got resampling
		if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	spacing, other := [3]float64{5, 2, 2}, [3]float64{2, 2, 2}
	for threshold, want := range map[float64]int{2.4: 0, 2.5: -1} {
		if _, axis := (resampling{Threshold: threshold}).orders(spacing, other); axis != want {
			t.Errorf("threshold %v: axis %d, want %d", threshold, axis, want)
		}
	}
}

// A fold that still trains does not vote beside those that have ended, unless it is named; where
// none has, all do.
func TestUnfinishedFold(t *testing.T) {
	folder := copied(t, filepath.Join("..", "..", "testdata", "nnunet", "thick"))
	open := func(folds ...string) (string, error) {
		m, err := Open(folder, folds)
		if err != nil {
			return "", err
		}
		dev, err := cpu.New(cpu.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer dev.Close()
		p, err := NewPredictor(dev, m, Options{})
		if err != nil {
			return "", err
		}
		defer p.Close()
		return strings.Join(p.Notes(), "\n"), nil
	}
	early := func(fold string) {
		at := filepath.Join(folder, fold)
		if err := os.Rename(filepath.Join(at, checkpointNames[0]), filepath.Join(at, checkpointNames[1])); err != nil {
			t.Fatal(err)
		}
	}
	early("fold_1")
	_, err := open()
	advised := interface{ Advice() string }(nil)
	if err == nil || !strings.Contains(err.Error(), "the training of fold 1 has not ended") ||
		!errors.As(err, &advised) || !strings.HasPrefix(advised.Advice(), "--folds 0 leaves it out") {
		t.Error(err)
	}
	const note = "fold 1: checkpoint_best.pth is taken"
	if notes, err := open("0", "1"); err != nil || !strings.Contains(notes, note) {
		t.Errorf("%v, %s", err, notes)
	}
	if notes, err := open("0"); err != nil || strings.Contains(notes, note) {
		t.Errorf("%v, %s", err, notes)
	}
	early("fold_0")
	if notes, err := open(); err != nil || !strings.Contains(notes, note) {
		t.Errorf("%v, %s", err, notes)
	}
}

// A trainer of somebody's own may make another network than the plans say. Where that has further
// weights, or is a Primus, it is refused, and else the trainer is named.
func TestTrainers(t *testing.T) {
	golden := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	p, m := predictor(t, golden)
	open := func(trainer string, more ...string) (notes string, err error) {
		path := filepath.Join(copied(t, golden), "fold_0", checkpointNames[0])
		weights := tensors(p.params, func(string) bool { return true })
		for _, name := range more {
			weights = append(weights, pytorch.Item{Key: name, Value: &pytorch.Numbers{Shape: []int{1},
				Values: func() ([]float32, error) { return []float32{1}, nil }}})
		}
		if err := save(path, pytorch.Dictionary{{Key: "network_weights", Value: weights},
			{Key: "trainer_name", Value: trainer},
			{Key: "init_args", Value: pytorch.Dictionary{{Key: "configuration", Value: m.Configuration}}},
		}); err != nil {
			t.Fatal(err)
		}
		m, err := Open(path, nil)
		if err != nil {
			return "", err
		}
		p, err := NewPredictor(p.dev, m, Options{})
		if err != nil {
			return "", err
		}
		defer p.Close()
		return strings.Join(p.Notes(), "\n"), nil
	}
	for _, trainer := range []string{"nnUNetTrainer", "nnUNetTrainer_DASegOrd0_NoMirroring",
		"nnUNetTrainer_4000epochs_NoMirroring", "nnUNetTrainer_onlyMirror01_1500ep", "nnUNetTrainerDA5Segord0",
		"nnUNetTrainerDiceCELoss_noSmooth", "nnUNetTrainerTopk10LossLS01", "nnUNetTrainerVanillaAdam3en4",
		"nnUNetTrainer_probabilisticOversampling_033", "nnUNetTrainer_MOSAIC_1k_QuarterLR_NoMirroring",
		"nnUNetTrainerBenchmark_5epochs_noDataLoading", "nnUNet_Trainer_BS8",
		"PretrainedTrainer_adam_150ep_nomirroring", "nnUNetTrainerAdanCosAnneal"} {
		notes, err := open(trainer, "decoder.seg_layers.9.bias")
		if err != nil || strings.Contains(notes, "WARNING") {
			t.Errorf("%s: %v, %s", trainer, err, notes)
		}
	}
	if notes, err := open("nnUNetTrainerMish"); err != nil ||
		!strings.Contains(notes, "WARNING: trainer nnUNetTrainerMish is none of nnU-Net's own") {
		t.Errorf("%v, %s", err, notes)
	}
	if _, err := open("nnUNetTrainerSE", "encoder.stem.squeeze.weight"); err == nil || !strings.Contains(err.Error(),
		"trainer nnUNetTrainerSE made another network than plans.json says: it has the weights "+
			"encoder.stem.squeeze.weight, too") {
		t.Error(err)
	}
	if _, err := open("nnUNet_Primus_M_Trainer"); err == nil ||
		!strings.Contains(err.Error(), "its network is a Primus, by trainer nnUNet_Primus_M_Trainer") {
		t.Error(err)
	}
}

// A file is one fold: others are asked of the folder.
func TestNoFoldsOfAFile(t *testing.T) {
	thick := filepath.Join("..", "..", "testdata", "nnunet", "thick")
	file := filepath.Join(thick, "fold_0", checkpointNames[0])
	if _, err := Open(file, []string{"0"}); err == nil || !strings.Contains(err.Error(), "leave --folds out") {
		t.Errorf("folds of a file: %v", err)
	}
	for _, path := range []string{file, thick} {
		if _, err := Open(path, nil); err != nil {
			t.Error(err)
		}
	}
}
