package puzzle3d

import (
	"cmp"
	"context"
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/restoration"
	"github.com/voxsaw/voxsaw/sample"
)

// This file: puzzles and masked restoration in one step. Puzzles teach the encoder alone, and what
// they teach is where things lie; restoration teaches the decoder, too, and what they look like.
// The loss of a step is
//
//	loss of the puzzles + Restore x mean squared error of masked voxels
//
// Puzzles and masked crops are drawn on their own: with and without restoration a seed gives the
// same puzzles.

// resolveRestore writes out the numbers of nnssl's masked autoencoder where the user says nothing.
func (c *Config) resolveRestore() {
	if c.Restore == 0 {
		return
	}
	if c.RestoreCrop == [3]int{} {
		c.RestoreCrop = [3]int{64, 64, 64}
	}
	c.MaskShare, c.MaskBlock = cmp.Or(c.MaskShare, 0.75), cmp.Or(c.MaskBlock, 16)
}

// restoring is what is learnt beside puzzles; nil: nothing.
func (c Config) restoring() (*restoration.Beside, error) {
	if !(c.Restore >= 0) || math.IsInf(c.Restore, 1) {
		return nil, fmt.Errorf("restore is %v, must be a number from 0 up", c.Restore)
	}
	if c.Restore == 0 {
		if c.RestoreCrop != [3]int{} || c.MaskShare != 0 || c.MaskBlock != 0 {
			return nil,
				fmt.Errorf("restore_crop, mask_share and mask_block are for restoration beside puzzles: set restore, " +
					"the weight of its loss, or leave them out")
		}
		return nil, nil
	}
	b, err := restoration.NewBeside(name+" restore", restoration.Masked{MaskShare: c.MaskShare, MaskBlock: c.MaskBlock},
		pretext.Settings{
			Network: c.Network, Train: c.Train, Crop: c.RestoreCrop, Batch: c.Batch, MaxAir: c.MaxAir,
		}, c.Restore)
	if err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return b, nil
}

// companion is the network of the patches with what it learns beside puzzles.
type companion struct {
	backbone.Patches
	restoring *restoration.Beside
}

// Beside implements [jigsaw.Companion].
func (c companion) Beside(g *nn.Graph, o *nn.Options, puzzles int) { c.restoring.Add(g, o, puzzles) }

// learns is the network of a training step.
func (c Config) learns() (jigsaw.Backbone, *restoration.Beside, error) {
	encoder, err := c.encoder()
	if err != nil {
		return nil, nil, err
	}
	restoring, err := c.restoring()
	if err != nil || restoring == nil {
		return encoder, nil, err
	}
	return companion{encoder, restoring}, restoring, nil
}

// batchBeside adds the masked crops of a step to its puzzles.
func (l *learner) batchBeside(ctx context.Context, b *jigsaw.Batch, step int) error {
	examples, err := l.restoring.Draw(ctx, l.sampler.cases, step, l.sampler.first, l.sampler.n)
	b.Beside = examples
	return err
}

// MicroBatch implements [train.Divider].
func (l *learner) MicroBatch(b *jigsaw.Batch, i, n int) *jigsaw.Batch {
	part := l.Learner.MicroBatch(b, i, n)
	if examples, ok := b.Beside.(restoration.Examples); ok {
		part.Beside = examples.MicroBatch(i, n)
	}
	return part
}

// validateBeside adds how well held-out cases are restored. The score stays that of the puzzles.
func (l *learner) validateBeside(ctx context.Context, v *voxsaw.Validation) error {
	e, err := l.restorer.Evaluate(ctx, l.held)
	if err != nil {
		return err
	}
	for k, m := range e.Measures {
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: m.Key, Value: e.Final()[k]})
	}
	return nil
}

// evaluateBeside adds the measures of restoration to the table of the puzzles. They do not depend
// on the round.
func (e evaluator) evaluateBeside(ctx context.Context, cases []sample.Sample, out *pretext.Evaluation) error {
	restored, err := e.restorer.Evaluate(ctx, cases)
	if err != nil {
		return err
	}
	out.Measures = append(out.Measures, restored.Measures...)
	for round := range out.Rounds {
		out.Rounds[round] = append(out.Rounds[round], restored.Final()...)
	}
	out.Chance = append(out.Chance, restored.Chance...)
	if out.Ceiling != nil {
		for range restored.Measures {
			out.Ceiling = append(out.Ceiling, 1)
		}
	}
	out.Notes = append(out.Notes, restored.Notes...)
	out.Record = struct {
		Evaluation
		Restored any `json:"restored"`
	}{out.Record.(Evaluation), restored.Record}
	return nil
}
