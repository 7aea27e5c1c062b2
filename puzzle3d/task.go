package puzzle3d

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Kind is what checkpoints of pretraining call themselves.
const Kind = "pretrain"

// Data is prepared cases by their role. No labels are used.
type Data struct {
	Cache    *prepared.Store
	Train    []string // case IDs
	Validate []string // held-out case IDs; may be empty
}

// Run says what a pretraining run leaves behind and who looks. All fields may be empty.
type Run struct {
	Folder   *train.Folder  // nil: nothing is kept
	Observer train.Observer // nil: nobody looks
	Memory   int64          // limit in bytes for the programs and their parameters; 0: none
	Loaders  int            // goroutines that cut puzzles; 0: 2
}

// Pretrain trains encoder and head to solve puzzles. The configuration is a resolved one
// ([Config.Resolve]).
func Pretrain(ctx context.Context, dev device.Device, c Config, data Data, run Run) (train.Summary, error) {
	task, err := NewTask(dev, c, data, run.Memory)
	if err != nil {
		return train.Summary{}, err
	}
	if run.Observer != nil {
		for _, note := range task.notes {
			run.Observer.Note(note)
		}
	}
	return train.Run(ctx, task, train.Setup{Options: c.Train, SGD: task.sgd, Folder: run.Folder, Observer: run.Observer, Loaders: run.Loaders})
}

// Task is pretraining as [train.Run] sees it.
type Task struct {
	params   *nn.Params
	sgd      *train.SGD
	sampler  sampler
	trainer  *trainer
	player   *Player // nil where nothing is held out
	validate []*prepared.Case
	notes    []string // what a person should know before the run
}

var _ train.Task[*Batch] = (*Task)(nil)

// NewTask compiles the network and opens the cases. The configuration is a resolved one. memory
// limits the bytes of its programs; 0: no limit.
func NewTask(dev device.Device, c Config, data Data, memory int64) (*Task, error) {
	if err := c.Check(); err != nil {
		return nil, err
	}
	t := &Task{sampler: sampler{config: c}, params: nn.NewParams(dev, c.Train.Seed)}
	if err := t.open(data); err != nil {
		return nil, err
	}
	err := c.declare(t.params)
	if err == nil {
		t.sgd, err = train.NewSGD(t.params, c.Train, nil)
	}
	if err == nil {
		t.trainer, err = newTrainer(dev, c, t.params, t.sgd.Updater(), memory)
	}
	if err == nil {
		encoder, head := t.Summary()
		t.notes = append(t.notes, fmt.Sprintf("a training step: encoder %v", encoder), fmt.Sprintf("each round of it: head %v", head))
		if len(t.validate) > 0 {
			t.player, err = newPlayer(dev, c, t.params, t.trainer, memory)
		}
	}
	return t, err
}

// open opens the cases.
func (t *Task) open(data Data) error {
	c := t.sampler.config
	if len(data.Train) == 0 {
		return errors.New("there are no cases to pretrain on")
	}
	for _, id := range data.Validate {
		if slices.Contains(data.Train, id) {
			return fmt.Errorf("case %s is both to train and to validate on", id)
		}
	}
	validate := data.Validate
	if c.ValidateCases > 0 {
		validate = validate[:min(len(validate), c.ValidateCases)]
	}
	var err error
	if t.sampler.cases, err = openCases(data.Cache, data.Train); err != nil {
		return err
	}
	if t.validate, err = openCases(data.Cache, validate); err != nil {
		return err
	}
	var padded []string
	for _, opened := range slices.Concat(t.sampler.cases, t.validate) {
		if opened.Padded(c.Crop) {
			padded = append(padded, opened.ID)
		}
	}
	if slices.Sort(padded); len(padded) > 0 {
		t.notes = append(t.notes, fmt.Sprintf("%d cases are smaller than the crop of %s and are padded with air: %s", len(padded), extents(c.Crop), list(padded)))
	}
	return nil
}

func list(ids []string) string {
	if len(ids) > 5 {
		return fmt.Sprintf("%s and %d more", strings.Join(ids[:5], ", "), len(ids)-5)
	}
	return strings.Join(ids, ", ")
}

// Params are the encoder's ("encoder....") and the head's ("puzzle....").
func (t *Task) Params() train.Params { return t.params }

// Notes are what a person should know before the run, such as cases that are smaller than the crop.
func (t *Task) Notes() []string { return t.notes }

// Summary says what one training step takes: the encoder's program and the head's.
func (t *Task) Summary() (encoder, head nn.Summary) { return t.trainer.summary() }

// Batch cuts the puzzles of a step.
func (t *Task) Batch(ctx context.Context, step int) (*Batch, error) {
	return t.sampler.batch(ctx, step)
}

// Step plays the puzzles of a batch and leaves the gradients.
func (t *Task) Step(step int, b *Batch) (train.Result, error) { return t.trainer.step(step, b) }

// Validate plays the puzzles of the held-out cases. The score is the share of patches in their
// place after the last round.
func (t *Task) Validate(ctx context.Context, _ int) (train.Validation, error) {
	if len(t.validate) == 0 {
		return train.Validation{}, nil
	}
	e, err := t.player.Evaluate(ctx, t.validate)
	if err != nil {
		return train.Validation{}, err
	}
	return e.validation(), nil
}

// A trainer is the programs of a training step.
//
// A step runs the encoder once and then plays the rounds, in which only features move. The loss is
// the mean over all puzzles in all the rounds that they were played in: until solved, at rest, in a
// cycle, or out of rounds. A puzzle that has been solved is looked at once more, as it should be: a
// network that never sees one takes it apart again in the next round.
//
// If there was one round, its head program still holds what its gradient needs. Otherwise all
// rounds are put side by side on the boards of a larger head program, whose gradient is then the
// whole one: for the head's parameters, and, summed over rounds by the gradient of GatherRows, for
// the features.
type trainer struct {
	config  Config
	dev     device.Device
	params  *nn.Params
	update  nn.Updater
	encoder *nn.Program
	// heads[k] has boards for 2^k rounds, or for all of them if that is less; they lie in the
	// memory of the last
	heads    []*head
	referee  *referee
	features []float32 // (puzzles x cells, Features)
	gradient []float32 // of the features
}

func newTrainer(dev device.Device, config Config, params *nn.Params, update nn.Updater, memory int64) (*trainer, error) {
	n := config.Batch * config.cells()
	t := &trainer{
		config: config, dev: dev, params: params, update: update, referee: newReferee(config),
		features: make([]float32, n*config.Features), gradient: make([]float32, n*config.Features),
	}
	// all of them, and before the encoder, which can take less memory where there is little and
	// leaves nothing for later
	err := t.compileHeads(memory)
	if err != nil {
		return nil, err
	}
	t.encoder, err = config.newEncoder(dev, params, nn.Train, n, nn.Options{Update: update, MemoryLimit: memory})
	return t, err
}

func (t *trainer) summary() (encoder, head nn.Summary) {
	return t.encoder.Summary(), t.heads[0].program.Summary()
}

// compileHeads compiles a head for any number of rounds.
func (t *trainer) compileHeads(memory int64) error {
	room := []int{1}
	for all := t.config.rounds(); room[len(room)-1] < all; {
		room = append(room, min(2*room[len(room)-1], all))
	}
	t.heads = make([]*head, len(room))
	o := nn.Options{Update: t.update, MemoryLimit: memory}
	for k, rounds := range slices.Backward(room) {
		h, err := t.config.newHead(t.dev, t.params, nn.Train, t.config.Batch, rounds*t.config.Batch, o)
		if err != nil {
			return err
		}
		t.heads[k] = h
		if o.Share == nil {
			o.Share = h.program
		}
	}
	return nil
}

// head is the smallest head with boards for so many rounds.
func (t *trainer) head(rounds int) *head {
	return t.heads[slices.IndexFunc(t.heads, func(h *head) bool { return h.boards >= rounds*t.config.Batch })]
}

func (t *trainer) step(step int, b *Batch) (train.Result, error) {
	result := train.Result{Cases: b.Cases, Items: len(b.Shuffles)}
	err := t.encoder.SetStep(t.config.Train.Seed, uint64(step))
	if err == nil {
		err = t.encoder.Set("patches", b.Patches)
	}
	if err == nil {
		err = t.encoder.Forward()
	}
	if err == nil {
		err = t.encoder.Read("features", t.features)
	}
	if err != nil {
		return result, err
	}
	g := t.referee.newGame(b.Shuffles, t.config.rounds())
	h, positions, err := t.play(g, b.Blank, &result)
	if err != nil || !numbers.Finite(result.Loss) {
		return result, err
	}
	if err = h.program.Backward(); err == nil {
		err = h.program.Read("grad:features", t.gradient)
	}
	if err == nil {
		err = t.encoder.Set("gradient", t.gradient)
	}
	if err == nil {
		err = t.encoder.Backward()
	}
	var score puzzle.Score
	for p, shuffle := range b.Shuffles {
		score.Add(g.puzzles[p].Answer(), shuffle)
	}
	_, _, placed := score.Shares()
	result.Metrics = []train.Metric{{Name: "patches", Value: placed}}
	if t.config.rounds() > 1 {
		result.Metrics = append(result.Metrics, train.Metric{Name: "rounds", Value: float64(positions) / float64(len(b.Shuffles))})
	}
	return result, err
}

// play plays the puzzles of a batch and sets the loss. It returns a head that has looked at every
// position that was played, and how many those are. A loss that is not finite ends it early, for
// the loop to report.
func (t *trainer) play(g *game, blank []bool, result *train.Result) (h *head, positions int, err error) {
	h = t.heads[0]
	if err := h.program.Set("features", t.features); err != nil {
		return nil, 0, err
	}
	solved := make([]bool, len(g.puzzles)) // and looked at as it should be
	// by round and puzzle: what lay where; nil where the puzzle had ended
	var rounds [][]puzzle.Configuration
	for {
		now, played := make([]puzzle.Configuration, len(g.puzzles)), 0
		for p := range g.puzzles {
			patches := g.arranged(p)
			plays := g.puzzles[p].End() == solver.Going && !solved[p]
			solved[p] = solved[p] || patches.Solved()
			h.place(p, p, patches, plays, blank, t.referee.table)
			if plays {
				now[p] = patches
				played++
			}
		}
		if played == 0 {
			break
		}
		rounds, positions = append(rounds, now), positions+played
		if result.Loss, err = h.look(); err != nil || !numbers.Finite(result.Loss) {
			return nil, positions, err
		}
		if err := h.scores(); err != nil {
			return nil, positions, err
		}
		for p := range now {
			if now[p] != nil {
				if err := g.move(p, h, p); err != nil {
					return nil, positions, err
				}
			}
		}
	}
	if len(rounds) == 1 {
		return h, positions, nil
	}
	h = t.head(len(rounds))
	for board := range h.boards {
		round, p := board/len(g.puzzles), board%len(g.puzzles)
		if round < len(rounds) && rounds[round][p] != nil {
			h.place(board, p, rounds[round][p], true, blank, t.referee.table)
		} else {
			h.place(board, p, g.arranged(p), false, blank, t.referee.table)
		}
	}
	if err := h.program.Set("features", t.features); err != nil {
		return nil, positions, err
	}
	result.Loss, err = h.look()
	return h, positions, err
}
