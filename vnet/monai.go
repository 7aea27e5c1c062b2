package vnet

import (
	"fmt"
	"math/bits"
	"regexp"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
)

// This file: what MONAI's VNet and vnet.pytorch (M. Macy's), which it comes from, call the
// parameters of the preset "monai". Both number their stages by channels: down_tr32 is encoder.1,
// up_tr32 is decoder.0. They differ within a layer: MONAI has conv_block.conv and conv_block.adn.N
// where vnet.pytorch has conv1 and bn1.

// A layer is what a layer of a stage is called, here and there; %d is the convolution's number.
type layer struct{ ours, monai, macy string }

// Layers of the first stage, of the others, and of the head. Parts of a layer keep their names: a
// norm's are weight, bias, running_mean and running_var, an activation's is weight.
var (
	firstLayers = []layer{{"conv0", "conv_block.conv", "conv1"}, {"conv0.norm", "conv_block.adn.N", "bn1"},
		{"conv0.act", "act_function", "relu1"}}
	downLayers = append([]layer{{"down", "down_conv", "down_conv"}, {"down.norm", "bn1", "bn1"},
		{"down.act", "act_function1", "relu1"}}, stageLayers...)
	upLayers = append([]layer{{"up", "up_conv", "up_conv"}, {"up.norm", "bn1", "bn1"},
		{"up.act", "act_function1", "relu1"}}, stageLayers...)
	stageLayers = []layer{
		{"conv%d", "ops.%d.conv_block.conv", "ops.%d.conv1"}, {"conv%d.norm", "ops.%d.conv_block.adn.N", "ops.%d.bn1"},
		{"conv%d.act", "ops.%d.act_function", "ops.%d.relu1"},
		{"out.act", "act_function2", "relu2"},
	}
	headLayers = []layer{
		{"conv", "conv_block.conv", "conv1"}, {"conv.norm", "conv_block.adn.N", "bn1"},
		{"conv.act", "act_function1", "relu1"}, {"logits", "conv2", "conv2"},
	}
)

var (
	theirStage = regexp.MustCompile(`^(in_tr|(down|up)_tr(\d+)|out_tr)\.(.+)\.(\w+)$`)
	ourStage   = regexp.MustCompile(`^(encoder\.(\d+)|decoder\.(\d+)|head)\.(.+)\.(\w+)$`)
	coarser    = regexp.MustCompile(`^head\.\d+\.`) // heads of deep supervision
	opNumber   = regexp.MustCompile(`^(ops\.|conv)(\d)(\..+|$)`)
)

// Rename implements [backbone.Renamer].
func (*network) Rename(name string) string { return translate(name) }

// translate gives our name of a parameter that MONAI or vnet.pytorch named; other names stay as
// they are. Names of a network within torch.nn.DataParallel begin with "module.".
func translate(name string) string {
	bare := strings.TrimPrefix(name, "module.")
	m := theirStage.FindStringSubmatch(bare)
	if m == nil {
		return bare
	}
	stage, layers := "encoder.0", firstLayers
	switch {
	case m[1] == "out_tr":
		stage, layers = "head", headLayers
	case m[2] != "":
		channels, err := strconv.ParseUint(m[3], 10, 32)
		level := bits.Len64(channels/32) - 1
		if err != nil || level < 0 || channels != 32<<level {
			return name
		}
		if stage, layers = fmt.Sprintf("decoder.%d", level), upLayers; m[2] == "down" {
			stage, layers = fmt.Sprintf("encoder.%d", level+1), downLayers
		}
	}
	inner, number := m[4], ""
	if op := opNumber.FindStringSubmatch(inner); op != nil && op[1] == "ops." {
		inner, number = "ops.%d"+op[3], op[2]
	}
	for _, l := range layers {
		if inner == l.monai || inner == l.macy {
			return stage + "." + strings.Replace(l.ours, "%d", number, 1) + "." + m[5]
		}
	}
	return name
}

// monaiName is the inverse of translate for MONAI's names; false for what MONAI's network does not
// have.
func monaiName(name string) (string, bool) {
	m := ourStage.FindStringSubmatch(name)
	if m == nil {
		return "", false
	}
	stage, layers := "out_tr", headLayers
	switch {
	case m[2] == "0":
		stage, layers = "in_tr", firstLayers
	case m[2] != "":
		level, _ := strconv.Atoi(m[2])
		stage, layers = fmt.Sprintf("down_tr%d", 16<<level), downLayers
	case m[3] != "":
		level, _ := strconv.Atoi(m[3])
		stage, layers = fmt.Sprintf("up_tr%d", 32<<level), upLayers
	}
	inner, number := m[4], ""
	if op := opNumber.FindStringSubmatch(inner); op != nil && stage != "in_tr" && stage != "out_tr" {
		inner, number = "conv%d"+op[3], op[2]
	}
	for _, l := range layers {
		if inner == l.ours {
			return stage + "." + strings.Replace(l.monai, "%d", number, 1) + "." + m[5], true
		}
	}
	return "", false
}

// ToMONAI writes the weights of a checkpoint of fine-tuning to a safetensors file that
// monai.networks.nets.VNet.load_state_dict takes, strict or not. The network must be of the preset
// "monai", with its batch normalisation and four levels; MONAI's own has 16 channels. It returns
// the network. Of a run with a moving average, it is the average that is written.
func ToMONAI(path, out string) (voxsaw.Network, error) {
	d, err := checkpoint.ReadKind(path, "MONAI's network wants a whole one, as voxsaw finetune makes it",
		checkpoint.Segmentation)
	if err != nil {
		return voxsaw.Network{}, err
	}
	settings, err := d.Network()
	if err != nil {
		return settings, err
	}
	n, err := resolve(settings)
	if settings.Kind != "" && settings.Kind != kind {
		err = fmt.Errorf("%s holds a network of kind %q, not a VNet", path, settings.Kind)
	}
	if err != nil {
		return settings, err
	}
	if n.Preset != "monai" || n.Norm != backbone.NormBatch || n.Levels != 4 {
		return n.Network, fmt.Errorf("%s holds a %s, which MONAI does not have: voxsaw finetune --preset monai "+
			"--norm batch --levels 4 --channels 16 trains MONAI's", path, n.Describe())
	}
	_, err = checkpoint.Export(path, out, func(name string, shape []int) (string, []int, error) {
		if coarser.MatchString(name) {
			return "", nil, nil // of training alone
		}
		to, ok := monaiName(name)
		if !ok {
			return "", nil, fmt.Errorf("%q has no place in MONAI's network", name)
		}
		return to, shape, nil
	})
	return n.Network, err
}
