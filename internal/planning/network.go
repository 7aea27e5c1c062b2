package planning

import (
	"fmt"
	"math/bits"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/unet"
)

// This file: networks that nnU-Net has planned or would plan, and why a plan has the network that
// it has.

// A Brought is a plan of nnU-Net's that somebody has brought: what it says is not decided here.
type Brought struct {
	Name       string     // of its file
	Crop       string     // what of a scan is prepared
	Spacing    [3]float64 // mm
	Intensity  string
	Foreground [4]float64
	Network    unet.Settings
	Patch      [3]int
	Batch      int // 0: it does not say
}

// brought is the plan that somebody has brought; one that says nothing if there is none.
func (f Fingerprint) brought() Brought {
	if f.Brought == nil {
		return Brought{}
	}
	return *f.Brought
}

// encoder is the one that nnU-Net's rules are followed for.
func (f Fingerprint) encoder() Encoder {
	if f.Encoder == nil {
		return Plain
	}
	return *f.Encoder
}

// network is nnU-Net's for the full resolution, with so many channels in its finest stage, for
// arrays whose axes are not transposed.
func (p *NNUNet) network(channels int) unet.Settings {
	s := unet.Settings{Residual: p.Encoder.residual, Blocks: p.Full.Blocks, DecoderConvs: p.Full.Decoder,
		Bias: true, Epsilon: 1e-5, Slope: 0.01}
	for stage, stride := range p.Full.Strides {
		s.Features = append(s.Features, p.Full.Features[stage]*channels/baseWidth)
		s.Strides = append(s.Strides, p.back(stride))
		s.Kernels = append(s.Kernels, p.back(p.Full.Kernels[stage]))
	}
	return s
}

// back puts what is along the transposed axes along (k, j, i).
func (p *NNUNet) back(transposed [3]int) (values [3]int) {
	for a, from := range p.Forward {
		values[from] = transposed[a]
	}
	return values
}

// patch is that of the full resolution along (i, j, k).
func (p *NNUNet) patch() [3]int { return reversed(p.back(p.Full.Patch)) }

func reversed(v [3]int) [3]int { return [3]int{v[2], v[1], v[0]} }

// networkOf are the settings of one of nnU-Net's networks.
func networkOf(s unet.Settings) voxsaw.Network {
	n := s.Network()
	n.Channels, n.Levels = s.Features[0], len(s.Features)-1
	return n
}

// nnunetOf are those settings, where a network is one.
func nnunetOf(n voxsaw.Network) (s unet.Settings, is bool) {
	if n.Kind != unet.Kind {
		return s, false
	}
	s, err := unet.Parse([]byte(n.Architecture))
	return s, err == nil
}

// multiple is what a crop of a network is a multiple of, along (i, j, k).
func multiple(n voxsaw.Network) [3]int {
	if s, is := nnunetOf(n); is {
		return reversed(s.Multiple())
	}
	m := 1 << n.Levels
	return [3]int{m, m, m}
}

// halvings says how often each axis (i, j, k) is halved.
func halvings(multiple [3]int) string {
	for a, m := range multiple {
		multiple[a] = bits.Len(uint(m)) - 1
	}
	return numbers.Extents(multiple[:])
}

// axesOf says what a network of nnU-Net's does along each axis.
func axesOf(s unet.Settings) string {
	text := fmt.Sprintf("it halves the axes (i, j, k) %s times", halvings(reversed(s.Multiple())))
	for a, axis := range []string{"k", "j", "i"} {
		flat := 0
		for _, kernel := range s.Kernels {
			if kernel[a] == 1 {
				flat++
			}
		}
		if flat > 0 {
			text += fmt.Sprintf(", and has kernels of one voxel along %s in %s", axis, numbers.Count(flat, "stage"))
		}
	}
	return text
}

// mostSteps are those after which nothing is gained any more, as far as anybody knows.
func (p *Plan) mostSteps() int {
	if _, is := nnunetOf(p.Finetune.Network); is {
		return nnunetSteps
	}
	return mostSteps
}

// sized tells why crop, network and batch are what they are: those of the largest training that
// fits into memory, or not; where all fit there is no larger one.
func (p *Plan) sized(f Fingerprint, largest, all bool) {
	w := p.Finetune
	crop, budget := numbers.Extents(w.Crop[:]), terminal.Duration(p.budget)
	patch := p.NNUNet.patch()
	theirs, smaller := "nnU-Net's patch is "+numbers.Extents(patch[:]), "of its shape"
	if f.Encoder != nil {
		smaller = "of its patches for smaller GPUs"
	}
	switch {
	case f.Brought != nil && p.fits < enoughSteps:
		p.decide("crop", crop, "%s has it; a plan of this program's own would take a smaller one, for want of time",
			f.Brought.Name)
	case f.Brought != nil:
		p.decide("crop", crop, "%s has it", f.Brought.Name)
	case largest && all:
		p.decide("crop", crop, "nnU-Net's patch for this spacing and these scans is %s, and there is time and memory "+
			"for it", numbers.Extents(patch[:]))
	case largest:
		p.decide("crop", crop, "%s; this is the largest %s that fits into %d MiB of memory", theirs, smaller,
			f.Limit>>20)
	case p.fits < enoughSteps:
		p.decide("crop", crop, "%s; this is the smallest %s that is planned, for want of time", theirs, smaller)
	default:
		p.decide("crop", crop, "%s; this is the largest %s of which %d steps fit into %s with %s", theirs, smaller,
			enoughSteps, budget, numbers.Count(w.Network.Channels, "channel"))
	}
	s, is := nnunetOf(w.Network)
	batch := fmt.Sprint(w.Batch)
	const alone = "each crop is a step of its own, as in this program's studies; nnU-Net takes %d"
	switch {
	case f.Brought != nil && is:
		p.decide("network", s.Describe(), "%s has it; %s", f.Brought.Name, axesOf(s))
		if f.Brought.Batch == 0 {
			p.decide("batch", batch, "%s has no batch_size", f.Brought.Name)
		} else {
			p.decide("batch", batch, "%s has it", f.Brought.Name)
		}
	case is:
		p.decide("network", s.Describe(), "it was asked for, and is what nnU-Net's rules make of this spacing and "+
			"this crop, but for the channels, which follow from the time: %s. Nothing measured says that it learns "+
			"more in the same time than the default network", axesOf(s))
		p.decide("batch", batch, alone, p.NNUNet.Full.Batch)
	default:
		shortest := min(w.Crop[0], w.Crop[1], w.Crop[2])
		p.decide("network", fmt.Sprintf("%s, %s, %s", w.Network.Kind, numbers.Count(w.Network.Channels, "channel"),
			numbers.Count(w.Network.Levels, "level")),
			"the default network; it halves all axes alike, so often that %d voxels are left along the shortest axis "+
				"of the crop, and the channels follow from the time. nnU-Net's network would have %s and halve the "+
				"axes (i, j, k) %s times. Nothing measured says that it learns more in the same time: voxsaw plan "+
				"--network unet or resenc plans it", shortest>>w.Network.Levels,
			numbers.Count(len(p.NNUNet.Full.Strides), "stage"),
			halvings(reversed(p.NNUNet.network(baseWidth).Multiple())))
		p.decide("batch", batch, alone, p.NNUNet.Full.Batch)
	}
	p.augmentation(f)
	p.decide("memory", fmt.Sprintf("%d MiB", p.Bytes>>20),
		"that is what a fine-tuning takes: a step of it, a validation of the largest scan, the program; prepared "+
			"cases, which are mapped, come on top")
}
