// Package solver puts patches in their places: the assignment that is exactly the cheapest, the
// search around it when pairs of patches have a say too, and the iteration of solving, re-arranging
// and looking again.
//
// Start at [Solver.Solve] for one puzzle, [Solver.Assign] for the assignment alone, [Iteration] for
// the rounds. A Solver keeps its memory, so solving again allocates nothing. Costs are negative
// log-likelihoods, lower is better; [Costs] makes them from a network's output.
//
// # What is defined
//
// A cost of +Inf forbids that place for that patch; where nothing else is left the error is
// [ErrInfeasible]. NaN, -Inf and finite costs of 2^512 and above are a [CostError]. Costs may be
// negative. Where several answers cost the same, which of them comes out is not specified, but it
// depends on nothing but the costs. The minimum is exact for integers below 2^53/n; for others it
// is exact up to the rounding of sums of n numbers of the size of the largest one.
package solver

import (
	"errors"
	"fmt"
	"math"
)

// ErrInfeasible says that every assignment uses a forbidden place.
var ErrInfeasible = errors.New("no assignment avoids the forbidden places (cost +Inf)")

// A CostError says which cost is not a number that can be minimised.
type CostError struct {
	What  string // "cost", or "binary cost"
	Index int    // its place in the slice it came in
	Value float64
}

func (e *CostError) Error() string {
	return fmt.Sprintf("%s %d is %v: must be finite and below 2^512, or +Inf for a forbidden place", e.What, e.Index,
		e.Value)
}

// A Solver solves one problem at a time in memory of its own. The zero Solver is ready for use.
type Solver struct {
	// Once says that [Solver.Search] takes the cheapest configuration within the distance of the
	// one it is given, as Wei et al. 2019 have it, and does not search on from there.
	Once bool

	// The assignment of rows to columns, and what proves it optimal: cost[i][j] - v[j] is smallest,
	// in row i, at its column.
	column []int     // the column of a row
	row    []int     // the row of a column, -1: none
	v      []float64 // the price of a column
	free   []int     // rows without a column
	length []float64 // of the shortest path from a free row to a column
	from   []int     // the row before a column on that path
	order  []int     // columns: those still to be reached, then those whose length is final
	finite []float64 // a copy of the costs in which forbidden places are merely dear

	some  []float64 // costs of the patches that are there
	place []float64 // see search.go
	pairs []float64 // see search.go
}

// reserve makes room for n rows.
func (s *Solver) reserve(n int) {
	if cap(s.v) >= n {
		return
	}
	ints, floats := make([]int, 5*n), make([]float64, 2*n)
	s.column, s.row, s.free, s.from, s.order = ints[:n:n], ints[n:2*n:2*n], ints[2*n:3*n:3*n], ints[3*n:4*n:4*n],
		ints[4*n:]
	s.v, s.length = floats[:n:n], floats[n:]
}

// Assign writes to answer the assignment of n rows to n columns that costs least, n = len(answer),
// and returns its cost. The cost of giving column j to row i is cost[i*n+j]. The time is O(n^3),
// far less where rows mostly agree on who gets what.
//
// The method is the shortest augmenting path of Jonker and Volgenant (1987): first a cheap
// assignment of most rows by column reduction, reduction transfer and augmenting row reduction,
// then one shortest path for every row that is left.
func (s *Solver) Assign(answer []int, cost []float64) (float64, error) {
	n := len(answer)
	if len(cost) != n*n {
		return 0, fmt.Errorf("%d costs for %d rows: need %d", len(cost), n, n*n)
	}
	if n == 0 {
		return 0, nil
	}
	s.reserve(n)
	original := cost
	cost, err := s.usable(cost, n)
	if err != nil {
		return 0, err
	}
	free := s.reduceColumns(cost, n)
	for range 2 {
		if free > 0 {
			free = s.reduceRows(cost, n, free)
		}
	}
	for _, i := range s.free[:free] {
		s.augment(cost, n, i)
	}
	return s.answer(answer, original, n)
}

// AssignSome is Assign of fewer rows than columns: each of m rows, m = len(answer), gets one of n
// columns, and n - m columns stay empty. The cost of giving column j to row i is cost[i*n+j].
//
// Each row in turn is given a column by a shortest augmenting path (Kuhn and Munkres's method, with
// prices; see Ramshaw and Tarjan, On Minimum-Cost Assignments in Unbalanced Bipartite Graphs, 2012,
// for why columns may stay empty: the price of an empty one is 0, and no price is above it).
func (s *Solver) AssignSome(answer []int, cost []float64, n int) (float64, error) {
	m := len(answer)
	if m > n || len(cost) != m*n {
		return 0, fmt.Errorf("%d costs for %d rows of %d columns: need %d, and at least as many columns as rows",
			len(cost), m, n, m*n)
	}
	if m == 0 {
		return 0, nil
	}
	s.reserve(n)
	original := cost
	cost, err := s.usable(cost, n)
	if err != nil {
		return 0, err
	}
	for j := range n {
		s.v[j], s.row[j] = 0, -1
	}
	for i := range m {
		s.augment(cost, n, i)
	}
	return s.answer(answer, original, n)
}

// usable is the costs, or, where some are odd, a copy without forbidden places.
func (s *Solver) usable(cost []float64, n int) ([]float64, error) {
	if oddities(cost) {
		return s.replaceForbidden(cost, n)
	}
	return cost, nil
}

// answer writes down which column each row has, and sums up what that costs.
func (s *Solver) answer(answer []int, cost []float64, n int) (float64, error) {
	total := 0.0
	for i := range answer {
		answer[i] = s.column[i]
		total += cost[i*n+answer[i]]
	}
	if math.IsInf(total, 1) {
		return 0, ErrInfeasible
	}
	return total, nil
}

// oddities says whether a cost is infinite, not a number, or too large to be added up: whether its
// exponent is 512 or above. The addition carries into bit 63 exactly then, which costs three
// instructions a number and no branch.
func oddities(cost []float64) bool {
	const exponent, limit = 0x7ff << 52, (2048 - (1023 + 512)) << 52
	var carry uint64
	for _, c := range cost {
		carry |= math.Float64bits(c)&exponent + limit
	}
	return carry>>63 != 0
}

// replaceForbidden copies the costs with +Inf replaced by a number so large that one forbidden
// place costs more than any assignment without one can save.
func (s *Solver) replaceForbidden(cost []float64, n int) ([]float64, error) {
	low, high := math.Inf(1), math.Inf(-1)
	for i, c := range cost {
		switch {
		case math.IsInf(c, 1):
		case !(math.Abs(c) < 0x1p512):
			return nil, &CostError{"cost", i, c}
		default:
			low, high = min(low, c), max(high, c)
		}
	}
	if low > high {
		return nil, ErrInfeasible
	}
	dear := high + float64(n+1)*(high-low) + max(1, math.Abs(high))
	if cap(s.finite) < n*n {
		s.finite = make([]float64, n*n)
	}
	s.finite = s.finite[:n*n]
	for i, c := range cost {
		s.finite[i] = min(c, dear)
	}
	return s.finite, nil
}

// reduceColumns prices every column at its smallest cost, gives it to the row that has that cost if
// nobody else took that row, and lowers the price for rows that got exactly one column by what
// their second choice would cost them. It returns the number of free rows.
func (s *Solver) reduceColumns(cost []float64, n int) (free int) {
	v, row, column, wanted := s.v[:n], s.row[:n], s.column[:n], s.from[:n]
	copy(v, cost[:n])
	clear(row)
	for i := 1; i < n; i++ {
		for j, c := range cost[i*n : i*n+n] {
			if c < v[j] {
				v[j], row[j] = c, i
			}
		}
	}
	for i := range n {
		column[i], wanted[i] = -1, 0
	}
	for j := n - 1; j >= 0; j-- {
		i := row[j]
		if wanted[i]++; wanted[i] == 1 {
			column[i] = j
		} else {
			row[j] = -1
		}
	}
	for i := range n {
		switch {
		case wanted[i] == 0:
			s.free[free] = i
			free++
		case wanted[i] == 1 && n > 1:
			j1, second := column[i], math.Inf(1)
			for j, c := range cost[i*n : i*n+n] {
				if r := c - v[j]; r < second && j != j1 {
					second = r
				}
			}
			v[j1] -= second
		}
	}
	return free
}

// reduceRows lets every free row take the column it likes best, whose price falls until the row's
// second choice is as good; the row that had the column becomes free and chooses next. Rows can
// outbid each other for long, and by less than rounding shows for ever, so prices stop falling
// after n steps; the rows that are displaced then are left to augment. It returns how many are
// left.
func (s *Solver) reduceRows(cost []float64, n, free int) (left int) {
	v, row, column := s.v[:n], s.row[:n], s.column[:n]
	steps := 0
	for k := 0; k < free; steps++ {
		i := s.free[k]
		k++
		r := cost[i*n : i*n+n]
		j1, j2, u1, u2 := 0, -1, r[0]-v[0], math.Inf(1)
		for j := 1; j < n; j++ {
			if u := r[j] - v[j]; u < u2 {
				if u < u1 {
					j1, j2, u1, u2 = j, j1, u, u1
				} else {
					j2, u2 = j, u
				}
			}
		}
		price := v[j1] - (u2 - u1)
		lower := price < v[j1] && steps < n
		if lower {
			v[j1] = price
		} else if row[j1] >= 0 && u1 == u2 {
			j1 = j2
		}
		if displaced := row[j1]; displaced >= 0 {
			if lower {
				k--
				s.free[k] = displaced
			} else {
				s.free[left] = displaced
				left++
			}
		}
		column[i], row[j1] = j1, i
	}
	return left
}

// augment gives a column to a free row: it finds the shortest path, in reduced costs, from the row
// to a column without a row, and moves every row on the path one column on. It is Dijkstra's method
// on the dense bipartite graph; relaxing the columns that are left and finding the nearest of them
// is one pass.
func (s *Solver) augment(cost []float64, n, start int) {
	v, row, column, length, from, order := s.v[:n], s.row[:n], s.column[:n], s.length[:n], s.from[:n], s.order[:n]
	nearest, now := 0, math.Inf(1)
	for j, c := range cost[start*n : start*n+n] {
		l := c - v[j]
		length[j], from[j], order[j] = l, start, j
		if l < now || l == now && row[j] < 0 {
			nearest, now = j, l
		}
	}
	left, end := n, -1 // order[left:] are the columns whose length is final
	for {
		left--
		j1 := order[nearest]
		order[nearest], order[left] = order[left], j1
		i := row[j1]
		if i < 0 {
			end = j1
			break
		}
		r := cost[i*n : i*n+n]
		base := r[j1] - v[j1] - now
		nearest, now = 0, math.Inf(1)
		for k, j := range order[:left] {
			l := length[j]
			if through := r[j] - v[j] - base; through < l {
				l = through
				length[j], from[j] = l, i
			}
			if l <= now && (l < now || row[j] < 0) {
				nearest, now = k, l
			}
		}
	}
	for _, j := range order[left:] {
		v[j] += length[j] - now
	}
	for j := end; ; {
		i := from[j]
		row[j] = i
		j, column[i] = column[i], j
		if i == start {
			return
		}
	}
}
