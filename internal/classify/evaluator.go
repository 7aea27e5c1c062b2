package classify

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/patches"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
)

// An Item is patches of a held-out case, and the network's answer. Truth and Answer have the class
// of one target after the other. A target of each patch has as many classes as there are patches.
type Item struct {
	Patches       []float32 // (Patches, Channels, D, H, W); overwritten by the next item
	Truth, Answer []int
}

// A guesser tells classes with trained weights. Of each case it is shown the crop in the middle.
type guesser struct {
	task     Task
	settings *Settings
	program  *nn.Program
	patches  []float32
	scores   [][]float32 // of each target
}

// newGuesser compiles the program. It lies in the memory of another, if there is one.
func newGuesser(dev device.Device, t Task, s *Settings, params *nn.Params, share *nn.Program, memory int64) (*guesser,
	error) {
	g := &guesser{task: t, settings: s, patches: make([]float32, t.values(s))}
	graph := nn.NewGraph(nn.Eval, dev.Activations())
	outputs := map[string]*nn.Node{}
	for k, logits := range t.logits(graph, s, 1) {
		target := t.Targets[k]
		outputs[target.Name] = logits
		g.scores = append(g.scores, make([]float32, t.count(target)*target.Classes))
	}
	var err error
	if g.program, err = nn.Compile(dev, graph, params, nn.Options{Outputs: outputs, Share: share,
		MemoryLimit: memory}); err != nil {
		return nil, fmt.Errorf("preparing the network for crops of %s: %w", numbers.Extents(s.Crop[:]), err)
	}
	return g, nil
}

// look calls f for every item that is made of a case, which is the place-th of the list.
func (g *guesser) look(of sample.Sample, place int, f func(Item)) error {
	origin := sample.Middle(of, g.settings.Crop)
	n := g.task.Draws
	if n == 0 {
		n = g.task.Targets[0].Classes
	}
	for k := range n {
		i := Item{Patches: g.patches, Truth: []int{k}}
		if g.task.Draws > 0 {
			i.Truth = g.task.draw(seed.Rand(g.settings.Train.Seed, "validation", uint64(place), uint64(k)))
		}
		err := g.task.Cut(i.Patches, of, origin, i.Truth, nil)
		if err == nil {
			i.Answer, err = g.answer()
		}
		if err != nil {
			return fmt.Errorf("case %s: %w", of.Name(), err)
		}
		f(i)
	}
	return nil
}

// answer is what the network takes the patches for.
func (g *guesser) answer() (classes []int, err error) {
	if err := g.program.Set("image", g.patches); err != nil {
		return nil, err
	}
	if err := g.program.Forward(); err != nil {
		return nil, err
	}
	for k, target := range g.task.Targets {
		scores := g.scores[k]
		if err := g.program.Read(target.Name, scores); err != nil {
			return nil, err
		}
		for i := 0; i < len(scores); i += target.Classes {
			classes = append(classes, Best(scores[i:i+target.Classes]))
		}
	}
	return classes, nil
}

// validate is the validation of a training.
func (g *guesser) validate(ctx context.Context, w pretext.Workbench) (v voxsaw.Validation, err error) {
	scores, err := g.evaluate(ctx, w.Group, w.Held)
	if err != nil {
		return v, err
	}
	shares := scores.shares()
	v.Score = shares[len(shares)-1]
	for k, m := range g.task.measures() {
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
}

func newTally(targets int) tally {
	return tally{Asked: make([]int, targets), Right: make([]int, targets), Possible: make([]float64, targets)}
}

// join counts the answers that another tally has counted.
func (t *tally) join(other tally) {
	t.Items += other.Items
	for k := range t.Asked {
		t.Asked[k] += other.Asked[k]
		t.Right[k] += other.Right[k]
		t.Possible[k] += other.Possible[k]
	}
}

// evaluate counts the right answers about cases, which the ranks of a group share out.
func (g *guesser) evaluate(ctx context.Context, group train.Group, cases []sample.Sample) (tally, error) {
	t := newTally(len(g.task.Targets))
	if len(cases) == 0 {
		return t, errors.New("there are no cases to look at")
	}
	each, err := train.Divide(ctx, group, len(cases), func(ctx context.Context, place int) (tally, error) {
		of, shown := newTally(len(g.task.Targets)), map[uint64]bool{}
		err := ctx.Err()
		if err == nil {
			err = g.look(cases[place], place, func(i Item) { g.count(&of, i, shown) })
		}
		return of, err
	})
	for _, of := range each {
		t.join(of)
	}
	return t, err
}

// count counts an item. shown has what has been shown of the case: where a target is asked for in
// each of its classes, only one of several items that look the same can be told.
func (g *guesser) count(t *tally, i Item, shown map[uint64]bool) {
	t.Items++
	hash := fnv.New64a()
	_ = binary.Write(hash, binary.LittleEndian, i.Patches) // a hash cannot fail
	again := g.task.Draws == 0 && shown[hash.Sum64()]
	shown[hash.Sum64()] = true
	truth, answer := i.Truth, i.Answer
	for k, target := range g.task.Targets {
		n := g.task.count(target)
		for p := range n {
			t.Asked[k]++
			if truth[p] == answer[p] {
				t.Right[k]++
			}
			switch {
			case again:
			case target.Each && patches.Uniform(i.patch(p, g.task.Patches), g.settings.Network.InputChannels()) != nil:
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
func (t Task) measures() []pretext.Measure {
	if len(t.Targets) == 1 {
		return []pretext.Measure{{Key: "correct", Title: "correct"}}
	}
	var list []pretext.Measure
	for _, target := range t.Targets {
		list = append(list, pretext.Measure{Key: target.Name, Title: target.Name})
	}
	return append(list, pretext.Measure{Key: "mean", Title: "mean"})
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
func (t Task) chance() (shares []float64) {
	for _, target := range t.Targets {
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
	e := &Evaluator{params: params, group: o.Group()}
	t, err := c.Task(ctx)
	if err == nil {
		e.notes = notes(t, o)
		e.guesser, err = newGuesser(d, t, c.Base(), params, nil, o.Memory)
	}
	if err != nil {
		params.Close()
		return nil, err
	}
	return e, nil
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
func (e *Evaluator) Look(c sample.Sample, f func(Item)) error { return e.guesser.look(c, 0, f) }

// Picture implements [pretext.Evaluator].
func (e *Evaluator) Picture(c sample.Sample) (pretext.Picture, error) {
	return e.guesser.task.Picture(e, c)
}

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
	t := e.guesser.task
	measures, shares, chance, ceiling := t.measures(), scores.shares(), t.chance(), scores.ceilings()
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
