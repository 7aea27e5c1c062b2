package puzzle3d

import (
	"fmt"
	"maps"
	"slices"

	"github.com/voxsaw/voxsaw/internal/seed"
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
	patches := make([]float32, layout.Cells()*layout.Voxels())
	drawn, blank, solvable, padded := 0, 0, 0.0, 0
	for n := range min(cases, len(s.cases)) {
		c := s.cases[n*len(s.cases)/min(cases, len(s.cases))]
		if c.Padded(s.config.Crop) {
			padded++
		}
		for k := range puzzles {
			r := seed.Rand(s.config.Train.Seed, "air", uint64(n), uint64(k))
			origin, err := c.RandomOrigin(r, s.config.Crop, s.config.MaxAir)
			if err != nil {
				return "", err
			}
			if err := layout.Cut(patches, c, origin, r); err != nil {
				return "", err
			}
			alike := map[float32]int{} // uniform patches by their value
			for patch := range slices.Chunk(patches, layout.Voxels()) {
				if !slices.ContainsFunc(patch, func(x float32) bool { return x != patch[0] }) {
					alike[patch[0]]++
					blank++
				}
			}
			_, _, placed := s.config.grid().Ceiling(slices.Collect(maps.Values(alike))...)
			drawn, solvable = drawn+1, solvable+placed
		}
	}
	if drawn == 0 || 2*blank <= drawn*layout.Cells() {
		return "", nil
	}
	why := ""
	if padded > 0 {
		why = ", and scans are smaller than the crop"
	}
	limit := ""
	if s.game.Orders == nil { // otherwise the other patches tell which order it is
		limit = fmt.Sprintf(", so that at most %.0f %% of the patches can be put in their place", 100*solvable/float64(drawn))
	}
	return fmt.Sprintf("WARNING: puzzles are mostly air%s: %.0f of %d patches show nothing else%s. Leave out the air around the patient (voxsaw prepare --crop body), take a smaller crop (--crop), or prepare the scans with smaller voxels (voxsaw prepare --spacing)",
		why, float64(blank)/float64(drawn), layout.Cells(), limit), nil
}
