package experiment

import (
	"errors"
	"fmt"
	"os"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: several ranks that carry out each trial together. Packages train and segment divide
// trainings and validations; what is left is that all ranks decide alike.

// Group is the ranks.
func (s Setting) Group() train.Group { return train.GroupOf(voxsaw.RunOptions{Ranks: s.Ranks}) }

// Alike makes sure that all ranks are about to carry out the same trials of the same plan, of data
// with a fingerprint.
func (s Setting) Alike(plan any, fingerprint string) error {
	text, err := config.Marshal(plan)
	if err != nil {
		return err
	}
	return s.Group().Same(map[string]string{
		"version": voxsaw.Version(), "settings": string(text), "data set": "fingerprint " + fingerprint,
		"trial": fmt.Sprint(s.Trial),
	})
}

// Run are the options of a run, which is begun, or taken up again. Rank 0 alone writes. What it is
// compared with when it is taken up are settings, or, where there are none, the training's own.
func (s Setting) Run(folder string, settings []byte, observer voxsaw.Observer) voxsaw.RunOptions {
	o := voxsaw.RunOptions{Ranks: s.Ranks, Settings: settings, Observer: observer, Memory: s.Memory,
		Idle: true} // whoever begins a study refuses settings that do nothing
	if s.Group().Rank > 0 {
		return o
	}
	o.Folder, o.Mode = folder, voxsaw.ModeResume
	if entries, err := os.ReadDir(folder); err != nil || len(entries) == 0 {
		o.Mode = voxsaw.ModeNew
	}
	return o
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
		s := chosen.Settings().Common()
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
		return errors.New("network.norm is batch, whose statistics several ranks cannot " +
			"share: choose the norm instance or group")
	}
	_, _, err = train.Group{Size: ranks}.Accumulating(t.Accumulate).Share(batch)
	return err
}
