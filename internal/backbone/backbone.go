// Package backbone is the list of networks: what a network must state to be pretrained, fine-tuned
// and predicted with.
//
// Start at [Backbone] and [Of]. A network registers its kind in an init function ([Register]);
// nothing that trains or predicts knows one by name. To add one, see CONTRIBUTING.md.
package backbone

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Backbone is a network of an encoder, which learns features, and a decoder, which makes a
// segmentation of them. All sizes are along (i, j, k), the last axis of a tensor first.
type Backbone interface {
	// Settings are the network's, with every value written out. Networks that
	// [voxsaw.Network.Equal] calls equal have the same weights, but for the heads of deep
	// supervision.
	Settings() voxsaw.Network
	// Describe is a few words for a person: "VNet paper, 16 channels, norm instance".
	Describe() string
	// Multiple is what sizes must be multiples of, along each axis.
	Multiple() [3]int
	// Encoder adds the down-sampling half to the graph of x (N, Inputs, D, H, W), and returns the
	// output of each stage, finest first. Mistakes are kept by the graph. Names of parameters begin
	// with EncoderPrefix.
	Encoder(g *nn.Graph, x *nn.Node) []*nn.Node
	// Decoder adds the up-sampling half to the graph of an encoder's stages, and returns the logits
	// (N, Classes, D, H, W). In training there may be further ones at half the size, a quarter and
	// so on, each of which has a loss of its own.
	Decoder(g *nn.Graph, stages []*nn.Node) []*nn.Node
}

// A Renamer is a [Backbone] whose weights are called otherwise, too, in files of other programs.
type Renamer interface {
	// Rename gives a tensor of such a file the name of the parameter here, or leaves it as it is.
	Rename(name string) string
}

// Rename turns the name of a tensor in another program's file into the network's own. A network
// that is no [Renamer] has the same names.
func Rename(b Backbone, name string) string {
	if r, ok := b.(Renamer); ok {
		return r.Rename(name)
	}
	return name
}

// An Idler is a [Backbone] that takes settings which do nothing, because networks were once trained
// with them.
type Idler interface {
	// Idle says which settings do nothing, and what to do; nil where none are.
	Idle() error
}

// Idle says which settings of a network do nothing, nil where none are. Whoever trains a new one
// refuses them. Settings that make no network are somebody else's to refuse.
func Idle(n voxsaw.Network) error {
	b, err := Of(n)
	if i, ok := b.(Idler); ok && err == nil {
		return i.Idle()
	}
	return nil
}

// EncoderPrefix begins the names of an encoder's parameters, in a network of an encoder alone and
// in a whole one: that is all that carrying weights over takes.
const EncoderPrefix = "encoder."

// A Kind is a kind of network.
type Kind struct {
	Name string // such as vnet: what network.kind says
	// New makes the network of the settings, or says what is wrong with them.
	New func(voxsaw.Network) (Backbone, error)
}

// Default is the kind that an empty name means.
const Default = "vnet"

var kinds []Kind

// Register adds a kind to the list. It is called by init functions.
func Register(k Kind) {
	if slices.ContainsFunc(kinds, func(other Kind) bool { return other.Name == k.Name }) {
		panic(fmt.Sprintf("backbone: there are two kinds %q", k.Name))
	}
	kinds = append(kinds, k)
	slices.SortFunc(kinds, func(a, b Kind) int { return strings.Compare(a.Name, b.Name) })
}

// Kinds lists the names of the kinds.
func Kinds() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = k.Name
	}
	return names
}

// Of makes the network of the settings, or says what is wrong with them.
func Of(n voxsaw.Network) (Backbone, error) {
	n.Kind = cmp.Or(n.Kind, Default)
	for _, k := range kinds {
		if k.Name == n.Kind {
			if n.Inputs < 0 || n.Inputs > voxsaw.MaxInputs {
				return nil, fmt.Errorf("scans of %d channels: want 1 to %d", n.Inputs, voxsaw.MaxInputs)
			}
			if n.Inputs == 1 {
				n.Inputs = 0 // one way to say it
			}
			return k.New(n)
		}
	}
	return nil, fmt.Errorf("there is no network %q: choose one of %s", n.Kind, strings.Join(Kinds(), ", "))
}

// Resolve writes out every value of the settings.
func Resolve(n voxsaw.Network) (voxsaw.Network, error) {
	b, err := Of(n)
	if err != nil {
		return n, err
	}
	return b.Settings(), nil
}

// Fits says whether a network can take inputs of a size, and names a size near it that it can take.
// Sizes are multiples of what it halves, and leave more than one voxel at the deepest level where
// an instance norm needs that.
func Fits(b Backbone, size [3]int) error {
	multiple := b.Multiple()
	for axis, s := range size {
		if m := multiple[axis]; s < 1 || s%m != 0 {
			near := max(1, (s+m/2)/m) * m
			return fmt.Errorf("size %s: %s wants multiples of %s, such as %d instead of %d", numbers.Extents(size[:]),
				b.Describe(), extents(multiple), near, s)
		}
	}
	if n := b.Settings(); size == multiple && n.Norm == NormInstance {
		larger := [3]int{2 * size[0], 2 * size[1], 2 * size[2]}
		return fmt.Errorf("size %s: one voxel is left at the deepest of %s, which instance normalisation makes "+
			"zero: take a larger one, such as %s, or fewer levels", numbers.Extents(size[:]),
			numbers.Count(n.Levels, "level"), numbers.Extents(larger[:]))
	}
	return nil
}

// CheckInput says whether a network can take x as its input: (N, Inputs, D, H, W) of a size that
// fits.
func CheckInput(b Backbone, x *nn.Node) error {
	s, inputs := x.Shape(), b.Settings().InputChannels()
	if len(s) != 5 || s[1] != inputs {
		return fmt.Errorf("the network's input has shape %v, want (N, %d, D, H, W)", numbers.Extents([]int(s)), inputs)
	}
	return Fits(b, [3]int{s[4], s[3], s[2]})
}

// extents writes a size, and one number for a cube.
func extents(m [3]int) string {
	if m[0] == m[1] && m[1] == m[2] {
		return fmt.Sprintf("%d along every axis", m[0])
	}
	return numbers.Extents(m[:])
}

// Names of what networks are made of, as settings have them.
const (
	NormNone     = "none"
	NormInstance = "instance"
	NormBatch    = "batch"
	NormGroup    = "group"
)

// Patches is a network's encoder that makes a row of numbers of each patch: the deepest stage,
// flattened.
type Patches struct {
	Backbone
	Size [3]int // of a patch, along (i, j, k)
}

// Patch is the shape of one patch: (channels, depth, height, width).
func (p Patches) Patch() [4]int {
	return [4]int{p.Settings().InputChannels(), p.Size[2], p.Size[1], p.Size[0]}
}

// Input adds the input of n crops of a size along (i, j, k) to a graph.
func Input(g *nn.Graph, name string, b Backbone, n int, size [3]int) *nn.Node {
	return g.Input(name, n, b.Settings().InputChannels(), size[2], size[1], size[0])
}

// Encode adds the encoder to the graph of patches (N, Patch). The result is (N, K).
func (p Patches) Encode(g *nn.Graph, patches *nn.Node) *nn.Node {
	stages := p.Encoder(g, patches)
	if g.Err() != nil {
		return nil
	}
	return g.Flatten(stages[len(stages)-1])
}
