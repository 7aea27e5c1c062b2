package photostudy

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// OfArms is the kind of a comparison's trainings.
const OfArms = "training"

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
	r := &runner{plan: on, own: map[string]puzzle2d.Data{}}
	defer r.close()
	if err := r.openAll(); err != nil {
		return err
	}
	for _, arm := range on.Arms {
		if arm.Random {
			continue
		}
		task, err := on.task(arm)
		if err == nil {
			err = task.Resolve(r.own[arm.Photos])
		}
		name := "arm " + arm.Name
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		*task.Batch /= s.Ranks
		if err := each(experiment.Training{Name: name, Arm: name, Kind: OfArms, Plan: len(p.Seeds), Trial: 1,
			Steps: task.Train.Steps,
			Run: func(o voxsaw.RunOptions) error {
				_, err := task.Run(ctx, s.Device, r.own[arm.Photos], o)
				return err
			},
			Small: func(o voxsaw.RunOptions) error { return task.small(ctx, s.Device, r.own[arm.Photos], o) },
		}); err != nil {
			return err
		}
	}
	return nil
}

// small trains a few small steps. It changes the settings of the task.
func (t Task) small(ctx context.Context, dev voxsaw.Device, data puzzle2d.Data, o voxsaw.RunOptions) error {
	*t.Batch, t.Train.Steps, t.Train.Accumulate, t.Train.ValidateEvery, t.Train.CheckpointEvery = min(*t.Batch, 2),
		experiment.RateSteps, 0, 0, 0
	data.Validate = nil
	if err := t.Resolve(data); err != nil {
		return err
	}
	_, err := t.Run(ctx, dev, data, o)
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
		switch c := chosen.Value().(type) {
		case *puzzle2d.Config:
			side = max(side, c.Grid[0]*c.Cell, c.Grid[1]*c.Cell)
		case *puzzle2d.Classification:
			side = max(side, c.Crop, 3*c.Cell)
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
