package photostudy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// Rehearse counts the arithmetic of the trainings of a plan, without its data: each is made ready
// for made-up photographs, and a few steps of the first are timed.
func (p Plan) Rehearse(ctx context.Context, dev voxsaw.Device) (r experiment.Rehearsal, err error) {
	r.Without = "fine-tuning, features and solving"
	folder, err := os.MkdirTemp("", "voxsaw-rehearsal")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(folder)
	var stores []*photos.Store
	defer func() {
		for _, store := range stores {
			store.Close()
		}
	}()
	err = p.rehearse(ctx, dev, func(_ Arm, settings any) (puzzle2d.Data, error) {
		store, err := madeUp(folder, side(settings))
		if err != nil {
			return puzzle2d.Data{}, err
		}
		stores = append(stores, store)
		return puzzle2d.Split(store), nil
	}, func(task Task, data puzzle2d.Data, one cluster.Needs) (err error) {
		r.Of("training").Add(len(p.Seeds), one.FLOPs)
		if r.Rate == 0 {
			r.Rate, err = rateOf(ctx, dev, task, data)
		}
		return err
	})
	return r, err
}

// Needs rehearses the training of each arm on a device. Nothing is trained.
func (p Plan) Needs(ctx context.Context, dev voxsaw.Device, _ int) (n cluster.Needs, err error) {
	r, err := newRunner(p, experiment.Setting{Device: dev})
	if err != nil {
		return n, err
	}
	defer r.close()
	err = p.rehearse(ctx, dev, func(arm Arm, _ any) (puzzle2d.Data, error) { return r.own[arm.Photos], nil },
		func(_ Task, _ puzzle2d.Data, need cluster.Needs) error {
			n.Memory, n.FLOPs = max(n.Memory, need.Memory), max(n.FLOPs, need.FLOPs)
			return nil
		})
	return n, err
}

// rehearse learns what the training of each arm needs, on data for it, and calls each with that.
func (p Plan) rehearse(ctx context.Context, dev voxsaw.Device, of func(Arm, any) (puzzle2d.Data, error),
	each func(Task, puzzle2d.Data, cluster.Needs) error) error {
	one := func(arm Arm) error {
		chosen, err := p.settings(arm)
		if err != nil {
			return err
		}
		task := TaskOf(chosen.Value())
		data, err := of(arm, chosen.Value())
		if err == nil {
			err = task.Resolve(data)
		}
		if err != nil {
			return err
		}
		need, err := experiment.Rehearse(task.Train.Steps, func(o voxsaw.RunOptions) error {
			_, err := task.Run(ctx, dev, data, o)
			return err
		})
		if err != nil {
			return err
		}
		return each(task, data, need)
	}
	for _, arm := range p.Arms {
		if arm.Random {
			continue
		}
		if err := one(arm); err != nil {
			return fmt.Errorf("arm %s: %w", arm.Name, err)
		}
	}
	return nil
}

// rateOf times a few small steps. It changes the settings of the task.
func rateOf(ctx context.Context, dev voxsaw.Device, task Task, data puzzle2d.Data) (float64, error) {
	t := task.Train
	*task.Batch, t.Steps, t.Accumulate, t.ValidateEvery, t.CheckpointEvery = min(*task.Batch, 2), experiment.RateSteps,
		0, 0, 0
	data.Validate = nil
	if err := task.Resolve(data); err != nil {
		return 0, err
	}
	return experiment.RateOf(func(o voxsaw.RunOptions) error {
		_, err := task.Run(ctx, dev, data, o)
		return err
	})
}

// side is the width and height of the photographs that a task of these settings looks at.
func side(settings any) int {
	switch c := settings.(type) {
	case *puzzle2d.Config:
		return max(c.Grid[0], c.Grid[1]) * c.Cell
	case *puzzle2d.Classification:
		return max(c.Crop, 3*c.Cell)
	}
	return 255
}

// madeUp prepares a few made-up photographs of two classes, once for each size.
func madeUp(folder string, side int) (*photos.Store, error) {
	dir := filepath.Join(folder, fmt.Sprint(side))
	if store, err := photos.Open(filepath.Join(dir, "prepared")); err == nil {
		return store, nil
	}
	for n := range 8 {
		path := filepath.Join(dir, "photos", fmt.Sprint(n%2), fmt.Sprintf("%d.png", n))
		if err := miniature.Picture(path, n); err != nil {
			return nil, err
		}
	}
	set, err := photos.Find(filepath.Join(dir, "photos"), 0.25, 1)
	if err != nil {
		return nil, err
	}
	o := photos.DefaultOptions()
	o.Size = [2]int{side, side}
	if _, err := photos.Prepare(context.Background(), set, filepath.Join(dir, "prepared"), o, nil); err != nil {
		return nil, err
	}
	return photos.Open(filepath.Join(dir, "prepared"))
}
