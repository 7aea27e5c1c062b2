package exec

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// host is a device that only has memory.
type host struct{ device.Device }

type memory []float32

func (m memory) Bytes() int64 { return bytes(len(m)) }

// bytes is the size of n elements.
func bytes(n int) int64 { return 4 * int64(n) }

func (host) Alignment() int64                        { return 64 }
func (host) Free(device.Buffer)                      {}
func (host) Alloc(size int64) (device.Buffer, error) { return make(memory, size/4), nil }
func (host) View(b device.Buffer, offset, size int64) device.Buffer {
	return b.(memory)[offset/4 : (offset+size)/4 : (offset+size)/4]
}

// mix is a kernel that tells every operand and every element apart, and spoils its scratch:
// out[k][i] = k + i + sum_j (j+2) in[j][i mod len]. It reads element i of an operand before it
// writes element i, so its first result may lie over one operand of its size.
type mix struct{ scratch int }

func (m mix) Scratch() int64 { return bytes(m.scratch) }
func (m mix) Run(out, in []device.Buffer, scratch device.Buffer) {
	for i := range scratch.(memory) {
		scratch.(memory)[i] = -1e9
	}
	for k := len(out) - 1; k >= 0; k-- {
		o := out[k].(memory)
		for i := range o {
			x := float32(k + i)
			for j := range in {
				v := in[j].(memory)
				x += float32(j+2) / 8 * v[i%len(v)]
			}
			o[i] = x / 2
		}
	}
}

// copying is a kernel that copies its operands, one after the other, into its results, one after
// the other.
type copying struct{}

func (copying) Scratch() int64 { return bytes(16) }
func (copying) Run(out, in []device.Buffer, _ device.Buffer) {
	k, at := 0, 0 // where the next element goes
	for _, b := range in {
		for _, x := range b.(memory) {
			for at == len(out[k].(memory)) {
				k, at = k+1, 0
			}
			out[k].(memory)[at] = x
			at++
		}
	}
}

// joining is a step that puts values together, or takes one apart; ok is false where those at hand
// do not do.
func joining(r *rand.Rand, b *Builder, values []Value, sizes map[Value]int) (s Step, ok bool) {
	s = Step{Name: "join", Kernel: copying{}, Joins: true, Recompute: Cheap}
	if r.IntN(2) == 0 {
		whole := values[len(values)-1-r.IntN(min(6, len(values)))]
		n := sizes[whole]
		s.In = []Value{whole}
		for _, part := range []int{n / 2 / 16 * 16, n - n/2/16*16} {
			s.Out = append(s.Out, b.Planned(bytes(part)))
		}
		return s, n/2 >= 16
	}
	sum := 0
	for range 2 + r.IntN(2) {
		v := values[len(values)-1-r.IntN(min(8, len(values)))]
		s.In, sum = append(s.In, v), sum+sizes[v]
	}
	s.Out = []Value{b.Planned(bytes(sum))}
	return s, sum < 500
}

// randomProgram builds a program in which every step reads earlier values; naive keeps every value,
// so that nothing shares memory.
func randomProgram(r *rand.Rand, naive bool) (b *Builder, inputs, outputs []Value, external memory) {
	b = NewBuilder(host{})
	external = make(memory, 40)
	var values []Value
	sizes := map[Value]int{}
	known := func(v Value, n int) Value {
		values = append(values, v)
		sizes[v] = n
		return v
	}
	for range 2 {
		inputs = append(inputs, known(b.Input(bytes(48)), 48))
	}
	parameter := known(b.External(external), 40)
	for i := range 40 {
		if i == 25 {
			b.EndForward()
		}
		s := Step{Name: fmt.Sprint("step ", i), Kernel: mix{r.IntN(3) * 20}, Recompute: Recompute(r.IntN(3)),
			FLOPs: float64(r.IntN(1000))}
		for range 1 + r.IntN(3) {
			back := 6
			if r.IntN(4) == 0 {
				back = len(values) // a value that has been waiting for long
			}
			s.In = append(s.In, values[max(0, len(values)-1-r.IntN(back))])
		}
		// an update: what read the parameter before must not be computed again after
		if r.IntN(10) == 0 {
			s.Out, s.Recompute = []Value{parameter}, Never
			b.Step(s)
			continue
		}
		if r.IntN(4) == 0 {
			if s, ok := joining(r, b, values, sizes); ok {
				b.Step(s)
				for k, v := range s.Out {
					sizes[v] = b.values[v].size / 4
					if values = append(values, v); naive {
						b.Keep(v)
					}
					if r.IntN(8) == 0 {
						outputs = append(outputs, v)
						b.Keep(s.Out[k])
					}
				}
				continue
			}
		}
		first := 16 * (1 + r.IntN(4))
		if n := sizes[s.In[0]]; r.IntN(2) == 0 && n%16 == 0 {
			first, s.InPlace = n, []Over{{0, 0}}
		}
		var fresh []Value
		s.Out = append(s.Out, b.Planned(bytes(first)))
		fresh = append(fresh, s.Out[0])
		sizes[s.Out[0]] = first
		if r.IntN(3) == 0 {
			n := 16 * (1 + r.IntN(4))
			s.Out = append(s.Out, b.Planned(bytes(n)))
			fresh = append(fresh, s.Out[1])
			sizes[s.Out[1]] = n
			s.InPlace = nil // the second result still reads the operand
		}
		b.Step(s)
		if r.IntN(4) == 0 {
			v := b.Alias(s.Out[0])
			fresh = append(fresh, v)
			sizes[v] = sizes[s.Out[0]]
		}
		values = append(values, fresh...)
		if r.IntN(8) == 0 || i == 39 {
			outputs = append(outputs, s.Out[0])
			b.Keep(s.Out[0])
		}
		if naive {
			for _, v := range fresh {
				b.Keep(v)
			}
		}
	}
	return b, inputs, outputs, external
}

// Sharing memory and computing again change no result: random programs against the same programs
// with memory of its own for every value.
func TestSharingChangesNothing(t *testing.T) {
	// the first without sharing
	kinds := []PlanOptions{{}, {}, {Recompute: Cheap}, {Recompute: Cheap, Target: 1}, {Recompute: Dear, Target: 1}}
	// how many steps need not copy
	adjacent := make([]int, len(kinds))
	// how many programs each kind makes smaller than the kind before
	smaller := make([]int, len(kinds))
	for seed := range uint64(200) {
		results := make([][]float32, len(kinds))
		bytes := make([]int64, len(kinds))
		for k, kind := range kinds {
			b, inputs, outputs, external := randomProgram(rand.New(rand.NewPCG(seed, 1)), k == 0)
			plan, err := b.Plan(kind)
			if err != nil {
				t.Fatal(err)
			}
			p, err := plan.Allocate(0)
			if err != nil {
				t.Fatal(err)
			}
			bytes[k] = plan.Bytes()
			if peak := plan.Peak(); peak.Bytes > bytes[k] || len(peak.Alive) == 0 {
				t.Errorf("seed %d: %d bytes are alive in an arena of %d", seed, peak.Bytes, bytes[k])
			}
			for i, joined := range plan.layout.joined {
				if joined && i > 0 {
					adjacent[k]++
				}
			}
			for i := range external {
				external[i] = float32(i) / 3
			}
			for range 2 { // the second run finds dirty memory
				for n, in := range inputs {
					for i := range p.Buffer(in).(memory) {
						p.Buffer(in).(memory)[i] = float32(n*i) / 7
					}
				}
				p.Forward()
				p.Backward()
				for _, o := range outputs {
					results[k] = append(results[k], p.Buffer(o).(memory)...)
				}
			}
		}
		for k := 1; k < len(kinds); k++ {
			if !slices.Equal(results[k], results[0]) {
				t.Fatalf("seed %d: results differ with %+v", seed, kinds[k])
			}
			if bytes[k] > bytes[k-1] {
				t.Errorf("seed %d: %d bytes with %+v, %d without", seed, bytes[k], kinds[k], bytes[k-1])
			}
			if bytes[k] < bytes[k-1] {
				smaller[k]++
			}
		}
	}
	if adjacent[1] < 300 {
		t.Errorf("only %v steps find parts side by side", adjacent)
	}
	if smaller[1] < 190 || smaller[2] < 1 || smaller[3] < 60 || smaller[4] < 60 {
		t.Errorf("of 200 programs, %v take less memory with sharing, what is cheap computed again where it is worth "+
			"it, wherever it can be, and what is dear", smaller[1:])
	}
}

// layers is a program like the training of a network: each layer is a product, which takes so much
// arithmetic, and an activation of n elements; on the way back, each needs the product and the
// activation once more.
func layers(count, n int, flops float64) *Builder {
	b := NewBuilder(host{})
	x := b.Input(bytes(n))
	var products, activations []Value
	for range count {
		product, activation := b.Planned(bytes(n)), b.Planned(bytes(n))
		b.Step(Step{Name: "product", Kernel: mix{}, In: []Value{x}, Out: []Value{product}, FLOPs: flops,
			Recompute: Dear})
		b.Step(Step{Name: "activation", Kernel: mix{}, In: []Value{product}, Out: []Value{activation},
			InPlace: []Over{{0, 0}}, Recompute: Cheap})
		products, activations, x = append(products, product), append(activations, activation), activation
	}
	b.EndForward()
	for i := count - 1; i >= 0; i-- {
		gradient := b.Planned(bytes(n))
		b.Step(Step{Name: "gradient", Kernel: mix{}, In: []Value{x, products[i], activations[i]},
			Out: []Value{gradient}, InPlace: []Over{{0, 0}}, FLOPs: 2 * flops})
		x = gradient
	}
	b.Keep(x)
	return b
}

// What is computed again lowers the memory in use by at least timeOverMemory times the share that
// it adds to the time of a run. So the more is held besides the less is computed again, and the
// more the longer a run takes anyway.
func TestRecomputeWhereItIsWorthIt(t *testing.T) {
	const n, count = 1 << 10, 10
	plan := func(o PlanOptions, flops float64) *Plan {
		p, err := layers(count, n, flops).Plan(o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	var table [][]int // repeats by arithmetic and by what is held
	for _, flops := range []float64{1e6, 5e6, 2.5e7} {
		whole := plan(PlanOptions{}, flops)
		// a product and an activation have two operands, a gradient has four
		run := count * (4*n*8 + 3*flops/device.FLOPsPerByte(host{}))
		var row []int
		for _, held := range []int64{0, 1 << 17, 1 << 19, 1 << 21, 1 << 40} {
			p := plan(PlanOptions{Recompute: Cheap, Held: held}, flops)
			saved := float64(whole.Peak().Bytes-p.Peak().Bytes) / float64(held+whole.Peak().Bytes)
			longer := (float64(p.Repeats().Bytes) + p.Repeats().FLOPs/device.FLOPsPerByte(host{})) / run
			if saved < timeOverMemory*longer {
				t.Errorf("%v FLOP, %d bytes held: %.2g of the memory is saved for %.2g of the time", flops, held, saved,
					longer)
			}
			if n := len(row); n > 0 && p.Repeats().Steps > row[n-1] ||
				len(table) > 0 && p.Repeats().Steps < table[len(table)-1][n] {
				t.Errorf("%v FLOP, %d bytes held: %d are computed again, %v with less held, %v with less to compute",
					flops, held, p.Repeats().Steps, row, table)
			}
			row = append(row, p.Repeats().Steps)
		}
		table = append(table, row)
	}
	if first, last := table[0], table[len(table)-1]; first[0] != 0 || last[0] < count-2 || last[2] < count-2 ||
		last[4] != 0 {
		t.Errorf("activations that are computed again: %v", table)
	}
}

// Above the target, whatever lowers the arena is computed again: first what is cheap, and of what
// is dear no more than is needed.
func TestRecomputeUntilTheTarget(t *testing.T) {
	plan := func(o PlanOptions) *Plan {
		o.Held = 1 << 40 // nothing is worth its time
		p, err := layers(10, 1<<10, 1e6).Plan(o)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	whole, cheap, least := plan(PlanOptions{Recompute: Dear}), plan(PlanOptions{Recompute: Cheap, Target: 1}),
		plan(PlanOptions{Recompute: Dear, Target: 1})
	if whole.Repeats() != (Repeats{}) || cheap.Repeats().FLOPs != 0 ||
		!(least.Bytes() < cheap.Bytes() && cheap.Bytes() < whole.Bytes()) {
		t.Fatalf("%d bytes, %d with what is cheap computed again (%+v), %d with all (%+v)", whole.Bytes(),
			cheap.Bytes(), cheap.Repeats(), least.Bytes(), least.Repeats())
	}
	for enough := least.Bytes(); enough <= whole.Bytes(); enough += 4 << 10 {
		p := plan(PlanOptions{Recompute: Dear, Target: enough})
		if p.Bytes() > enough {
			t.Errorf("%d bytes where %d should do", p.Bytes(), enough)
		}
		if again := p.Repeats(); (again.FLOPs > 0) != (enough < cheap.Bytes()) || again.FLOPs > least.Repeats().FLOPs {
			t.Errorf("%d bytes are enough: %+v is computed again", enough, again)
		}
	}
}

// A profile counts what a kernel moves: its operands, each once, and what more the kernel knows of;
// nothing where there is nothing to run.
func TestTraffic(t *testing.T) {
	b := NewBuilder(host{})
	in, half, whole, out := b.Input(bytes(16)), b.Planned(bytes(16)), b.Planned(bytes(32)), b.Planned(bytes(64))
	b.Step(Step{Kernel: mix{}, In: []Value{in}, Out: []Value{half}})
	other := b.Planned(bytes(16))
	b.Step(Step{Kernel: mover{}, In: []Value{in}, Out: []Value{other}})
	b.Step(Step{Kernel: copying{}, In: []Value{half, other}, Out: []Value{whole}, Joins: true})
	b.Step(Step{Kernel: mix{}, In: []Value{whole, in}, Out: []Value{out}})
	b.Keep(out)
	plan, err := b.Plan(PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Allocate(0)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{4 * 32, 4*32 + 1234, 0, 4 * 112} {
		if got := p.Times()[i].Bytes; got != want {
			t.Errorf("step %d moves %v bytes, want %v", i, got, want)
		}
	}
}

// mover is a kernel that knows what it moves.
type mover struct{ mix }

func (mover) MovesMore() int64 { return 1234 }

// A chain needs two values at a time, or one where steps work in place.
func TestChain(t *testing.T) {
	for _, inPlace := range []bool{false, true} {
		b := NewBuilder(host{})
		v := b.Planned(bytes(1000))
		b.Step(Step{Kernel: mix{}, Out: []Value{v}})
		for range 20 {
			next := b.Planned(bytes(1000))
			s := Step{Kernel: mix{}, In: []Value{v}, Out: []Value{next}}
			if inPlace {
				s.InPlace = []Over{{0, 0}}
			}
			b.Step(s)
			v = next
		}
		plan, err := b.Plan(PlanOptions{})
		if err != nil {
			t.Fatal(err)
		}
		want := int64(2 * 4 * 1008) // 1000 rounded up to a cache line of 16
		if inPlace {
			want /= 2
		}
		if plan.Bytes() != want || plan.Unshared() != 21*4*1008 {
			t.Errorf("in place %v: %d bytes, want %d; %d without sharing", inPlace, plan.Bytes(), want, plan.Unshared())
		}
	}
}

// What does not fit is refused before memory is taken.
func TestMemoryLimit(t *testing.T) {
	b := NewBuilder(host{})
	v := b.Planned(bytes(1 << 50))
	b.Step(Step{Kernel: mix{}, Out: []Value{v}})
	plan, err := b.Plan(PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = plan.Allocate(1 << 30)
	var tooLarge *MemoryError
	if !errors.As(err, &tooLarge) || tooLarge.Need != 1<<52 || tooLarge.Limit != 1<<30 {
		t.Errorf("got %v", err)
	}
}

func TestReadingWhatNobodyWrites(t *testing.T) {
	b := NewBuilder(host{})
	b.Step(Step{Name: "early", Kernel: mix{}, In: []Value{b.Planned(bytes(16))}, Out: []Value{b.Planned(bytes(16))}})
	if _, err := b.Plan(PlanOptions{}); err == nil {
		t.Error("no error")
	}
}

func TestRunsWithoutAllocating(t *testing.T) {
	b, _, _, _ := randomProgram(rand.New(rand.NewPCG(1, 1)), false)
	plan, err := b.Plan(PlanOptions{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Allocate(0)
	if err != nil {
		t.Fatal(err)
	}
	for _, profile := range []bool{false, true} {
		p.Profile(profile)
		if n := testing.AllocsPerRun(5, func() { p.Forward(); p.Backward() }); n != 0 {
			t.Errorf("profile %v: %v allocations a run", profile, n)
		}
	}
	calls := 0
	for _, s := range p.Times() {
		calls += s.Calls
	}
	if calls != 40*6 {
		t.Errorf("%d calls were profiled, want 240", calls)
	}
}
