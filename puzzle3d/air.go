package puzzle3d

import (
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// airNote says whether puzzles of the training cases are mostly air, how much of them can be solved
// then, and what to change; "" where they are not. It draws puzzles of a few cases as training
// does.
func (s sampler) airNote() (string, error) {
	const (
		cases   = 8
		puzzles = 4 // of each
	)
	layout := s.config.layout()
	cut := make([]float32, layout.Cells()*layout.Values())
	drawn, blank, solvable := 0, 0, 0.0
	var looked []sample.Sample
	for n := range min(cases, len(s.cases)) {
		c := s.cases[n*len(s.cases)/min(cases, len(s.cases))]
		looked = append(looked, c)
		for k := range puzzles {
			r := seed.Rand(s.config.Train.Seed, "air", uint64(n), uint64(k))
			origin, err := sample.RandomOrigin(c, r, s.config.Crop, s.config.MaxAir)
			if err != nil {
				return "", err
			}
			if err := layout.Cut(cut, c, origin, r); err != nil {
				return "", err
			}
			alike := map[string]int{} // uniform patches by their values
			for patch := range slices.Chunk(cut, layout.Values()) {
				if values := patches.Uniform(patch, layout.Shown()); values != nil {
					alike[fmt.Sprint(values)]++
					blank++
				}
			}
			_, _, placed := s.config.grid().Ceiling(slices.Sorted(maps.Values(alike))...)
			drawn, solvable = drawn+1, solvable+placed
		}
	}
	if drawn == 0 || 2*blank <= drawn*layout.Cells() {
		return "", nil
	}
	limit := ""
	if s.game.Orders == nil { // otherwise the other patches tell which order it is
		limit = fmt.Sprintf(", so that at most %.0f %% of the patches can be put in their place",
			100*solvable/float64(drawn))
	}
	return fmt.Sprintf("WARNING: puzzles are mostly air: %.0f of %d patches show nothing else%s. %s",
		float64(blank)/float64(drawn), layout.Cells(), limit, s.config.airCause(looked)), nil
}

// airCause says why crops of these cases hold so much air, and what helps: scans that are smaller
// than the crop, air around the patient that was prepared, or else voxels so large that the crop
// goes beyond the patient.
func (c Config) airCause(cases []sample.Sample) string {
	var padded []sample.Sample
	for _, one := range cases {
		if sample.Padded(one, c.Crop) {
			padded = append(padded, one)
		}
	}
	switch how := c.Preparation.Crop; {
	case len(padded) > 0:
		size := padded[0].Size()
		return fmt.Sprintf("The crop of %s voxels is larger than %d of %s looked at, such as %s of %s: %s, or "+
			"prepare the scans with smaller voxels (voxsaw prepare --spacing)",
			numbers.Extents(c.Crop[:]), len(padded), numbers.Count(len(cases), "case"), padded[0].Name(),
			numbers.Extents(size[:]), c.smallerCrop())
	case how == "" || how == volume.CropNone,
		how == volume.CropNonzero && c.Preparation.ModalityName() == volume.ModalityCT:
		// a CT's air is no 0
		return fmt.Sprintf("Leave out the air around the patient (voxsaw prepare --crop body), %s, or prepare the "+
			"scans with smaller voxels (voxsaw prepare --spacing)", c.smallerCrop())
	}
	extent := ""
	if of, ok := cases[0].(*prepared.Case); ok {
		var mm [3]float64
		for axis, spacing := range of.Spacing {
			mm[axis] = float64(c.Crop[axis]) * spacing
		}
		extent = fmt.Sprintf("; a crop of %s voxels is %.0f x %.0f x %.0f mm in %s", numbers.Extents(c.Crop[:]), mm[0],
			mm[1], mm[2], of.ID)
	}
	return fmt.Sprintf("The air around the patient is left out already%s: %s, or prepare the scans with "+
		"smaller voxels (voxsaw prepare --spacing)", extent, c.smallerCrop())
}

// smallerCrop advises a smaller crop, as far as the network takes its patches: below that, the grid
// or the network must be another.
func (c Config) smallerCrop() string {
	const advice = "take a smaller crop (--crop)"
	b, err := backbone.Of(c.Network)
	if err != nil {
		return advice
	}
	least := c.layout().Least(b)
	for axis, crop := range c.Crop {
		if least[axis] < crop {
			return fmt.Sprintf("take a smaller crop (--crop, with this network and grid %s or more; below that "+
				"also a coarser --grid or fewer --levels)", numbers.Extents(least[:]))
		}
	}
	return fmt.Sprintf("take a coarser --grid or fewer --levels and with them a smaller crop "+
		"(this network and grid take none below %s)", numbers.Extents(least[:]))
}
