package train

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// single is the reference device with the optimiser's results rounded to float32, so that what is
// saved is what was there.
type single struct{ device.Device }

func (s single) SGD(n int) (device.Kernel, error) {
	k, err := s.Device.SGD(n)
	return rounding{k, s}, err
}

func (s single) AdamW(n int) (device.Kernel, error) {
	k, err := s.Device.AdamW(n)
	return rounding{k, s}, err
}

func (s single) Average(n int) (device.Kernel, error) {
	k, err := s.Device.Average(n)
	return rounding{k, s}, err
}

func (s single) ConvGradWeightsSGD(c device.ConvSpec) (device.Kernel, error) {
	k, err := s.Device.(device.WeightStepper).ConvGradWeightsSGD(c)
	return rounding{k, s}, err
}

type rounding struct {
	device.Kernel
	dev single
}

func (r rounding) Run(out, in []device.Buffer, scratch device.Buffer) {
	r.Kernel.Run(out, in, scratch)
	for _, b := range out {
		v := make([]float32, b.Bytes()/4)
		if err := r.dev.DownloadPlain(v, b, 0); err != nil {
			panic(err)
		}
		if err := r.dev.UploadPlain(b, 0, v); err != nil {
			panic(err)
		}
	}
}

// model has two encoder parameters, one of a head, and a state.
type model struct {
	dev               device.Device
	names             []string
	shapes            map[string]device.Shape
	offsets           map[string]int
	values, gradients device.Buffer
	states            map[string][]float32
}

func newModel(t testing.TB, headSize int) *model {
	t.Helper()
	m := &model{
		dev: single{devicetest.NewReference()}, names: []string{"encoder.a", "encoder.mean", "encoder.b", "head"},
		shapes: map[string]device.Shape{"encoder.a": {3, 2}, "encoder.mean": {2}, "encoder.b": {5},
			"head": {headSize}},
		offsets: map[string]int{"encoder.a": 0, "encoder.b": 16, "head": 32},
		states:  map[string][]float32{"encoder.mean": {0, 1}},
	}
	var err error
	if m.values, err = m.dev.Alloc(256); err != nil {
		t.Fatal(err)
	}
	if m.gradients, err = m.dev.Alloc(256); err != nil {
		t.Fatal(err)
	}
	for _, name := range m.names {
		if _, bytes, trained := m.Range(name); trained {
			v, r := make([]float32, bytes/4), seed.Rand(3, name)
			for i := range v {
				v[i] = float32(r.NormFloat64())
			}
			if err := m.Write(name, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

func (m *model) Device() device.Device          { return m.dev }
func (m *model) Names() []string                { return m.names }
func (m *model) Shape(name string) device.Shape { return m.shapes[name] }
func (m *model) Values() (device.Buffer, error) { return m.values, nil }
func (m *model) States() (device.Buffer, error) { return nil, nil } // they are on the host
func (m *model) SetOptimizerState(int64)        {}
func (m *model) Gradient(name string) (device.Buffer, error) {
	offset, bytes, ok := m.Range(name)
	if !ok {
		return nil, fmt.Errorf("%q has no gradient", name)
	}
	return m.dev.View(m.gradients, offset, bytes), nil
}
func (m *model) Range(name string) (offset, bytes int64, ok bool) {
	first, ok := m.offsets[name]
	return 4 * int64(first), 4 * int64(m.shapes[name].Elements()), ok
}

func (m *model) Read(name string) ([]float32, error) { return m.ReadInto(name, nil) }

func (m *model) ReadInto(name string, v []float32) ([]float32, error) {
	offset, bytes, trained := m.Range(name)
	n := int(bytes / 4)
	v = slices.Grow(v[:0], n)[:n]
	if !trained {
		copy(v, m.states[name])
		return v, nil
	}
	return v, m.dev.DownloadPlain(v, m.values, int(offset/4))
}

func (m *model) Write(name string, v []float32) error {
	offset, bytes, trained := m.Range(name)
	if 4*int64(len(v)) != bytes {
		return fmt.Errorf("%d values for %d bytes", len(v), bytes)
	}
	if !trained {
		m.states[name] = slices.Clone(v)
		return nil
	}
	return m.dev.UploadPlain(m.values, int(offset/4), v)
}

// snapshot is everything a model holds.
func (m *model) snapshot(t testing.TB) map[string][]float32 {
	t.Helper()
	s := map[string][]float32{}
	for _, name := range m.names {
		v, err := m.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		s[name] = v
	}
	return s
}

// pull is a task that draws every parameter towards a random target, one a step, and counts the
// steps in the state.
type pull struct {
	*model
	afterStep  func(step int)
	inValidate func(step int) error
	score      func(step int) float64 // nil: how near it is
	badStep    int                    // a step with an infinite loss
	sent       targets
	sends      int
}

type targets map[string][]float32

func (p *pull) Params() Params { return p.model }

func (p *pull) Batch(_ context.Context, step int) (targets, error) {
	r, t := seed.Rand(5, "batch", uint64(step)), targets{}
	for _, name := range p.names {
		if _, bytes, trained := p.Range(name); trained {
			t[name] = make([]float32, bytes/4)
			for i := range t[name] {
				t[name][i] = float32(r.NormFloat64())
			}
		}
	}
	return t, nil
}

// Ahead implements [Sender].
func (p *pull) Ahead(batch targets) error {
	p.sent = batch
	p.sends++
	return nil
}

func (p *pull) Step(step int, batch targets) (Result, error) {
	if p.sent != nil && reflect.ValueOf(p.sent).Pointer() != reflect.ValueOf(batch).Pointer() {
		return Result{}, fmt.Errorf("step %d is given another batch than was sent ahead for it", step)
	}
	p.sent = nil
	loss := 0.0
	for name, target := range batch {
		value, err := p.Read(name)
		if err != nil {
			return Result{}, err
		}
		for i := range value {
			value[i] -= target[i]
			loss += float64(value[i] * value[i])
		}
		if err := p.dev.UploadPlain(p.gradients, p.offsets[name], value); err != nil {
			return Result{}, err
		}
	}
	p.states["encoder.mean"][0]++
	if p.badStep > 0 && step == p.badStep {
		loss = math.Inf(1)
	}
	if p.afterStep != nil {
		p.afterStep(step)
	}
	return Result{Loss: math.Round(loss*1e4) / 1e4,
		Metrics: []voxsaw.Metric{{Name: "half", Value: math.Round(loss*1e3) / 2e3}},
		Cases:   []string{fmt.Sprintf("case %d", step)}, Items: 1}, nil
}

func (p *pull) Validate(_ context.Context, step int) (voxsaw.Validation, error) {
	if p.inValidate != nil {
		if err := p.inValidate(step); err != nil {
			return voxsaw.Validation{}, err
		}
	}
	v, err := p.Read("head")
	if err != nil {
		return voxsaw.Validation{}, err
	}
	score := -math.Abs(float64(v[0]))
	if p.score != nil {
		score = p.score(step)
	}
	return voxsaw.Validation{Score: score,
		Metrics: []voxsaw.Metric{{Name: "distance", Value: math.Abs(float64(v[0]))}}}, nil
}
