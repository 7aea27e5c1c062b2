// Package planning decides what to train on a set of scans: the spacing, the intensities, the crop,
// the network, the steps. Each decision has its reason in a sentence.
//
// Start at [Make], which goes from a [Fingerprint] of the set to a [Plan]. Spacing and the largest
// crop are nnU-Net's ([NNUNetPlan]); how large a network and a crop the time allows, and whether
// pretraining pays, are rules of this program's own studies, in this file. Nothing here reads a
// file or runs a network: what a step takes is asked of a [Machine].
package planning

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// The rules' numbers.
const (
	deepest       = 4            // voxels along the shortest axis of the deepest stage
	mostLevels    = 4            // down-samplings of the default network
	widest        = 16           // channels of its first stage
	narrowest     = 4            // below which nothing was tried
	middle        = 96 * 96 * 96 // voxels of a crop, below which there are fewer channels first
	smallestCrop  = 64 * 64 * 64
	enoughSteps   = 2500   // of fine-tuning, after which most is learnt
	plateauSteps  = 5000   // twice as many add less than a point
	mostSteps     = 10000  // after which nothing was gained any more, of the default network
	nnunetSteps   = 250000 // of nnU-Net's own training
	pretrainSteps = 4000   // of puzzles
	worthwhile    = 1000   // fewer steps of puzzles are not begun
	training      = 0.9    // of the time, at most; the rest is for validations and checkpoints
	saving        = 0.03   // of the time is for checkpoints and the like
	validations   = 4      // where they take no more than
	validating    = 0.2    // of the time; fewer otherwise, but one
	mostFolds     = 5
)

// What others need to know of them: after so many steps of fine-tuning most is learnt, and after so
// many nothing is gained any more.
const (
	Enough = enoughSteps
	Most   = mostSteps
)

// Pretraining is what the decision on it is called.
const Pretraining = "pretraining"

// Puzzles says whether there will be pretraining.
type Puzzles int

// The kinds of it.
const (
	WherePuzzlesPay Puzzles = iota // within the time, beside fine-tuning
	PuzzlesApart                   // whether it pays or not, in a time of its own
	NoPuzzles                      // fine-tuning has all of the time
)

// A Work is a training step.
type Work struct {
	Network voxsaw.Network
	Crop    [3]int
	Batch   int
}

// A Cost is what a step takes.
type Cost struct {
	FLOPs float64
	Bytes int64 // of memory
}

// A Machine tells what steps take on it.
type Machine interface {
	// Needs says what a step takes without running it.
	Needs(w Work) (Cost, error)
	// Beside is the memory that a training takes beside its steps: the program itself, and a
	// validation of a scan of a shape.
	Beside(w Work, shape [3]int) (program, validation int64)
	// Validate says how long the validation of scans of these shapes takes.
	Validate(w Work, shapes [][3]int) (time.Duration, error)
	// Finetune times steps of fine-tuning, Pretrain of solving puzzles.
	Finetune(w Work) (Timing, error)
	Pretrain(p Puzzle) (Timing, error)
}

// A Timing is what the beginning of a training took.
type Timing struct {
	Start  time.Duration // until the first step was done
	Step   time.Duration // of later ones, in the mean
	Steps  int           // that it is the mean of
	MadeUp bool          // crops were those of a made-up scan, for none is prepared
}

// A Puzzle is a step of pretraining: a crop is cut into patches, which are put back.
type Puzzle struct {
	Work
	Grid, Patch [3]int
}

// A Decision is one of the plan's, with its reason.
type Decision struct {
	What    string `yaml:"what"`
	Is      string `yaml:"is"`
	Because string `yaml:"because"`
}

// A Plan is what to do.
type Plan struct {
	Crop       string     // what of a scan is prepared; empty: the cases are prepared already
	Spacing    [3]float64 // mm
	Intensity  string     // scheme
	Foreground [4]float64 // that it goes by; zeros: nothing is said
	NNUNet     *NNUNet    // what nnU-Net would do
	Finetune   Work
	Steps      int
	Step       time.Duration // that one of them takes
	Timed      Timing        // by which it is known
	Puzzle     Puzzle
	Pretrain   int // steps; 0: it does not pay
	Puzzling   time.Duration
	Folds      int // 0: too few labelled cases
	Bytes      int64
	// Validations are spread over the steps, each of which takes so long.
	Validations int
	Validation  time.Duration
	Decisions   []Decision

	fits   int           // steps of fine-tuning alone that the time has room for
	budget time.Duration // for steps
}

// decide notes a decision.
func (p *Plan) decide(what, is, because string, args ...any) {
	p.Decisions = append(p.Decisions, Decision{what, is, fmt.Sprintf(because, args...)})
}

// Takes is the time of the fine-tuning, of all its steps and validations.
func (p *Plan) Takes() time.Duration {
	return p.Timed.Start + time.Duration(max(p.Steps-1, 0))*p.Step + time.Duration(p.Validations)*p.Validation
}

// Make plans for a set, a machine and a time: that of one training with its pretraining.
func Make(f Fingerprint, m Machine, hours float64) (*Plan, error) {
	p, f, err := prepared(f)
	if err != nil {
		return nil, err
	}
	if err := p.size(f, m, hours); err != nil {
		return nil, err
	}
	if err := p.pretraining(f, m); err != nil {
		return nil, err
	}
	p.steps(f)
	p.divide(f)
	p.time(hours)
	return p, nil
}

// Preparation is the part of a plan that says how scans are prepared: it takes no machine and no
// time.
func Preparation(f Fingerprint) (*Plan, error) {
	p, _, err := prepared(f)
	return p, err
}

// prepared decides how scans are prepared, and gives the fingerprint of what is left of them.
func prepared(f Fingerprint) (*Plan, Fingerprint, error) {
	p := &Plan{}
	f = p.part(f)
	if err := p.shapes(f); err != nil {
		return nil, f, err
	}
	p.intensities(f)
	return p, f, nil
}

// nnunet is what nnU-Net plans for the scans, of a spacing that they are brought to, whose zeros
// leave an axis as it is, and for so much memory of a GPU.
func (f Fingerprint) nnunet(spacing [3]float64, gigabytes float64) (*NNUNet, error) {
	var spacings [][3]float64
	var shapes [][3]int
	for _, s := range f.Scans {
		shape := s.at(spacing)
		for a := range 3 {
			if spacing[a] != 0 {
				s.Spacing[a] = spacing[a]
			}
		}
		spacings, shapes = append(spacings, s.Spacing), append(shapes, shape)
	}
	return NNUNetPlan(spacings, shapes, 0, max(f.Classes, 2), f.encoder(), gigabytes)
}

// shapes decides on the spacing, and on what nnU-Net would train.
func (p *Plan) shapes(f Fingerprint) (err error) {
	if p.NNUNet, err = f.nnunet([3]float64{}, 0); err != nil {
		return err
	}
	for a := range 3 { // with as many digits as a header's float32 has
		s := p.NNUNet.Spacing[2-a]
		digits := math.Pow(10, 6-math.Floor(math.Log10(s)))
		p.Spacing[a] = math.Round(s*digits) / digits
	}
	because := fmt.Sprintf("it is the median of the %d scans along each axis, as nnU-Net has it", len(f.Scans))
	switch {
	case len(f.Scans) == 1:
		because = "it is that of the only scan, as nnU-Net has it"
	case p.NNUNet.Separate:
		because = fmt.Sprintf("it is the median of the %d scans in plane, and the tenth percentile between their "+
			"slices, "+
			"which are thick and few: the median would blur the thinner ones", len(f.Scans))
	}
	for _, other := range []struct {
		spacing [3]float64
		because string
	}{{f.brought().Spacing, f.brought().Name + " has it"}, {f.Prepared, "the cases are prepared with it"}} {
		if other.spacing == [3]float64{} {
			continue
		}
		text := spacingText(p.Spacing)
		if p.Spacing = other.spacing; text == spacingText(p.Spacing) {
			text = "the same"
		}
		because = fmt.Sprintf("%s; from the scans it would be %s: %s", other.because, text, because)
	}
	if f.Prepared != [3]float64{} { // what nnU-Net would train of the cases as they are
		if p.NNUNet, err = f.nnunet(f.Prepared, 0); err != nil {
			return err
		}
	}
	p.decide("spacing", spacingText(p.Spacing), "%s", because)
	return nil
}

// Median is the median shape of the scans at a spacing, along (i, j, k).
func (f Fingerprint) median(spacing [3]float64) (median [3]float64) {
	for a := range 3 {
		var sizes []float64
		for _, s := range f.Scans {
			sizes = append(sizes, float64(s.at(spacing)[a]))
		}
		median[a] = percentile(sizes, 50)
	}
	return median
}

// rungs are the trainings to choose from, the largest first. Each takes about half the time of the
// one before: crops shrink, then channels are halved.
func (p *Plan) rungs(f Fingerprint) (all []Work, err error) {
	switch {
	case f.Brought != nil:
		b := f.Brought
		return []Work{{Network: f.outputs(networkOf(b.Network)), Crop: b.Patch, Batch: max(b.Batch, 1)}}, nil
	case f.Encoder != nil:
		return p.encoderRungs(f)
	}
	return p.vnetRungs(f), nil
}

// outputs is a network with the classes and the channels of the set.
func (f Fingerprint) outputs(n voxsaw.Network) voxsaw.Network {
	n.Classes, n.Inputs = max(f.Classes, 2), 0
	if f.Channels > 1 {
		n.Inputs = f.Channels
	}
	return n
}

// leastMemory is the least share of the memory that nnU-Net's planner plans for. Patches of the
// slices of a scan that has one or two do not shrink below a size, however little memory there is.
const leastMemory = 1. / (1 << 16)

// encoderRungs are those of a network of nnU-Net's: what its planner has for the memory that it
// plans for, for half as much and so on. Between them are those of half as many channels.
func (p *Plan) encoderRungs(f Fingerprint) (all []Work, err error) {
	channels := baseWidth
	for gigabytes := f.Encoder.Gigabytes; ; {
		shrinks := gigabytes > f.Encoder.Gigabytes*leastMemory
		n, err := f.nnunet(f.Prepared, gigabytes)
		if err != nil {
			return nil, err
		}
		w := Work{Network: f.outputs(networkOf(n.network(channels))), Crop: n.patch(), Batch: 1}
		if !slices.ContainsFunc(all, w.alike) {
			all = append(all, w)
		}
		switch voxels := product(extents(w.Crop)); {
		case voxels > middle && shrinks:
			gigabytes /= 2
		case channels == baseWidth:
			channels /= 2
		case voxels > smallestCrop && shrinks:
			gigabytes /= 2
		case channels == baseWidth/2:
			channels /= 2
		default:
			return all, nil
		}
	}
}

// alike says whether a training has crops as large and as many channels.
func (w Work) alike(o Work) bool { return o.Crop == w.Crop && o.Network.Channels == w.Network.Channels }

// vnetRungs are those of the default network.
func (p *Plan) vnetRungs(f Fingerprint) (all []Work) {
	largestCrop := extents(p.NNUNet.patch())
	median := f.median(p.Spacing)
	for a := range 3 {
		largestCrop[a] = min(largestCrop[a], median[a])
	}
	network := f.outputs(voxsaw.DefaultNetwork())
	network.Channels = widest
	for voxels := product(largestCrop); ; {
		scale := math.Cbrt(min(1, voxels/product(largestCrop)))
		w := Work{Network: network, Batch: 1}
		w.Crop, w.Network.Levels = cropOf(largestCrop, scale)
		if !slices.ContainsFunc(all, w.alike) {
			all = append(all, w)
		}
		switch {
		case voxels > middle:
			voxels = max(voxels/2, middle)
		case network.Channels > widest/2:
			network.Channels /= 2
		case voxels > smallestCrop:
			voxels = max(voxels/2, smallestCrop)
		case network.Channels > narrowest:
			network.Channels /= 2
		default:
			return all
		}
	}
}

// cropOf is a crop of about a size that a network can halve, and how often it does: until the
// shortest axis has few voxels.
func cropOf(size [3]float64, scale float64) (crop [3]int, levels int) {
	shortest := min(size[0], size[1], size[2]) * scale
	for levels = mostLevels; levels > 1 && shortest < float64(int(deepest)<<levels)*0.9; levels-- {
	}
	for a := range 3 {
		multiple := float64(int(1) << levels)
		crop[a] = int(max(math.Round(size[a]*scale/multiple), 2) * multiple)
	}
	return crop, levels
}

// size decides on crop, network and steps: the largest of the rungs that fits into memory and of
// which enough steps fit into the time.
func (p *Plan) size(f Fingerprint, m Machine, hours float64) error {
	budget := budgetOf(hours)
	rungs, err := p.rungs(f)
	if err != nil {
		return err
	}
	var costs []Cost
	var fitting []Work
	var tooLarge error
	for _, w := range rungs {
		c, err := m.Needs(w)
		program, validation := m.Beside(w, f.largest(p.Spacing))
		c.Bytes += validation
		if err == nil && f.Limit > 0 && c.Bytes > f.Limit {
			err = fmt.Errorf("a step on crops of %s with %s takes %d MiB of memory, and there are %d",
				numbers.Extents(w.Crop[:]), numbers.Count(w.Network.Channels, "channel"), c.Bytes>>20, f.Limit>>20)
		}
		if err != nil {
			tooLarge = err
			continue
		}
		c.Bytes += program
		fitting, costs = append(fitting, w), append(costs, c)
	}
	if len(fitting) == 0 {
		return hint.ShortOfMemory(fmt.Errorf("no training fits into the memory: %w", tooLarge))
	}
	// One measurement tells about how long the others take.
	at := len(fitting) - 1
	timed, err := m.Finetune(fitting[at])
	if err != nil {
		return err
	}
	small := costs[at].FLOPs / timed.Step.Seconds()
	for at > 0 && int(budget.Seconds()*small/costs[at-1].FLOPs) >= enoughSteps {
		at--
	}
	measured := at == len(fitting)-1
	for ; !measured || timed.fits(budget) < enoughSteps && at < len(fitting)-1; measured = true {
		if measured {
			at++
		}
		if timed, err = m.Finetune(fitting[at]); err != nil {
			return err
		}
	}
	fits := 0
	for ; ; at++ { // until there is time for the steps beside validations, or nothing smaller
		p.Finetune, p.Step, p.Timed, p.Bytes = fitting[at], timed.Step, timed, costs[at].Bytes
		if err := p.validate(f, m, hours); err != nil {
			return err
		}
		budget = p.budget
		if fits = timed.fits(budget); fits >= enoughSteps || at == len(fitting)-1 {
			break
		}
		if timed, err = m.Finetune(fitting[at+1]); err != nil {
			return err
		}
	}
	if fits < 1 {
		return hint.Addf(fmt.Errorf("not one step fits into %s: the first one takes %s here, further ones %s",
			terminal.Duration(budget), terminal.Duration(timed.Start), terminal.Duration(timed.Step)),
			"give it more --hours: %d steps, after which most is learnt, take about %.2g", enoughSteps,
			(enoughSteps*timed.Step+timed.Start).Hours()/training)
	}
	p.Steps, p.fits = min(fits, p.mostSteps()), fits
	p.sized(f, at == 0, len(fitting) == len(rungs))
	return nil
}

// validate decides on the validations, and on the time that they leave for steps.
func (p *Plan) validate(f Fingerprint, m Machine, hours float64) (err error) {
	p.budget = budgetOf(hours)
	n, folds := f.Labelled(), f.folds()
	if folds < 2 {
		return nil
	}
	var shapes [][3]int // the number of windows leaps: a scan of the median shape is not the mean
	for _, s := range f.Scans {
		if s.Labels {
			shapes = append(shapes, s.at(p.Spacing))
		}
	}
	all, err := m.Validate(p.Finetune, shapes)
	if err != nil {
		return err
	}
	p.Validation = time.Duration(float64(all) / float64(n) * float64((n+folds-1)/folds))
	whole := time.Duration(hours * float64(time.Hour))
	p.Validations = validations
	for p.Validations > 1 && time.Duration(p.Validations)*p.Validation > time.Duration(validating*float64(whole)) {
		p.Validations--
	}
	left := time.Duration((1-saving)*float64(whole)) - time.Duration(p.Validations)*p.Validation
	p.budget = max(min(p.budget, left), p.budget/2)
	return nil
}

// time tells what a training takes.
func (p *Plan) time(hours float64) {
	data := "the prepared cases"
	if p.Timed.MadeUp {
		data = "a made-up scan, for none is prepared"
	}
	parts := fmt.Sprintf("%s to begin and for a first step, %s of %s (as %d of the training itself took, on %s)",
		terminal.Duration(p.Timed.Start), numbers.Count(max(p.Steps-1, 0), "step"), terminal.Duration(p.Step),
		p.Timed.Steps, data)
	if p.Validations > 0 {
		parts += fmt.Sprintf(", %s of %s", numbers.Count(p.Validations, "validation"), terminal.Duration(p.Validation))
	}
	longer := ""
	if whole := time.Duration(hours * float64(time.Hour)); p.Takes() > whole {
		longer = fmt.Sprintf("; WARNING: that is more than the %s that were planned for, of which one validation "+
			"leaves too little: give it more hours, or hold fewer cases out", terminal.Duration(whole))
	}
	p.decide("time", terminal.Duration(p.Takes()),
		"that is what one fine-tuning takes here: %s; checkpoints come on top%s", parts, longer)
}

// largest is the shape of the scan with most voxels at a spacing.
func (f Fingerprint) largest(spacing [3]float64) (shape [3]int) {
	most := 0.0
	for _, s := range f.Scans {
		at := s.at(spacing)
		if voxels := float64(at[0]) * float64(at[1]) * float64(at[2]); voxels > most {
			most, shape = voxels, at
		}
	}
	return shape
}

// pretraining decides on the puzzles and their steps. In the study of equal compute, more steps of
// fine-tuning were worth as much as an encoder, up to the plateau: what is left beyond it is time
// for puzzles.
func (p *Plan) pretraining(f Fingerprint, m Machine) (err error) {
	if f.Puzzles == NoPuzzles {
		p.decide(Pretraining, "none", "all of the time is for fine-tuning, as was asked for")
		return nil
	}
	if _, is := nnunetOf(p.Finetune.Network); is && f.Puzzles == WherePuzzlesPay && f.Labelled() > 0 {
		p.decide(Pretraining, "none", "the rules for it were found with the default network; of nnU-Net's, nothing "+
			"measured says that it pays (docs/results/nnunet-pretrained.md)")
		return nil
	}
	median := f.median(p.Spacing)
	multiples := multiple(p.Finetune.Network)
	q := Puzzle{Work: Work{Network: p.Finetune.Network, Batch: 2}}
	for a, multiple := range multiples {
		// The instance norm needs two voxels of a patch at the deepest stage along one axis.
		q.Patch[a] = max(2*multiple, 16)
		cell := float64(q.Patch[a]) / 0.8
		switch {
		case median[a] >= 3*cell:
			q.Grid[a] = 3
		case median[a] >= 2*cell:
			q.Grid[a] = 2
		default:
			q.Grid[a], q.Patch[a] = 1, min(q.Patch[a], max(int(median[a])/multiple, 1)*multiple)
		}
		q.Crop[a] = q.Grid[a] * int(math.Ceil(float64(q.Patch[a])/0.8))
	}
	p.Puzzle = q
	grid, patch := numbers.Extents(q.Grid[:]), numbers.Extents(q.Patch[:])
	if q.Grid == [3]int{1, 1, 1} {
		if f.Puzzles == PuzzlesApart {
			return fmt.Errorf("the scans are too small for puzzles: they cannot be cut into patches of %s", patch)
		}
		p.decide(Pretraining, "none", "the scans are too small to be cut into patches of %s", patch)
		return nil
	}
	budget := p.budget
	left := budget - p.Timed.Start - plateauSteps*p.Step
	if f.Labelled() == 0 || f.Puzzles == PuzzlesApart {
		left = budget
	}
	if left <= 0 {
		p.decide(Pretraining, "none",
			"the time is better spent on fine-tuning: up to %d steps of it were "+
				"worth as much as an encoder of the same time", plateauSteps)
		return nil
	}
	timed, err := m.Pretrain(q)
	if err != nil {
		return err
	}
	p.Puzzling = timed.Step
	steps := min(timed.fits(left), pretrainSteps)
	if f.Puzzles == PuzzlesApart {
		if steps < 1 {
			return fmt.Errorf("not one step of puzzles fits into %s: it takes %s here", terminal.Duration(left),
				terminal.Duration(p.Puzzling))
		}
		p.Pretrain = steps
		p.decide(Pretraining, fmt.Sprintf("%s puzzles with patches of %s, %d steps", grid, patch, steps),
			"it was asked for, and so many of at most %d steps fit into %s of its own, for one takes %s here",
			pretrainSteps, terminal.Duration(left), terminal.Duration(p.Puzzling))
		return nil
	}
	if steps < worthwhile {
		p.decide(Pretraining, "none", "there is time for %d steps of puzzles, of %s each, too few to learn from",
			steps, terminal.Duration(p.Puzzling))
		return nil
	}
	p.Pretrain = steps
	if f.Labelled() > 0 {
		left := budget - timed.Start - time.Duration(steps)*p.Puzzling
		p.Steps = max(plateauSteps, min(p.mostSteps(), p.Timed.fits(left)))
	}
	p.decide(Pretraining, fmt.Sprintf("%s puzzles with patches of %s, %d steps", grid, patch, steps),
		"beside %d steps of fine-tuning there is time for it; whether it or more steps win more there has not been "+
			"found; a step takes %s here", plateauSteps, terminal.Duration(p.Puzzling))
	return nil
}

// enough is the time of a plan that has room for as many steps as are enough, beside as many
// validations as it has then.
func (p *Plan) enough() (whole time.Duration) {
	steps := float64(p.Timed.Start + (enoughSteps-1)*p.Step)
	for n := p.Validations; ; n++ {
		whole = time.Duration(max(steps/training, (steps+float64(n)*float64(p.Validation))/(1-saving)))
		if n == 0 || n == validations || float64(n+1)*float64(p.Validation) > validating*float64(whole) {
			return whole
		}
	}
}

// steps tells why there are so many of fine-tuning.
func (p *Plan) steps(f Fingerprint) {
	step, budget, is := terminal.Duration(p.Step), terminal.Duration(p.budget), fmt.Sprint(p.Steps)
	switch {
	case p.fits < enoughSteps:
		p.decide("steps", is,
			"a step takes %s here, and no more fit into %s; %d would be better, for which %s are needed for one "+
				"training", step, budget, enoughSteps, terminal.Duration(p.enough()))
	case p.mostSteps() == nnunetSteps && p.Steps < nnunetSteps:
		p.decide("steps", is, "a step takes %s here, and so many fit into %s; nnU-Net's own training has %d", step,
			budget, nnunetSteps)
	case p.mostSteps() == nnunetSteps:
		p.decide("steps", is, "a step takes %s here, and nnU-Net's own training has no more", step)
	case p.Steps >= mostSteps:
		p.decide("steps", is, "a step takes %s here; more than %d gained nothing in the study of learning curves", step,
			mostSteps)
	case p.Pretrain > 0 && f.Puzzles == WherePuzzlesPay:
		p.decide("steps", is, "a step takes %s here, and so many fit into %s beside pretraining", step, budget)
	default:
		p.decide("steps", is, "a step takes %s here, and so many fit into %s; up to %d, more steps help", step, budget,
			mostSteps)
	}
}

// augmentation tells what crops are varied by: what finetune does by itself, for the studies whose
// rules these are had no other. Whether to mirror is the one question that the data answer.
func (p *Plan) augmentation(f Fingerprint) {
	if f.Labelled() == 0 {
		return
	}
	defer p.decide("the rest", "finetune's defaults", "loss, optimiser, learning rate and deep supervision are "+
		"decided by no rule: they are those of this program's studies, for any data, machine and time")
	const what, is = "augmentation", "finetune's defaults, without mirroring"
	for _, label := range slices.Sorted(maps.Keys(f.Names)) {
		if _, _, paired := quality.Partner(f.Names[label]); paired {
			p.decide(what, is, "the name of %s says a side, which mirroring takes away; nnU-Net mirrors all the same. "+
				"The values are those of this program's studies; --augment-preset nnunet has nnU-Net's", f.Names[label])
			return
		}
	}
	p.decide(what, is, "they are those of this program's studies, in which nothing was mirrored. No structure has a "+
		"side by its name: nnU-Net mirrors along all axes, which --augment-mirror ijk of finetune does, as "+
		"--augment-preset nnunet varies crops as nnU-Net does; neither was measured here")
}

// divide decides on the folds.
func (p *Plan) divide(f Fingerprint) {
	n := f.Labelled()
	switch p.Folds = f.folds(); {
	case n < 2:
		p.Folds = 0
		p.decide("folds", "none", "%s", numbers.Count(n, "scan has labels", "scans have labels"))
		return
	case p.Folds < 2:
		p.Folds = 0
		p.decide("folds", "none", "all %d scans with labels are of one patient", n)
		return
	}
	p.decide("post-processing", "the largest component, where labels and held-out cases say so",
		"of each structure that was drawn in one component in 95 %% of 20 cases or more, and whose mean DSC on 5 "+
			"held-out cases or more that raises by half a point or more; of several networks together, where it does "+
			"so for each that held cases out; all components of the others: a rule that is fixed before any result is "+
			"known")
	p.decide("folds", fmt.Sprint(p.Folds),
		"as nnU-Net has it, of %s with labels; all of them take %d times as long as one", numbers.Count(n, "scan"),
		p.Folds)
}

// fits is how many steps go into a time.
func (t Timing) fits(budget time.Duration) int {
	if budget < t.Start {
		return 0
	}
	return 1 + int((budget-t.Start)/max(t.Step, 1))
}

// budgetOf is the time of the steps in so many hours.
func budgetOf(hours float64) time.Duration {
	return time.Duration(hours * training * float64(time.Hour))
}

func spacingText(s [3]float64) string { return fmt.Sprintf("%.7gx%.7gx%.7g mm", s[0], s[1], s[2]) }
