package train

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Setup is how a task is trained, and where the run is kept.
type Setup struct {
	Options   voxsaw.Training
	Optimizer Optimizer       // that the task's programs were compiled with
	Group     Group           // the ranks that train together
	Folder    *Folder         // nil: nothing is written
	Observer  voxsaw.Observer // nil: nobody looks
	Loaders   int             // goroutines that prepare data; 0: 2, or what a GPU leaves free
	Ahead     int             // batches prepared ahead of their use; 0: 4, one a loader at least
	FLOPs     float64         // of a step, over all ranks; 0: nobody counted
	ByShare   string          // see [Job]
}

// loaders is how many goroutines prepare data. The cores of a machine have nothing else to do where
// a device with memory of its own computes, and it waits for them: docs/gpu-engine.md counts how
// many keep up.
func (s Setup) loaders(dev device.Device) int {
	if _, own := dev.(device.Accountant); own && s.Loaders == 0 {
		return min(max(runtime.GOMAXPROCS(0)-1, 2), 16)
	}
	return cmp.Or(s.Loaders, 2)
}

// Train trains a task to the end of its steps, from the folder's last checkpoint if there is one.
// After it the parameters are those of the last step.
//
// Of several ranks, all take the same steps, validate together and end at the same step; rank 0
// alone has a folder. A run with as many ranks as before is resumed to the bit.
//
// It is here that a new run takes its folder, once there is a task with its first weights: from
// then on what the folder held before is gone.
//
// A context that ends stops the run after the step in hand, saves it, and gives a
// [voxsaw.InterruptedError]. A loss or gradient that is not finite gives a [voxsaw.DivergedError]
// and leaves the checkpoints as they were; so does a gradient that is 0 for most of the network,
// step after step, with a [voxsaw.VanishedError].
//
// Where the folder cannot be written to, because the disk is full, say, the training goes on and
// tries again at the next checkpoint. Only the last checkpoint must be written for the run to end
// well: it is tried for as long as the steps took that it saves. A batch that cannot be made ends
// the run after it is saved.
func Train[B any](ctx context.Context, task Task[B], setup Setup) (voxsaw.Summary, error) {
	if err := divisibleTask(task, setup.Group); err != nil {
		return voxsaw.Summary{}, err
	}
	l, err := newLoop(task.Params(), setup)
	if err != nil {
		return voxsaw.Summary{}, err
	}
	defer l.close()
	if pupil, ok := any(task).(Pupil); ok && l.average != nil {
		pupil.Taught(l.average.swapped)
	}
	loaders := setup.loaders(l.params.Device())
	batches := NewPrefetch(ctx, l.now.Step, l.options.Steps, loaders, cmp.Or(setup.Ahead, max(loaders, 4)), task.Batch)
	defer batches.Close()
	l.observer.Started(l.now.Step, l.options.Steps)
	for {
		if step := l.now.Step; due(l.options, l.options.ValidateEvery, step) && l.now.Validated < step {
			if err := l.saveBeforeLast(); err != nil {
				return l.summary(), err
			}
			err := l.validate(ctx, func() (voxsaw.Validation, error) {
				v, err := task.Validate(l.watched(ctx, step), step)
				if p, ok := any(task).(Postprocessor); ok && err == nil {
					l.now.Keep(p.Largest())
				}
				return v, err
			})
			stop, err := l.ends(ctx, err)
			if stop && err != nil {
				return l.interrupt(ctx)
			}
			if err != nil {
				err = fmt.Errorf("validation after step %d: %w", step, err)
				if errors.Is(err, errScore) { // of weights that may be no good
					return l.summary(), err
				}
				return l.summary(), l.giveUp(ctx, err)
			}
		}
		if err := l.saveIfDue(ctx); err != nil {
			return l.summary(), err
		}
		if l.now.Step >= l.options.Steps {
			return l.summary(), l.finish(ctx)
		}
		start := time.Now()
		waited := batches.Waited()
		batch, err := batches.Next()
		stop, err := l.ends(ctx, err)
		if stop {
			return l.interrupt(ctx)
		}
		if err != nil {
			return l.summary(), l.giveUp(ctx, fmt.Errorf("preparing step %d: %w", l.now.Step, err))
		}
		l.waited = batches.Waited()
		var result Result
		if err = l.optimizer.Begin(l.now.Step); err == nil {
			result, err = runStep(l, task, batch)
		}
		if err == nil { // before the loop waits for the device
			err = sendNext(l, task, batches)
		}
		if err == nil {
			err = l.stepped(result, start, l.waited-waited)
		}
		if err != nil {
			return l.summary(), fmt.Errorf("step %d: %w", l.now.Step, err)
		}
	}
}

// sendNext sends the next step's batch to the device if it is there already: of several
// micro-batches the first.
func sendNext[B any](l *loop, task Task[B], batches *Prefetch[B]) error {
	sender, ok := task.(Sender[B])
	if !ok {
		return nil
	}
	batch, ok := batches.Peek()
	if !ok {
		return nil
	}
	if m := l.group.micro; m != nil {
		batch = task.(Divider[B]).MicroBatch(batch, 0, m.n)
	}
	return sender.Ahead(batch)
}

// ends says whether the run is to stop after the step in hand, because that was asked for here or
// on another rank, and whether it cannot go on, because of an error here or there.
func (l *loop) ends(ctx context.Context, err error) (stop bool, _ error) {
	facts, failed := l.group.Any(ctx.Err() != nil, err != nil)
	if failed != nil {
		return false, failed
	}
	if facts[1] && err == nil {
		err = ElsewhereError{}
	}
	return facts[0], err
}

// due says whether something that happens every so many steps, and at the end, happens after the
// given number of steps.
func due(o voxsaw.Training, every, step int) bool {
	return step > 0 && (step == o.Steps || every > 0 && step%every == 0)
}

// loop is the state of a run, whatever its batches are made of.
type loop struct {
	options             voxsaw.Training
	params              Params
	group               Group
	folder              *Folder
	observer            voxsaw.Observer
	optimizer           Optimizer
	average             *average            // nil: weights are validated as they are
	accumulated         *accumulated        // nil: batches are not divided into micro-batches
	now, saved          checkpoint.Progress // and in the last checkpoint
	metrics, validation *table
	release             func() // lets go of the folder
	last                voxsaw.Validation
	start, savedAt      time.Time
	startStep           int
	waited              time.Duration
	silence             silence
	cannotWrite         bool    // to the log, which was said
	flops               float64 // of a step
	byShare             string
}

func newLoop(params Params, setup Setup) (_ *loop, err error) {
	if err := setup.Options.Check(); err != nil {
		return nil, err
	}
	l := &loop{options: setup.Options, params: params, group: setup.Group, folder: setup.Folder,
		observer: setup.Observer, optimizer: setup.Optimizer, start: Now(), savedAt: time.Now(),
		flops: setup.FLOPs, byShare: setup.ByShare}
	if l.observer == nil {
		l.observer = silent{}
	}
	if l.options.Average > 0 {
		if l.average, err = newAverage(params, l.options.Average); err != nil {
			err = fmt.Errorf("the moving average of the weights: %w", err)
		}
	}
	if err == nil && l.group.micro != nil {
		if l.accumulated, err = newAccumulated(params); err != nil {
			err = fmt.Errorf("the sum of the gradients: %w", err)
		}
	}
	// A new run: nothing is begun, and nothing of an earlier one removed, by ranks that differ.
	fresh := l.folder != nil && l.folder.unclaimed
	if err = l.group.Agree(err); err == nil {
		err = l.group.FromRoot(&fresh)
	}
	if err == nil && fresh {
		err = l.group.sameWeights(l.params, atTheStart)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	if l.folder != nil {
		l.folder.flops = setup.FLOPs
		if l.release, err = l.folder.hold(); err == nil {
			err = l.open()
		}
	}
	if err = l.group.Agree(err); err == nil {
		err = l.spread(fresh)
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

// atTheStart says where weights come from that ranks have before the first step.
const atTheStart = "at the start, as --init and the seed give them"

// spread gives all ranks what rank 0 has read of the run that goes on, and makes sure that they
// begin with the same weights, as those of a fresh run are known to do.
func (l *loop) spread(fresh bool) error {
	if l.group.single() {
		return nil
	}
	if err := l.group.FromRoot(&l.now); err != nil {
		return err
	}
	l.startStep, l.saved = l.now.Step, l.now
	if l.now.Step > 0 {
		if err := spreadState(l.group, l.params, l.tensors(), l.targets()); err != nil {
			return fmt.Errorf("handing the run's state to all ranks: %w", err)
		}
	}
	if fresh {
		return nil
	}
	return l.group.sameWeights(l.params, atTheStart)
}

// spreadState replaces weights and the state of the optimiser, whose parts and targets are the
// same, by rank 0's. A rank whose device fails goes on with the others to the end, so that none
// waits for it.
func spreadState(g Group, params Params, parts []checkpoint.Tensor, targets []checkpoint.Target) error {
	var values []float32
	var failed error
	spread := func(shape device.Shape, read func([]float32) ([]float32, error), write func([]float32) error) error {
		n := shape.Elements()
		if g.Rank == 0 && failed == nil {
			values, failed = read(values)
		}
		values = slices.Grow(values[:0], n)[:n] // what was read
		if err := g.broadcast(values); err != nil {
			return err
		}
		if failed == nil {
			failed = write(values)
		}
		return nil
	}
	for _, name := range params.Names() {
		err := spread(params.Shape(name),
			func(into []float32) ([]float32, error) { return params.ReadInto(name, into) },
			func(values []float32) error { return params.Write(name, values) })
		if err != nil {
			return err
		}
	}
	for i, to := range targets {
		if err := spread(to.Shape, parts[i].Values, to.Set); err != nil {
			return err
		}
	}
	return g.Agree(failed)
}

// open takes the folder, or takes up the run that it holds.
func (l *loop) open() error {
	l.folder.Tell(l.observer)
	if l.folder.unclaimed {
		if err := l.folder.claim(); err != nil {
			return err
		}
	} else if err := l.folder.unseal(); err != nil {
		return fmt.Errorf("resuming: %w", err)
	} else if err := l.folder.goOn(l.options.Steps); err != nil {
		return err
	}
	if note := l.folder.longer(l.options, l.byShare); note != "" {
		l.observer.Note(note)
	}
	if _, err := os.Stat(l.folder.Last()); err == nil {
		d, err := checkpoint.Read(l.folder.Last())
		if err == nil {
			err = checkpoint.Restore(l.folder.Last(), l.params, l.targets()...)
		}
		if err != nil {
			return fmt.Errorf("resuming: %w", err)
		}
		l.now = d.Progress
		// The weights of an earlier best are gone where a later one was kept since: it is the best.
		if best, err := checkpoint.Read(l.folder.Best()); err == nil && best.Step > d.Validated {
			l.now.Best, l.now.BestStep = best.Best, best.Step
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("resuming: %w", err)
	}
	l.startStep, l.saved = l.now.Step, l.now
	var err error
	if l.metrics, err = openTable(filepath.Join(l.folder.path, metricsFile), l.now.Step); err != nil {
		return err
	}
	if l.validation, err = openTable(filepath.Join(l.folder.path, validationFile), l.now.Validated); err != nil {
		return err
	}
	l.last = l.validation.validation()
	if missing := l.metrics.missing(l.now.Step); len(missing) > 0 {
		l.observer.Note(fmt.Sprintf("%s has a gap: steps %s are missing; the weights are those of step %d",
			l.metrics.path, strings.Join(missing, ", "), l.now.Step))
	}
	if l.now.BestStep > 0 && l.validation.step < l.now.Validated {
		l.observer.Note(fmt.Sprintf("%s has a gap: it ends at step %d, and step %d was validated", l.validation.path,
			l.validation.step, l.now.Validated))
	}
	return nil
}

// extra are the buffers beside the parameters that a run needs to be resumed, by the prefix of
// their tensors.
func (l *loop) extra() []State {
	var all []State
	for _, s := range l.optimizer.States() {
		all = append(all, State{checkpoint.StatePrefix + s.Name + "/", s.Buffer})
	}
	if l.average != nil {
		all = append(all, State{checkpoint.AveragePrefix, l.average.mean})
	}
	return all
}

// tensors are the parts of these buffers, a tensor for each parameter.
func (l *loop) tensors() []checkpoint.Tensor {
	var all []checkpoint.Tensor
	l.eachPart(func(name string, shape device.Shape, part device.Buffer) {
		all = append(all, checkpoint.Tensor{Name: name, Shape: shape, Values: func(into []float32) ([]float32, error) {
			n := shape.Elements()
			if cap(into) < n {
				into = make([]float32, n)
			}
			return into[:n], l.params.Device().DownloadWeights(into[:n], part, shape, 0)
		}})
	})
	return all
}

// targets are the same parts, to be set.
func (l *loop) targets() []checkpoint.Target {
	var all []checkpoint.Target
	l.eachPart(func(name string, shape device.Shape, part device.Buffer) {
		all = append(all, checkpoint.Target{Name: name, Shape: shape, Set: func(values []float32) error {
			return l.params.Device().UploadWeights(part, shape, 0, values)
		}})
	})
	return all
}

func (l *loop) eachPart(f func(name string, shape device.Shape, part device.Buffer)) {
	for _, s := range l.extra() {
		for _, name := range l.params.Names() {
			if offset, bytes, trained := l.params.Range(name); trained {
				f(s.Name+name, l.params.Shape(name), l.params.Device().View(s.Buffer, offset, bytes))
			}
		}
	}
}

func (l *loop) close() {
	for _, t := range []*table{l.metrics, l.validation} {
		if t != nil {
			t.close()
		}
	}
	if l.average != nil {
		l.average.close()
	}
	if l.accumulated != nil {
		l.accumulated.close()
	}
	if l.release != nil {
		if err := l.folder.seal(); err != nil {
			l.observer.Note(fmt.Sprintf("%s: without digests of its files, with "+
				"which voxsaw verify would compare them: %v", l.folder.path, err))
		}
		l.release()
	}
}

// stepped looks at the loss and the gradients that the task left, or lets the device look, and
// takes the step, or ends it where parameters were updated within the backward pass. A step that is
// not finite changes nothing, with one exception: in the latter case a gradient that is not finite,
// of a loss that is, spoils the parameters in memory. The checkpoint is kept.
func (l *loop) stepped(r Result, start time.Time, waited time.Duration) error {
	norm := math.NaN()
	if r.Report == nil && !numbers.Finite(r.Loss) {
		l.optimizer.Undo()
		return l.diverged(r, norm)
	}
	if err := l.optimizer.Sum(l.group); err != nil {
		return err
	}
	outcome, err := l.optimizer.Take(l.now.Step, r.Report)
	if err != nil {
		return err
	}
	if r.Report != nil {
		r.Loss, r.Metrics = outcome.Loss, r.Report.Metrics(outcome.Values)
	}
	if norm = outcome.Norm; !outcome.Taken {
		return l.diverged(r, norm)
	}
	if l.average != nil {
		if err := l.average.update(l.now.Step); err != nil {
			return err
		}
	}
	if err := l.listen(r, norm); err != nil {
		return err
	}
	rate := l.options.Rate(l.now.Step)
	l.now.Step++
	elapsed := Now().Sub(l.start)
	if l.metrics != nil {
		row := append([]voxsaw.Metric{{Name: "loss", Value: r.Loss}, {Name: "lr", Value: rate},
			{Name: "grad_norm", Value: norm}}, r.Metrics...)
		row = append(row, voxsaw.Metric{Name: "seconds", Value: time.Since(start).Seconds()},
			voxsaw.Metric{Name: "wait_seconds", Value: waited.Seconds()})
		if err := l.logged(l.metrics.add(l.now.Step, row)); err != nil {
			return err
		}
	}
	l.observer.Stepped(voxsaw.Progress{
		Step: l.now.Step, Steps: l.options.Steps, Loss: r.Loss, Rate: rate, GradNorm: norm, Metrics: r.Metrics,
		Items: r.Items, Elapsed: elapsed,
		Remaining: time.Duration(
			float64(elapsed) / float64(l.now.Step-l.startStep) * float64(l.options.Steps-l.now.Step),
		),
		WaitShare: l.waited.Seconds() / max(elapsed.Seconds(), 1e-9),
	})
	return nil
}

// diverged is the error of a step whose loss or gradient is not finite.
func (l *loop) diverged(r Result, norm float64) error {
	e := &voxsaw.DivergedError{Step: l.now.Step, Loss: r.Loss, GradNorm: norm, Cases: r.Cases}
	if l.folder != nil {
		if _, err := os.Stat(l.folder.Last()); err == nil {
			e.Path = l.folder.Last()
		}
	}
	return e
}

// validate validates the weights that predictions will be made with, logs what comes of it, and
// keeps these weights if they are the best so far.
func (l *loop) validate(ctx context.Context, task func() (voxsaw.Validation, error)) error {
	work := func() error {
		v, err := task()
		if err != nil {
			return err
		}
		return l.validated(ctx, v)
	}
	if l.average == nil {
		return work()
	}
	return l.average.swapped(work)
}

// errScore is the error of a validation that gives no number.
var errScore = errors.New("the score is no finite number")

// validated logs a validation and keeps the weights if they are the best so far.
func (l *loop) validated(ctx context.Context, v voxsaw.Validation) error {
	if len(v.Metrics) == 0 { // nothing is held out
		l.now.Validated = l.now.Step
		return nil
	}
	if !numbers.Finite(v.Score) {
		return fmt.Errorf("%w: %v", errScore, v.Score)
	}
	again := l.now.BestStep == l.now.Step // a run that died kept weights that these replace
	best, before := !v.Unscored && (l.now.BestStep == 0 || again || v.Score > l.now.Best), l.now
	l.now.Validated, l.last = l.now.Step, v
	if best {
		l.now.Best, l.now.BestStep = v.Score, l.now.Step
	}
	l.observer.Validated(l.now.Step, v, best)
	if l.folder == nil {
		return nil
	}
	if err := l.logged(l.validation.add(l.now.Step, append([]voxsaw.Metric{{Name: "score", Value: v.Score}},
		v.Metrics...))); err != nil {
		return err
	}
	if !best {
		return nil
	}
	keep := func() error { return checkpoint.Write(l.folder.Best(), l.folder.description(l.now), l.params) }
	var err error
	if l.now.Step < l.options.Steps {
		err = keep()
	} else {
		err = l.insist(ctx, keep)
	}
	if atomicfile.OfMachine(err) { // the best that there is a file of is the one before
		l.now.Best, l.now.BestStep = before.Best, before.BestStep
		l.observer.Note(fmt.Sprintf("step %d has the highest score, and could not be kept: %v: the training goes on",
			l.now.Step, err))
		return nil
	}
	return err
}

// logged says once, and forgives, that a line of the log could not be written: it is written with
// the next one.
func (l *loop) logged(err error) error {
	if !atomicfile.OfMachine(err) {
		l.cannotWrite = l.cannotWrite && err != nil
		return err
	}
	if !l.cannotWrite {
		l.observer.Note(fmt.Sprintf("after step %d: %v: the training goes on, and tries again", l.now.Step, err))
	}
	l.cannotWrite = true
	return nil
}

// saveIfDue saves where that is due. But for the end of the training, one that fails for want of
// room, say, is only noted.
func (l *loop) saveIfDue(ctx context.Context) error {
	if !due(l.options, l.options.CheckpointEvery, l.now.Step) {
		return nil
	}
	if err := l.group.sameWeights(l.params, fmt.Sprintf("after step %d", l.now.Step)); err != nil {
		return err
	}
	if l.now == l.saved {
		return nil
	}
	if l.now.Step >= l.options.Steps {
		return l.insist(ctx, l.save)
	}
	err := l.save()
	if atomicfile.OfMachine(err) {
		l.observer.Note(fmt.Sprintf("step %d could not be saved: %v: the training goes "+
			"on, and tries again at the next checkpoint", l.now.Step, err))
		return nil
	}
	return err
}

// saveBeforeLast saves the end of a training before it is validated, which may fail, or need more
// memory than there is. Where the machine does not let it be saved now, it is tried again
// afterwards.
func (l *loop) saveBeforeLast() error {
	if l.now.Step < l.options.Steps || l.now == l.saved {
		return nil
	}
	if err := l.save(); !atomicfile.OfMachine(err) {
		return err
	}
	return nil
}

// giveUp saves what is there before the training ends with an error that is not of the weights.
func (l *loop) giveUp(ctx context.Context, cause error) error {
	if l.now == l.saved {
		return cause
	}
	if err := l.insist(ctx, l.save); err != nil {
		return errors.Join(cause, err)
	}
	return cause
}

// insist tries work again that the machine does not let be done, because the disk is full, say,
// when no later checkpoint will make good for it. It does so for as long as the steps took that
// would be lost, or until the context ends.
func (l *loop) insist(ctx context.Context, work func() error) error {
	const least, most, longest = time.Second, time.Hour, 30 * time.Second
	err := work()
	if !atomicfile.OfMachine(err) {
		return err
	}
	patience := min(max(time.Since(l.savedAt), least), most)
	l.observer.Note(fmt.Sprintf("step %d could not be saved: %v: it is tried again for %v", l.now.Step, err,
		patience.Round(time.Second)))
	until := time.Now().Add(patience)
	for pause := least / 20; time.Now().Before(until); pause = min(2*pause, longest) {
		select {
		case <-ctx.Done():
			return err
		case <-time.After(min(pause, time.Until(until))):
		}
		if err = work(); !atomicfile.OfMachine(err) {
			return err
		}
	}
	return err
}

// save writes the last checkpoint. The lines of the steps up to it reach the disk before it does:
// so a run that is resumed after a power cut has no gap in its log.
func (l *loop) save() error {
	if l.folder == nil {
		return nil
	}
	if err := errors.Join(l.metrics.sync(), l.validation.sync()); err != nil {
		return err
	}
	if l.average != nil && l.now.Step == 0 { // there is none: who reads it gets the first weights
		if err := l.average.update(0); err != nil {
			return err
		}
	}
	if err := checkpoint.Write(l.folder.Last(), l.folder.description(l.now), l.params, l.tensors()...); err != nil {
		return err
	}
	l.saved, l.savedAt = l.now, time.Now()
	l.observer.Saved(l.folder.Last(), l.now.Step)
	return l.folder.record(l.now, false)
}

func (l *loop) interrupt(ctx context.Context) (voxsaw.Summary, error) {
	// on another rank, perhaps
	e := &voxsaw.InterruptedError{Step: l.now.Step, Cause: cmp.Or(context.Cause(ctx), context.Canceled)}
	if err := l.save(); err != nil {
		return l.summary(), fmt.Errorf("stopped after step %d, which could not be saved: %w", l.now.Step, err)
	}
	if l.folder != nil {
		e.Path = l.folder.Last()
	}
	return l.summary(), e
}

func (l *loop) finish(ctx context.Context) error {
	if l.folder == nil {
		return nil
	}
	l.folder.finished = true
	return l.insist(ctx, func() error { return l.folder.record(l.now, true) })
}

func (l *loop) summary() voxsaw.Summary {
	elapsed := Now().Sub(l.start)
	return voxsaw.Summary{
		Step: l.now.Step, BestStep: l.now.BestStep, Best: l.now.Best, Validation: l.last,
		Elapsed: elapsed, WaitShare: l.waited.Seconds() / max(elapsed.Seconds(), 1e-9),
		FLOPs: l.flops * float64(l.now.Step),
	}
}

// silent is the observer of a run that has none.
type silent struct{}

func (silent) Started(int, int)                       {}
func (silent) Stepped(voxsaw.Progress)                {}
func (silent) Validated(int, voxsaw.Validation, bool) {}
func (silent) Saved(string, int)                      {}
func (silent) Note(string)                            {}

// watchKey is the context key of who watches a validation.
type watchKey struct{}

// watched is the context of a validation, with whom to tell how it gets on.
func (l *loop) watched(ctx context.Context, step int) context.Context {
	o, ok := l.observer.(voxsaw.ValidationObserver)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, watchKey{}, func(done, of int) { o.Validating(step, done, of) })
}

// watcher is whom a context says to tell how many items are done, of how many.
func watcher(ctx context.Context) func(done, of int) {
	if watch, ok := ctx.Value(watchKey{}).(func(done, of int)); ok {
		return watch
	}
	return func(int, int) {}
}
