package volume

import (
	"cmp"
	"fmt"
	"strings"
)

// A Difference is a setting that two preparations have different values of, as a user writes them.
type Difference struct{ Key, Old, New string }

// Differences lists the settings in which the preparation differs from an older one.
func (p Preparation) Differences(old Preparation) (all []Difference) {
	differ := func(key, before, now string) {
		if before != now {
			all = append(all, Difference{key, before, now})
		}
	}
	window := func(w [2]float64) string { return fmt.Sprintf("%g to %g", w[0], w[1]) }
	differ("spacing", SpacingText(old.Spacing), SpacingText(p.Spacing))
	differ("crop", cmp.Or(old.Crop, CropNone), cmp.Or(p.Crop, CropNone))
	differ("channels", cmp.Or(old.Channels, "one"), cmp.Or(p.Channels, "one"))
	words := func(p Preparation, word func(Preparation) string) string {
		var all []string
		for _, channel := range p.channels() {
			all = append(all, word(channel))
		}
		return strings.Join(all, ",")
	}
	differ("modality", words(old, Preparation.ModalityName), words(p, Preparation.ModalityName))
	before, now := words(old, Preparation.Scheme), words(p, Preparation.Scheme)
	if differ("intensity", before, now); before == now {
		if strings.Contains(now, CTWindow) {
			differ("window", window(old.Window), window(p.Window))
		}
		if strings.Contains(now, CTPercentiles) {
			differ("foreground", ForegroundText(old.Foreground), ForegroundText(p.Foreground))
		}
	}
	differ("masks", cmp.Or(old.Masks, "own"), cmp.Or(p.Masks, "own"))
	differ("axcodes", old.Axcodes, p.Axcodes)
	differ("interpolation", old.Interpolation, p.Interpolation)
	differ("relabel", cmp.Or(old.Relabel, "none"), cmp.Or(p.Relabel, "none"))
	return all
}

// ForegroundText writes what is known of the labelled voxels as the setting foreground takes it,
// to the last digit: whoever wants to go on with it can give it.
func ForegroundText(f [4]float64) string {
	return fmt.Sprintf("%g,%g,%g,%g", f[0], f[1], f[2], f[3])
}

// SpacingText writes a voxel size, whose zeros stand for the scan's own.
func SpacingText(spacing [3]float64) string {
	if spacing == [3]float64{} {
		return "each scan's own"
	}
	var parts []string
	for _, s := range spacing {
		if s == 0 {
			parts = append(parts, "own")
		} else {
			parts = append(parts, fmt.Sprintf("%g", s))
		}
	}
	return strings.Join(parts, "x") + " mm"
}
