package dataset

import (
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// This file: what the values of a scan are like.

// doubtsAboutGrid says what no scan of a patient is like: voxels of an impossible size.
func doubtsAboutGrid(g volume.Grid) (doubts []string) {
	const least, most = 0.01, 100 // mm
	if s := g.Spacing(); min(s[0], s[1], s[2]) < least || max(s[0], s[1], s[2]) > most {
		doubts = append(doubts,
			fmt.Sprintf("voxels of %.4g x %.4g x %.4g mm are none of a patient: is the unit of length another?", s[0],
				s[1], s[2]))
	}
	return doubts
}

// doubtsAbout says what no CT of a patient is like: values that are no Hounsfield units: all alike,
// hardly different, or none of air and fat.
func doubtsAbout(v *volume.Volume) (doubts []string) {
	const (
		leastRange  = 20   // HU
		leastVoxels = 1000 // of which anything is to be said
	)
	switch low, high := valuesOf(v); {
	case low > high: // none is a number
	case low == high:
		doubts = append(doubts, fmt.Sprintf("all voxels are %g: there is nothing to see", low))
	case (low >= 0 || high-low <= leastRange) && v.Len() >= leastVoxels && !nifti.VolumeMayBeLabels(v):
		doubts = append(doubts,
			fmt.Sprintf("values go from %.4g to %.4g, and Hounsfield units from -1000 (air) over 0 (water) "+
				"to 1000 and more (bone): give the scan as it was before it was scaled or shifted; "+
				"if it is no CT, the --modality of voxsaw prepare says what it is", low, high))
	}
	return doubts
}

// valuesOf is the range of the values that are numbers; upside down where none is.
func valuesOf(v *volume.Volume) (low, high float32) {
	if v.Int16 != nil {
		return float32(slices.Min(v.Int16)), float32(slices.Max(v.Int16))
	}
	low, high = float32(math.Inf(1)), float32(math.Inf(-1))
	for _, x := range v.Float32 { // a NaN is neither below nor above
		if x < low {
			low = x
		}
		if x > high {
			high = x
		}
	}
	return low, high
}

const notLabels = "is taken for a scan, though it holds labels by its values: few " +
	"whole numbers, 0 among them and none below"

// likeness is what the values of a scan are like.
type likeness int

const (
	likeNothing   likeness = iota // nobody can tell
	likeCT                        // Hounsfield units: air, lung or fat
	likeShiftedCT                 // the same, 1024 or 1000 higher
	unlikeCT                      // no Hounsfield units
)

// likenessOf looks at a scan's values. A CT has air at -1000 HU, or fat at -100, and nothing below
// -1100 but one value or two that stand for what was not scanned. The values of MR begin at 0;
// resampling makes some of them negative, not many.
func likenessOf(v *volume.Volume) likeness {
	const (
		leastVoxels = 1000
		leastRange  = 20    // HU
		few         = 0.001 // of the voxels
		some        = 0.01
	)
	counts, finite := make([]int, 1<<16), 0
	low, high := v.Statistics().Min, v.Statistics().Max
	add := func(x float32) {
		if x-x == 0 {
			counts[int(min(max(x, -1<<15), 1<<15-1))+1<<15]++
			finite++
		}
	}
	for _, x := range v.Int16 {
		add(float32(x))
	}
	for _, x := range v.Float32 {
		add(x)
	}
	share := func(from, to int) float64 {
		n := 0
		for value := from; value <= to; value++ {
			n += counts[value+1<<15]
		}
		return float64(n) / float64(finite)
	}
	fillers := 0 // values below all tissue that many voxels have
	for value := -1 << 15; value < -1100; value++ {
		if counts[value+1<<15] > 0 {
			fillers++
		}
	}
	switch {
	case finite < leastVoxels || low == high || nifti.VolumeMayBeLabels(v):
		return likeNothing
	case high-low <= leastRange:
		return unlikeCT
	case low >= 0:
		// fat lies around 900, or 924, soft tissue around 1050, or 1074, and there is little else
		body, fat, soft := share(300, 1<<15-1), share(850, 970), share(1010, 1174)
		if low < 300 && body > some && fat+soft > 0.6*body && min(fat, soft) > 0.05*body {
			return likeShiftedCT
		}
		return unlikeCT
	case share(-1<<15, -50) < few:
		return unlikeCT
	case share(3100, 1<<15-1) >= some: // brighter than scanners write, but for a little metal
		return unlikeCT
	case fillers > 8 && share(-1<<15, -1101) > 5*some:
		return unlikeCT
	case share(-1100, -200) >= some || share(-150, -50) >= some:
		return likeCT
	case share(-1<<15, -50) < share(-49, -1)/5: // falls off below 0, as ringing does
		return unlikeCT
	}
	return likeNothing
}

// fits says whether values of that likeness may be those of a modality.
func (l likeness) fits(modality string) bool {
	switch l {
	case likeCT, likeShiftedCT:
		return modality == volume.ModalityCT || modality == unknownModality
	case unlikeCT:
		return modality != volume.ModalityCT
	}
	return true
}

func (l likeness) String() string {
	if l == unlikeCT {
		return "no Hounsfield units"
	}
	return "Hounsfield units, as those of a CT"
}

// mayBeCT says whether nothing in a series says that it is none.
func mayBeCT(s *dicom.Series) bool {
	m := Case{series: s}.Modality().Name
	return m == "" || m == volume.ModalityCT
}
