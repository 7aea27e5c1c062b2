package train

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/numbers"
)

// An Optimizer changes parameters by their gradients.
//
// A step is Begin, the forward and backward passes, Take. Without clipping, nothing needs all
// gradients at once: then programs that were compiled with Updater take a parameter's step within
// their backward pass, and its gradient is gone before the next one's is there. The bits are the
// same.
//
// A [device.StepDecider] looks at the gradients itself, once they are all there.
type Optimizer interface {
	// Begin sets the learning rates of a step, counted from 0, and keeps a copy of the model's
	// states: before its forward pass.
	Begin(step int) error
	// Updater makes the kernels that take a parameter's step as soon as its gradient is there, or
	// compute that of a convolution's weights, too: for nn.Options.Update. It is nil where all
	// gradients are needed at once.
	Updater() func(name string, conv *device.ConvSpec) (device.Kernel, error)
	// Sum adds up the gradients that the backward pass has left over the ranks.
	Sum(g Group) error
	// SumNote says for a person what the sums of the run so far took; "": nothing was summed.
	SumNote() string
	// Gradients calls f for the gradient of every parameter that the backward pass has left.
	Gradients(f func(name string, gradient device.Buffer) error) error
	// Decides says that Take looks at the loss of a [Report] where it lies on the device, so that a
	// task need not wait for it.
	Decides() bool
	// Take takes the step of all parameters whose step was not taken in the backward pass, if the
	// loss of the report and the norm of the gradient are finite; else the states are again those
	// that Begin found. The report may be nil.
	Take(step int, report *Report) (Outcome, error)
	// Silent is the share of all parameters, from 0 to 1, that belong to tensors whose gradient was
	// 0 everywhere in the step that was taken last. A device that decides is asked for it.
	Silent() (float64, error)
	// Undo makes the states those that Begin found: for a step whose loss is known not to be finite
	// without Take.
	Undo()
	// States are what a run needs to be resumed, each laid out as the parameters are.
	States() []State
	// Close gives the memory back.
	Close()
}

// A State is a buffer of an optimiser: one value for each of the parameters.
type State struct {
	Name   string // such as velocity
	Buffer device.Buffer
}

// An Outcome is what came of a step.
type Outcome struct {
	Norm   float64   // Euclidean, of the gradient of all parameters together, before clipping
	Taken  bool      // loss and norm are finite
	Loss   float64   // of the report
	Values []float32 // valid until the next step
}

// NewOptimizer prepares the optimiser that the settings name. Its state is zero. Parameters of no
// group have the schedule's learning rate. wholeGradient says that all gradients are needed before
// the first step is taken, as where they are summed over ranks.
func NewOptimizer(params Params, o voxsaw.Training, groups []ParamGroup, wholeGradient bool) (Optimizer, error) {
	return newOptimizer(params, o, groups, wholeGradient, nil)
}

// newOptimizer is [NewOptimizer] for gradients that are summed over ranks while the backward pass
// goes on; nil: they are not. Closing the optimiser closes that, too.
func newOptimizer(params Params, o voxsaw.Training, groups []ParamGroup, wholeGradient bool,
	sending *overlap) (Optimizer, error) {
	s := &optimizer{options: o, dev: params.Device(), params: params, whole: wholeGradient || o.Clip > 0,
		sending: sending}
	if decider, ok := s.dev.(device.StepDecider); ok {
		s.decider, s.whole = &decision{dev: decider}, true
	}
	switch o.Optimizer {
	case "sgd":
		s.rule = sgd{o}
	case "adamw":
		s.rule = adamW{o}
	default:
		s.Close()
		return nil, fmt.Errorf("there is no optimizer %q", o.Optimizer)
	}
	if err := s.prepare(groups); err != nil {
		s.Close()
		return nil, fmt.Errorf("optimiser: %w", err)
	}
	if len(s.spans) == 0 {
		s.Close()
		return nil, errors.New("the model has no parameters")
	}
	return s, nil
}

// A rule is what tells one optimiser from another.
type rule interface {
	// states names the buffers that it keeps beside the parameters.
	states() []string
	// kernel is: parameters, states... <- gradient, hyper.
	kernel(dev device.Device, n int) (device.Kernel, error)
	// kernelOfAll is the kernel of parameters of so many elements: the operands of each as in
	// kernel, one parameter after the other; nil where there is none.
	kernelOfAll(dev device.StepGrouper, n []int) (device.Kernel, error)
	// fused is the kernel that computes the gradient of a convolution's weights, too: parameters,
	// states..., sum of squares <- x, dy, hyper; nil where there is none.
	fused(dev device.Device, conv device.ConvSpec) (device.Kernel, error)
	// hyper are the hyperparameters of the t-th step of these parameters, counted from 1; frozen
	// those of one that changes nothing, and does not count.
	hyper(t int, rate, decay, clip float64) []float32
	frozen() []float32
	// factor is where among them the factor of the gradient stands.
	factor() int
}

// sgd is stochastic gradient descent with momentum, as PyTorch has it: see [device.Optimisers].
type sgd struct{ o voxsaw.Training }

func (sgd) states() []string { return []string{"velocity"} }

func (sgd) kernel(dev device.Device, n int) (device.Kernel, error) { return dev.SGD(n) }

func (sgd) kernelOfAll(dev device.StepGrouper, n []int) (device.Kernel, error) {
	return dev.SGDOfAll(n)
}

func (sgd) fused(dev device.Device, conv device.ConvSpec) (device.Kernel, error) {
	if stepper, ok := dev.(device.WeightStepper); ok {
		return stepper.ConvGradWeightsSGD(conv)
	}
	return nil, nil
}

func (sgd) frozen() []float32 { return []float32{0, 1, 0, 0} } // the velocity stays, too

func (sgd) factor() int { return 3 }

func (r sgd) hyper(_ int, rate, decay, clip float64) []float32 {
	return []float32{float32(rate), float32(r.o.Momentum), float32(decay), float32(clip)}
}

// adamW is Adam with decoupled weight decay (Loshchilov and Hutter 2019), as PyTorch has it: see
// [device.Optimisers].
type adamW struct{ o voxsaw.Training }

// epsilon of AdamW is PyTorch's.
const epsilon = 1e-8

func (adamW) states() []string { return []string{"mean", "square"} }

func (adamW) kernel(dev device.Device, n int) (device.Kernel, error) { return dev.AdamW(n) }

func (adamW) kernelOfAll(device.StepGrouper, []int) (device.Kernel, error) { return nil, nil }

func (adamW) fused(device.Device, device.ConvSpec) (device.Kernel, error) { return nil, nil }

func (adamW) frozen() []float32 { return make([]float32, 8) }

func (adamW) factor() int { return 5 }

func (r adamW) hyper(t int, rate, decay, clip float64) []float32 {
	n := float64(t)
	return []float32{
		float32(rate), float32(1 - r.o.Momentum), float32(1 - r.o.Beta2), epsilon, float32(decay), float32(clip),
		float32(1 - math.Pow(r.o.Momentum, n)), float32(1 - math.Pow(r.o.Beta2, n)),
	}
}

// optimizer applies a rule to every parameter.
type optimizer struct {
	rule    rule
	options voxsaw.Training
	dev     device.Device
	params  Params
	whole   bool     // all gradients are needed at once
	sending *overlap // nil: gradients are where the programs left them
	states  []State
	rates   []*rate
	spans   []*span // one a parameter
	squares device.Buffer
	sums    []float32 // the same on the host
	hyper   device.Buffer
	// what was uploaded last: the hyperparameters, or, where the device decides, what is planned
	uploaded, next []float32
	decider        *decision // nil: the host decides
	kept           *kept
	scratch        device.Buffer
	// what does at once what each span's kernels do; nil: these do it
	stepAll, sumAll device.Kernel
}

// A rate is the hyperparameters of some parameters.
type rate struct {
	factor func(step int) float64
	decay  func(step int) float64 // nil: 1
	decays bool
	hyper  device.Buffer // its row of the optimiser's
	// steps before step "until" that were not frozen
	taken, until int
}

// number is the how-manieth step of these parameters the given one is, counted from 1: those in
// which they were frozen do not count, as PyTorch counts the steps of a parameter from its first
// gradient on. It follows from the steps alone, so that a run that is resumed needs no count.
func (r *rate) number(step int) int {
	if step < r.until {
		r.taken, r.until = 0, 0
	}
	for ; r.until < step; r.until++ {
		if r.factor(r.until) != 0 {
			r.taken++
		}
	}
	return r.taken + 1
}

// A span is one parameter.
type span struct {
	name       string
	rate       *rate
	inBackward bool // a program takes its step
	step, sum  device.Kernel
	values     device.Buffer
	states     []device.Buffer
	square     device.Buffer // sum of the squares of its gradient: one element
}

// outputs are what a step writes.
func (p *span) outputs() []device.Buffer { return append([]device.Buffer{p.values}, p.states...) }

// prepare takes memory and makes the kernels.
func (s *optimizer) prepare(groups []ParamGroup) error {
	values, err := s.params.Values()
	if err != nil {
		return err
	}
	buffers := int64(len(s.rule.states()))
	if s.options.Average > 0 {
		buffers++
	}
	if s.options.Accumulate > 1 || s.sending != nil {
		buffers++
	}
	s.params.SetOptimizerState(buffers)
	for _, name := range s.rule.states() {
		b, err := s.dev.Alloc(values.Bytes())
		if err != nil {
			return err
		}
		s.states = append(s.states, State{name, b})
	}
	everything := ParamGroup{Fits: func(string) bool { return true }, Factor: func(int) float64 { return 1 }}
	groups = append(slices.Clone(groups), everything)
	rates := map[[2]int]*rate{}
	if s.hyper, err = s.dev.Alloc(2 * int64(len(groups)) * s.dev.Alignment()); err != nil {
		return err
	}
	scratch := int64(0)
	for _, name := range s.params.Names() {
		offset, bytes, ok := s.params.Range(name)
		if !ok || bytes == 0 {
			continue
		}
		p := &span{name: name, values: s.dev.View(values, offset, bytes)}
		for _, state := range s.states {
			p.states = append(p.states, s.dev.View(state.Buffer, offset, bytes))
		}
		group := slices.IndexFunc(groups, func(g ParamGroup) bool { return g.Fits(name) })
		p.rate = s.rateOf(rates, group, groups[group], s.decays(name))
		if p.step, err = s.rule.kernel(s.dev, int(bytes/4)); err != nil {
			return err
		}
		if p.sum, err = s.dev.SumSquares(int(bytes / 4)); err != nil {
			return err
		}
		scratch = max(scratch, p.step.Scratch(), p.sum.Scratch())
		s.spans = append(s.spans, p)
	}
	together, err := s.group()
	if err != nil {
		return err
	}
	scratch = max(scratch, together)
	apart := s.dev.Alignment()
	if s.squares, err = s.dev.Alloc(apart * int64(len(s.spans))); err != nil {
		return err
	}
	s.sums = make([]float32, s.squares.Bytes()/4)
	for i, p := range s.spans {
		p.square = s.dev.View(s.squares, apart*int64(i), 4)
	}
	s.uploaded = make([]float32, int(apart/4)*len(s.rates))
	s.next = make([]float32, len(s.uploaded))
	if s.decider != nil && len(s.spans) > 0 {
		if err := s.decider.prepare(s); err != nil {
			return err
		}
	}
	if s.scratch, err = s.dev.Alloc(scratch); err != nil {
		return err
	}
	s.kept, err = newKept(s.params)
	return err
}

// group makes the kernels that are for all parameters at once, where the device has them and no
// program takes a step, and says how much scratch memory they want.
func (s *optimizer) group() (scratch int64, err error) {
	dev, ok := s.dev.(device.StepGrouper)
	if !ok || !s.whole || len(s.spans) == 0 {
		return 0, nil
	}
	n := make([]int, len(s.spans))
	for i, p := range s.spans {
		n[i] = int(p.values.Bytes() / 4)
	}
	if s.sumAll, err = dev.SumSquaresOfAll(n); err != nil {
		return 0, err
	}
	if s.stepAll, err = s.rule.kernelOfAll(dev, n); err != nil || s.stepAll == nil {
		return s.sumAll.Scratch(), err
	}
	return max(s.sumAll.Scratch(), s.stepAll.Scratch()), nil
}

// decays says whether weight decay is for a parameter: for all, or for weights alone, which are the
// parameters of more than one axis.
func (s *optimizer) decays(name string) bool {
	return s.options.DecayAll || len(s.params.Shape(name)) > 1
}

// rateOf is the one rate that all parameters of a group share, apart from those that do not decay.
func (s *optimizer) rateOf(rates map[[2]int]*rate, number int, g ParamGroup, decays bool) *rate {
	key := [2]int{number, 0}
	if decays {
		key[1] = 1
	}
	if r := rates[key]; r != nil {
		return r
	}
	row := s.dev.View(s.hyper, s.dev.Alignment()*int64(len(s.rates)), 4*int64(len(s.rule.frozen())))
	rates[key] = &rate{factor: g.Factor, decay: g.Decay, decays: decays, hyper: row}
	s.rates = append(s.rates, rates[key])
	return rates[key]
}

// Close implements [Optimizer].
func (s *optimizer) Close() {
	buffers := append([]device.Buffer{s.squares, s.hyper, s.scratch}, s.kept.buffers()...)
	for _, state := range s.states {
		buffers = append(buffers, state.Buffer)
	}
	if s.decider != nil {
		buffers = append(buffers, s.decider.planned, s.decider.verdict)
	}
	for _, b := range buffers {
		if b != nil {
			s.dev.Free(b)
		}
	}
	s.sending.close()
	*s = optimizer{dev: s.dev}
}

// States implements [Optimizer].
func (s *optimizer) States() []State { return s.states }

// Updater implements [Optimizer].
func (s *optimizer) Updater() func(name string, conv *device.ConvSpec) (device.Kernel, error) {
	if s.sending != nil {
		return func(name string, conv *device.ConvSpec) (device.Kernel, error) {
			_, bytes, ok := s.params.Range(name)
			if conv != nil || !ok {
				return nil, nil
			}
			return s.sending.kernel(name, bytes), nil
		}
	}
	if s.whole {
		return nil
	}
	return func(name string, conv *device.ConvSpec) (device.Kernel, error) {
		i := slices.IndexFunc(s.spans, func(p *span) bool { return p.name == name })
		if i < 0 {
			return nil, fmt.Errorf("%q is no parameter of the optimiser", name)
		}
		p := s.spans[i]
		if conv == nil {
			p.inBackward = true
			return &inStep{span: p, square: []device.Buffer{p.square}, written: p.outputs(),
				read: []device.Buffer{nil, p.rate.hyper}}, nil
		}
		k, err := s.rule.fused(s.dev, *conv)
		if k == nil || err != nil {
			return nil, err
		}
		p.inBackward = true
		return &fusedStep{k, p, append(p.outputs(), p.square), []device.Buffer{nil, nil, p.rate.hyper}}, nil
	}
}

// inStep is the kernel that takes a parameter's step within the backward pass: value <- gradient.
type inStep struct {
	*span
	square, written []device.Buffer
	read            []device.Buffer // the gradient, and the hyperparameters
}

// Scratch implements [device.Kernel].
func (s *inStep) Scratch() int64 { return max(s.sum.Scratch(), s.step.Scratch()) }

// Run implements [device.Kernel].
func (s *inStep) Run(_, in []device.Buffer, scratch device.Buffer) {
	s.read[0] = in[0]
	s.sum.Run(s.square, s.read[:1], scratch)
	s.step.Run(s.written, s.read, scratch)
}

// MovesMore implements exec.Mover: the values are not only written but read, too, and so are the
// states, which are nobody's operands.
func (p *span) MovesMore() int64 { return int64(1+2*len(p.states)) * p.values.Bytes() }

// fusedStep is the kernel that computes the gradient of a convolution's weights and takes their
// step: value <- x, dy.
type fusedStep struct {
	device.Kernel
	*span
	out, in []device.Buffer
}

// Run implements [device.Kernel].
func (s *fusedStep) Run(_, in []device.Buffer, scratch device.Buffer) {
	copy(s.in, in)
	s.Kernel.Run(s.out, s.in, scratch)
}

// Begin implements [Optimizer].
func (s *optimizer) Begin(step int) error {
	s.kept.keep()
	return s.set(step, 1)
}

// Undo implements [Optimizer].
func (s *optimizer) Undo() { s.kept.restore() }

// set sets the hyperparameters, given the factor that clips the gradient: in one upload, and only
// where one of them changes.
func (s *optimizer) set(step int, clip float64) error {
	apart := len(s.next) / len(s.rates)
	for i, r := range s.rates {
		decay := s.options.WeightDecay
		if !r.decays {
			decay = 0
		}
		if r.decay != nil {
			decay *= r.decay(step)
		}
		factor := r.factor(step)
		hyper := s.rule.hyper(r.number(step), s.options.Rate(step)*factor, decay, clip)
		if factor == 0 {
			hyper = s.rule.frozen()
		}
		copy(s.next[i*apart:], hyper)
	}
	if slices.Equal(s.next, s.uploaded) {
		return nil
	}
	to := s.hyper
	if s.decider != nil {
		to = s.decider.planned
	}
	copy(s.uploaded, s.next)
	return s.dev.UploadPlain(to, 0, s.uploaded)
}

// Gradients implements [Optimizer].
func (s *optimizer) Gradients(f func(name string, gradient device.Buffer) error) error {
	for _, p := range s.spans {
		if p.inBackward {
			continue
		}
		g, err := s.gradient(p.name)
		if err == nil {
			err = f(p.name, g)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gradient is where a parameter's gradient lies when the step is taken.
func (s *optimizer) gradient(name string) (device.Buffer, error) {
	if s.sending == nil {
		return s.params.Gradient(name)
	}
	p := s.sending.gradients[name]
	if p == nil {
		return nil, fmt.Errorf("no program computes the gradient of %q", name)
	}
	return p.view, nil
}

// Sum implements [Optimizer].
func (s *optimizer) Sum(g Group) error {
	if s.sending != nil {
		return s.sending.wait()
	}
	return g.sumGradients(s.dev, s)
}

// SumNote implements [Optimizer].
func (s *optimizer) SumNote() string { return s.sending.note() }

// Decides implements [Optimizer].
func (s *optimizer) Decides() bool { return s.decider != nil }

// Take implements [Optimizer].
func (s *optimizer) Take(step int, report *Report) (Outcome, error) {
	outcome, err := s.take(step, report)
	if err == nil && !outcome.Taken {
		s.Undo()
	}
	return outcome, err
}

func (s *optimizer) take(step int, report *Report) (Outcome, error) {
	if err := s.sumSquares(); err != nil {
		return Outcome{}, err
	}
	if s.decider != nil {
		return s.decider.take(s, step, report)
	}
	if report != nil {
		return Outcome{}, errors.New("a report is for an optimiser that decides")
	}
	norm, err := s.gradNorm()
	if err != nil || !numbers.Finite(norm) {
		return Outcome{Norm: norm}, err
	}
	clip := 1.0
	if c := s.options.Clip; c > 0 {
		clip = min(1, c/(norm+1e-6)) // PyTorch's clip_grad_norm_
	}
	if err := s.set(step, clip); err != nil {
		return Outcome{}, err
	}
	return Outcome{Norm: norm, Taken: true}, s.update()
}

// sumSquares sums the squares of each gradient that the backward pass has left.
func (s *optimizer) sumSquares() error {
	var sums, gradients []device.Buffer
	for _, p := range s.spans {
		if p.inBackward {
			continue
		}
		g, err := s.gradient(p.name)
		if err != nil {
			return err
		}
		if s.sumAll == nil {
			p.sum.Run([]device.Buffer{p.square}, []device.Buffer{g}, s.scratch)
			continue
		}
		sums, gradients = append(sums, p.square), append(gradients, g)
	}
	if s.sumAll != nil {
		s.sumAll.Run(sums, gradients, s.scratch)
	}
	return nil
}

// gradNorm downloads the sums of squares.
func (s *optimizer) gradNorm() (float64, error) {
	if err := s.dev.DownloadPlain(s.sums, s.squares, 0); err != nil {
		return 0, err
	}
	sum, apart := 0.0, int(s.dev.Alignment()/4)
	for i := range s.spans {
		sum += float64(s.sums[apart*i])
	}
	return math.Sqrt(sum), nil
}

// Silent implements [Optimizer].
func (s *optimizer) Silent() (float64, error) {
	if s.decider != nil { // else they were downloaded for the norm
		if err := s.dev.DownloadPlain(s.sums, s.squares, 0); err != nil {
			return 0, err
		}
	}
	silent, all, apart := int64(0), int64(0), int(s.dev.Alignment()/4)
	for i, p := range s.spans {
		n := p.values.Bytes()
		all += n
		if s.sums[apart*i] == 0 {
			silent += n
		}
	}
	return float64(silent) / float64(all), nil
}

// update takes the steps of the gradients that the backward pass has left.
func (s *optimizer) update() error {
	var out, in []device.Buffer
	for _, p := range s.spans {
		if p.inBackward {
			continue
		}
		g, err := s.gradient(p.name)
		if err != nil {
			return err
		}
		if s.stepAll == nil {
			p.step.Run(p.outputs(), []device.Buffer{g, p.rate.hyper}, s.scratch)
			continue
		}
		out, in = append(out, p.outputs()...), append(in, g, p.rate.hyper)
	}
	if s.stepAll != nil {
		s.stepAll.Run(out, in, s.scratch)
	}
	return nil
}
