package nnunet

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pytorch"
	"github.com/voxsaw/voxsaw/internal/unet"
	"github.com/voxsaw/voxsaw/volume"
)

// This file: networks of this program in the files of nnU-Net. What is written is held against
// nnU-Net itself by scripts/nnunet-check.py.

// Parameters are those of nnU-Net's network of these settings, all with nnU-Net's first values,
// which the seed draws.
func Parameters(dev device.Device, s unet.Settings, seed uint64) (*nn.Params, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	g := nn.NewGraph(nn.Train, dev.Activations())
	s.Declare(g)
	p := nn.NewParams(dev, seed)
	return p, p.Declare(g)
}

// IsHead says whether a parameter is of a layer that makes classes.
func IsHead(name string) bool { return strings.HasPrefix(name, "decoder.seg_layers.") }

// PlanLike is the plan by which nnU-Net prepares scans as they were prepared for a network, which
// sees crops along (i, j, k). It lists what nnU-Net would do in another way; what cannot be said in
// a plan at all is an error.
func PlanLike(how volume.Preparation, crop [3]int, network unet.Settings) (p *Plan, others []string, err error) {
	if err := how.Check(); err != nil {
		return nil, nil, err
	}
	p = &Plan{Name: "nnUNetPlans", Configuration: defaultConfiguration, Network: network,
		data: resamplingOf(3), probabilities: resamplingOf(1)}
	if how.Interpolation == "linear" {
		p.data.Order = 1
	}
	p.Turned = !strings.Contains(p.axes(), how.Axcodes[:1])
	for a := range 3 {
		at := strings.IndexByte(p.axes(), how.Axcodes[a])
		if at < 0 {
			return nil, nil, fmt.Errorf(
				"its scans were turned to the axes %s: nnU-Net keeps the file's axes, as "+
					"--axcodes ijk does, or turns them to RAS",
				how.Axcodes)
		}
		if how.Spacing[a] <= 0 {
			return nil, nil, fmt.Errorf(
				"its scans kept their own voxels, of which nnU-Net makes one size: " +
					"prepare with --spacing, such as 1.5x1.5x3")
		}
		p.Forward[2-a], p.Spacing[2-a], p.Patch[2-a] = at, how.Spacing[a], crop[a]
	}
	nonzero := how.Crop == volume.CropNonzero || how.Crop == volume.CropBody && how.ModalityName() != volume.ModalityCT
	for n, name := range how.ChannelNames() {
		c, other, err := channelLike(how.Channel(n), nonzero)
		if err != nil {
			return nil, nil, fmt.Errorf("channel %d %s: %w", n, name, err)
		}
		p.Channels = append(p.Channels, c)
		if other != "" && !slices.Contains(others, other) {
			others = append(others, other)
		}
	}
	if how.WithMasks().Masks != how.Masks {
		others = append(others, "nnU-Net takes mean and standard deviation of what is not 0 in any channel, and the "+
			"network learnt from those of what is not 0 in each: tissue has "+
			"another brightness; prepare the scans again and train on them for a network that agrees")
	}
	return p, others, nil
}

// channelLike is how nnU-Net normalises a channel, and what it does in another way. nonzero says
// that scans are cut to the box of what is not 0, as nnU-Net does.
func channelLike(how volume.Preparation, nonzero bool) (c channel, other string, err error) {
	cut := how.Crop == volume.CropBody || how.Crop == volume.CropAuto
	switch scheme := how.Scheme(); scheme {
	case volume.CTWindow:
		low, high := how.Window[0], how.Window[1]
		c = channel{scheme: schemeCT,
			intensities: intensities{Mean: (low + high) / 2, SD: (high - low) / 2, Low: low, High: high}}
	case volume.CTPercentiles:
		f := how.Foreground
		c = channel{scheme: schemeCT, intensities: intensities{Low: f[0], High: f[1], Mean: f[2], SD: f[3]}}
	case volume.ZScore, volume.ZScoreNonzero:
		c = channel{scheme: schemeZScore, masked: scheme == volume.ZScoreNonzero}
		if !nonzero {
			other = "nnU-Net measures mean and standard deviation in the box of what is not 0, " +
				"and the network learnt from those of whole scans: where a scan has a margin of " +
				"zeros, its tissue has another brightness"
		}
		return c, other, nil
	default:
		return c, "", fmt.Errorf("its scans were prepared by intensity %s, which nnU-Net does not have: it has %s",
			scheme,
			strings.Join([]string{volume.CTWindow, volume.CTPercentiles, volume.ZScore, volume.ZScoreNonzero}, ", "))
	}
	if how.ModalityName() != volume.ModalityCT {
		cut = false // to the box of what is not 0, as nnU-Net does
	}
	if cut {
		other = "the network learnt from the patient's box, and nnU-Net looks at all of a scan: where " +
			"voxsaw predict finds background because it lies outside of the box, nnU-Net may find " +
			"something, and its windows lie elsewhere"
	}
	return c, other, nil
}

// plansText is plans.json, as far as predictions need it.
func (p *Plan) plansText() ([]byte, error) {
	var schemes []string
	var masked []bool
	stats := map[string]intensities{}
	for n, c := range p.Channels {
		schemes, masked = append(schemes, c.scheme), append(masked, c.masked)
		if c.scheme == schemeCT {
			stats[strconv.Itoa(n)] = c.intensities
		}
	}
	var backward [3]int
	for a, from := range p.Forward {
		backward[from] = a
	}
	how := func(r resampling, labels bool) map[string]any { // of nnU-Net's own threshold
		return map[string]any{"is_seg": labels, "order": r.Order, "order_z": r.OrderZ, "force_separate_z": r.Separate}
	}
	reader := usualReader
	if p.Turned {
		reader = turningReader
	}
	return json.MarshalIndent(map[string]any{
		"dataset_name": p.Dataset, "plans_name": p.Name, "image_reader_writer": reader,
		"transpose_forward": p.Forward, "transpose_backward": backward, "label_manager": defaultHeads,
		"foreground_intensity_properties_per_channel": stats,
		"configurations": map[string]any{p.Configuration: map[string]any{
			"data_identifier": p.Name + "_" + p.Configuration, "preprocessor_name": defaultPreprocessor,
			"patch_size": p.Patch, "spacing": p.Spacing, "normalization_schemes": schemes, "use_mask_for_norm": masked,
			"resampling_fn_data": defaultResampling, "resampling_fn_data_kwargs": how(p.data, false),
			"resampling_fn_seg": defaultResampling, "resampling_fn_seg_kwargs": how(p.probabilities, true),
			"resampling_fn_probabilities":        defaultResampling,
			"resampling_fn_probabilities_kwargs": how(p.probabilities, false),
			"architecture":                       json.RawMessage(p.Network.Architecture()),
		}},
	}, "", "    ")
}

// datasetText is dataset.json: names of labels from 1 on, and of channels.
func datasetText(labels, channels []string, cases int) ([]byte, error) {
	numbers := map[string]int{"background": 0}
	for n, name := range labels {
		if _, taken := numbers[name]; taken || name == "" || name == ignored {
			name = fmt.Sprintf("label_%d", n+1)
		}
		numbers[name] = n + 1
	}
	names := map[string]string{}
	for n, name := range channels {
		names[strconv.Itoa(n)] = name
	}
	return json.MarshalIndent(map[string]any{
		"channel_names": names, "labels": numbers, "numTraining": cases, "file_ending": ".nii.gz",
	}, "", "    ")
}

// A Results is a folder of nnUNet_results to write.
type Results struct {
	*Plan
	Params   *nn.Params // of [Parameters]
	Labels   []string   // of the classes behind the background
	Channels []string
	Cases    int // that were trained on
	Fold     int // as which it is written
}

// Files are the files and folders that [Results.Write] makes.
func (r Results) Files() []string { return []string{datasetName, plansName, r.fold()} }

func (r Results) fold() string { return fmt.Sprintf("fold_%d", r.Fold) }

// Write makes the files of a model in a folder, plans.json last: without it there is no model. To a
// model that is there it adds the fold, which must have the plans and labels of the others. A
// folder that is called TRAINER__PLANS__CONFIGURATION says what the plans and the configuration are
// called, and the one that it lies in the data set.
func (r Results) Write(folder string) error {
	plan := *r.Plan
	folder, err := filepath.Abs(folder)
	if err != nil {
		return err
	}
	plan.Dataset = filepath.Base(filepath.Dir(folder))
	if parts := strings.Split(filepath.Base(folder), "__"); len(parts) == 3 {
		plan.Name, plan.Configuration = cmp.Or(parts[1], plan.Name), cmp.Or(parts[2], plan.Configuration)
	}
	plans, err := plan.plansText()
	if err != nil {
		return err
	}
	dataset, err := datasetText(r.Labels, r.Channels, r.Cases)
	if err != nil {
		return err
	}
	there, err := r.beside(folder, plans, dataset)
	if err != nil {
		return err
	}
	fold := filepath.Join(folder, r.fold())
	if err := atomicfile.MakeFolder(fold); err != nil {
		return err
	}
	err = save(filepath.Join(fold, checkpointNames[0]), pytorch.Dictionary{
		{Key: "network_weights", Value: tensors(r.Params, func(string) bool { return true })},
		{Key: "trainer_name", Value: "nnUNetTrainer"},
		{Key: "init_args", Value: pytorch.Dictionary{{Key: "configuration", Value: plan.Configuration},
			{Key: "fold", Value: r.Fold}}},
		{Key: "inference_allowed_mirroring_axes", Value: nil},
	})
	if err != nil || there {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(folder, datasetName), dataset); err != nil {
		return err
	}
	return atomicfile.WriteBytes(filepath.Join(folder, plansName), plans)
}

// beside says whether a model is there to which the fold can be added.
func (r Results) beside(folder string, plans, dataset []byte) (there bool, err error) {
	switch _, err := os.Stat(filepath.Join(folder, plansName)); {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil
	case err != nil:
		return false, err
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{plansName, plans}, {datasetName, dataset}} {
		path := filepath.Join(folder, f.name)
		var was, is map[string]any
		if err := errors.Join(readJSON(path, &was), json.Unmarshal(f.text, &is)); err != nil {
			return true, err
		}
		delete(was, "numTraining") // which may differ by a case
		delete(is, "numTraining")
		if !reflect.DeepEqual(was, is) {
			return true, hint.Addf(fmt.Errorf("%s is of another network, preparation or labels than fold %d, which it "+
				"would be read for, too", path, r.Fold), "choose another folder")
		}
	}
	path := filepath.Join(folder, r.fold(), checkpointNames[0])
	if _, err := os.Stat(path); err == nil {
		return true, hint.Addf(fmt.Errorf("%s is there already, and would be written over", path),
			"--fold N writes another network of the same cross-validation beside it; else choose another folder, "+
				"or remove this one")
	}
	return true, nil
}

// A Pretrained is weights to start nnU-Net's training from.
type Pretrained struct {
	Network unet.Settings
	Params  *nn.Params // of [Parameters]
	Spacing [3]float64 // of the scans, along (i, j, k), mm; 0: each its own
	Crop    [3]int     // of the scans, along (i, j, k)
}

// Write makes the file. nnUNetv2_train -pretrained_weights takes it, which wants all parameters but
// heads by all their names, and nnUNetv2_train_pretrained, which wants to know what they are.
func (p Pretrained) Write(path string) error {
	var arch struct {
		Class   string         `json:"network_class_name"`
		Args    map[string]any `json:"arch_kwargs"`
		Imports []any          `json:"_kw_requires_import"`
	}
	if err := json.Unmarshal(p.Network.Architecture(), &arch); err != nil {
		return err
	}
	stem, first := "encoder.stages.0", "encoder.stages.0.0.convs.0"
	if p.Network.Residual {
		stem, first = "encoder.stem", "encoder.stem.convs.0"
	}
	var spacing, patch []any
	for a := range 3 {
		spacing, patch = append(spacing, p.Spacing[2-a]), append(patch, p.Crop[2-a])
	}
	learnt := pytorch.Dictionary{{Key: "spacing", Value: spacing}, {Key: "patch_size", Value: patch}}
	if slices.Contains(p.Spacing[:], 0) {
		learnt[0].Value = nil
	}
	return save(path, pytorch.Dictionary{
		{Key: "network_weights", Value: tensors(p.Params, func(name string) bool { return !IsHead(name) })},
		{Key: "nnssl_adaptation_plan", Value: pytorch.Dictionary{
			{Key: "architecture_plans", Value: pytorch.Dictionary{
				{Key: "arch_class_name", Value: arch.Class[strings.LastIndex(arch.Class, ".")+1:]},
				{Key: "arch_kwargs", Value: whole(arch.Args)},
				{Key: "arch_kwargs_requiring_import", Value: arch.Imports},
			}},
			{Key: "pretrain_plan", Value: pytorch.Dictionary{{Key: "configurations",
				Value: pytorch.Dictionary{{Key: "voxsaw", Value: learnt}}}}},
			{Key: "pretrain_num_input_channels", Value: p.Network.In},
			{Key: "recommended_downstream_patchsize", Value: patch},
			{Key: "key_to_encoder", Value: "encoder.stages"},
			{Key: "key_to_stem", Value: stem},
			{Key: "keys_to_in_proj", Value: []any{first + ".conv", first + ".all_modules.0"}},
			{Key: "key_to_lpe", Value: nil},
		}},
	})
}

// whole turns what was read of JSON into what is written to PyTorch's files: numbers that are whole
// are whole there, too, and keys are in order.
func whole(value any) any {
	switch v := value.(type) {
	case float64:
		if n := int(v); float64(n) == v {
			return n
		}
	case []any:
		list := make([]any, len(v))
		for n := range v {
			list[n] = whole(v[n])
		}
		return list
	case map[string]any:
		var d pytorch.Dictionary
		for key, inner := range v {
			d = append(d, pytorch.Item{Key: key, Value: whole(inner)})
		}
		slices.SortFunc(d, func(a, b pytorch.Item) int { return cmp.Compare(a.Key, b.Key) })
		return d
	}
	return value
}

// tensors are the parameters that are wanted, by all their names.
func tensors(params *nn.Params, wanted func(name string) bool) pytorch.Dictionary {
	var d pytorch.Dictionary
	for _, name := range params.Names() {
		if !wanted(name) {
			continue
		}
		values := &pytorch.Numbers{Shape: params.Shape(name),
			Values: func() ([]float32, error) { return params.Read(name) }}
		for _, alias := range unet.Names(name) {
			d = append(d, pytorch.Item{Key: alias, Value: values})
		}
	}
	return d
}

func save(path string, value pytorch.Dictionary) error {
	return atomicfile.Write(path, func(w io.Writer) error { return pytorch.Save(w, value) })
}
