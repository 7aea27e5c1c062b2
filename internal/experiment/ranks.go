package experiment

import (
	"errors"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: several ranks that carry out each trial together. Packages train and segment divide
// trainings and validations; what is left is that all ranks decide alike.

// atRoot lets rank 0 alone do something in the study's folder, and gives all ranks its outcome.
func atRoot(group train.Group, do func() error) error {
	var err error
	if group.Rank == 0 {
		err = do()
	}
	return group.Agree(err)
}

func (r *runner) atRoot(do func() error) error { return atRoot(r.group, do) }

// alike makes sure that all ranks are about to carry out the same trials of the same plan.
func (r *runner) alike() error {
	plan := r.plan
	plan.Data = "" // the fingerprint tells
	text, err := config.Marshal(&plan)
	if err != nil {
		return err
	}
	return r.group.Same(map[string]string{
		"version": voxsaw.Version(), "settings": string(text), "data set": "fingerprint " + r.cache.Fingerprint(),
		"trial": fmt.Sprint(r.Trial),
	})
}

// CheckRanks says whether so many ranks can carry out the plan's trials together: every batch must
// be divisible among them, and none may be normalised as a whole.
func (p Plan) CheckRanks(ranks int) error {
	if ranks < 2 {
		return nil
	}
	for _, i := range p.Inits {
		c, err := p.finetune(i)
		if err != nil {
			return err
		}
		if err := divides(ranks, c.Network, c.Train, c.Batch); err != nil {
			return fmt.Errorf("initialisation %s: finetune: %w", i.Name, err)
		}
		if !i.pretrains() {
			continue
		}
		chosen, err := p.pretext(i)
		if err != nil {
			return err
		}
		_, settings := pretext.Chosen(&chosen)
		s := settings.Common()
		if err := divides(ranks, *s.Network, *s.Train, *s.Batch); err != nil {
			return fmt.Errorf("initialisation %s: pretrain: %w", i.Name, err)
		}
	}
	return nil
}

// divides says whether ranks can share the batches of a training.
func divides(ranks int, n voxsaw.Network, t voxsaw.Training, batch int) error {
	n, err := backbone.Resolve(n)
	if err != nil {
		return err
	}
	if n.Norm == backbone.NormBatch {
		return errors.New("network.norm is batch, whose statistics several ranks cannot share: choose the norm instance or group")
	}
	_, _, err = train.Group{Size: ranks}.Accumulating(t.Accumulate).Share(batch)
	return err
}
