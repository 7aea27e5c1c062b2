package volume

import (
	"strings"
	"testing"
)

// Settings of several channels have a word for each, or one for all, and mistakes name the channel.
func TestChannelsOfPreparation(t *testing.T) {
	how := DefaultPreparation()
	how.Channels = "T1w,FLAIR"
	with := func(modality, intensity string, change func(*Preparation)) Preparation {
		p := how
		p.Modality, p.Intensity = modality, intensity
		if change != nil {
			change(&p)
		}
		return p
	}
	p := with("MR", "zscore,percentiles", nil)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	if second := p.Channel(1); second.Scheme() != Percentiles || second.ModalityName() != ModalityMR ||
		second.Inputs() != 0 || p.Channel(0).Scheme() != ZScore {
		t.Errorf("%+v", second)
	}
	for want, p := range map[string]Preparation{
		"has 3 words: want one for all channels, or one for each of the 2": with("MR", "zscore,zscore,zscore", nil),
		"channel FLAIR: intensity \"none\"":                                with("MR", "zscore,none", nil),
		"each needs a name of its own": with("MR", "zscore",
			func(p *Preparation) { p.Channels = "T1w,T1w" }),
		"one channel has no name": with("MR", "zscore", func(p *Preparation) { p.Channels = "T1w" }),
		"17 channels: at most 16": with("MR", "zscore",
			func(p *Preparation) { p.Channels = "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q" }),
		"of one channel at most":       with("CT", "ct-percentiles", nil),
		"no channel is prepared by it": with("MR", "zscore", func(p *Preparation) { p.Window = [2]float64{0, 100} }),
	} {
		if err := p.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	one := DefaultPreparation()
	if d := p.Differences(one); len(d) != 3 || d[0] != (Difference{"channels", "one", "T1w,FLAIR"}) ||
		d[2] != (Difference{"intensity", CTWindow, "zscore,percentiles"}) {
		t.Errorf("%+v", d)
	}
}
