package jigsaw

import (
	"errors"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/puzzle"
	"github.com/voxsaw/voxsaw/internal/solver"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A Trainer is the programs of a training step. Its methods are called from one goroutine.
//
// A step runs the encoder once and then plays the rounds, in which only features move. The loss is
// the mean over all puzzles in all the rounds that they were played in: until solved, at rest, in a
// cycle, or out of rounds. A solved puzzle is shown once more, in its right order: a network that
// never sees one takes it apart again in the next round.
//
// If there was one round, its head program still holds what its gradient needs. Otherwise all
// rounds are put side by side on the boards of a larger head program, whose gradient is then the
// whole one: for the head's parameters, and, summed over rounds by the gradient of GatherRows, for
// the features.
type Trainer struct {
	config  Config
	group   train.Group
	puzzles int // that go through the network at once
	links   links
	encoder *nn.Program
	// heads[k] has boards for 2^k rounds, or for all of them if that is less; they lie in the
	// memory of the last
	heads   []*head
	referee *referee
}

// NewTrainer compiles the programs of a step on one grid. The parameters have been declared. memory
// limits the bytes of the programs and the parameters; 0: no limit.
func NewTrainer(dev device.Device, c Config, b Backbone, params *nn.Params, update nn.Updater, group train.Group,
	memory int64) (*Trainer, error) {
	if c.Grids != nil {
		return nil, errors.New("the game has several grids, each of which has a trainer")
	}
	trainers, err := newTrainers(dev, c, b, params, update, group, memory)
	if err != nil {
		return nil, err
	}
	return trainers[0], nil
}

// newTrainers compiles the programs of a step, one trainer for each grid. Those of a grid lie in
// the memory of those of the finest.
func newTrainers(dev device.Device, c Config, b Backbone, params *nn.Params, update nn.Updater, group train.Group,
	memory int64) ([]*Trainer, error) {
	_, n, err := group.Share(c.Batch)
	if err != nil {
		return nil, err
	}
	n = group.PerPass(n)
	if !group.Alone() && c.ColSum > 0 {
		return nil,
			errors.New("the column-sum loss cannot be divided over ranks or micro-batches: set column_sum to 0, or " +
				"train with one rank and without accumulate")
	}
	var list []*Trainer
	for _, game := range c.games() {
		list = append(list, &Trainer{config: game, group: group, puzzles: n, referee: newReferee(game)})
	}
	if err := compile(list, dev, b, params, nn.Options{Update: update, MemoryLimit: memory}); err != nil {
		closeTrainers(list)
		return nil, err
	}
	return list, nil
}

// compile compiles the programs of all trainers. The heads come first: the encoder can take less
// memory where there is little, and then leaves nothing for what comes later.
func compile(list []*Trainer, dev device.Device, b Backbone, params *nn.Params, o nn.Options) (err error) {
	order := list[0].config.finestFirst()
	finest := list[order[0]]
	for _, k := range order {
		t, o := list[k], o
		if t != finest {
			o.Share = finest.largestHead()
		}
		if t.links, err = t.config.newLinks(params, nn.Train, t.puzzles*t.config.present()); err != nil {
			return err
		}
		if err := t.compileHeads(dev, params, o); err != nil {
			return err
		}
	}
	for _, k := range order {
		t := list[k]
		o.Share = finest.encoder
		if t.encoder, err = t.config.newEncoder(b, dev, params, nn.Train, t.puzzles*t.config.present(), t.links,
			o); err != nil {
			return err
		}
	}
	return nil
}

// closeTrainers closes the finest grid's last: the others lie in its memory.
func closeTrainers(list []*Trainer) {
	for _, k := range slices.Backward(list[0].config.finestFirst()) {
		list[k].Close()
	}
}

// largestHead is the head's program that takes most memory.
func (t *Trainer) largestHead() *nn.Program { return t.heads[len(t.heads)-1].program }

// compileHeads compiles a head for any number of rounds.
func (t *Trainer) compileHeads(dev device.Device, params *nn.Params, o nn.Options) error {
	room := []int{1}
	for all := t.config.rounds(); room[len(room)-1] < all; {
		room = append(room, min(2*room[len(room)-1], all))
	}
	heads := make([]*head, len(room))
	for k, rounds := range slices.Backward(room) {
		h, err := t.config.newHead(dev, params, nn.Train, t.puzzles*t.config.present(), rounds*t.puzzles, t.links, o)
		if err != nil {
			return err
		}
		heads[k] = h
		t.heads = heads[k:]
		if o.Share == nil {
			o.Share = h.program
		}
	}
	return nil
}

// Close gives the memory back.
func (t *Trainer) Close() {
	if t.encoder != nil {
		t.encoder.Close()
	}
	for _, h := range t.heads {
		h.program.Close()
	}
	t.links.close()
	t.heads, t.encoder = nil, nil
}

// Summary says what one training step takes: the encoder's program and the head's.
func (t *Trainer) Summary() (encoder, head nn.Summary) {
	return t.encoder.Summary(), t.heads[0].program.Summary()
}

// Programs are the encoder's and that of the head of one round, for profiles.
func (t *Trainer) Programs() []*nn.Program { return []*nn.Program{t.encoder, t.heads[0].program} }

// Notes say what a training step takes, for a person.
func (t *Trainer) Notes() []string {
	encoder, head := t.Summary()
	return []string{fmt.Sprintf("a training step%s: encoder %v", t.config.on(), encoder),
		fmt.Sprintf("each round of it: head %v", head)}
}

// FLOPs is the arithmetic of a step, on this rank, in which no puzzle is solved before the last
// round: the encoder, the looks of all rounds and, of several, the one at all of them together,
// whose gradient is the step's.
func (t *Trainer) FLOPs() (forward, both float64) {
	rounds, last := t.config.rounds(), t.largestHead()
	forward, both = t.encoder.FLOPs()
	f, b := last.FLOPs()
	forward, both = forward+f, both+b
	if rounds > 1 {
		looks := float64(rounds) * t.heads[0].program.ForwardFLOPs()
		forward, both = forward+looks, both+looks
	}
	return forward, both
}

// head is the smallest head with boards for so many rounds.
func (t *Trainer) head(rounds int) *head {
	return t.heads[slices.IndexFunc(t.heads, func(h *head) bool { return h.boards >= rounds*t.puzzles })]
}

// Ahead begins to send the batch of the next [Trainer.Step] to the device.
func (t *Trainer) Ahead(b *Batch) error {
	if err := t.encoder.Ahead("patches", b.Patches); err != nil || b.Beside == nil {
		return err
	}
	return b.Beside.Ahead(t.encoder)
}

// Step plays the puzzles of a batch and leaves the gradients.
func (t *Trainer) Step(step int, b *Batch) (train.Result, error) {
	result := train.Result{Cases: b.Cases, Items: t.config.Batch}
	err := t.encoder.SetMicroBatch(t.config.Seed, uint64(step), t.group.MicroBatch())
	if err == nil {
		err = t.encoder.Set("patches", b.Patches)
	}
	if err == nil && b.Beside != nil {
		err = b.Beside.Set(t.encoder)
	}
	if err == nil {
		err = t.encoder.Forward()
	}
	if err != nil {
		return result, err
	}
	g := t.referee.newGame(b.Shuffles, t.pieces(b), t.config.rounds())
	h, positions, loss, err := t.play(g)
	if err != nil {
		return result, err
	}
	var more []voxsaw.Metric
	if result.Loss, more, err = t.total(h, loss, b); err != nil || !numbers.Finite(result.Loss) {
		return result, err
	}
	if err = t.group.Backward(h.program, t.encoder); err == nil {
		result.Metrics, err = t.metrics(g, positions)
	}
	result.Metrics = append(result.Metrics, more...)
	return result, err
}

// total is the loss of the step over all ranks, and the metrics of what is learnt beside puzzles.
func (t *Trainer) total(h *head, loss float64, b *Batch) (total float64, more []voxsaw.Metric, err error) {
	if total, err = t.reduce(h, loss); err != nil || b.Beside == nil {
		return total, nil, err
	}
	other, more, err := b.Beside.Compare(t.encoder, t.group)
	return total + other, more, err
}

// pieces are the patches of all puzzles.
func (t *Trainer) pieces(b *Batch) (list []pieces) {
	there := t.config.present()
	size := len(b.Patches) / len(b.Shuffles)
	for p := range b.Shuffles {
		var missing []bool
		if b.Missing != nil {
			missing = b.Missing[p]
		}
		of := t.config.newPieces(p*there, missing, false)
		blank := t.config.blank(b.Patches[p*size:(p+1)*size], there)
		for patch, row := range of.row {
			of.blank[patch] = row >= 0 && blank[row-p*there]
		}
		if t.config.Identical {
			of.alike = b.Alike[p]
		}
		list = append(list, of)
	}
	return list
}

// reduce gives the loss over all ranks, and makes the head's gradient this rank's part of the
// whole. A rank whose loss is not finite takes part, too, so that every rank learns of it.
func (t *Trainer) reduce(h *head, loss float64) (float64, error) {
	if t.group.Alone() {
		return loss, nil
	}
	losses, err := h.program.Reduce(t.group.AllReduce)
	sum := 0.0
	for _, l := range losses {
		sum += l
	}
	return sum, err
}

// metrics are the share of patches that the answers put into their place, and, where there are
// several rounds, how many were played on average.
func (t *Trainer) metrics(g *game, positions int) ([]voxsaw.Metric, error) {
	var score puzzle.Score
	for p, shuffle := range g.shuffles {
		score.AddPresent(g.puzzles[p].Answer(), shuffle, g.pieces[p].missing)
	}
	_, _, placed := score.Shares()
	puzzles := float64(len(g.shuffles))
	if !t.group.Alone() {
		sums := []float32{float32(placed * puzzles), float32(positions), float32(puzzles)}
		if err := t.group.AllReduce(sums); err != nil {
			return nil, err
		}
		puzzles = float64(sums[2])
		placed, positions = float64(sums[0])/puzzles, int(sums[1])
	}
	m := []voxsaw.Metric{{Name: "patches", Value: placed}}
	if t.config.rounds() > 1 {
		m = append(m, voxsaw.Metric{Name: "rounds", Value: float64(positions) / puzzles})
	}
	return m, nil
}

// play plays the puzzles of a batch. It returns a head that has looked at every position that was
// played, how many those are, and the loss. A loss that is not finite ends it early.
func (t *Trainer) play(g *game) (h *head, positions int, loss float64, err error) {
	h = t.heads[0]
	solved := make([]bool, len(g.puzzles)) // and shown in the right order
	// by round and puzzle: what lay where; nil where the puzzle had ended
	var rounds [][]puzzle.Configuration
	for {
		now, played := make([]puzzle.Configuration, len(g.puzzles)), 0
		for p := range g.puzzles {
			patches := g.arranged(p)
			right := g.pieces[p].solved(patches)
			plays := g.puzzles[p].End() == solver.Going && !solved[p] &&
				!(right && t.config.PaperRounds && len(rounds) > 0)
			solved[p] = solved[p] || right
			h.place(p, g.pieces[p], patches, plays, t.referee.table)
			if plays {
				now[p] = patches
				played++
			}
		}
		if played == 0 {
			break
		}
		rounds, positions = append(rounds, now), positions+played
		if loss, err = h.look(); err != nil || !numbers.Finite(loss) {
			return h, positions, loss, err
		}
		if err := h.scores(); err != nil {
			return h, positions, loss, err
		}
		for p := range now {
			if now[p] != nil {
				if err := g.move(p, h, p); err != nil {
					return h, positions, loss, err
				}
			}
		}
	}
	if len(rounds) == 1 {
		return h, positions, loss, nil
	}
	h = t.head(len(rounds))
	for board := range h.boards {
		round, p := board/len(g.puzzles), board%len(g.puzzles)
		if round < len(rounds) && rounds[round][p] != nil {
			h.place(board, g.pieces[p], rounds[round][p], true, t.referee.table)
		} else {
			h.place(board, g.pieces[p], g.arranged(p), false, t.referee.table)
		}
	}
	loss, err = h.look()
	return h, positions, loss, err
}
