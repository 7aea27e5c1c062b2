package nnplan

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/planning"
)

// This file: plans.json, in the words of nnU-Net 2.8.1.

// Plans is plans.json for an encoder and a memory target in GB, 0 for what its planner plans for by
// itself, and the plan that it says.
func (f *Fingerprint) Plans(e planning.Encoder, gigabytes float64) ([]byte, *planning.NNUNet, error) {
	p, err := planning.NNUNetPlan(f.Spacings, f.Shapes, f.Training, f.Labels, e, gigabytes)
	if err != nil {
		return nil, nil, err
	}
	var backward [3]int
	for a, from := range p.Forward {
		backward[from] = a
	}
	w := writer{f, p, e}
	stats := map[string]planning.Intensities{}
	for n, c := range f.Channels {
		stats[strconv.Itoa(n)] = c.Intensities
	}
	configurations := map[string]any{"2d": w.configuration("2d", p.Flat, true)}
	if p.Full.Median[0] != 1 { // otherwise the set is flat
		full := w.configuration("3d_fullres", p.Full, p.Low != nil)
		configurations["3d_fullres"] = full
		if p.Low != nil {
			low := w.configuration("3d_lowres", *p.Low, false)
			low["next_stage"] = "3d_cascade_fullres"
			configurations["3d_lowres"] = low
			configurations["3d_cascade_fullres"] = map[string]any{"inherits_from": "3d_fullres",
				"previous_stage": "3d_lowres"}
		}
	}
	spacing, shape := w.medians()
	text, err := json.MarshalIndent(map[string]any{
		"dataset_name": f.Name, "plans_name": e.PlansName, "image_reader_writer": f.FileReads,
		"original_median_spacing_after_transp": spacing, "original_median_shape_after_transp": shape,
		"transpose_forward": p.Forward, "transpose_backward": backward, "configurations": configurations,
		"experiment_planner_used": e.Planner, "label_manager": "LabelManager",
		"foreground_intensity_properties_per_channel": stats,
	}, "", "    ")
	return append(text, '\n'), p, err
}

type writer struct {
	of   *Fingerprint
	plan *planning.NNUNet
	e    planning.Encoder
}

// medians are those of the scans as they are, axes transposed.
func (w writer) medians() (spacing [3]float64, shape [3]int) {
	for a, from := range w.plan.Forward {
		var s, n []float64
		for k := range w.of.Spacings {
			s, n = append(s, w.of.Spacings[k][2-from]), append(n, float64(w.of.Shapes[k][2-from]))
		}
		spacing[a], shape[a] = median(s), int(math.RoundToEven(median(n)))
	}
	return spacing, shape
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// configuration is one of the plan's.
func (w writer) configuration(name string, c planning.Configuration, batchDice bool) map[string]any {
	first, dims := 0, "3d" // axes from the first on
	if math.IsInf(c.Spacing[0], 1) {
		first, dims = 1, "2d"
	}
	var size any = c.Median[first:]
	if name == "3d_lowres" { // whole numbers there
		size = []int{int(c.Median[0]), int(c.Median[1]), int(c.Median[2])}
	}
	from := w.e.PlansName
	if w.e.Residual() && name != "3d_lowres" { // it shares the data of the default plans
		from = planning.Plain.PlansName
	}
	schemes, masked := w.schemes()
	resampling := func(labels bool, order int) map[string]any {
		return map[string]any{"is_seg": labels, "order": order, "order_z": 0, "force_separate_z": nil}
	}
	const by = "resample_data_or_seg_to_shape"
	blocks := "n_conv_per_stage"
	if w.e.Residual() {
		blocks = "n_blocks_per_stage"
	}
	conv, norm := "torch.nn.modules.conv.Conv"+dims, "torch.nn.modules.instancenorm.InstanceNorm"+dims
	return map[string]any{
		"data_identifier": from + "_" + name, "preprocessor_name": "DefaultPreprocessor", "batch_size": c.Batch,
		"patch_size": c.Patch[first:], "median_image_size_in_voxels": size, "spacing": c.Spacing[first:],
		"normalization_schemes": schemes, "use_mask_for_norm": masked,
		"resampling_fn_data": by, "resampling_fn_data_kwargs": resampling(false, 3),
		"resampling_fn_seg": by, "resampling_fn_seg_kwargs": resampling(true, 1),
		"resampling_fn_probabilities": by, "resampling_fn_probabilities_kwargs": resampling(false, 1),
		"architecture": map[string]any{
			"network_class_name": w.e.Class,
			"arch_kwargs": map[string]any{
				"n_stages": len(c.Strides), "features_per_stage": c.Features, "conv_op": conv,
				"kernel_sizes": from2D(c.Kernels, first), "strides": from2D(c.Strides, first),
				blocks: c.Blocks, "n_conv_per_stage_decoder": c.Decoder, "conv_bias": true,
				"norm_op": norm, "norm_op_kwargs": map[string]any{"eps": 1e-5, "affine": true},
				"dropout_op": nil, "dropout_op_kwargs": nil, "nonlin": "torch.nn.LeakyReLU",
				"nonlin_kwargs": map[string]any{"inplace": true},
			},
			"_kw_requires_import": []string{"conv_op", "norm_op", "dropout_op", "nonlin"},
		},
		"batch_dice": batchDice,
	}
}

func from2D(all [][3]int, first int) (axes [][]int) {
	for _, one := range all {
		axes = append(axes, slices.Clone(one[first:]))
	}
	return axes
}

// schemes are how channels are normalised, by their names as nnU-Net goes by them.
func (w writer) schemes() (schemes []string, masked []bool) {
	known := map[string]string{"ct": "CTNormalization", "nonorm": "NoNormalization",
		"rescale_to_0_1": "RescaleTo01Normalization", "rgb_to_0_1": "RGBTo01Normalization"}
	for _, c := range w.of.Channels {
		scheme, there := known[strings.ToLower(c.Name)]
		if !there {
			scheme = "ZScoreNormalization"
		}
		schemes = append(schemes, scheme)
		masked = append(masked, scheme == "ZScoreNormalization" && w.of.Relative < planning.SmallBoxes)
	}
	return schemes, masked
}
