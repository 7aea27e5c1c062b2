package voxsaw

import (
	"reflect"
	"slices"
)

// Network says which network. Every kind of network has a use for most of the settings; an empty
// string, a zero or a negative dropout stands for the kind's own value.
//
// Kinds are "vnet" (Milletari et al. 2016; package [github.com/voxsaw/voxsaw/vnet]), which is what
// an empty kind means, "resenc", and those that a program registers beside them (package network).
type Network struct {
	// kind of network: vnet, or resenc (nnU-Net's residual encoder U-Net), or the plans.json of an
	// nnU-Net, whose network is built
	Kind string `yaml:"kind" flag:"network"`
	// vnet: paper (Milletari 2016), caffe (its released prototxt) or monai (MONAI, vnet.pytorch)
	Preset string `yaml:"preset"`
	// channels of the first stage; they double with every level (resenc: up to 320); 0: the
	// network's own
	Channels int `yaml:"channels" most:"4096"`
	// down-samplings by two; 0: the network's own
	Levels int `yaml:"levels" most:"16"`
	// resenc: residual blocks of each stage of the encoder, one stage more than levels; empty:
	// 1,3,4,6,6,... as nnU-Net has them
	Blocks []int `yaml:"blocks,flow,omitempty" range:"[1,)" most:"64"`
	// normalisation after each convolution: none, instance, batch or group; empty: the network's
	// own
	Norm string `yaml:"norm"`
	// groups of the group normalisation; 0: 8
	Groups int `yaml:"groups" most:"4096"`
	// prelu, elu or relu; resenc: leaky, elu or relu; empty: the network's own
	Activation string `yaml:"activation"`
	// rate of the channel dropout, of preset monai, and of resenc; negative: the network's own, 0
	// switches it off
	Dropout float64 `yaml:"dropout" range:"(,1)"`
	// vnet of three levels or more: deep supervision in training, by heads at half the size, a
	// quarter and so on, whose losses count half as much each; resenc and nnunet have it always
	DeepSupervision bool `yaml:"deep_supervision,omitempty" flag:"-"`
	// nnunet: the section architecture of its plans.json
	//
	// Architecture is of kind nnunet: that section of a plans.json, which is read from there.
	Architecture string `yaml:"architecture,omitempty" flag:"-"`
	// classes, the background among them
	Classes int `yaml:"classes" flag:"-"`
	// channels of a scan, from the data; 0: 1
	Inputs int `yaml:"inputs,omitempty" flag:"-"`
}

// MaxInputs is the most channels that a scan may have.
const MaxInputs = 16

// InputChannels is how many channels a scan has that the network takes.
func (n Network) InputChannels() int { return max(n.Inputs, 1) }

// Equal says whether two networks are the same in prediction: all their settings are equal, but
// deep supervision, which is of training alone. Weights of one then fit the other, but for the
// heads of deep supervision, which one of them may have and the other not.
func (n Network) Equal(other Network) bool {
	n.DeepSupervision = other.DeepSupervision
	blocks := slices.Equal(n.Blocks, other.Blocks)
	n.Blocks, other.Blocks = nil, nil
	return blocks && reflect.DeepEqual(n, other)
}

// DefaultNetwork is the kind of network that is used where nothing else is said, with instance
// normalisation, without which training starts slowly; all else is the kind's own.
func DefaultNetwork() Network {
	return Network{Kind: "vnet", Norm: "instance", Dropout: -1, Classes: 2}
}
