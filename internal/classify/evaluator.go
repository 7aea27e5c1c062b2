package classify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// An Item is patches of a held-out case, and the network's answer. Truth and Answer have the class
// of one target after the other. A target of each patch has as many classes as there are patches.
type Item struct {
	Patches       []float32 // (Patches, Channels, D, H, W); overwritten by the next item
	Truth, Answer []int
}

// A guesser tells classes with trained weights.
type guesser struct {
	work    Work
	program *nn.Program
	pass    int         // items that go through the network at once
	patches []float32   // of so many items
	scores  [][]float32 // of each target
}

// newGuesser compiles the program. It lies in the memory of another, if there is one.
func newGuesser(dev device.Device, w Work, params *nn.Params, share *nn.Program, memory int64, pass int) (*guesser,
	error) {
	g := &guesser{work: w, pass: pass, patches: make([]float32, pass*w.Values)}
	graph := nn.NewGraph(nn.Eval, dev.Activations())
	outputs := map[string]*nn.Node{}
	if w.Batched {
		var loss *nn.Node
		outputs, loss = w.Network(graph, pass)
		outputs["loss"] = loss
	} else {
		for k, logits := range w.Logits(graph, pass) {
			outputs[w.Targets[k].Name] = logits
		}
	}
	for _, target := range w.Targets {
		g.scores = append(g.scores, make([]float32, pass*w.count(target)*target.Classes))
	}
	var err error
	if g.program, err = nn.Compile(dev, graph, params, nn.Options{Outputs: outputs, Share: share,
		MemoryLimit: memory}); err != nil {
		return nil, fmt.Errorf("preparing the network for %s: %w", w.About, err)
	}
	return g, nil
}

// look calls f for every item that is made of samples, which begin at place in a longer list. It
// returns the sum of the items' losses, if they are told.
func (g *guesser) look(samples []sample.Sample, place int, f func(of int, i Item)) (loss float64, err error) {
	var items []Item
	var of []int
	flush := func() error {
		if len(items) == 0 {
			return nil
		}
		mean, err := g.answer(items)
		if err != nil {
			return err
		}
		for k, i := range items {
			f(of[k], i)
		}
		loss += mean * float64(len(items))
		items, of = nil, nil
		return nil
	}
	for n, s := range samples {
		err := g.work.Ask(s, place+n, func(truth []int, cut func([]float32) error) error {
			i := Item{Patches: g.patches[len(items)*g.work.Values:][:g.work.Values], Truth: truth}
			if err := cut(i.Patches); err != nil {
				return err
			}
			if items, of = append(items, i), append(of, n); len(items) < g.pass {
				return nil
			}
			return flush()
		})
		if err != nil {
			return loss, fmt.Errorf("%s: %w", s.Name(), err)
		}
	}
	return loss, flush()
}

// answer is what the network takes items for, whose patches are at hand, and their mean loss, if it
// is told.
func (g *guesser) answer(items []Item) (loss float64, err error) {
	if err := g.program.Set("image", g.patches); err != nil {
		return 0, err
	}
	if g.work.Batched {
		if err := g.setTruth(items); err != nil {
			return 0, err
		}
	}
	if err := g.program.Forward(); err != nil {
		return 0, err
	}
	for k, target := range g.work.Targets {
		if err := g.program.Read(target.Name, g.scores[k]); err != nil {
			return 0, err
		}
		n := g.work.count(target)
		for i := range items {
			for scores := range slices.Chunk(g.scores[k][i*n*target.Classes:][:n*target.Classes], target.Classes) {
				items[i].Answer = append(items[i].Answer, Best(scores))
			}
		}
	}
	if !g.work.Batched {
		return 0, nil
	}
	var value [1]float32
	err = g.program.Read("loss", value[:])
	return float64(value[0]), err
}

// setTruth sets the truth about items. The last batch may have fewer than go through the network:
// what stands behind them does not count.
func (g *guesser) setTruth(items []Item) error {
	from := 0
	for _, target := range g.work.Targets {
		n := g.work.count(target)
		truth := slices.Repeat([]float32{-1}, g.pass*n)
		for i, item := range items {
			for p, class := range item.Truth[from : from+n] {
				truth[i*n+p] = float32(class)
			}
		}
		if err := g.program.Set("truth."+target.Name, truth); err != nil {
			return err
		}
		from += n
	}
	return nil
}

// validate is the validation of a training.
func (g *guesser) validate(ctx context.Context, w pretext.Workbench) (v voxsaw.Validation, err error) {
	scores, err := g.evaluate(ctx, w.Group, w.Held)
	if err != nil {
		return v, err
	}
	shares := scores.shares()
	v.Score = shares[len(shares)-1]
	if g.work.Batched {
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: "loss", Value: scores.Loss / float64(scores.Items)})
	}
	for k, m := range g.work.measures() {
		v.Metrics = append(v.Metrics, voxsaw.Metric{Name: m.Key, Value: shares[k]})
	}
	return v, nil
}

// A tally counts right answers.
type tally struct {
	Items int
	// of each target
	Asked, Right []int
	Possible     []float64 // right answers that can be expected at most
	Loss         float64   // of all items
}

func newTally(targets int) tally {
	return tally{Asked: make([]int, targets), Right: make([]int, targets), Possible: make([]float64, targets)}
}

// join counts the answers that another tally has counted.
func (t *tally) join(other tally) {
	t.Items += other.Items
	t.Loss += other.Loss
	for k := range t.Asked {
		t.Asked[k] += other.Asked[k]
		t.Right[k] += other.Right[k]
		t.Possible[k] += other.Possible[k]
	}
}

// evaluate counts the right answers about cases, which the ranks of a group share out.
func (g *guesser) evaluate(ctx context.Context, group train.Group, cases []sample.Sample) (tally, error) {
	t := newTally(len(g.work.Targets))
	if len(cases) == 0 {
		return t, errors.New("there are no cases to look at")
	}
	parts := (len(cases) + g.pass - 1) / g.pass
	each, err := train.Divide(ctx, group, parts, func(ctx context.Context, part int) (tally, error) {
		some, shown := newTally(len(g.work.Targets)), map[[2]uint64]bool{}
		err := ctx.Err()
		if err == nil {
			first := part * g.pass
			some.Loss, err = g.look(cases[first:min(first+g.pass, len(cases))], first,
				func(of int, i Item) { g.count(&some, of, i, shown) })
		}
		return some, err
	})
	for _, of := range each {
		t.join(of)
	}
	return t, err
}

// count counts an item of a sample. shown has what has been shown: where a target is asked for in
// each of its classes, only one of several items of a sample that look the same can be told.
func (g *guesser) count(t *tally, of int, i Item, shown map[[2]uint64]bool) {
	t.Items++
	again := false
	if g.work.Each {
		hash := fnv.New64a()
		_ = binary.Write(hash, binary.LittleEndian, i.Patches) // a hash cannot fail
		key := [2]uint64{uint64(of), hash.Sum64()}
		again, shown[key] = shown[key], true
	}
	truth, answer := i.Truth, i.Answer
	for k, target := range g.work.Targets {
		n := g.work.count(target)
		for p := range n {
			t.Asked[k]++
			if truth[p] == answer[p] {
				t.Right[k]++
			}
			switch {
			case again:
			case target.Each && patches.Uniform(i.patch(p, g.work.Patches), g.work.Channels) != nil:
				t.Possible[k] += 1 / float64(target.Classes) // nothing tells the classes apart
			default:
				t.Possible[k]++
			}
		}
		truth, answer = truth[n:], answer[n:]
	}
}

// patch is one of n patches.
func (i Item) patch(p, n int) []float32 {
	size := len(i.Patches) / n
	return i.Patches[p*size:][:size]
}

// measures are what a task is judged by: the share of right answers to each target, and, of
// several, the mean of the shares. The last is the score.
func (w Work) measures() []pretext.Measure {
	if len(w.Metrics) == 1 {
		return w.Metrics
	}
	return append(slices.Clone(w.Metrics), pretext.Measure{Key: "mean", Title: "mean"})
}

// shares are the measures.
func (t tally) shares() []float64 {
	right := make([]float64, len(t.Right))
	for k, n := range t.Right {
		right[k] = float64(n)
	}
	return t.over(right)
}

// ceilings are the most that can be expected of the measures.
func (t tally) ceilings() []float64 { return t.over(t.Possible) }

// over divides counts by what was asked.
func (t tally) over(counts []float64) (shares []float64) {
	for k, n := range counts {
		shares = append(shares, n/float64(t.Asked[k]))
	}
	return withMean(shares)
}

// withMean adds the mean of several shares.
func withMean(shares []float64) []float64 {
	if len(shares) == 1 {
		return shares
	}
	sum := 0.0
	for _, s := range shares {
		sum += s
	}
	return append(shares, sum/float64(len(shares)))
}

// chance is what blind guessing scores.
func (w Work) chance() (shares []float64) {
	for _, target := range w.Targets {
		shares = append(shares, 1/float64(target.Classes))
	}
	return withMean(shares)
}

// An Evaluator does a task with the weights of a checkpoint. It is one for the list of pretext
// tasks.
type Evaluator struct {
	guesser *guesser
	params  *nn.Params
	group   train.Group // that share the cases out
	notes   []string
	picture func(*Evaluator, sample.Sample) (pretext.Picture, error)
}

// Open brings a checkpoint of a task back. c holds its default settings, which those of the
// checkpoint replace; draws, if not nil, is the setting that [pretext.OpenOptions] replace.
func Open(ctx context.Context, dev voxsaw.Device, path, task string, c Config, draws *int,
	o pretext.OpenOptions) (*Evaluator, error) {
	d, params, err := pretext.Restore(dev, path, task, c,
		func(params *nn.Params) error { return Declare(ctx, c, params) })
	if err != nil {
		return nil, err
	}
	if draws != nil && o.Items > 0 {
		*draws = o.Items
	}
	t, err := c.Task(ctx)
	if err != nil {
		params.Close()
		return nil, err
	}
	return NewEvaluator(d, t.work(c.Base()), params, o, notes(t, o), t.Picture)
}

// NewEvaluator prepares to do a task with weights, which it closes.
func NewEvaluator(dev device.Device, w Work, params *nn.Params, o pretext.OpenOptions, notes []string,
	picture func(*Evaluator, sample.Sample) (pretext.Picture, error)) (*Evaluator, error) {
	w.Batched = false
	g, err := newGuesser(dev, w, params, nil, o.Memory, 1)
	if err != nil {
		params.Close()
		return nil, err
	}
	return &Evaluator{g, params, o.Group(), notes, picture}, nil
}

// notes say which options make no difference.
func notes(t Task, o pretext.OpenOptions) []string {
	switch {
	case t.Draws == 0 && (o.Rounds > 1 || o.Items > 0):
		return []string{fmt.Sprintf("a crop of each case is shown once for each of %d classes, and looked at once",
			t.Targets[0].Classes)}
	case o.Rounds > 1:
		return []string{"there is one answer, and no second round"}
	}
	return nil
}

// Close implements [pretext.Evaluator].
func (e *Evaluator) Close() {
	e.guesser.program.Close()
	e.params.Close()
}

// Notes implements [pretext.Evaluator].
func (e *Evaluator) Notes() []string { return e.notes }

// Look calls f for every item that is made of a case, which is the first of a list.
func (e *Evaluator) Look(c sample.Sample, f func(Item)) error {
	_, err := e.guesser.look([]sample.Sample{c}, 0, func(_ int, i Item) { f(i) })
	return err
}

// Answer is what the network takes an item of a task with one target for.
func (e *Evaluator) Answer(patches []float32) (int, error) {
	copy(e.guesser.patches, patches)
	items := make([]Item, 1)
	_, err := e.guesser.answer(items)
	if err != nil {
		return 0, err
	}
	return items[0].Answer[0], nil
}

// Picture implements [pretext.Evaluator].
func (e *Evaluator) Picture(c sample.Sample) (pretext.Picture, error) { return e.picture(e, c) }

// record is an evaluation for programs. The shares are those of the measures, by their keys.
type record struct {
	Cases   int                `json:"cases"`
	Items   int                `json:"items"`
	Shares  map[string]float64 `json:"shares"`
	Chance  map[string]float64 `json:"chance"`
	Ceiling map[string]float64 `json:"ceiling"`
}

// Evaluate implements [pretext.Evaluator].
func (e *Evaluator) Evaluate(ctx context.Context, cases []sample.Sample) (pretext.Evaluation, error) {
	scores, err := e.guesser.evaluate(ctx, e.group, cases)
	if err != nil {
		return pretext.Evaluation{}, err
	}
	w := e.guesser.work
	measures, shares, chance, ceiling := w.measures(), scores.shares(), w.chance(), scores.ceilings()
	out := pretext.Evaluation{
		Cases: len(cases), Items: scores.Items, Measures: measures, Score: len(measures) - 1,
		Rounds: [][]float64{shares}, Chance: chance,
	}
	r := record{out.Cases, out.Items, map[string]float64{}, map[string]float64{}, map[string]float64{}}
	for k, m := range measures {
		r.Shares[m.Key], r.Chance[m.Key], r.Ceiling[m.Key] = shares[k], chance[k], ceiling[k]
	}
	out.Record = r
	if ceiling[out.Score] < 1 {
		out.Ceiling = ceiling
		out.Notes = []string{"at most: some patches look the same in several classes, such as those of " +
			"nothing but air; nobody can tell which it was."}
	}
	return out, nil
}
