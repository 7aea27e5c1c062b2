package experiment

import (
	"context"
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what a machine must have for the trials of a plan, before any of them runs.

// Needs rehearses the trainings of each initialisation on a device, as one of the ranks that carry
// out a trial together. Nothing is trained.
func (p Plan) Needs(ctx context.Context, dev voxsaw.Device, ranks int) (n cluster.Needs, err error) {
	cache, err := prepared.Open(p.Data)
	if err != nil {
		return n, err
	}
	defer cache.Close()
	cases, err := p.casesOf(cache)
	if err != nil {
		return n, err
	}
	if err := p.checkUnlabelled(p.trials(cases), ranks); err != nil {
		return n, err
	}
	for r := range cache.Records() {
		n.Voxels = max(n.Voxels, r.Grid.Len(), r.Original.Len())
	}
	seen := map[string]bool{}
	for _, t := range p.trials(cases) { // of an initialisation all need the same
		if seen[t.Init] {
			continue
		}
		seen[t.Init] = true
		tuning, err := p.finetuningNeeds(ctx, dev, ranks, t, cache)
		tuning.FLOPs *= float64(1 + p.initialisation(t.Init).Teachers)
		if err != nil {
			return n, fmt.Errorf("initialisation %s: finetune: %w", t.Init, err)
		}
		var before cluster.Needs
		if i := p.pretrained(p.initialisation(t.Init)); i.pretrains() {
			if before, err = p.pretrainingNeeds(ctx, dev, ranks, i, t, cases, cache); err != nil {
				return n, fmt.Errorf("initialisation %s: pretrain: %w", i.Name, err)
			}
		}
		n.Memory, n.FLOPs = max(n.Memory, tuning.Memory, before.Memory), max(n.FLOPs, tuning.FLOPs+before.FLOPs)
	}
	return n, nil
}

// finetuningNeeds are those of a trial without the pretraining of its encoder.
func (p Plan) finetuningNeeds(ctx context.Context, dev voxsaw.Device, ranks int, t Trial, cache *prepared.Store) (cluster.Needs,
	error) {
	c, err := p.finetune(p.initialisation(t.Init))
	if err != nil {
		return cluster.Needs{}, err
	}
	if c, err = c.Resolve(cache); err != nil {
		return cluster.Needs{}, err
	}
	c.Batch /= ranks
	return Rehearse(c.Train.Steps, func(o voxsaw.RunOptions) error {
		data := sample.Data{Store: cache, Train: t.Train, Unlabelled: t.Unlabelled}
		_, _, err := segment.Finetune(ctx, dev, c, data, "", o)
		return err
	})
}

// pretrainingNeeds are those of pretraining the encoder of a trial.
func (p Plan) pretrainingNeeds(ctx context.Context, dev voxsaw.Device, ranks int, i Initialisation, t Trial, c Cases,
	cache *prepared.Store) (cluster.Needs, error) {
	e, err := p.encoder(i, t.Fold, p.encoderOf(t.Seed), c, cache)
	if err != nil {
		return cluster.Needs{}, err
	}
	if i.Data != "" {
		if cache, err = prepared.Open(i.Data); err != nil {
			return cluster.Needs{}, err
		}
		defer cache.Close()
	}
	chosen, data, err := p.pretraining(e, cache)
	if err != nil {
		return cluster.Needs{}, err
	}
	_, settings := pretext.Chosen(&chosen)
	*settings.Common().Batch /= ranks
	return Rehearse(settings.Common().Train.Steps, func(o voxsaw.RunOptions) error {
		_, err := settings.Pretrain(ctx, dev, data, o)
		return err
	})
}

// Rehearse learns what a training of so many steps needs.
func Rehearse(steps int, training func(voxsaw.RunOptions) error) (cluster.Needs, error) {
	var need voxsaw.MemoryNeed
	err := training(voxsaw.RunOptions{Need: &need})
	return cluster.Needs{Memory: need.Bytes, FLOPs: float64(steps) * need.FLOPs}, err
}

// pretraining is the task that an encoder is pretrained with, its settings resolved, and the cases.
func (p Plan) pretraining(e Encoder, cache *prepared.Store) (chosen config.OneOf, data sample.Data, err error) {
	data.Store = cache
	if data.Train, data.Validate, err = dataset.HoldOut(e.Cases, dataset.PatientsOf(cache.Records()), 0.15,
		p.SubsetSeed); err != nil {
		return chosen, data, err
	}
	if chosen, err = p.pretext(p.initialisation(e.Init)); err != nil {
		return chosen, data, err
	}
	_, settings := pretext.Chosen(&chosen)
	settings.Common().Train.Seed += uint64(e.Number)
	return chosen, data, config.Mistaken(settings.Resolve(cache.Preparation()))
}
