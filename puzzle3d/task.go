package puzzle3d

import (
	"context"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/restoration"
	"github.com/voxsaw/voxsaw/sample"
)

// name is what the pretext task is called, and its checkpoints.
const name = "jigsaw"

func init() {
	pretext.Scans.Register(pretext.Task{
		Name: name, Short: "put the shuffled patches of a crop back", Items: "puzzles",
		Title: "Puzzles of unseen cases", Score: "patches of held-out cases in place", Searched: true,
		New:  func() pretext.Config { return &settings{DefaultConfig()} },
		Open: openEvaluator,
	})
}

// settings is a Config on the list of pretext tasks.
type settings struct {
	Config `yaml:",inline"`
}

// Common implements [pretext.Config].
func (s *settings) Common() pretext.Common {
	return pretext.Common{Network: &s.Network, Train: &s.Train, Crop: &s.Crop, Batch: &s.Batch, MaxAir: &s.MaxAir,
		ValidateCases: &s.ValidateCases}
}

// Resolve implements [pretext.Config].
func (s *settings) Resolve(of sample.Store) (err error) {
	s.Config, err = s.Config.Resolve(of)
	return err
}

// Overridden implements [pretext.Overridden]: another crop or grid has patches of its own. A grid
// replaces a list of several, and the other way round.
func (s *settings) Overridden(before pretext.Config, by config.Section) {
	if (by.Has("grid") || by.Has("grids")) && !by.Has("times") {
		s.WithoutTimes()
	}
	switch {
	case by.Has("grid") && !by.Has("grids"):
		s.Grids = nil
	case by.Has("grids") && !by.Has("grid"):
		s.Grid = DefaultConfig().Grid
	}
	was := before.(*settings)
	if other := s.Crop != was.Crop || s.Grid != was.Grid || !slices.Equal(s.Grids, was.Grids); other &&
		!by.Has("patch") {
		s.Patch = [3]int{}
	}
}

// WithoutTimes is for who gives a grid in place of a file's: whether it has times is its fourth
// number alone.
func (s *settings) WithoutTimes() { s.Times = 0 }

// Pretrain implements [pretext.Config].
func (s *settings) Pretrain(ctx context.Context, dev voxsaw.Device, data sample.Data,
	o voxsaw.RunOptions) (voxsaw.Summary, error) {
	return Pretrain(ctx, dev, s.Config, data, o)
}

// evaluator is a Player on the list of pretext tasks.
type evaluator struct {
	*Player
	options  pretext.OpenOptions
	restorer *restoration.Restorer // nil: the network has learnt puzzles alone
	played   *Evaluation           // the last one
}

func openEvaluator(ctx context.Context, dev voxsaw.Device, path string, o pretext.OpenOptions) (pretext.Evaluator,
	error) {
	p, err := Open(ctx, dev, path, PlayOptions{Rounds: o.Rounds, Shuffles: o.Items, Only: o.Only, Unary: o.Unary,
		Memory: o.Memory})
	if err != nil {
		return nil, err
	}
	e := &evaluator{Player: p, options: o}
	restoring, err := p.config.restoring()
	if err == nil && restoring != nil {
		e.restorer, err = restoring.Open(dev, path, o.Memory)
	}
	if err != nil {
		p.Close()
		return nil, err
	}
	return e, nil
}

// Close implements [pretext.Evaluator].
func (e *evaluator) Close() {
	if e.restorer != nil {
		e.restorer.Close()
	}
	e.Player.Close()
}

// Notes implements [pretext.Evaluator].
func (e *evaluator) Notes() []string {
	return jigsaw.UnusedToPlay(e.config.Puzzle, e.options.Rounds, e.options.Only)
}

// Evaluate implements [pretext.Evaluator].
func (e *evaluator) Evaluate(ctx context.Context, cases []sample.Sample) (pretext.Evaluation, error) {
	played, err := e.evaluateAmong(ctx, e.options.Group(), cases)
	if err != nil {
		return pretext.Evaluation{}, err
	}
	e.played = &played
	out := pretext.OfPuzzles(played.PuzzleEvaluation, played)
	if e.config.Missing > 0 {
		out.Notes = append(out.Notes,
			fmt.Sprintf("%.0f %% of the patches of each puzzle are left out, and do not count.", 100*e.config.Missing))
	}
	if e.restorer != nil {
		err = e.evaluateBeside(ctx, cases, &out)
	}
	return out, err
}

// Picture implements [pretext.Evaluator].
func (e *evaluator) Picture(c sample.Sample) (pretext.Picture, error) {
	play, err := e.Play(c)
	if err != nil {
		return pretext.Picture{}, err
	}
	play.All = e.played
	caption := fmt.Sprintf("A %v puzzle of case %s: shuffled, then after each round. Misplaced patches are marked.",
		e.config.grid(), play.Case)
	if e.played != nil {
		caption += " Below: what became of all puzzles of unseen cases."
	}
	return pretext.Picture{Image: play.Picture(), Caption: caption}, nil
}
