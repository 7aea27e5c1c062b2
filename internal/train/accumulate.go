package train

import (
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// Gradient accumulation: a step's batch goes through the network in several micro-batches, whose
// gradients are added up. A loss is a quotient of sums over the batch, so each micro-batch is run
// twice: forward alone until the sums of all are known, then forward and backward with the sums of
// the whole batch. The gradients then add up to that of the whole batch, as those of ranks do (see
// [nn.Program.Reduce]), and not to a mean of other losses. Batch normalisation would need the
// statistics of the whole batch in each layer; with [voxsaw.Training.PartNorm] it has those of a
// micro-batch.

// A Divider is a [Task] whose batches can be divided into micro-batches. Its programs are compiled
// for [Group.PerPass] items; in a [Task.Step] it asks the group for its part of the batch, sums and
// backward parts.
type Divider[B any] interface {
	// MicroBatch is micro-batch i of n, of equal sizes, that a batch consists of.
	MicroBatch(batch B, i, n int) B
}

// MicroBatch is part i of n, of equal sizes, that the items of a batch consist of.
func MicroBatch[T any](items []T, i, n int) []T {
	size := len(items) / n
	return items[i*size : (i+1)*size : (i+1)*size]
}

// microBatches are those of a step, and how far it is.
type microBatches struct {
	n, now int
	sum    func(values []float32) error // over the ranks; nil: there is one
	stage  stage
	sums   [][]float32 // of each call of AllReduce in a step, over all micro-batches
	calls  int         // of AllReduce in this run of this micro-batch
}

// stage is what is done with a micro-batch.
type stage int

const (
	between stage = iota // no micro-batch is being run
	adding               // forward: sums are added up
	using                // forward and backward: the sums are those of the whole batch
)

// Accumulating is the group whose batches go through the network in n micro-batches each. It is no
// longer [Group.Alone].
func (g Group) Accumulating(n int) Group {
	if n < 2 || g.micro != nil {
		return g
	}
	g.micro = &microBatches{n: n, sum: g.AllReduce}
	g.AllReduce = g.micro.allReduce
	return g
}

// allReduce is the AllReduce of a group with micro-batches.
func (m *microBatches) allReduce(values []float32) error {
	defer func() { m.calls++ }()
	switch {
	case m.stage == using && m.calls < len(m.sums) && len(m.sums[m.calls]) == len(values):
		copy(values, m.sums[m.calls])
	case m.stage == using:
		return fmt.Errorf("sum %d of micro-batch %d has %d values, which it had not before", m.calls, m.now,
			len(values))
	case m.stage == adding && m.calls == len(m.sums):
		m.sums = append(m.sums, slices.Clone(values))
	case m.stage == adding:
		for i, v := range values {
			m.sums[m.calls][i] += v
		}
	case m.sum != nil:
		return m.sum(values)
	}
	return nil
}

// enter begins to run a micro-batch.
func (m *microBatches) enter(s stage, i int) { m.stage, m.now, m.calls = s, i, 0 }

// reduce adds the sums of the micro-batches up over the ranks.
func (m *microBatches) reduce() error {
	m.stage = between
	for _, values := range m.sums {
		if m.sum == nil {
			return nil
		}
		if err := m.sum(values); err != nil {
			return err
		}
	}
	return nil
}

// PerPass is how many of the rank's items go through the network at once.
func (g Group) PerPass(items int) int { return items / g.passes() }

func (g Group) passes() int {
	if g.micro == nil {
		return 1
	}
	return g.micro.n
}

// MicroBatches is how many a whole batch is divided into, by ranks and then by each of them.
func (g Group) MicroBatches() int { return max(g.Size, 1) * g.passes() }

// MicroBatch is the number of the one of the whole batch that is at hand, from 0.
func (g Group) MicroBatch() int {
	if g.micro == nil {
		return g.Rank
	}
	return g.Rank*g.micro.n + g.micro.now
}

// Backward runs the backward parts of programs, one after another; not while the sums of
// micro-batches are still being added up.
func (g Group) Backward(programs ...interface{ Backward() error }) error {
	if g.micro != nil && g.micro.stage == adding {
		return nil
	}
	for _, p := range programs {
		if err := p.Backward(); err != nil {
			return err
		}
	}
	return nil
}

// divisibleTask says whether a task can do what its settings ask for.
func divisibleTask[B any](task Task[B], g Group) error {
	if _, ok := task.(Divider[B]); !ok && g.micro != nil {
		return fmt.Errorf("this training cannot divide its batches into micro-batches: leave accumulate out")
	}
	return nil
}

// runStep runs a step's batch through the network, whole or in micro-batches.
func runStep[B any](l *loop, task Task[B], batch B) (Result, error) {
	m := l.group.micro
	if m == nil {
		return task.Step(l.now.Step, batch)
	}
	parts := make([]B, m.n)
	for i := range parts {
		parts[i] = task.(Divider[B]).MicroBatch(batch, i, m.n)
	}
	m.sums = m.sums[:0]
	defer m.enter(between, 0)
	var all Result
	finite := true
	for i, part := range parts {
		m.enter(adding, i)
		r, err := task.Step(l.now.Step, part)
		if err != nil {
			return r, err
		}
		all.Cases, all.Items = append(all.Cases, r.Cases...), r.Items
		finite = finite && numbers.Finite(r.Loss)
		all.Loss += r.Loss
	}
	m.enter(between, 0)
	bad, err := l.group.Any(!finite)
	if err != nil || bad[0] {
		if finite { // it is another rank's that is not
			all.Loss = math.NaN()
		}
		return all, err
	}
	if err := m.reduce(); err != nil {
		return all, err
	}
	// what batch normalisation remembers of the batch, it shall remember once
	l.optimizer.Undo()
	for i, part := range parts {
		m.enter(using, i)
		r, err := task.Step(l.now.Step, part)
		all.Loss, all.Metrics = r.Loss, r.Metrics
		if err != nil || !numbers.Finite(r.Loss) {
			return all, err
		}
		if err := l.accumulated.add(l.optimizer, i, m.n); err != nil {
			return all, err
		}
	}
	return all, nil
}

// accumulated are the gradients of the micro-batches so far, laid out as the parameters are.
type accumulated struct {
	dev     device.Device
	sum     device.Buffer
	of      map[string]*accumulatedGradient
	scratch device.Buffer
}

// accumulatedGradient is the gradient of one parameter.
type accumulatedGradient struct {
	sum       device.Buffer
	copy, add device.Kernel
}

func newAccumulated(params Params) (_ *accumulated, err error) {
	a := &accumulated{dev: params.Device(), of: map[string]*accumulatedGradient{}}
	values, err := params.Values()
	if err != nil {
		return nil, err
	}
	if a.sum, err = a.dev.Alloc(values.Bytes()); err != nil {
		return nil, err
	}
	scratch := int64(0)
	for _, name := range params.Names() {
		offset, bytes, trained := params.Range(name)
		if !trained || bytes == 0 {
			continue
		}
		n := int(bytes / 4)
		p := &accumulatedGradient{sum: a.dev.View(a.sum, offset, bytes)}
		// a product with 1 is a copy, to the bit
		if p.copy, err = a.dev.Scale(device.Tensor{Shape: device.Shape{1, n}}, 1); err == nil {
			p.add, err = a.dev.AddWeights(n)
		}
		if err != nil {
			a.close()
			return nil, err
		}
		scratch = max(scratch, p.copy.Scratch(), p.add.Scratch())
		a.of[name] = p
	}
	if a.scratch, err = a.dev.Alloc(scratch); err != nil {
		a.close()
		return nil, err
	}
	return a, nil
}

// add adds the gradients of micro-batch i of n. With the last one the sum lies where the optimiser
// looks for the gradients. The order of the sums is that of the micro-batches.
func (a *accumulated) add(o Optimizer, i, n int) error {
	return o.Gradients(func(name string, gradient device.Buffer) error {
		p := a.of[name]
		switch i {
		case 0:
			p.copy.Run([]device.Buffer{p.sum}, []device.Buffer{gradient}, a.scratch)
		case n - 1:
			p.add.Run([]device.Buffer{gradient}, []device.Buffer{gradient, p.sum}, a.scratch)
		default:
			p.add.Run([]device.Buffer{p.sum}, []device.Buffer{p.sum, gradient}, a.scratch)
		}
		return nil
	})
}

func (a *accumulated) close() {
	for _, b := range []device.Buffer{a.sum, a.scratch} {
		if b != nil {
			a.dev.Free(b)
		}
	}
}
