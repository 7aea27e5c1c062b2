package nn

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"

	G "gorgonia.org/gorgonia"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/exec"
)

// Options says what a program is to compute.
type Options struct {
	// Outputs are what Forward computes, by the name that Read takes.
	Outputs map[string]*Node
	// Loss is a scalar. Backward differentiates it with respect to all parameters and the inputs
	// that want a gradient. It is output "loss".
	Loss *Node
	// OutputGrad maps an output to the input whose value is the gradient of the loss with respect
	// to it, where the loss is computed elsewhere.
	OutputGrad map[string]string
	// Links are inputs and outputs that lie in memory which other programs use, too, by name: one
	// program's output is another's input. A program neither sets nor reads them over the host.
	Links map[string]*Link
	// Ahead names inputs whose next values [Program.Ahead] copies to the device while it computes.
	// A device that can ([device.Feeder]) has memory for two of each.
	Ahead []string
	// Update uses up the gradients of parameters, so that they are never in memory all together.
	// Nil: they stay until the program runs again, see [Params.Gradient].
	Update Updater
	// Share is a program in whose memory this one lies, if that is large enough; nil: it takes its
	// own. A run of one spoils the inputs, outputs and gradients of the other. So neither may run
	// while the other is in the middle of a run.
	Share *Program
	// Recompute says what is computed again instead of being kept.
	Recompute Recompute
	// MemoryLimit is how many bytes there are for this program, those compiled before on the same
	// parameters, the parameters and, where a program has gradients, the state of an optimiser; 0:
	// no limit. Reserved is how many of them the caller needs for other things. Both are memory of
	// the host: a device with memory of its own ([device.Accountant]) is filled as far as it was
	// free when the parameters were made.
	MemoryLimit, Reserved int64
}

// An Updater makes the kernel that uses up the gradient of a parameter: value <- gradient. It is a
// step of Backward, as soon as the gradient is there and nothing will read the parameter any more.
// With a convolution, the gradient is that of its weights, and the kernel computes it, too: value
// <- x, dy, as [device.Convolutions].ConvGradWeights does; an Updater that has no such kernel
// returns nil.
type Updater func(parameter string, conv *device.ConvSpec) (device.Kernel, error)

// Compile makes a program of a graph: it differentiates, orders the operators, plans the memory and
// takes it. The first mistake in the graph's construction is reported here. With a Loss or an
// OutputGrad it uses the graph up: build it again for another program.
func Compile(dev device.Device, g *Graph, p *Params, o Options) (*Program, error) {
	if g.err != nil {
		return nil, g.err
	}
	if p.dev != dev {
		return nil, fmt.Errorf("the parameters are on another device")
	}
	if err := p.Declare(g); err != nil {
		return nil, err
	}
	if p.own > 0 {
		o.MemoryLimit, o.Reserved = p.own, 0
	}
	c := &compiler{dev: dev, g: g, p: p, o: o, b: exec.NewBuilder(dev), values: map[*G.Node]exec.Value{},
		linked: map[*G.Node]*Link{}, normed: map[*G.Node]normed{}, feeds: map[string]*feed{}}
	prog, err := c.compile()
	if err != nil {
		c.free()
	}
	return prog, err
}

type compiler struct {
	dev    device.Device
	g      *Graph
	p      *Params
	o      Options
	b      *exec.Builder
	values map[*G.Node]exec.Value // what has been computed
	linked map[*G.Node]*Link      // what is written into memory that is shared
	normed map[*G.Node]normed     // results of convolutions that have left moments
	losses []lossPort
	alone  error           // why the program cannot be one of several ranks, nil if it can
	own    []device.Buffer // memory beside the arena: constants
	feeds  map[string]*feed
	flops  float64
	taken  int64 // bytes of feeds and of the arena, but not where that is another program's
	trains bool  // it has gradients of parameters
}

// free gives back what was taken for a program that does not come about.
func (c *compiler) free() {
	for _, b := range c.own {
		c.dev.Free(b)
	}
	for _, f := range c.feeds {
		f.way.Close()
	}
	c.p.programs -= c.taken
}

func (c *compiler) compile() (*Program, error) {
	roots, err := c.roots()
	if err != nil {
		return nil, err
	}
	wanted, grads, err := c.differentiate()
	if err != nil {
		return nil, err
	}
	c.trains = slices.ContainsFunc(wanted, func(l *leaf) bool { return l.kind == parameter })
	c.stage()
	if err := c.fits(0); err != nil {
		return nil, err
	}
	if err := c.feed(); err != nil {
		return nil, err
	}
	if err := c.p.allocate(); err != nil {
		return nil, err
	}
	if err := c.leaves(); err != nil {
		return nil, err
	}
	if err := c.link(wanted, grads); err != nil {
		return nil, err
	}
	for _, n := range roots {
		if err := c.compute(n.n); err != nil {
			return nil, err
		}
	}
	c.b.EndForward()
	if err := c.gradients(wanted, grads); err != nil {
		return nil, err
	}
	return c.program(wanted, grads)
}

// stage notes the memory that uploads of the inputs go through. All programs share it. What is set
// ahead has memory of its own, see [compiler.feed].
func (c *compiler) stage() {
	a, ok := c.dev.(device.Accountant)
	if !ok {
		return
	}
	_, feeds := c.dev.(device.Feeder)
	for _, l := range c.g.order {
		ahead := feeds && slices.Contains(c.o.Ahead, l.name)
		if l.kind == input && c.o.Links[l.name] == nil && !ahead || l.kind == mask {
			c.p.staging = max(c.p.staging, a.Staging(l.node.tensor()))
		}
	}
}

// MemoryError says that a program needs more memory than [Options].MemoryLimit.
type MemoryError = exec.MemoryError

// fits says whether there is memory for a program of so many bytes beside all else that the
// parameters entail.
func (c *compiler) fits(program int64) error {
	c.p.trains = c.p.trains || c.trains
	other := c.o.Reserved + c.p.staging
	need, limit := program+c.p.Total()+other, c.o.MemoryLimit
	c.p.need = max(c.p.need, need)
	if limit <= 0 || need <= limit {
		return nil
	}
	return fmt.Errorf("%w (%.1f MiB for itself, %.1f MiB for programs of the same network, %.1f MiB for the "+
		"parameters and what trains them, %.1f MiB for other things): make the crop, the batch or the number "+
		"of channels smaller, or the limit larger",
		&exec.MemoryError{Need: need, Limit: limit}, mebibytes(program), mebibytes(c.p.programs),
		mebibytes(c.p.Total()-c.p.programs), mebibytes(other))
}

func mebibytes(n int64) float64 { return float64(n) / (1 << 20) }

// roots lists what Forward computes, in an order that does not change from run to run.
func (c *compiler) roots() ([]*Node, error) {
	var roots []*Node
	for _, name := range c.outputNames() {
		n := c.o.Outputs[name]
		if n == nil || n.g != c.g || n.n == nil {
			return nil, fmt.Errorf("output %q is not of this graph", name)
		}
		roots = append(roots, n)
	}
	if l := c.o.Loss; l != nil {
		if l.g != c.g || l.n == nil || len(l.shape) != 0 {
			return nil, fmt.Errorf("the loss must be a scalar of this graph")
		}
		roots = append(roots, l)
	}
	if len(roots) == 0 {
		return nil, errors.New("a program without outputs and without a loss")
	}
	return roots, nil
}

func (c *compiler) outputNames() []string { return slices.Sorted(maps.Keys(c.o.Outputs)) }

// differentiate returns the leaves that get a gradient, and the gradients.
func (c *compiler) differentiate() ([]*leaf, []*G.Node, error) {
	if c.o.Loss == nil && len(c.o.OutputGrad) == 0 {
		return nil, nil, nil
	}
	if c.g.used {
		return nil, nil, errors.New("the graph was differentiated before: build it again")
	}
	c.g.used = true
	var of, by G.Nodes
	if c.o.Loss != nil {
		seed := c.g.Constant("d loss", 1)
		of, by = append(of, c.o.Loss.n), append(by, seed.n)
	}
	for _, name := range c.outputNames() {
		from, ok := c.o.OutputGrad[name]
		if !ok {
			continue
		}
		l, ok := c.g.byName[from]
		if !ok || l.kind != input || !l.shape.Equal(c.o.Outputs[name].shape) {
			return nil, nil,
				fmt.Errorf("the gradient of output %q should come from input %q: want an input of shape %v", name, from,
					[]int(c.o.Outputs[name].shape))
		}
		of, by = append(of, c.o.Outputs[name].n), append(by, l.node.n)
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.OutputGrad)) {
		if _, ok := c.o.Outputs[name]; !ok {
			return nil, nil, fmt.Errorf("a gradient for %q, which is no output", name)
		}
	}
	if c.g.err != nil {
		return nil, nil, c.g.err
	}
	reached := reach(of)
	var wanted []*leaf
	var wrt G.Nodes
	for _, l := range c.g.order {
		if (l.kind == parameter || l.wants) && reached[l.node.n] {
			wanted, wrt = append(wanted, l), append(wrt, l.node.n)
		}
	}
	if len(wrt) == 0 {
		return nil, nil, errors.New("nothing to differentiate: the loss depends on no parameter")
	}
	grads, err := G.Backpropagate(of, by, wrt)
	if err != nil {
		return nil, nil, fmt.Errorf("differentiating: %w", rootCause(err))
	}
	return wanted, grads, nil
}

// reach marks the nodes whose change changes the given ones.
func reach(from G.Nodes) map[*G.Node]bool {
	seen := map[*G.Node]bool{}
	var visit func(n *G.Node)
	visit = func(n *G.Node) {
		if seen[n] {
			return
		}
		seen[n] = true
		o, ok := n.Op().(gorgoniaOp)
		if !ok {
			return
		}
		for i, wanted := range o.DiffWRT(o.Arity()) {
			if wanted {
				visit(childrenOf(n)[i])
			}
		}
	}
	for _, n := range from {
		visit(n)
	}
	return seen
}

// leaves gives inputs their memory and finds that of parameters and states.
func (c *compiler) leaves() error {
	for _, l := range c.g.order {
		switch l.kind {
		case parameter, state:
			s := c.p.slots[l.name]
			c.values[l.node.n] = c.b.External(c.p.home(s))
		case constant:
			b, err := c.constant(l)
			if err != nil {
				return err
			}
			c.values[l.node.n] = c.b.External(b)
		default:
			if link := c.o.Links[l.name]; link != nil && l.kind == input {
				if err := link.fits(l.name, l.node); err != nil {
					return err
				}
				c.values[l.node.n] = c.b.External(link.buffer)
				continue
			}
			c.values[l.node.n] = c.b.Input(c.dev.Size(l.node.tensor()))
		}
	}
	return nil
}

// constant makes the memory of a tensor that never changes.
func (c *compiler) constant(l *leaf) (device.Buffer, error) {
	values := slices.Repeat([]float32{l.value}, l.shape.Elements())
	b, err := c.dev.Alloc(4 * int64(len(values)))
	if err != nil {
		return nil, err
	}
	c.own = append(c.own, b)
	return b, c.dev.UploadPlain(b, 0, values)
}

// link finds the nodes that are written into shared memory.
func (c *compiler) link(wanted []*leaf, grads []*G.Node) error {
	known := map[string]bool{}
	for name, l := range c.g.byName {
		known[name] = l.kind == input
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Outputs)) {
		n := c.o.Outputs[name]
		known[name] = true
		if link := c.o.Links[name]; link != nil {
			if err := link.fits(name, n); err != nil {
				return err
			}
			c.linked[n.n] = link
		}
	}
	for i, l := range wanted {
		name := "grad:" + l.name
		if link := c.o.Links[name]; link != nil && l.kind == input {
			known[name] = true
			if err := link.fits(name, l.node); err != nil {
				return err
			}
			c.linked[grads[i]] = link
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.o.Links)) {
		if !known[name] {
			return fmt.Errorf("link %q: the program has no such input or output", name)
		}
	}
	return nil
}

// weights says whether a node lies in the device's layout of weights.
func (c *compiler) weights(n *G.Node) bool {
	if l, ok := c.g.leaves[n]; ok {
		return l.kind == parameter || l.kind == state
	}
	if o, ok := n.Op().(gorgoniaOp); ok {
		return o.results()[0].weights
	}
	return c.weights(childrenOf(n)[0]) // Gorgonia's own sum
}

func (c *compiler) size(r result) int64 {
	if r.weights {
		return c.dev.WeightsSize(r.shape)
	}
	return c.dev.Size(r.tensor())
}

// tensor is what a node holds.
func (c *compiler) tensor(n *G.Node) device.Tensor {
	if l, ok := c.g.leaves[n]; ok {
		return l.node.tensor()
	}
	if o, ok := n.Op().(gorgoniaOp); ok {
		return o.results()[0].tensor()
	}
	return c.tensor(childrenOf(n)[0]) // Gorgonia's own sum
}

// compute appends the steps that n needs and that are not there yet, operands first.
func (c *compiler) compute(n *G.Node) error {
	if _, done := c.values[n]; done {
		return nil
	}
	if n.Op() == nil {
		return fmt.Errorf("node %v: nothing computes it", n)
	}
	children := childrenOf(n)
	for _, child := range children {
		if err := c.compute(child); err != nil {
			return err
		}
	}
	in := make([]exec.Value, len(children))
	for i, child := range children {
		in[i] = c.values[child]
	}
	switch o := n.Op().(type) {
	case gorgoniaOp:
		switch o := o.operator.(type) {
		case pick: // computed with the operator that it is a result of
			return nil
		case reshape:
			c.values[n] = c.b.Alias(in[0])
			return nil
		default:
			return c.step(n, o, in)
		}
	case G.BinaryOp:
		// The one operator that Gorgonia adds on its own: the sum of the gradients of a node that
		// is used more than once.
		if o.String() == "+ false" && len(in) == 2 {
			if c.weights(n) {
				return c.step(n, sumOfWeights{device.Shape(n.Shape())}, in)
			}
			return c.step(n, add{c.tensor(n)}, in)
		}
	}
	return fmt.Errorf("operator %v (%T) is none of ours", n.Op(), n.Op())
}

// sumOfWeights is add for tensors that lie in the layout of weights.
type sumOfWeights struct{ s device.Shape }

func (o sumOfWeights) operands() []device.Shape { return []device.Shape{o.s, o.s} }
func (o sumOfWeights) results() []result        { return []result{weights(o.s)} }
func (o sumOfWeights) overwrites() []exec.Over  { return []exec.Over{{Out: 0, In: 0}} }
func (o sumOfWeights) kernel(dev device.Device) (device.Kernel, error) {
	return dev.AddWeights(int(dev.WeightsSize(o.s) / 4))
}

// step appends one operator and gives its results memory, those that are picked too.
func (c *compiler) step(n *G.Node, o operator, in []exec.Value) error {
	if done, err := c.norm(n, o, in); done || err != nil {
		return err
	}
	k, err := o.kernel(c.dev)
	if err != nil {
		return fmt.Errorf("%s: %w", describe(o), err)
	}
	s := exec.Step{Name: describe(o), Kernel: k, In: in, Recompute: price(o)}
	picks := picksOf(n)
	for i, r := range o.results() {
		node := n
		if i > 0 {
			node = picks[i]
		}
		v := c.result(node, r)
		if node != nil {
			c.values[node] = v
		}
		s.Out = append(s.Out, v)
	}
	if w, ok := o.(overwriter); ok {
		s.InPlace = w.overwrites()
	}
	if j, ok := k.(device.Joiner); ok {
		s.Joins = j.Adjacent()
	}
	if f, ok := o.(counter); ok {
		s.FLOPs = f.flops()
		c.flops += s.FLOPs
	}
	if _, ok := o.(meanOfRank); ok {
		c.alone = fmt.Errorf("%s cannot be divided over ranks: train with one", describe(o))
	}
	switch l := o.(type) {
	case lossOf:
		c.losses = append(c.losses, lossPort{l.LossSpec, l.parts, s.Out[1]})
	case choiceLoss:
		c.losses = append(c.losses, lossPort{l.Loss(), 0, s.Out[1]})
	}
	c.b.Step(s)
	return nil
}

// result declares what a step writes: memory of the program, or memory that it shares with others.
func (c *compiler) result(node *G.Node, r result) exec.Value {
	if link := c.linked[node]; link != nil && node != nil {
		return c.b.External(link.buffer)
	}
	return c.b.Planned(c.size(r))
}

// picksOf lists the further results of n that the graph uses.
func picksOf(n *G.Node) map[int]*G.Node {
	m := map[int]*G.Node{}
	for it := n.Graph().To(n.ID()); it.Next(); {
		parent := it.Node().(*G.Node)
		if o, ok := parent.Op().(gorgoniaOp); ok {
			if p, ok := o.operator.(pick); ok {
				m[p.i] = parent
			}
		}
	}
	return m
}

// gradients appends the backward steps: gradients of late parameters first, so that what the
// forward part kept is given back as soon as can be.
func (c *compiler) gradients(wanted []*leaf, grads []*G.Node) error {
	for i := len(wanted) - 1; i >= 0; i-- {
		l, update := wanted[i], c.o.Update
		if l.kind != parameter {
			update = nil
		}
		if update != nil {
			if done, err := c.updateConv(l, grads[i]); err != nil {
				return fmt.Errorf("preparing the update of %q: %w", l.name, err)
			} else if done {
				continue
			}
		}
		if err := c.compute(grads[i]); err != nil {
			return err
		}
		gradient := c.values[grads[i]]
		if update == nil {
			c.b.Keep(gradient)
			continue
		}
		k, err := update(l.name, nil)
		if err != nil {
			return fmt.Errorf("preparing the update of %q: %w", l.name, err)
		}
		c.b.Finish(exec.Step{Name: "update " + l.name, Kernel: k, Out: []exec.Value{c.values[l.node.n]},
			In: []exec.Value{gradient}})
	}
	return nil
}

// updateConv appends the step that computes a gradient of weights and updates the weights with it,
// if there is such a step and it pays. The fused step must run after every reader of the weights,
// so its activations stay alive longer. It pays only if they are smaller than the gradient, which
// then need not be in memory.
func (c *compiler) updateConv(l *leaf, gradient *G.Node) (done bool, err error) {
	g, ok := gradient.Op().(gorgoniaOp)
	if !ok || gradient.Graph().To(gradient.ID()).Len() > 0 {
		return false, nil // it is a sum, or something else needs it
	}
	o, ok := g.operator.(convGradWeights)
	if !ok || o.Grouped() || c.dev.Size(device.Tensor{Shape: o.XShape(), Type: o.Type})+
		c.dev.Size(device.Tensor{Shape: o.YShape(), Type: o.Type}) > c.dev.WeightsSize(o.WShape()) {
		return false, nil
	}
	k, err := c.o.Update(l.name, &o.ConvSpec)
	if k == nil || err != nil {
		return false, err
	}
	s := exec.Step{Name: convString("convGradWeights + update", o.ConvSpec, o.In, o.Out, o.Size), Kernel: k,
		Out: []exec.Value{c.values[l.node.n]}, FLOPs: o.flops()}
	for _, child := range childrenOf(gradient) {
		if err := c.compute(child); err != nil {
			return false, err
		}
		s.In = append(s.In, c.values[child])
	}
	c.flops += s.FLOPs
	c.b.Finish(s)
	return true, nil
}

// largeArena is from how many bytes on the garbage of compiling, some 50 MiB, is given back before
// an arena is taken: else both are there together.
const largeArena = 64 << 20

// allocate takes the memory of a plan, if it does not fit into that of another program.
func (c *compiler) allocate(plan *exec.Plan) (*exec.Program, error) {
	if o := c.o.Share; o != nil && plan.Bytes() <= o.run.Bytes() {
		return plan.Share(o.run), nil
	}
	if err := c.fits(plan.Bytes()); err != nil {
		return nil, err
	}
	if plan.Bytes() > largeArena && !device.Rehearses(c.dev) {
		debug.FreeOSMemory()
	}
	c.p.programs += plan.Bytes()
	c.taken += plan.Bytes()
	return plan.Allocate(0)
}

// program plans, takes memory and names what the host reads and writes.
func (c *compiler) program(wanted []*leaf, grads []*G.Node) (*Program, error) {
	outputs := map[string]*G.Node{}
	ports := map[string]port{}
	for name, n := range c.o.Outputs {
		outputs[name], ports[name] = n.n, port{tensor: n.tensor()}
	}
	if c.o.Loss != nil {
		outputs["loss"], ports["loss"] = c.o.Loss.n, port{tensor: c.o.Loss.tensor()}
	}
	for i, l := range wanted {
		if l.kind != parameter {
			outputs["grad:"+l.name], ports["grad:"+l.name] = grads[i], port{tensor: l.node.tensor()}
		}
	}
	for _, n := range outputs {
		c.b.Keep(c.values[n])
	}

	plan, err := c.plan()
	if err != nil {
		return nil, err
	}
	run, err := c.allocate(plan)
	if err != nil {
		return nil, err
	}
	steps, forward := plan.Steps()
	prog := &Program{
		dev: c.dev, run: run, inputs: map[string]port{}, outputs: map[string]port{}, own: c.own, feeds: c.feeds,
		params: c.p, taken: c.taken, alone: c.alone,
		summary: Summary{
			Steps: steps, ForwardSteps: forward, Bytes: plan.Bytes(), Unshared: plan.Unshared(),
			Repeats: plan.Repeats(), Recomputed: plan.Recomputed(), Peak: plan.Peak(), ParamBytes: c.p.Bytes(),
			FLOPs: c.flops,
		},
	}
	for _, l := range c.losses {
		prog.losses = append(prog.losses, lossStatistics{l.spec, l.parts, run.Buffer(l.statistics)})
	}
	for i, l := range wanted {
		if l.kind != parameter {
			continue
		}
		g := gradient{slot: c.p.slots[l.name]}
		if c.o.Update == nil {
			g.buffer = run.Buffer(c.values[grads[i]])
		}
		prog.gradients = append(prog.gradients, g)
	}
	for name, n := range outputs {
		p := ports[name]
		p.buffer, p.weights = run.Buffer(c.values[n]), c.weights(n)
		prog.outputs[name] = p
	}
	for _, l := range c.g.order {
		t := port{buffer: run.Buffer(c.values[l.node.n]), tensor: l.node.tensor()}
		switch l.kind {
		case input:
			prog.inputs[l.name] = t
		case mask:
			m := maskPort{t, l.name, l.rate, make([]float32, l.shape.Elements())}
			for i := range m.values {
				m.values[i] = 1
			}
			if err := prog.upload(t, m.values); err != nil {
				return nil, err
			}
			prog.masks = append(prog.masks, m)
		}
	}
	return prog, nil
}
