package nn

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// Params holds the parameters and the states of one model on one device. Any number of programs
// share it.
//
// All parameters lie in one flat buffer, each in the device's layout of weights; what alignment and
// layouts leave between their values is zero. Callers see row-major order: [Params.Read],
// [Params.Write], [Params.Grad]. Memory is taken once: when the first program is compiled or the
// first value is touched. A model of several graphs declares them all first, see [Params.Declare].
// Gradients are the programs' own: they lie among the activations, in memory that these no longer
// need; Params knows where, see [Params.Gradient].
type Params struct {
	dev    device.Device
	seed   uint64
	names  []string // in the order of their declaration
	slots  map[string]*slot
	size   [2]int64 // bytes of the trained values, of the states
	values device.Buffer
	states device.Buffer
	trains bool // a program has gradients

	stateSize int64 // bytes of an optimiser's state for each byte of the trained values
	programs  int64 // bytes of all programs
	staging   int64 // bytes through which the largest input of a program is uploaded
	need      int64 // the most that fits was asked for
	// own is how many bytes a device with memory of its own had free at first; 0: the memory is the
	// host's
	own int64
}

type slot struct {
	shape        device.Shape
	init         Init
	trained      bool
	offset, size int64 // where it lies, in bytes of the device's layout
	// in the program that computed it last; nil where none has, or where it has been used up
	gradient device.Buffer
}

// elements is the number of values, which is size or, where the device's layout has gaps, less.
func (s *slot) elements() int { return s.shape.Elements() }

// NewParams returns an empty set. A parameter's first value depends on the seed and its name only.
func NewParams(dev device.Device, seed uint64) *Params {
	p := &Params{dev: dev, seed: seed, slots: map[string]*slot{}, stateSize: 1}
	if a, ok := dev.(device.Accountant); ok {
		if free, _, err := a.Memory(); err == nil {
			p.own = int64(shareOfFree * float64(free))
		}
	}
	return p
}

// shareOfFree is how much of a device's free memory a network may take: copies go through some,
// too.
const shareOfFree = 0.95

// Declare adds the parameters and states of graphs to the set. Those of the same name must have the
// same shape.
func (p *Params) Declare(graphs ...*Graph) error {
	for _, g := range graphs {
		if g.err != nil {
			return g.err
		}
		for _, l := range g.order {
			if l.kind != parameter && l.kind != state {
				continue
			}
			if s, ok := p.slots[l.name]; ok {
				if !s.shape.Equal(l.shape) || s.trained != (l.kind == parameter) {
					return fmt.Errorf("parameter %q has shape %v in one graph and %v in another", l.name,
						[]int(s.shape), []int(l.shape))
				}
				continue
			}
			if p.values != nil {
				return fmt.Errorf("parameter %q comes too late: declare all "+
					"graphs of a model before the first is compiled", l.name)
			}
			s := &slot{shape: l.shape, init: l.init, trained: l.kind == parameter, size: p.dev.WeightsSize(l.shape)}
			part := &p.size[0]
			if !s.trained {
				part = &p.size[1]
			}
			s.offset = *part
			*part += (s.size + p.dev.Alignment() - 1) / p.dev.Alignment() * p.dev.Alignment()
			p.slots[l.name] = s
			p.names = append(p.names, l.name)
		}
	}
	return nil
}

// allocate takes the memory and draws the first values, once.
func (p *Params) allocate() error {
	if p.values != nil {
		return nil
	}
	var err error
	if p.values, err = p.dev.Alloc(p.size[0]); err != nil {
		return fmt.Errorf("allocating parameters: %w", err)
	}
	if p.states, err = p.dev.Alloc(p.size[1]); err != nil {
		return fmt.Errorf("allocating states: %w", err)
	}
	if device.Rehearses(p.dev) {
		return nil
	}
	for _, name := range p.names {
		if err := p.draw(name, p.slots[name]); err != nil {
			return fmt.Errorf("setting %q: %w", name, err)
		}
	}
	return nil
}

// draw sets a parameter's first value, in pieces: row-major, the whole may be a tenth of all
// memory.
func (p *Params) draw(name string, s *slot) error {
	r, home := seed.Rand(p.seed, "init/"+name), p.home(s)
	piece := make([]float32, min(s.shape.Rows(), device.RowBlock)*s.shape.Row())
	for row := 0; row < s.shape.Rows(); row += device.RowBlock {
		piece = piece[:min(device.RowBlock, s.shape.Rows()-row)*s.shape.Row()]
		s.init(r, s.shape, piece)
		if err := p.dev.UploadWeights(home, s.shape, row, piece); err != nil {
			return err
		}
	}
	return nil
}

// home is the memory of a parameter or state.
func (p *Params) home(s *slot) device.Buffer {
	if s.trained {
		return p.dev.View(p.values, s.offset, s.size)
	}
	return p.dev.View(p.states, s.offset, s.size)
}

// Names lists parameters and states in the order of their declaration.
func (p *Params) Names() []string { return slices.Clone(p.names) }

// Trained says whether the name is that of a parameter, not of a state.
func (p *Params) Trained(name string) bool {
	s, ok := p.slots[name]
	return ok && s.trained
}

// Shape is the shape of a parameter or state; nil if there is none of that name.
func (p *Params) Shape(name string) device.Shape {
	if s, ok := p.slots[name]; ok {
		return s.shape
	}
	return nil
}

// Count is the number of trained values.
func (p *Params) Count() int {
	n := 0
	for _, s := range p.slots {
		if s.trained {
			n += s.elements()
		}
	}
	return n
}

func (p *Params) find(name string) (*slot, error) {
	s, ok := p.slots[name]
	if !ok {
		return nil, fmt.Errorf("no parameter is called %q", name)
	}
	return s, p.allocate()
}

// Read returns the values of a parameter or state, row-major.
func (p *Params) Read(name string) ([]float32, error) { return p.ReadInto(name, nil) }

// ReadInto is Read into the given memory where that is enough, as append does.
func (p *Params) ReadInto(name string, v []float32) ([]float32, error) {
	s, err := p.find(name)
	if err != nil {
		return nil, err
	}
	v = slices.Grow(v[:0], s.elements())[:s.elements()]
	return v, p.dev.DownloadWeights(v, p.home(s), s.shape, 0)
}

// Write sets the values of a parameter or state, row-major.
func (p *Params) Write(name string, v []float32) error {
	s, err := p.find(name)
	if err != nil {
		return err
	}
	if len(v) != s.elements() {
		return fmt.Errorf("parameter %q has shape %v, not %d values", name, []int(s.shape), len(v))
	}
	return p.dev.UploadWeights(p.home(s), s.shape, 0, v)
}

// Gradient is where the gradient of a parameter lies, in the device's layout: in the program whose
// [Program.Backward] ran last, until that program runs again, or one that shares its memory. A
// program that updates the parameters itself leaves none.
func (p *Params) Gradient(name string) (device.Buffer, error) {
	s, err := p.find(name)
	if err != nil {
		return nil, err
	}
	if !s.trained {
		return nil, fmt.Errorf("%q is a state and has no gradient", name)
	}
	if s.gradient == nil {
		return nil, fmt.Errorf("there is no gradient of %q: no program has computed one, or it has been used up", name)
	}
	return s.gradient, nil
}

// Grad returns the gradient of a parameter, row-major.
func (p *Params) Grad(name string) ([]float32, error) {
	b, err := p.Gradient(name)
	if err != nil {
		return nil, err
	}
	s := p.slots[name]
	v := make([]float32, s.elements())
	return v, p.dev.DownloadWeights(v, b, s.shape, 0)
}

// Size is how many bytes Values takes.
func (p *Params) Size() int64 { return p.size[0] }

// Values is the flat buffer of all parameters, for an optimiser.
func (p *Params) Values() (device.Buffer, error) {
	err := p.allocate()
	return p.values, err
}

// States is the flat buffer of all states, to be copied; of no bytes where there are none.
func (p *Params) States() (device.Buffer, error) {
	err := p.allocate()
	return p.states, err
}

// Range is where a trained parameter lies in Values, and in an optimiser's own buffers of that
// kind, in bytes.
func (p *Params) Range(name string) (offset, bytes int64, ok bool) {
	s, ok := p.slots[name]
	if !ok || !s.trained {
		return 0, 0, false
	}
	return s.offset, s.size, true
}

// Device is where the parameters are.
func (p *Params) Device() device.Device { return p.dev }

// Bytes is the memory of values and states.
func (p *Params) Bytes() int64 { return p.size[0] + p.size[1] }

// SetOptimizerState says how much memory an optimiser takes for its state: so many bytes for each
// byte of the trained values. It is 1 otherwise, a velocity.
func (p *Params) SetOptimizerState(buffers int64) { p.stateSize = buffers }

// Total is the memory of the parameters and of all programs that share them, with the state of an
// optimiser, and its copy of the states, where there are gradients.
func (p *Params) Total() int64 {
	n := p.Bytes() + p.programs
	if p.trains {
		n += p.stateSize*p.size[0] + p.size[1]
	}
	return n
}

// Need is the most memory that a program has wanted so far, with all that there was beside it: what
// [Options].MemoryLimit must allow.
func (p *Params) Need() int64 { return p.need }

// Room is the memory that programs may take: the caller's limit, or, on a device with memory of its
// own, what was free there when the parameters were made.
func (p *Params) Room(limit int64) int64 {
	if p.own > 0 {
		return p.own
	}
	return limit
}

// Close gives the memory back. The programs of the parameters must be closed before.
func (p *Params) Close() {
	if p.values == nil {
		return
	}
	p.dev.Free(p.values)
	p.dev.Free(p.states)
	p.values, p.states = nil, nil
}
