package classify

import (
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/sample"
)

// PatchSettings are the settings of tasks that look at several patches, each out of a cell of the
// crop.
type PatchSettings struct {
	Settings `yaml:",inline"`

	Patch     [3]int  `yaml:"patch,flow" help:"size of a patch; 0: the largest that the network takes within 80 % of a cell"`
	Hidden    int     `yaml:"hidden" help:"width of the hidden layers over the features of all patches"`
	Intensity float64 `yaml:"intensity" help:"augmentation: each patch's contrast and brightness vary by up to this share; 0: none"`
}

// Layout says where patches lie in a grid.
func (s *PatchSettings) Layout(grid [3]int) patches.Layout {
	return patches.Layout{Grid: grid, Crop: s.Crop, Patch: s.Patch, Channels: s.Network.InputChannels()}
}

// Prepare completes the settings as [Settings.Prepare] does, and with the size of a patch.
func (s *PatchSettings) Prepare(of sample.Store, grid [3]int) error {
	b, err := s.Settings.Prepare(of)
	if err != nil {
		return err
	}
	s.Patch, err = s.Layout(grid).Resolve(b)
	return err
}

// Check says what is wrong with the settings, nil if nothing is.
func (s *PatchSettings) Check(grid [3]int) error {
	b, err := s.Settings.Check()
	if err != nil {
		return err
	}
	if err := s.Layout(grid).Check(b); err != nil {
		return err
	}
	if err := pretext.CheckRange("hidden", s.Hidden, 1, 1<<16); err != nil {
		return err
	}
	return patches.CheckVary(s.Intensity)
}

// Cut reads the patch (Channels, D, H, W) of a cell, varied in training, when there is a generator.
func (s *PatchSettings) Cut(dst []float32, c sample.Sample, origin, grid [3]int, cell int, r *rand.Rand) error {
	layout := s.Layout(grid)
	if err := layout.CutOne(dst, c, origin, cell, r); err != nil {
		return err
	}
	if r != nil && s.Intensity > 0 {
		layout.Vary(dst, s.Intensity, r)
	}
	return nil
}
