package volume

import (
	"fmt"
	"slices"
	"strings"
)

// This file: scans of several channels, such as the sequences of an MR or a PET with its CT. All
// lie on the voxels of the first. Channels of a [Preparation] names them, one word after another
// with commas between; its Modality and Intensity then have a word for each channel, too, or one
// that all share. [Preparation.Channel] is how one of them is prepared.

// MaxChannels is the most channels that a scan may have.
const MaxChannels = 16

// ChannelNames are the names of the channels; one without a name where nothing names them.
func (p Preparation) ChannelNames() []string { return strings.Split(p.Channels, ",") }

// ChannelsAsked are the names of the channels that each scan must have; nil where nobody names any.
func (p Preparation) ChannelsAsked() []string {
	if p.Channels == "" {
		return nil
	}
	return p.ChannelNames()
}

// Inputs is the number of channels for the settings of a network: 0 stands for one.
func (p Preparation) Inputs() int {
	if n := len(p.ChannelNames()); n > 1 {
		return n
	}
	return 0
}

// Channel is how channel n is prepared, as the only one of a scan.
func (p Preparation) Channel(n int) Preparation {
	if p.Channels == "" {
		return p
	}
	p.Modality, p.Intensity, p.Channels = wordOf(p.Modality, n), wordOf(p.Intensity, n), ""
	p.Masks = ""
	if p.Scheme() != CTWindow {
		p.Window = DefaultPreparation().Window
	}
	if p.Scheme() != CTPercentiles {
		p.Foreground = [4]float64{}
	}
	return p
}

// SeenAs is how a network that looks at one channel at a time sees these scans, beside others: as
// those of their first channel, where the others have one.
func (p Preparation) SeenAs(o Preparation) Preparation {
	if p.Inputs() > 1 && o.Inputs() <= 1 {
		return p.Channel(0)
	}
	return p
}

// wordOf is word n of a list, or the only one.
func wordOf(list string, n int) string {
	words := strings.Split(list, ",")
	return words[min(n, len(words)-1)]
}

// channels are all of them.
func (p Preparation) channels() []Preparation {
	all := make([]Preparation, len(p.ChannelNames()))
	for n := range all {
		all[n] = p.Channel(n)
	}
	return all
}

// checkChannels says what is wrong with the channels, and with the intensities of each.
func (p Preparation) checkChannels() error {
	names := p.ChannelNames()
	if len(names) == 1 && p.Channels != "" {
		return fmt.Errorf("channels %q: one channel has no name: leave it out", p.Channels)
	}
	if p.Channels == "" {
		return p.checkIntensities()
	}
	if len(names) > MaxChannels {
		return fmt.Errorf("%d channels: at most %d are read", len(names), MaxChannels)
	}
	for n, name := range names {
		if strings.TrimSpace(name) != name || name == "" ||
			strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) || slices.Index(names, name) != n {
			return fmt.Errorf("channels %q: each needs a name of its own, with commas between them", p.Channels)
		}
	}
	for _, list := range []struct{ key, words string }{{"modality", p.Modality}, {"intensity", p.Intensity}} {
		if n := len(strings.Split(list.words, ",")); n != 1 && n != len(names) {
			return fmt.Errorf("%s %q has %d words: want one for all channels, or one for each of the %d (%s)", list.key,
				list.words, n, len(names), p.Channels)
		}
	}
	window, foreground := false, 0
	for n, channel := range p.channels() {
		if err := channel.checkIntensities(); err != nil {
			return fmt.Errorf("channel %s: %w", names[n], err)
		}
		window = window || channel.Scheme() == CTWindow
		if channel.Scheme() == CTPercentiles {
			foreground++
		}
	}
	switch {
	case foreground > 1:
		return fmt.Errorf("intensity %s is of one channel at most: choose %s for the others", CTPercentiles, CTWindow)
	case !window && p.Window != DefaultPreparation().Window:
		return fmt.Errorf("window is of intensity %s, and no channel is prepared by it: leave it out", CTWindow)
	case foreground == 0 && p.Foreground != [4]float64{}:
		return fmt.Errorf("foreground is of intensity %s, and no channel is prepared by it: leave it out",
			CTPercentiles)
	}
	return nil
}

// WithChannels is the preparation of channels of these names, each of a modality of its own, with
// the usual scheme of each unless one is chosen already.
func (p Preparation) WithChannels(names, modalities []string) Preparation {
	p.Channels = strings.Join(names, ",")
	var words, schemes []string
	for n, modality := range modalities {
		own := p.Channel(n).ForModality(modality)
		words, schemes = append(words, own.ModalityName()), append(schemes, own.Scheme())
	}
	p.Modality, p.Intensity = strings.Join(words, ","), strings.Join(schemes, ",")
	return p
}
