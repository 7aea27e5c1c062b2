package solver

import (
	"fmt"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// Terms are the costs of a puzzle of n patches (Wei et al. 2019, equation 1). The cost of a
// configuration c is
//
//	S(c) = sum_a Unary[a][c[a]] + sum_{a != b} Binary[a][b][Relation(c[a], c[b])]
type Terms struct {
	Unary []float64 // (n, n): the cost of putting patch a at position p is element a*n + p
	// (n, n, Classes): the cost of a standing in relation r to b is element (a*n + b)*Classes + r;
	// nil: no binary terms. a = b is ignored
	Binary []float64
	// (n, n): the class of (p, q), as [puzzle.Grid.RelationTable] has it; the way back from class r
	// is class Classes - 1 - r
	Relation []int
	Classes  int
	// Missing are the patches that are not there: their terms do not count. What is left is a
	// rectangular assignment: any position may stay empty. nil: none
	Missing []bool
}

// missing says whether patch a is not there.
func (t Terms) missing(a int) bool { return t.Missing != nil && t.Missing[a] }

func (t Terms) check(n int) error {
	if len(t.Unary) != n*n {
		return fmt.Errorf("%d unary costs for %d patches: need %d", len(t.Unary), n, n*n)
	}
	if t.Missing != nil && len(t.Missing) != n {
		return fmt.Errorf("%d marks of missing patches for %d patches", len(t.Missing), n)
	}
	if t.Binary == nil {
		return nil
	}
	if len(t.Binary) != n*n*t.Classes || len(t.Relation) != n*n || t.Classes < 1 {
		return fmt.Errorf("%d binary costs and %d relations of %d classes for %d patches: need %d and %d",
			len(t.Binary), len(t.Relation), t.Classes, n, n*n*t.Classes, n*n)
	}
	if oddities(t.Binary) {
		for i, c := range t.Binary {
			if !(math.Abs(c) < 0x1p512) && i/t.Classes/n != i/t.Classes%n {
				return &CostError{"binary cost", i, c}
			}
		}
	}
	return nil
}

// Cost is S(c), summed up from the definition.
func (t Terms) Cost(c []int) float64 {
	n, sum := len(c), 0.0
	for a, p := range c {
		if t.missing(a) {
			continue
		}
		sum += t.Unary[a*n+p]
		if t.Binary == nil {
			continue
		}
		for b, q := range c {
			if a != b && !t.missing(b) {
				sum += t.Binary[(a*n+b)*t.Classes+t.Relation[p*n+q]]
			}
		}
	}
	return sum
}

// Solve writes to answer the cheapest configuration that it finds, and returns its cost: the exact
// assignment by the unary terms alone, then [Solver.Search] from there. Without binary terms the
// answer is the minimum. Missing patches get the positions that stay empty, in ascending order: so
// the answer depends on nothing but the patches that are there.
func (s *Solver) Solve(answer []int, t Terms, distance int) (float64, error) {
	if err := t.check(len(answer)); err != nil {
		return 0, err
	}
	var cost float64
	var err error
	if t.Missing == nil {
		cost, err = s.Assign(answer, t.Unary)
	} else {
		cost, err = s.assignPresent(answer, t)
	}
	if err == nil && t.Binary != nil {
		cost, err = s.Search(answer, t, distance)
	}
	if err == nil && t.Missing != nil {
		fillEmpty(answer, t.Missing)
	}
	return cost, err
}

// assignPresent gives positions to the patches that are there, and any that are left to the others.
func (s *Solver) assignPresent(answer []int, t Terms) (float64, error) {
	n := len(answer)
	s.some = s.some[:0]
	for a := range n {
		if !t.Missing[a] {
			s.some = append(s.some, t.Unary[a*n:][:n]...)
		}
	}
	some := make([]int, len(s.some)/n)
	cost, err := s.AssignSome(some, s.some, n)
	if err != nil {
		return 0, err
	}
	taken, k := make([]bool, n), 0
	for a := range answer {
		if !t.Missing[a] {
			answer[a] = some[k]
			taken[some[k]] = true
			k++
		}
	}
	empty := 0
	for a := range answer {
		if t.Missing[a] {
			for taken[empty] {
				empty++
			}
			answer[a] = empty
			empty++
		}
	}
	return cost, nil
}

// fillEmpty brings the positions of missing patches into ascending order.
func fillEmpty(answer []int, missing []bool) {
	var empty []int
	for a, p := range answer {
		if missing[a] {
			empty = append(empty, p)
		}
	}
	slices.Sort(empty)
	for a := range answer {
		if missing[a] {
			answer[a], empty = empty[0], empty[1:]
		}
	}
}

// Choose writes the cheapest of some configurations to answer, whose length is that of each of
// them: of equal ones the first.
func (s *Solver) Choose(answer []int, t Terms, among []puzzle.Configuration) error {
	if err := t.check(len(answer)); err != nil {
		return err
	}
	for i, c := range t.Unary {
		if !(math.Abs(c) < 0x1p512) && !math.IsInf(c, 1) {
			return &CostError{"cost", i, c}
		}
	}
	best := math.Inf(1)
	for _, c := range among {
		if cost := t.Cost(c); cost < best {
			best = cost
			copy(answer, c)
		}
	}
	if math.IsInf(best, 1) {
		return ErrInfeasible
	}
	return nil
}

// Search improves a configuration in place and returns its cost: of all configurations within a
// Hamming distance of it, which is 2 (all swaps of two patches) or 3 (all three-cycles too), it
// takes the cheapest, and repeats from there until none is cheaper, unless the solver looks only
// once. The unary costs of the configuration must not be forbidden.
//
// A round of swaps takes O(n^2) time and one of three-cycles O(n^3): that is one step for each
// candidate. For this the solver keeps, for every patch and position, what the patch would cost
// there with all others left where they are; only the terms among the two or three patches that
// move at once need correcting.
func (s *Solver) Search(c []int, t Terms, distance int) (float64, error) {
	n := len(c)
	if distance < 2 || distance > 3 {
		return 0, fmt.Errorf("hamming distance %d: the search knows 2 and 3", distance)
	}
	if err := t.check(n); err != nil {
		return 0, err
	}
	if s.reserve(n); !permutation(c, s.row[:n]) {
		return 0, fmt.Errorf("%v is not a permutation of 0..%d", numbers.List(c), n-1)
	}
	if t.Binary == nil {
		t.Classes = 0
	}
	l := s.look(c, t)
	cost := t.Cost(c)
	if math.IsInf(cost, 1) {
		return 0, ErrInfeasible
	}
	// A move must gain more than rounding could feign, or the search might go in circles.
	for range 1 + n*n {
		move, gain := l.best(distance)
		if !(gain > 1e-12*(1+math.Abs(cost))) {
			break
		}
		l.apply(move)
		if cost = t.Cost(c); s.Once {
			break
		}
	}
	return cost, nil
}

// permutation says whether c is one; seen is memory of its length.
func permutation(c, seen []int) bool {
	clear(seen)
	for _, p := range c {
		if p < 0 || p >= len(c) || seen[p] != 0 {
			return false
		}
		seen[p] = 1
	}
	return true
}

// A move is a cycle of two or three patches: a takes b's position, b takes c's or, where c is
// negative, a's; c takes a's.
type move struct{ a, b, c int }

// A neighbourhood is the state of a search.
type neighbourhood struct {
	n, classes int
	at         []int // the configuration
	relation   []int // (n, n)
	// (n, n): the cost of all terms with patch a if a were at position p and all others stay
	place []float64
	// (n, n, classes): both orders of a pair: Binary[a][b][r] + Binary[b][a][classes-1-r]
	pairs []float64
}

// look fills the tables for a configuration.
func (s *Solver) look(c []int, t Terms) neighbourhood {
	n := len(c)
	if cap(s.place) < n*n {
		s.place = make([]float64, n*n)
	}
	if cap(s.pairs) < n*n*t.Classes {
		s.pairs = make([]float64, n*n*t.Classes)
	}
	l := neighbourhood{n, t.Classes, c, t.Relation, s.place[:n*n], s.pairs[:n*n*t.Classes]}
	copy(l.place, t.Unary)
	for a := range n {
		if t.missing(a) {
			clear(l.place[a*n:][:n])
		}
	}
	if t.Classes == 0 {
		return l
	}
	for a := range n {
		for b := range n {
			forth, back := t.Binary[(a*n+b)*t.Classes:][:t.Classes], t.Binary[(b*n+a)*t.Classes:][:t.Classes]
			pair := l.pair(a, b)
			if a == b || t.missing(a) || t.missing(b) {
				clear(pair)
				continue
			}
			for r := range pair {
				pair[r] = forth[r] + back[t.Classes-1-r]
			}
		}
	}
	for a := range n {
		for b, q := range c {
			l.add(a, b, q, 1)
		}
	}
	return l
}

func (l *neighbourhood) pair(a, b int) []float64 { return l.pairs[(a*l.n+b)*l.classes:][:l.classes] }

// add adds to patch a's costs, at every position, weight times its terms with b, b standing at q.
func (l *neighbourhood) add(a, b, q int, weight float64) {
	place, pair := l.place[a*l.n:][:l.n], l.pair(a, b)
	for p := range place {
		place[p] += weight * pair[l.relation[p*l.n+q]]
	}
}

// alone is what patch a costs at p if its terms with b, which stands at q, are left out.
func (l *neighbourhood) alone(a, p, b, q int) float64 {
	return l.place[a*l.n+p] - l.with(a, p, b, q)
}

// with is the terms between patch a at p and patch b at q.
func (l *neighbourhood) with(a, p, b, q int) float64 {
	if l.classes == 0 {
		return 0
	}
	return l.pairs[(a*l.n+b)*l.classes+l.relation[p*l.n+q]]
}

// best is the move that gains most. Where several gain the same, the first in the order of a, b, c.
func (l *neighbourhood) best(distance int) (m move, gain float64) {
	n, at := l.n, l.at
	try := func(a, b, c int, g float64) {
		if g > gain {
			m, gain = move{a, b, c}, g
		}
	}
	for a := range n {
		p := at[a]
		for b := a + 1; b < n; b++ {
			q := at[b]
			try(a, b, -1, l.alone(a, p, b, q)+l.alone(b, q, a, p)+l.with(a, p, b, q)-
				l.alone(a, q, b, q)-l.alone(b, p, a, p)-l.with(a, q, b, p))
			if distance < 3 {
				continue
			}
			for c := b + 1; c < n; c++ {
				r := at[c]
				now := l.place[a*n+p] + l.place[b*n+q] + l.place[c*n+r] - l.with(a, p, b, q) - l.with(b, q, c,
					r) - l.with(a, p, c, r)
				try(a, b, c, now-l.cycled(a, q, b, r, c, p, p, q, r))
				try(a, c, b, now-l.cycled(a, r, b, p, c, q, p, q, r))
			}
		}
	}
	return m, gain
}

// cycled is what patches a, b, c cost at positions pa, pb, pc, when until now they stand at p, q,
// r: each one's cost with the others where they were, without those terms, and with the terms as
// they will be.
func (l *neighbourhood) cycled(a, pa, b, pb, c, pc, p, q, r int) float64 {
	return l.place[a*l.n+pa] - l.with(a, pa, b, q) - l.with(a, pa, c, r) +
		l.place[b*l.n+pb] - l.with(b, pb, a, p) - l.with(b, pb, c, r) +
		l.place[c*l.n+pc] - l.with(c, pc, a, p) - l.with(c, pc, b, q) +
		l.with(a, pa, b, pb) + l.with(b, pb, c, pc) + l.with(a, pa, c, pc)
}

// apply moves the patches and brings the tables up to date.
func (l *neighbourhood) apply(m move) {
	if m.c < 0 {
		p, q := l.at[m.a], l.at[m.b]
		l.set(m.a, q)
		l.set(m.b, p)
		return
	}
	p, q, r := l.at[m.a], l.at[m.b], l.at[m.c]
	l.set(m.a, q)
	l.set(m.b, r)
	l.set(m.c, p)
}

func (l *neighbourhood) set(b, q int) {
	if l.classes > 0 {
		for a := range l.n {
			l.add(a, b, l.at[b], -1)
			l.add(a, b, q, 1)
		}
	}
	l.at[b] = q
}
