package photostudy

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// Trainings implements [experiment.Study]: of each arm that is not random, its own.
func (p *Plan) Trainings(ctx context.Context, s experiment.Stage, each func(experiment.Training) error) (err error) {
	on := *p
	if s.MadeUp != "" {
		on.Arms, on.Transfer, on.Finetune = slices.Clone(p.Arms), nil, nil
		for n := range on.Arms {
			on.Arms[n].Photos = ""
		}
		if on.Photos, err = p.madeUp(s.MadeUp); err != nil {
			return err
		}
	}
	r := &runner{plan: on, stores: experiment.NewStores(experiment.Setting{}, photos.Open)}
	defer r.stores.Close()
	if err := r.openAll(); err != nil {
		return err
	}
	for _, arm := range on.Arms {
		if arm.Random {
			continue
		}
		chosen, err := on.settings(arm)
		if err != nil {
			return err
		}
		task, data, name := chosen.Settings(), r.own[arm.Photos], arm.called()
		if err := task.Resolve(data.Store); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		c := task.Common()
		*c.Batch /= s.Ranks
		if err := each(experiment.Training{Name: name, Arm: name, Kind: experiment.OfPretraining,
			Plan: len(p.Seeds), Trial: 1, Steps: c.Train.Steps,
			Run: func(o voxsaw.RunOptions) error {
				_, err := task.Pretrain(ctx, s.Device, data, o)
				return err
			},
			Small: func(o voxsaw.RunOptions) error { return small(ctx, s.Device, task, data, o) },
		}); err != nil {
			return err
		}
	}
	return nil
}

// small trains a few small steps. It changes the settings of the task.
func small(ctx context.Context, dev voxsaw.Device, task pretext.Config, data sample.Data, o voxsaw.RunOptions) error {
	c := task.Common()
	*c.Batch, c.Train.Steps, c.Train.Accumulate, c.Train.ValidateEvery, c.Train.CheckpointEvery = min(*c.Batch, 2),
		experiment.RateSteps, 0, 0, 0
	data.Validate = nil
	if err := task.Resolve(data.Store); err != nil {
		return err
	}
	_, err := task.Pretrain(ctx, dev, data, o)
	return err
}

// madeUp prepares a few made-up photographs of two classes, of a size that all arms can look at.
func (p Plan) madeUp(folder string) (string, error) {
	side := 1
	for _, arm := range p.Arms {
		chosen, err := p.settings(arm)
		if err != nil {
			return "", err
		}
		switch _, puzzles, classes := puzzle2d.SettingsOf(chosen.Settings()); {
		case puzzles != nil:
			extent, err := puzzles.Extent()
			if err != nil {
				return "", fmt.Errorf("arm %s: %w", arm.Name, err)
			}
			side = max(side, extent[0], extent[1])
		case classes != nil:
			side = max(side, classes.Crop, 3*classes.Cell)
		}
	}
	raw, out := filepath.Join(folder, "photos"), filepath.Join(folder, "prepared")
	for n := range 8 {
		if err := miniature.Picture(filepath.Join(raw, fmt.Sprint(n%2), fmt.Sprintf("%d.png", n)), n); err != nil {
			return "", err
		}
	}
	set, err := photos.Find(raw, 0.25, 1)
	if err != nil {
		return "", err
	}
	o := photos.DefaultOptions()
	o.Size = [2]int{side, side}
	_, err = photos.Prepare(context.Background(), set, out, o, nil)
	return out, err
}
