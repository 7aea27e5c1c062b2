package solver

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/puzzle"
)

func randomTerms(r *rand.Rand, g puzzle.Grid) Terms {
	n := g.Cells()
	t := Terms{Unary: make([]float64, n*n), Binary: make([]float64, n*n*g.Relations()), Relation: g.RelationTable(),
		Classes: g.Relations()}
	for i := range t.Unary {
		t.Unary[i] = 5 * r.Float64()
	}
	for i := range t.Binary {
		t.Binary[i] = r.Float64()
	}
	return t
}

// naive is the search as it is defined: every configuration within the distance is written down and
// its cost summed up anew.
func naive(c []int, t Terms, distance int) (float64, int) {
	n := len(c)
	for moves := 0; ; moves++ {
		best, bestCost := slices.Clone(c), t.Cost(c)
		try := func(cycle ...int) {
			d := slices.Clone(c)
			for i, a := range cycle {
				d[a] = c[cycle[(i+1)%len(cycle)]]
			}
			if cost := t.Cost(d); cost < bestCost-1e-9 {
				best, bestCost = d, cost
			}
		}
		for a := range n {
			for b := a + 1; b < n; b++ {
				try(a, b)
				for e := b + 1; e < n && distance == 3; e++ {
					try(a, b, e)
					try(a, e, b)
				}
			}
		}
		if slices.Equal(best, c) {
			return bestCost, moves
		}
		copy(c, best)
	}
}

func TestSearchEqualsTheNaiveOne(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var s Solver
	moved := 0
	for _, g := range []puzzle.Grid{{4}, {2, 2}, {3, 3}, {2, 2, 2}, {2, 3, 2}} {
		for range 25 {
			for _, distance := range []int{2, 3} {
				terms := randomTerms(r, g)
				got := puzzle.Random(r, g.Cells())
				want := got.Clone()
				wantCost, moves := naive(want, terms, distance)
				gotCost, err := s.Search(got, terms, distance)
				if err != nil {
					t.Fatal(err)
				}
				checkPermutation(t, got)
				moved += moves
				if math.Abs(gotCost-wantCost) > 1e-9 || got.Distance(want) != 0 ||
					math.Abs(terms.Cost(got)-gotCost) > 1e-9 {
					t.Fatalf("grid %v, distance %d: %v costs %v, naive search finds %v at %v", g, distance, got,
						gotCost, want, wantCost)
				}
			}
		}
	}
	if moved < 200 {
		t.Errorf("only %d moves were tested", moved)
	}
}

// With clear terms the search must find the minimum over all n! configurations; it can never beat
// it.
func TestSolveAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s Solver
	g := puzzle.Grid{2, 3}
	found, worse := 0, 0
	for range 60 {
		terms := randomTerms(r, g)
		best := math.Inf(1)
		permutations(6, func(c []int) { best = min(best, terms.Cost(c)) })
		answer := make([]int, 6)
		cost, err := s.Solve(answer, terms, 3)
		if err != nil {
			t.Fatal(err)
		}
		unary := make([]int, 6)
		if _, err := s.Assign(unary, terms.Unary); err != nil {
			t.Fatal(err)
		}
		switch {
		case cost < best-1e-9:
			t.Fatalf("cost %v is below the minimum %v", cost, best)
		case cost > terms.Cost(unary)+1e-9:
			t.Fatal("the search made the assignment worse")
		case cost < best+1e-9:
			found++
		default:
			worse++
		}
	}
	if found < 40 {
		t.Errorf("the minimum was found %d times, missed %d times", found, worse)
	}
	// Without binary terms the answer is the assignment.
	terms := randomTerms(r, g)
	terms.Binary = nil
	cost, err := s.Solve(make([]int, 6), terms, 2)
	if want := bruteForce(terms.Unary, 6); err != nil || math.Abs(cost-want) > 1e-9 {
		t.Errorf("without binary terms: %v, %v; brute force finds %v", cost, err, want)
	}
	if cost, err = s.Search(make([]int, 1), Terms{Unary: []float64{3}}, 2); err != nil || cost != 3 {
		t.Errorf("one patch: %v, %v", cost, err)
	}
}

// The binary terms must be able to put right what the unary ones get wrong: unary terms that know
// nothing, relations that are certain.
func TestBinaryTermsSolveWhatUnaryTermsCannot(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	g := puzzle.Grid{3, 3}
	var s Solver
	terms := randomTerms(r, g)
	truth := puzzle.Random(r, 9)
	for i := range terms.Binary {
		pair, class := i/9, i%9
		terms.Binary[i] = 5
		if a, b := pair/9, pair%9; class == g.Relation(truth[a], truth[b]) {
			terms.Binary[i] = 0.1
		}
	}
	for a, p := range truth {
		terms.Unary[a*9+p] -= 3
	}
	answer := make(puzzle.Configuration, 9)
	if _, err := s.Solve(answer, terms, 3); err != nil || answer.Distance(truth) != 0 {
		t.Errorf("answer %v, truth %v: %v", answer, truth, err)
	}
}

func TestSearchRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	g := puzzle.Grid{2, 2}
	var s Solver
	good := func() (puzzle.Configuration, Terms) { return puzzle.Identity(4), randomTerms(r, g) }
	for name, spoil := range map[string]func(c puzzle.Configuration, t *Terms, distance *int){
		"distance":        func(_ puzzle.Configuration, _ *Terms, d *int) { *d = 4 },
		"no permutation":  func(c puzzle.Configuration, _ *Terms, _ *int) { c[0] = 1 },
		"NaN":             func(_ puzzle.Configuration, t *Terms, _ *int) { t.Binary[10] = math.NaN() },
		"binary +Inf":     func(_ puzzle.Configuration, t *Terms, _ *int) { t.Binary[10] = math.Inf(1) },
		"too few unary":   func(_ puzzle.Configuration, t *Terms, _ *int) { t.Unary = t.Unary[1:] },
		"too few binary":  func(_ puzzle.Configuration, t *Terms, _ *int) { t.Binary = t.Binary[1:] },
		"no relations":    func(_ puzzle.Configuration, t *Terms, _ *int) { t.Relation = nil },
		"forbidden start": func(_ puzzle.Configuration, t *Terms, _ *int) { t.Unary[0] = math.Inf(1) },
	} {
		c, terms := good()
		distance := 2
		spoil(c, &terms, &distance)
		if _, err := s.Search(c, terms, distance); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
	c, terms := good()
	terms.Binary[0] = math.NaN() // a patch with itself: ignored
	if _, err := s.Search(c, terms, 2); err != nil {
		t.Error(err)
	}
	var wrong *CostError
	terms.Binary[10] = math.NaN()
	if _, err := s.Solve(make([]int, 4), terms, 2); !errors.As(err, &wrong) || wrong.Index != 10 {
		t.Errorf("NaN in the binary costs: %v", err)
	}
}

func TestCosts(t *testing.T) {
	logits := []float32{1, 2, 3, 1000, 0, -1000, float32(math.NaN()), 0, 0, 0, 0, float32(math.Inf(1))}
	c := make([]float64, len(logits))
	Costs(c, logits, 3)
	// scipy.special.log_softmax
	want := []float64{2.4076059644443806, 1.4076059644443804, 0.4076059644443804, 0, 1000, 2000}
	for i, w := range want {
		if math.Abs(c[i]-w) > 1e-12*(1+w) {
			t.Errorf("cost %d is %v, want %v", i, c[i], w)
		}
	}
	for i := 6; i < 9; i++ {
		if !math.IsNaN(c[i]) {
			t.Errorf("a row with NaN costs %v", c[i])
		}
	}
	if !math.IsNaN(c[11]) {
		t.Errorf("an infinite logit costs %v", c[11])
	}
}

func TestAssignBatch(t *testing.T) {
	const n, batch = 27, 70
	var costs []float64
	for b := range batch {
		costs = append(costs, matrix("uniform", uint64(b), n)...)
	}
	answers, one := make([]int, batch*n), make([]int, n)
	if err := AssignBatch(answers, costs, n); err != nil {
		t.Fatal(err)
	}
	var s Solver
	for b := range batch {
		if _, err := s.Assign(one, costs[b*n*n:(b+1)*n*n]); err != nil || !slices.Equal(one, answers[b*n:(b+1)*n]) {
			t.Fatalf("problem %d has another answer in the batch: %v", b, err)
		}
	}
	costs[5*n*n] = math.NaN()
	if err := AssignBatch(answers, costs, n); err == nil {
		t.Error("NaN in a batch passed")
	}
	if err := AssignBatch(nil, nil, n); err != nil {
		t.Error(err)
	}
}

func TestIteration(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const n = 9
	truth := puzzle.Random(r, n)
	// A network that always puts one more patch right, and is at rest when all are.
	looks := 0
	answer, end, err := iterate(n, 50, func(now puzzle.Configuration) (puzzle.Configuration, error) {
		looks++
		step := puzzle.Identity(n)
		for s, first := range now {
			if p := truth[first]; p != s {
				step[s], step[p] = p, s
				break
			}
		}
		return step, nil
	})
	if err != nil || end != Resting || answer.Distance(truth) != 0 {
		t.Errorf("answer %v, truth %v, end %v: %v", answer, truth, end, err)
	}
	if looks > n {
		t.Errorf("%d looks", looks)
	}
	// One that turns the patches round and round.
	turn := puzzle.Configuration{1, 2, 0}
	if _, end, _ := iterate(3, 50, func(puzzle.Configuration) (puzzle.Configuration, error) {
		return turn,
			nil
	}); end != Cycling {
		t.Errorf("turning ends as %v", end)
	}
	answer, end, _ = iterate(3, 2, func(puzzle.Configuration) (puzzle.Configuration, error) { return turn, nil })
	if end != Stopped || !slices.Equal(answer, puzzle.Configuration{2, 0, 1}) {
		t.Errorf("two turns: %v, %v", answer, end)
	}
	if answer, end, _ := iterate(3, 0, nil); end != Stopped || !answer.Solved() {
		t.Errorf("no rounds: %v, %v", answer, end)
	}
	failure := errors.New("no")
	if _, _, err := iterate(3, 2, func(puzzle.Configuration) (puzzle.Configuration, error) {
		return nil,
			failure
	}); !errors.Is(err, failure) {
		t.Errorf("error %v", err)
	}
	// Arrangement and truth move together, whatever the answers are.
	it, left := NewIteration(n, 30), truth.Clone()
	for it.End() == Going {
		step := puzzle.Random(r, n)
		it.Move(step)
		left = left.Rearranged(step)
		for s, first := range it.Arrangement() {
			if truth[first] != left[s] {
				t.Fatal("the arrangement and the truth went apart")
			}
		}
	}
}

// FuzzSearch: whatever the terms, the search ends, never makes a configuration worse, and says what
// it really costs.
func FuzzSearch(f *testing.F) {
	f.Add(uint64(1), []byte{0, 1, 2, 250})
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) {
		r := rand.New(rand.NewPCG(seed, 0))
		g := puzzle.Grid{2, 1 + int(seed%4), 1}
		terms := randomTerms(r, g)
		for i, b := range data {
			if i < len(terms.Binary) {
				terms.Binary[i] = float64(int8(b))
			}
		}
		c := puzzle.Random(r, g.Cells())
		before := terms.Cost(c)
		cost, err := new(Solver).Search(c, terms, 2+int(seed/4%2))
		if err != nil {
			t.Fatal(err)
		}
		checkPermutation(t, c)
		if after := terms.Cost(c); after > before+1e-9 || math.Abs(after-cost) > 1e-9 {
			t.Fatalf("cost %v before, %v after, said to be %v", before, after, cost)
		}
	})
}

func BenchmarkAssignBatch(b *testing.B) {
	for _, n := range []int{8, 27, 64} {
		b.Run(fmt.Sprintf("256xn=%d", n), func(b *testing.B) {
			var costs []float64
			for k := range 256 {
				costs = append(costs, matrix("uniform", uint64(k), n)...)
			}
			answers := make([]int, 256*n)
			for b.Loop() {
				if err := AssignBatch(answers, costs, n); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/256, "ns/problem")
		})
	}
}

func BenchmarkSearch(b *testing.B) {
	for _, g := range []puzzle.Grid{{2, 2, 2}, {3, 3, 3}, {4, 4, 4}} {
		for _, distance := range []int{2, 3} {
			b.Run(fmt.Sprintf("grid=%v/distance=%d", g, distance), func(b *testing.B) {
				terms := randomTerms(rand.New(rand.NewPCG(1, 1)), g)
				var s Solver
				answer := make([]int, g.Cells())
				b.ReportAllocs()
				for b.Loop() {
					if _, err := s.Solve(answer, terms, distance); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// iterate plays one puzzle to its end. The callback looks at the patches as they are arranged and
// says for each slot where the patch in it should go. The result is where the patches of the first
// arrangement ended.
func iterate(n, rounds int, look func(arrangement puzzle.Configuration) (puzzle.Configuration,
	error)) (puzzle.Configuration, End, error) {
	it := NewIteration(n, rounds)
	for it.End() == Going {
		step, err := look(it.Arrangement())
		if err != nil {
			return nil, Going, err
		}
		it.Move(step)
	}
	return it.Answer(), it.End(), nil
}

// Among all configurations Choose finds the minimum, with binary terms too; among some, the
// cheapest.
func TestChoose(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	g := puzzle.Grid{2, 2}
	all, err := puzzle.Select(t.Context(), r, 4, 24, puzzle.MinDistance)
	if err != nil {
		t.Fatal(err)
	}
	var s Solver
	for range 20 {
		terms := randomTerms(r, g)
		for _, among := range []puzzle.Selection{all, all[:5]} {
			answer := make([]int, 4)
			if err := s.Choose(answer, terms, among); err != nil {
				t.Fatal(err)
			}
			for _, c := range among {
				if terms.Cost(c) < terms.Cost(answer) {
					t.Errorf("%v costs %v, the answer %v %v", c, terms.Cost(c), answer, terms.Cost(answer))
				}
			}
		}
	}
	bad := randomTerms(r, g)
	bad.Unary[3] = math.NaN()
	if err := s.Choose(make([]int, 4), bad, all); !errors.As(err, new(*CostError)) {
		t.Errorf("NaN: %v", err)
	}
}
