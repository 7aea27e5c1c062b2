package unet

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// This file: a network as nnU-Net's plans.json has it since version 2.4, the section
// "architecture".

// architecture is that section.
type architecture struct {
	Class   string    `json:"network_class_name"`
	Args    arguments `json:"arch_kwargs"`
	Imports []string  `json:"_kw_requires_import"`
}

type arguments struct {
	Stages       int             `json:"n_stages"`
	Features     json.RawMessage `json:"features_per_stage"`
	Conv         string          `json:"conv_op"`
	Kernels      json.RawMessage `json:"kernel_sizes"`
	Strides      json.RawMessage `json:"strides"`
	Blocks       json.RawMessage `json:"n_blocks_per_stage,omitempty"`
	Convs        json.RawMessage `json:"n_conv_per_stage,omitempty"`
	DecoderConvs json.RawMessage `json:"n_conv_per_stage_decoder"`
	Bias         bool            `json:"conv_bias"`
	Norm         string          `json:"norm_op"`
	NormArgs     struct {
		Epsilon *float64 `json:"eps,omitempty"`
		Affine  *bool    `json:"affine,omitempty"`
	} `json:"norm_op_kwargs"`
	Dropout     *string         `json:"dropout_op"`
	DropoutArgs json.RawMessage `json:"dropout_op_kwargs"`
	Act         string          `json:"nonlin"`
	ActArgs     struct {
		InPlace bool     `json:"inplace"`
		Slope   *float64 `json:"negative_slope,omitempty"`
	} `json:"nonlin_kwargs"`
}

// nnU-Net's networks lie in this package, which finds them wherever they are in it.
const (
	library = "dynamic_network_architectures."
	classes = library + "architectures.unet."
)

// Architecture is the section of the network: [Parse] reads it, and so does nnU-Net. Inputs and
// classes are not in it.
func (s Settings) Architecture() []byte {
	list := func(values any) json.RawMessage {
		text, err := json.Marshal(values)
		if err != nil {
			panic(err) // whole numbers
		}
		return text
	}
	yes, first := true, 0
	if s.Flat {
		first = 1
	}
	axes := func(values [][3]int) json.RawMessage {
		var all [][]int
		for _, v := range values {
			all = append(all, slices.Clone(v[first:]))
		}
		return list(all)
	}
	a := arguments{
		Stages: len(s.Features), Features: list(s.Features), Kernels: axes(s.Kernels), Strides: axes(s.Strides),
		DecoderConvs: list(s.DecoderConvs), Bias: s.Bias,
		Conv: fmt.Sprintf("torch.nn.modules.conv.Conv%dd", 3-first),
		Norm: fmt.Sprintf("torch.nn.modules.instancenorm.InstanceNorm%dd", 3-first),
		Act:  "torch.nn.LeakyReLU",
	}
	a.NormArgs.Epsilon, a.NormArgs.Affine = &s.Epsilon, &yes
	a.ActArgs.InPlace = true
	if s.Slope != defaultSlope {
		a.ActArgs.Slope = &s.Slope
	}
	class := "PlainConvUNet"
	if a.Convs = list(s.Blocks); s.Residual {
		class, a.Convs, a.Blocks = "ResidualEncoderUNet", nil, a.Convs
	}
	return list(architecture{classes + class, a, []string{"conv_op", "norm_op", "dropout_op", "nonlin"}})
}

// What plans leave out.
const (
	defaultEpsilon = 1e-5
	defaultSlope   = 0.01
)

// Parse reads the section, or says what of it is not known.
func Parse(text []byte) (s Settings, err error) {
	var file struct {
		Class string                     `json:"network_class_name"`
		Args  map[string]json.RawMessage `json:"arch_kwargs"`
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return s, fmt.Errorf("architecture: %w", err)
	}
	// What is left out is false or None, and predictions are without deep supervision anyway.
	maps.DeleteFunc(file.Args, func(name string, value json.RawMessage) bool {
		return string(value) == "false" || string(value) == "null" || name == "deep_supervision"
	})
	args, err := json.Marshal(file.Args)
	if err != nil {
		return s, err
	}
	var a arguments
	if err := Strictly(args, &a); err != nil {
		return s, fmt.Errorf("arch_kwargs: %w", err)
	}
	s.Epsilon, s.Slope = defaultEpsilon, defaultSlope
	inside, known := strings.CutPrefix(file.Class, library)
	switch class := inside[strings.LastIndex(inside, ".")+1:]; {
	case known && class == "PlainConvUNet":
	case known && class == "ResidualEncoderUNet":
		s.Residual = true
	default:
		return s, fmt.Errorf("its network %s is not known, only PlainConvUNet and ResidualEncoderUNet of %s*",
			file.Class, library)
	}
	s.Flat = ofTorch(a.Conv, "Conv2d")
	norm := "InstanceNorm3d"
	if s.Flat {
		norm = "InstanceNorm2d"
	}
	switch {
	case !s.Flat && !ofTorch(a.Conv, "Conv3d"):
		return s, fmt.Errorf("its convolutions are %s, not Conv3d or Conv2d", a.Conv)
	case !ofTorch(a.Norm, norm):
		return s, fmt.Errorf("its norm is %q: only %s is known", a.Norm, norm)
	case a.Dropout != nil:
		return s, fmt.Errorf("it has dropout (%s)", *a.Dropout)
	case !ofTorch(a.Act, "LeakyReLU"):
		return s, fmt.Errorf("its activation (nonlin) is %q: only PyTorch's LeakyReLU is known", a.Act)
	case a.NormArgs.Affine == nil || !*a.NormArgs.Affine: // as PyTorch has it
		return s, fmt.Errorf("its norms have no weights")
	case a.Stages < 2 || a.Stages > 16:
		return s, fmt.Errorf("it has %d stages", a.Stages)
	}
	s.Bias = a.Bias
	if a.NormArgs.Epsilon != nil {
		s.Epsilon = *a.NormArgs.Epsilon
	}
	if a.ActArgs.Slope != nil {
		s.Slope = *a.ActArgs.Slope
	}
	blocks := a.Convs
	if s.Residual {
		blocks = a.Blocks
	}
	n := a.Stages
	if s.Features, err = each[int](a.Features, n); err != nil {
		return s, fmt.Errorf("features_per_stage: %w", err)
	}
	if s.Blocks, err = each[int](blocks, n); err != nil {
		return s, fmt.Errorf("blocks of its stages: %w", err)
	}
	if s.DecoderConvs, err = each[int](a.DecoderConvs, n-1); err != nil {
		return s, fmt.Errorf("n_conv_per_stage_decoder: %w", err)
	}
	if s.Kernels, err = eachAxis(a.Kernels, n, s.Flat); err != nil {
		return s, fmt.Errorf("kernel_sizes: %w", err)
	}
	if s.Strides, err = eachAxis(a.Strides, n, s.Flat); err != nil {
		return s, fmt.Errorf("strides: %w", err)
	}
	return s, nil
}

// ofTorch says whether a class is PyTorch's own of a name.
func ofTorch(class, name string) bool {
	return strings.HasPrefix(class, "torch.nn.") && strings.HasSuffix(class, "."+name)
}

// Strictly reads an object of JSON. A key that is not known is an error: it would change what is
// computed.
func Strictly(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err != nil {
		if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
			return fmt.Errorf("what %s does is not known here", name)
		}
	}
	return err
}

// each reads a value for each stage: a list, or one number for all.
func each[T any](text json.RawMessage, n int) ([]T, error) {
	var list []T
	if err := json.Unmarshal(text, &list); err == nil {
		if len(list) != n {
			return nil, fmt.Errorf("%d values for %d stages", len(list), n)
		}
		return list, nil
	}
	var all T
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	return slices.Repeat([]T{all}, n), nil
}

// eachAxis reads a value for each stage and axis: lists of three, or of two where the network is
// flat, or a number for all axes.
func eachAxis(text json.RawMessage, n int, flat bool) ([][3]int, error) {
	raw, err := each[json.RawMessage](text, n)
	if err != nil {
		return nil, err
	}
	axes := 3
	if flat {
		axes = 2
	}
	values := make([][]int, n)
	for stage, r := range raw {
		if values[stage], err = each[int](r, axes); err != nil {
			return nil, err
		}
	}
	return Axes(values, flat)
}

// Axes are values of each stage along (D, H, W), which plans of a flat network have along (H, W)
// alone: 1 along D.
func Axes(values [][]int, flat bool) ([][3]int, error) {
	all := make([][3]int, len(values))
	for stage, v := range values {
		if flat {
			v = append([]int{1}, v...)
		}
		if len(v) != 3 {
			return nil, fmt.Errorf("stage %d has the values %s", stage, numbers.List(values[stage]))
		}
		all[stage] = [3]int(v)
	}
	return all, nil
}
