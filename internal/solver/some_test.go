package solver

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// bruteForceSome is the least cost over all ways to give m rows different ones of n columns.
func bruteForceSome(cost []float64, m, n int) float64 {
	square := make([]float64, n*n) // rows that are not there cost nothing anywhere
	copy(square, cost[:m*n])
	return bruteForce(square, n)
}

func TestAssignSomeEqualsBruteForce(t *testing.T) {
	var s Solver
	for n := 1; n <= 7; n++ {
		for m := 1; m <= n; m++ {
			for _, kind := range []string{"uniform", "ties", "product", "likely", "negative", "forbidden"} {
				for seed := range uint64(10) {
					cost, answer := matrix(kind, seed, n)[:m*n], make([]int, m)
					got, err := s.AssignSome(answer, cost, n)
					if err != nil {
						t.Fatal(err)
					}
					if sorted := slices.Sorted(slices.Values(answer)); len(slices.Compact(sorted)) != m ||
						sorted[0] < 0 || sorted[m-1] >= n {
						t.Fatalf("%v are not different columns", answer)
					}
					if want := bruteForceSome(cost, m, n); math.Abs(got-want) > 1e-11*max(1, math.Abs(want)) {
						t.Fatalf("%d rows of %d, %s, seed %d: cost %v, brute force finds %v", m, n, kind, seed, got,
							want)
					}
				}
			}
		}
	}
	forbidden := []float64{math.Inf(1), 0, math.Inf(1), math.Inf(1), 1, math.Inf(1)}
	if _, err := s.AssignSome(make([]int, 2), forbidden, 3); !errors.Is(err, ErrInfeasible) {
		t.Errorf("two rows that want one column: %v", err)
	}
	if _, err := s.AssignSome(make([]int, 3), make([]float64, 6), 2); err == nil {
		t.Error("three rows were given two columns")
	}
}

// A puzzle with missing patches: without binary terms the answer is the cheapest of all ways to
// place what is there; with them the search never beats it and mostly finds it. What missing
// patches would cost does not matter, and they fill what is left in order.
func TestSolveWithMissingPatchesAgainstBruteForce(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var s Solver
	found, trials := 0, 0
	for range 40 {
		for _, binary := range []bool{false, true} {
			terms := randomTerms(r, puzzle.Grid{2, 3})
			if !binary {
				terms.Binary = nil
			}
			terms.Missing = make([]bool, 6)
			for _, a := range r.Perm(6)[:1+r.IntN(3)] {
				terms.Missing[a] = true
				for p := range 6 {
					terms.Unary[a*6+p] = 1e6 * r.NormFloat64()
				}
			}
			best := math.Inf(1)
			permutations(6, func(c []int) { best = min(best, terms.Cost(c)) })
			answer := make([]int, 6)
			cost, err := s.Solve(answer, terms, 3)
			if err != nil {
				t.Fatal(err)
			}
			checkPermutation(t, answer)
			last := -1
			for a, p := range answer {
				if terms.Missing[a] {
					if p < last {
						t.Fatalf("%v: the places of missing patches %v are not in order", answer, terms.Missing)
					}
					last = p
				}
			}
			if math.Abs(terms.Cost(answer)-cost) > 1e-9 || cost < best-1e-9 || !binary && cost > best+1e-9 {
				t.Fatalf("%v is said to cost %v, costs %v; the minimum is %v", answer, cost, terms.Cost(answer), best)
			}
			if trials++; cost < best+1e-9 {
				found++
			}
		}
	}
	if found < trials*8/10 {
		t.Errorf("the minimum was found %d times of %d", found, trials)
	}
	// Patches that stay where they are leave the empty slots where they are: the puzzle is at rest.
	stay := Terms{Unary: []float64{0, 9, 9, 9, 0, 9, 9, 9, 0}, Missing: []bool{false, true, false}}
	answer := make(puzzle.Configuration, 3)
	if _, err := s.Solve(answer, stay, 2); err != nil || !answer.Solved() {
		t.Errorf("answer %v, %v", answer, err)
	}
}

// permutations calls f with each order of n numbers.
func permutations(n int, f func(c []int)) {
	c := []int(puzzle.Identity(n))
	var permute func(k int)
	permute = func(k int) {
		if k == n {
			f(c)
			return
		}
		for i := k; i < n; i++ {
			c[k], c[i] = c[i], c[k]
			permute(k + 1)
			c[k], c[i] = c[i], c[k]
		}
	}
	permute(0)
}
