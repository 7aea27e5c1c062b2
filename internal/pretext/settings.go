package pretext

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/sample"
)

// Settings are those that tasks have in common, for a task to embed. Sizes are along the axes (i,
// j, k) of the prepared cases.
type Settings struct {
	Network voxsaw.Network  `yaml:"network"`
	Train   voxsaw.Training `yaml:"train"`

	Crop          [3]int  `yaml:"crop,flow" help:"size of the crop, in voxels" range:"[1,)"`
	Batch         int     `yaml:"batch" help:"crops in a step; auto: what memory holds" words:"auto=0" most:"4096"`
	MaxAir        float64 `yaml:"max_air" help:"crops with at most this share of air are preferred; 1: any crop" range:"[0,1]"`
	ValidateCases int     `yaml:"validate_cases" help:"held-out cases to validate on during training; 0: all"`
}

// DefaultSettings are a start for a task, with crops of a side.
func DefaultSettings(side, batch int) Settings {
	return Settings{Network: voxsaw.DefaultNetwork(), Train: voxsaw.DefaultTraining(), Crop: [3]int{side, side, side},
		Batch: batch, MaxAir: 0.3}
}

// Common implements [Config].
func (s *Settings) Common() Common {
	return Common{Network: &s.Network, Train: &s.Train, Crop: &s.Crop, Batch: &s.Batch, MaxAir: &s.MaxAir,
		ValidateCases: &s.ValidateCases}
}

// Check says what is wrong with the settings, nil if nothing is, and gives the network.
func (s *Settings) Check() (backbone.Backbone, error) {
	if err := s.Train.Check(); err != nil {
		return nil, err
	}
	if err := CheckRange("batch", s.Batch, 1, 1<<12); err != nil {
		return nil, err
	}
	if err := CheckRange("validate_cases", s.ValidateCases, 0, 1<<30); err != nil {
		return nil, err
	}
	if err := CheckShare("max_air", s.MaxAir); err != nil {
		return nil, err
	}
	return backbone.Of(s.Network)
}

// Idle implements [Config] for a task that trains the encoder alone.
func (s *Settings) Idle() error { return IdleInEncoder(s.Network) }

// IdleInEncoder is [backbone.Idle] where the encoder is trained without a decoder.
func IdleInEncoder(n voxsaw.Network) error {
	idle := backbone.Idle(n)
	if !n.DeepSupervision {
		return idle
	}
	return errors.Join(idle, &config.IdleError{Keys: []string{"network.deep_supervision"}, Advice: "deep_supervision " +
		"is of the decoder, and this task trains the encoder alone: leave it out here, and give it to finetune"})
}

// CheckRange says whether a setting lies outside its limits.
func CheckRange(name string, value, low, high int) error {
	if value < low || value > high {
		return fmt.Errorf("%s is %d, must be from %d to %d", name, value, low, high)
	}
	return nil
}

// CheckShare says whether a setting is no share or probability.
func CheckShare(name string, value float64) error {
	if !(value >= 0 && value <= 1) {
		return fmt.Errorf("%s is %v, must be a share from 0 to 1", name, value)
	}
	return nil
}

// Items makes the n items of a step from the given number on, each with a generator that is a
// function of the seed, the task, the step and the item's number in the batch.
func (s *Settings) Items(ctx context.Context, task string, step, first, n int,
	item func(i int, r *rand.Rand) error) error {
	for i := range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := item(i, seed.Rand(s.Train.Seed, task, uint64(step), uint64(first+i))); err != nil {
			return err
		}
	}
	return nil
}

// RandomCrop draws a case and the origin of a crop of it.
func (s *Settings) RandomCrop(r *rand.Rand, cases []sample.Sample) (c sample.Sample, origin [3]int, err error) {
	c = cases[r.IntN(len(cases))]
	origin, err = sample.RandomOrigin(c, r, s.Crop, s.MaxAir)
	return c, origin, err
}
