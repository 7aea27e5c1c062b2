package nnunet

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/unet"
	"github.com/voxsaw/voxsaw/volume"
)

// plansFile is what is read of plans.json, which nnU-Net writes when it plans.
type plansFile struct {
	DatasetName    string                                `json:"dataset_name"`
	PlansName      string                                `json:"plans_name"`
	Forward        []int                                 `json:"transpose_forward"`
	Reader         string                                `json:"image_reader_writer"`
	Heads          string                                `json:"label_manager"`
	Configurations map[string]map[string]json.RawMessage `json:"configurations"`
	Intensities    map[string]intensities                `json:"foreground_intensity_properties_per_channel"`
	OldIntensities map[string]intensities                `json:"foreground_intensity_properties_by_modality"`
}

// intensities are statistics of the foreground's voxels, over all training cases.
type intensities struct {
	Mean float64 `json:"mean"`
	SD   float64 `json:"std"`
	Low  float64 `json:"percentile_00_5"`
	High float64 `json:"percentile_99_5"`
}

// resampling is how an array is brought to another grid: the arguments of nnU-Net's function.
type resampling struct {
	Labels    bool    `json:"is_seg"`
	Order     int     `json:"order"`
	OrderZ    int     `json:"order_z"`
	Separate  *bool   `json:"force_separate_z"` // nil: where the spacing is anisotropic
	Threshold float64 `json:"separate_z_anisotropy_threshold"`
	unknown   error   // of the arguments
}

// anisotropic is the ratio of spacings above which nnU-Net resamples an axis apart.
const anisotropic = 3

// resamplingOf has what nnU-Net's function takes where nothing is said.
func resamplingOf(order int) resampling {
	return resampling{Order: order, Separate: new(bool), Threshold: anisotropic}
}

// UnmarshalJSON implements [json.Unmarshaler].
func (r *resampling) UnmarshalJSON(text []byte) error {
	type arguments resampling
	of := arguments(resamplingOf(3))
	if err := unet.Strictly(text, &of); err != nil { // told once the function is known
		of = arguments{unknown: fmt.Errorf("of its resampling: %w", ofKind(err))}
	}
	*r = resampling(of)
	return nil
}

// configurationFile is one configuration of plans.json, with what it inherits.
type configurationFile struct {
	PreviousStage string    `json:"previous_stage"`
	Preprocessor  string    `json:"preprocessor_name"`
	Patch         []int     `json:"patch_size"`
	Batch         int       `json:"batch_size"`
	Spacing       []float64 `json:"spacing"`
	Schemes       []string  `json:"normalization_schemes"`
	Masked        []bool    `json:"use_mask_for_norm"`

	ResampleData          string     `json:"resampling_fn_data"`
	ResampleProbabilities string     `json:"resampling_fn_probabilities"`
	Data                  resampling `json:"resampling_fn_data_kwargs"`
	Probabilities         resampling `json:"resampling_fn_probabilities_kwargs"`

	Architecture json.RawMessage `json:"architecture"`

	// as before nnU-Net 2.4
	OldClass    string  `json:"UNet_class_name"`
	OldFeatures int     `json:"UNet_base_num_features"`
	OldMost     int     `json:"unet_max_num_features"`
	OldConvs    []int   `json:"n_conv_per_stage_encoder"`
	OldDecoder  []int   `json:"n_conv_per_stage_decoder"`
	OldKernels  [][]int `json:"conv_kernel_sizes"`
	OldPool     [][]int `json:"pool_op_kernel_sizes"`
}

// Plan is what nnU-Net planned for a data set, as far as predictions need it. Axes are those of its
// arrays after [Plan.Forward]: the last one is the fastest.
type Plan struct {
	Dataset, Name, Configuration string
	Turned                       bool   // to RAS first; otherwise axes are the file's
	Forward                      [3]int // axis a of the arrays is axis Forward[a] of (k, j, i)
	// Flat: the network is one of two dimensions. It sees one slice at a time, along axis 0 of the
	// arrays, where the patch is 1 and the spacing is the scan's own, here 0.
	Flat     bool
	Patch    [3]int
	Batch    int        // crops of a step in nnU-Net's training
	Spacing  [3]float64 // in mm
	Channels []channel
	Network  unet.Settings

	data, probabilities resampling
}

// channel is how one channel of the input is normalised.
type channel struct {
	scheme string
	masked bool // over the voxels that are not 0 alone
	intensities
}

// The schemes of normalisation.
const (
	schemeCT      = "CTNormalization"
	schemeZScore  = "ZScoreNormalization"
	schemeRescale = "RescaleTo01Normalization"
	schemeRGB     = "RGBTo01Normalization"
	schemeNone    = "NoNormalization"
)

// nnU-Net's names for what it resamples with, of its preprocessor, and of what makes labels of
// heads.
const (
	defaultResampling   = "resample_data_or_seg_to_shape"
	defaultPreprocessor = "DefaultPreprocessor"
	defaultHeads        = "LabelManager"
)

// nnU-Net's readers of files: the usual one keeps the file's axes, the other turns them to RAS.
const (
	usualReader   = "SimpleITKIO"
	turningReader = "NibabelIOWithReorient"
)

// knownReaders are those of nnU-Net that are known; empty: the usual one.
var knownReaders = []string{"", usualReader, turningReader, "NibabelIO", "Tiff3DIO", "NaturalImage2DIO"}

// readJSON reads a small file of JSON.
func readJSON(path string, into any) error {
	data, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(bytes.TrimPrefix(data, []byte("\xef\xbb\xbf")), into); err != nil {
		return &volume.FormatError{Path: path, Problem: "it is not the JSON that nnU-Net writes", Err: ofKind(err)}
	}
	return nil
}

// ofKind says of JSON which value is of the wrong kind, without words of the program's.
func ofKind(err error) error {
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
		return fmt.Errorf("%s is of the kind %s", cmp.Or(wrong.Field, "the whole"), wrong.Value)
	}
	return err
}

// defaultConfiguration is the one that nnU-Net plans for every set of three dimensions.
const defaultConfiguration = "3d_fullres"

// IsPlans says whether a text names a plans.json, perhaps with a configuration.
func IsPlans(text string) bool {
	path, _ := splitPlans(text)
	return strings.EqualFold(filepath.Ext(path), ".json")
}

// splitPlans takes a configuration off the name of a file: plans.json:3d_lowres.
func splitPlans(text string) (path, configuration string) {
	if at := strings.LastIndex(text, ".json:"); at >= 0 {
		return text[:at+len(".json")], text[at+len(".json:"):]
	}
	return text, defaultConfiguration
}

// PlanOf reads plans.json, of the configuration 3d_fullres or the one behind a colon.
// Its network is one that is trained: a flat one is refused.
func PlanOf(text string) (*Plan, error) {
	path, configuration := splitPlans(text)
	p, err := readPlan(path, configuration)
	if err == nil && p.Flat {
		return nil, hint.Addf(&volume.UnsupportedError{Path: path, Problem: fmt.Sprintf("configuration %s: it is a "+
			"2D network, which predicts here, but is not trained", configuration)},
			"take another configuration of three dimensions, such as %s:%s", path, defaultConfiguration)
	}
	return p, err
}

// PatchSize is the patch along the axes (i, j, k) of what [Plan.Prepare] says.
func (p *Plan) PatchSize() [3]int { return [3]int{p.Patch[2], p.Patch[1], p.Patch[0]} }

// readPlan reads one configuration of a plans.json.
func readPlan(path, configuration string) (*Plan, error) {
	var file plansFile
	if err := readJSON(path, &file); err != nil {
		found := filepath.Join(path, plansName)
		if _, none := os.Stat(found); none == nil {
			err = hint.Addf(err, "its plans are %s", found)
		}
		return nil, err
	}
	if len(file.Configurations) == 0 {
		return nil, hint.Addf(
			&volume.FormatError{Path: path, Problem: "is no plans.json of nnU-Net: it plans no configuration"},
			"plans.json lies beside the trained model in nnUNet_results, and in nnUNet_preprocessed; "+
				"dataset.json is another file",
		)
	}
	unsupported := func(format string, args ...any) (*Plan, error) {
		return nil, &volume.UnsupportedError{Path: path,
			Problem: fmt.Sprintf("configuration %s: ", configuration) + fmt.Sprintf(format, args...)}
	}
	c, err := file.configuration(configuration, nil)
	if err != nil {
		err = &volume.FormatError{Path: path, Problem: err.Error()}
		if _, there := file.Configurations[configuration]; !there {
			// the last one in order: 2d, which is refused, is the first
			name := slices.Max(slices.Collect(maps.Keys(file.Configurations)))
			if _, usual := file.Configurations[defaultConfiguration]; usual {
				name = defaultConfiguration
			}
			err = hint.Addf(err, "a configuration is chosen by its name behind a colon: %s:%s", path,
				safetext.Text(name))
		}
		return nil, err
	}
	p := &Plan{
		Dataset:       file.DatasetName,
		Name:          file.PlansName,
		Configuration: configuration,
		Turned:        file.Reader == turningReader,
		Batch:         c.Batch,
		data:          c.Data,
		probabilities: c.Probabilities,
	}
	switch {
	case c.PreviousStage != "":
		return unsupported(
			"it is the second stage of a cascade after %s, which is not there yet: "+
				"predict with %s alone, or with 3d_fullres",
			c.PreviousStage,
			c.PreviousStage,
		)
	case len(c.Patch) != len(c.Spacing) || len(c.Patch) != 2 && len(c.Patch) != 3 || len(file.Forward) != 3:
		return unsupported("a patch of %d axes, a spacing of %d and a transposition of %d: want 3, or 2, 2 and 3",
			len(c.Patch), len(c.Spacing), len(file.Forward))
	case c.Batch < 0 || c.Batch > 1<<16:
		return unsupported("a batch_size of %d", c.Batch)
	case c.Preprocessor != "" && c.Preprocessor != defaultPreprocessor:
		return unsupported("its preprocessor %s is not known, only %s", c.Preprocessor, defaultPreprocessor)
	case c.ResampleData != "" && c.ResampleData != defaultResampling ||
		c.ResampleProbabilities != "" && c.ResampleProbabilities != defaultResampling:
		return unsupported("it resamples by %s and %s: only %s is known", c.ResampleData, c.ResampleProbabilities,
			defaultResampling)
	case !slices.Contains(knownReaders, file.Reader):
		return unsupported("it reads images by %s: only %s are known", file.Reader,
			strings.Join(knownReaders[1:], ", "))
	case file.Heads != "" && file.Heads != defaultHeads:
		return unsupported("its label_manager %s is not known, only %s", file.Heads, defaultHeads)
	}
	if c.Probabilities.Order > 1 {
		return unsupported("it resamples probabilities by order %d: 0 and 1 are known", c.Probabilities.Order)
	}
	for n, r := range []resampling{c.Data, c.Probabilities} {
		if r.unknown != nil {
			return nil, &volume.FormatError{Path: path, Problem: r.unknown.Error()}
		}
		if !(r.Threshold > 0) || r.Labels {
			return unsupported("it does not say how %s are resampled, or as labels: want %s with is_seg false",
				[]string{"images", "probabilities"}[n],
				[]string{"resampling_fn_data_kwargs", "resampling_fn_probabilities_kwargs"}[n])
		}
		if r.Order != 0 && r.Order != 1 && r.Order != 3 || r.OrderZ != 0 && r.OrderZ != 1 {
			return unsupported("it resamples by order %d, and %d across slices: 0, 1 and 3, and 0 and 1, are known",
				r.Order, r.OrderZ)
		}
	}
	first := 0
	if p.Flat = len(c.Patch) == 2; p.Flat {
		first, p.Patch[0] = 1, 1
	}
	seen := [3]bool{}
	for a := range 3 {
		if p.Forward[a] = file.Forward[a]; a >= first {
			p.Patch[a], p.Spacing[a] = c.Patch[a-first], c.Spacing[a-first]
		}
		if f := p.Forward[a]; f < 0 || f > 2 || seen[f] {
			return unsupported("a transposition of %s", numbers.List(file.Forward))
		}
		seen[p.Forward[a]] = true
		if p.Patch[a] < 1 || p.Patch[a] > 4096 || a >= first && !(p.Spacing[a] > 0) {
			return unsupported("a patch of %s at %v mm", numbers.Extents(c.Patch), c.Spacing)
		}
	}
	if err := p.channels(file, c); err != nil {
		return unsupported("%v", err)
	}
	if p.Network, err = c.network(); err != nil {
		return unsupported("%v", err)
	}
	if p.Network.Flat != p.Flat {
		return unsupported("its patch has %d axes, and its network others", len(c.Patch))
	}
	p.Network.In = len(p.Channels)
	return p, nil
}

// target is the spacing that a scan of a spacing is resampled to.
func (p *Plan) target(own [3]float64) [3]float64 {
	to := p.Spacing
	if p.Flat {
		to[0] = own[0]
	}
	return to
}

// configuration is one of the plans, over what it inherits.
func (f plansFile) configuration(name string, seen []string) (*configurationFile, error) {
	merged, err := f.inherit(name, seen)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(merged)
	if err != nil {
		return nil, err
	}
	c := &configurationFile{}
	if err := json.Unmarshal(text, c); err != nil {
		return nil, fmt.Errorf("configuration %s: %w", name, ofKind(err))
	}
	return c, nil
}

func (f plansFile) inherit(name string, seen []string) (map[string]json.RawMessage, error) {
	own, ok := f.Configurations[name]
	if !ok {
		return nil, fmt.Errorf("there is no configuration %q, only %s", name,
			safetext.List(slices.Sorted(maps.Keys(f.Configurations))))
	}
	if slices.Contains(seen, name) {
		return nil, fmt.Errorf("configuration %q inherits from itself", name)
	}
	var parent string
	if text, ok := own["inherits_from"]; ok {
		if err := json.Unmarshal(text, &parent); err != nil {
			return nil, fmt.Errorf("configuration %q: inherits_from: %w", name, err)
		}
	}
	if parent == "" {
		return own, nil
	}
	merged, err := f.inherit(parent, append(seen, name))
	if err != nil {
		return nil, err
	}
	merged = maps.Clone(merged)
	maps.Copy(merged, own)
	return merged, nil
}

// channels reads how each channel is normalised.
func (p *Plan) channels(file plansFile, c *configurationFile) error {
	stats := file.Intensities
	if stats == nil {
		stats = file.OldIntensities
	}
	if len(c.Schemes) == 0 || len(c.Schemes) > 1024 {
		return fmt.Errorf("%d normalization_schemes", len(c.Schemes))
	}
	for n, scheme := range c.Schemes {
		one := channel{scheme: scheme, masked: n < len(c.Masked) && c.Masked[n]}
		switch scheme {
		case schemeZScore, schemeRescale, schemeRGB, schemeNone:
		case schemeCT:
			s, ok := stats[strconv.Itoa(n)]
			if !ok {
				return fmt.Errorf("channel %d is normalised as CT, and the plans have no intensities of it", n)
			}
			one.intensities = s
		default:
			return fmt.Errorf("channel %d is normalised by %s, which is not known", n, scheme)
		}
		p.Channels = append(p.Channels, one)
	}
	return nil
}

// network reads the architecture, as it is written since nnU-Net 2.4 or was before.
func (c *configurationFile) network() (unet.Settings, error) {
	if c.Architecture == nil {
		return c.oldNetwork(unet.Settings{Bias: true, Epsilon: 1e-5, Slope: 0.01})
	}
	return unet.Parse(c.Architecture)
}

// oldNetwork reads what plans had before nnU-Net 2.4.
func (c *configurationFile) oldNetwork(s unet.Settings) (unet.Settings, error) {
	switch c.OldClass {
	case "PlainConvUNet":
	case "ResidualEncoderUNet":
		s.Residual = true
	default:
		return s, fmt.Errorf("its network %q is not known, only PlainConvUNet and ResidualEncoderUNet", c.OldClass)
	}
	for stage := range c.OldConvs {
		if stage > 16 || c.OldFeatures < 1 || c.OldFeatures > 4096 {
			return s, fmt.Errorf("it has %d stages from %d channels on", len(c.OldConvs), c.OldFeatures)
		}
		s.Features = append(s.Features, min(c.OldFeatures<<stage, c.OldMost))
	}
	s.Blocks, s.DecoderConvs, s.Flat = c.OldConvs, c.OldDecoder, len(c.Patch) == 2
	var err error
	if s.Kernels, err = unet.Axes(c.OldKernels, s.Flat); err != nil {
		return s, fmt.Errorf("conv_kernel_sizes: %w", err)
	}
	if s.Strides, err = unet.Axes(c.OldPool, s.Flat); err != nil {
		return s, fmt.Errorf("pool_op_kernel_sizes: %w", err)
	}
	return s, nil
}
