package nnunet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
)

// This file: between a plan and the preparation of cases to train on, as far as package volume can
// say it. Resampling differs a little: prepared voxels are not clipped slice by slice, and thick
// slices are not treated apart.

// schemesOf are nnU-Net's schemes and those of package volume.
var schemesOf = []struct {
	scheme string
	masked bool
	volume string
}{
	{schemeCT, false, volume.CTPercentiles},
	{schemeCT, true, volume.CTPercentiles}, // which has no use for the mask
	{schemeZScore, false, volume.ZScore},
	{schemeZScore, true, volume.ZScoreNonzero},
}

// axes are those of the arrays before they are transposed, the first first.
func (p *Plan) axes() string {
	if p.Turned {
		return "SAR"
	}
	return "kji"
}

// Preparation is what the plan does to scans, in the place of what other settings say of it.
func (p *Plan) Preparation(of volume.Preparation) (volume.Preparation, error) {
	var axes [3]byte
	for a := range 3 {
		axes[a], of.Spacing[a] = p.axes()[p.Forward[2-a]], p.Spacing[2-a]
	}
	of.Axcodes, of.Interpolation, of.Crop = string(axes[:]), "cubic", volume.CropNonzero
	if p.data.Order < 3 {
		of.Interpolation = "linear"
	}
	var intensities, modalities []string
	for n, c := range p.Channels {
		known := false
		for _, s := range schemesOf {
			if s.scheme == c.scheme && s.masked == c.masked {
				intensities, known = append(intensities, s.volume), true
			}
		}
		if !known {
			return of, fmt.Errorf("channel %d is normalised by %s, which scans are not prepared by", n, c.scheme)
		}
		modality := volume.ModalityMR
		if c.scheme == schemeCT {
			modality = volume.ModalityCT
			own := [4]float64{c.Low, c.High, c.Mean, c.SD}
			if of.Foreground != [4]float64{} && of.Foreground != own {
				return of, fmt.Errorf("channels of two different CT statistics are not prepared")
			}
			of.Foreground = own
		}
		modalities = append(modalities, modality)
	}
	of.Intensity = strings.Join(intensities, ",")
	if slices.Contains(modalities, volume.ModalityCT) {
		of.Modality = strings.Join(modalities, ",")
	}
	return of, nil
}
