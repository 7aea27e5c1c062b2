package photostudy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// This file: what networks are measured by. Tasks of Pascal VOC, for which they are fine-tuned, are
// in finetune.go.

// An evaluation measures the networks of all arms by one thing.
type evaluation interface {
	experiment.Evaluation[network]
	// settings are what its outcome depends on; evaluations of the same kind are numbered.
	settings() (kind string, all map[string]string, err error)
}

// solving is puzzles of held-out photographs, in the ways that a network knows.
type solving struct{ *runner }

func (*solving) What() string { return "solving puzzles" }

func (e *solving) settings() (kind string, all map[string]string, err error) {
	return "", map[string]string{"rounds": fmt.Sprint(e.plan.Rounds), "only": strconv.Itoa(e.plan.Only),
		"solve": strconv.Itoa(e.plan.Solve)}, nil
}

func (*solving) Done(n network) bool {
	return n.checkpoint == "" || n.puzzles == nil || n.result.Solved != nil || len(n.data.Validate) == 0
}

func (e *solving) Evaluate(ctx context.Context, n network) error {
	c := n.puzzles
	n.result.Solved = map[string]puzzle2d.Evaluation{}
	rounds := 1
	if len(e.plan.Rounds) > 0 {
		rounds = slices.Max(e.plan.Rounds)
	}
	ways := map[string]puzzle2d.PlayOptions{"unary": {Rounds: rounds, Unary: c.Binary}}
	if c.Head == puzzle2d.HeadKWay {
		ways = map[string]puzzle2d.PlayOptions{"only": {}}
	} else {
		if c.Binary {
			ways["binary"] = puzzle2d.PlayOptions{Rounds: rounds}
		}
		if e.plan.Only > 0 {
			ways["only"] = puzzle2d.PlayOptions{Only: e.plan.Only}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		o := ways[name]
		if name == "only" && e.plan.Only > 0 && c.Grid[0]*c.Grid[1] < 9 {
			continue // four patches have 24 orders
		}
		o.Memory = e.Memory
		held, err := sample.Open(n.data.Store, puzzle2d.Spread(n.data.Validate, e.plan.Solve))
		if err != nil {
			return err
		}
		player, err := puzzle2d.Open(ctx, e.Device, n.checkpoint, o)
		if err != nil {
			return err
		}
		n.result.Solved[name], err = player.Evaluate(ctx, held)
		player.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// transferring is the features of a network on one target.
type transferring struct {
	*runner
	Target
	place int // among the targets
	data  sample.Data
	store *photos.Store // of data
}

func (e *transferring) What() string { return "transfer to " + e.Name }

func (e *transferring) settings() (kind string, all map[string]string, err error) {
	t := e.Target
	t.Data = e.store.Fingerprint()
	all, err = leaves("", &t)
	return "transfer", all, err
}

func (e *transferring) Done(n network) bool { return e.place < len(n.result.Transfer) }

func (e *transferring) Evaluate(ctx context.Context, n network) error {
	width, height := e.store.Size()
	o := puzzle2d.FeatureOptions{Random: n.common.Network, Seed: n.result.Seed, Input: n.common.Input, Layer: e.Layer,
		Side: e.Side, Memory: e.Memory}
	if o.Side == 0 {
		o.Side = min(width, height)
	}
	f, err := puzzle2d.OpenFeatures(e.Device, n.checkpoint, o)
	if err != nil {
		return err
	}
	defer f.Close()
	m := Measured{Target: e.Name, Width: f.Width(), Chance: 1 / float64(len(e.store.Classes()))}
	if m.Draws, err = e.measure().Run(ctx, f, e.data); err != nil {
		return err
	}
	if !e.Mix {
		m.Interval = interval(m.Draws)
	}
	n.result.Transfer = append(n.result.Transfer, m)
	return nil
}
