package puzzle

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func generator(n uint64) *rand.Rand { return rand.New(rand.NewPCG(n, 1)) }

func TestGridNumbersPositionsInRowMajorOrder(t *testing.T) {
	for _, g := range []Grid{{5}, {3, 3}, {2, 3, 4}, {2, 1, 3, 2}} {
		want := 0
		coordinates := make([]int, len(g))
		var walk func(axis int)
		walk = func(axis int) {
			if axis == len(g) {
				if p := position(g, coordinates...); p != want {
					t.Errorf("grid %v: position of %v is %d, want %d", g, coordinates, p, want)
				}
				back := make([]int, len(g))
				if g.Coordinates(back, want); !slices.Equal(back, coordinates) {
					t.Errorf("grid %v: coordinates of %d are %v, want %v", g, want, back, coordinates)
				}
				want++
				return
			}
			for c := range g[axis] {
				coordinates[axis] = c
				walk(axis + 1)
			}
		}
		if walk(0); want != g.Cells() {
			t.Errorf("grid %v has %d cells, want %d", g, g.Cells(), want)
		}
	}
}

func TestGridsThatCannotBe(t *testing.T) {
	for _, g := range []Grid{{}, {3, 0}, {3, -1, 2}, {1, 1}, {100, 100, 100}, {1 << 62, 4}} {
		if g.Check() == nil {
			t.Errorf("%v is a puzzle", []int(g))
		}
	}
	if g := (Grid{3, 2, 4}); g.Check() != nil || g.String() != "3x2x4" {
		t.Errorf("%v: %v", g, g.Check())
	}
}

// The relation must be the class of the step as the paper lists it, checked here from coordinates.
func TestRelations(t *testing.T) {
	for _, g := range []Grid{{4}, {3, 3}, {3, 2, 4}, {2, 2, 2, 2}} {
		n, classes := g.Cells(), g.Relations()
		none, table := (classes-1)/2, g.RelationTable()
		p, q := make([]int, len(g)), make([]int, len(g))
		for i := range n {
			for j := range n {
				g.Coordinates(p, i)
				g.Coordinates(q, j)
				want, neighbours := 0, true
				for axis := range g {
					step := q[axis] - p[axis]
					neighbours = neighbours && step*step <= 1
					want = want*3 + step + 1
				}
				if !neighbours {
					want = none
				}
				if got := table[i*n+j]; got != want {
					t.Fatalf("grid %v: relation of %v and %v is %d, want %d", g, p, q, got, want)
				}
				if table[j*n+i] != classes-1-table[i*n+j] {
					t.Fatalf("grid %v: the way back from %v to %v is not the opposite class", g, q, p)
				}
				if i != j && neighbours == (want == none) {
					t.Fatalf("grid %v: neighbours %v and %v have the class of strangers", g, p, q)
				}
			}
		}
	}
	if n := (Grid{3, 3}).Relations(); n != 9 {
		t.Errorf("%d relations in 2D, the paper has 9", n)
	}
	if n := (Grid{3, 3, 3}).Relations(); n != 27 {
		t.Errorf("%d relations in 3D, want 27", n)
	}
}

func TestRearrangedByTheTruthIsSolved(t *testing.T) {
	r := generator(1)
	for range 50 {
		n := 2 + r.IntN(30)
		truth, answer := Random(r, n), Random(r, n)
		if err := truth.Check(); err != nil {
			t.Fatal(err)
		}
		if !truth.Rearranged(truth).Solved() {
			t.Fatal("the right answer does not solve the puzzle")
		}
		// As many patches are in place after the move as the answer had right.
		if d, e := truth.Rearranged(answer).Distance(Identity(n)), answer.Distance(truth); d != e {
			t.Fatalf("%d patches out of place after an answer with %d errors", d, e)
		}
		if i := inverse(truth); !i.Rearranged(i).Solved() || inverse(i).Distance(truth) != 0 {
			t.Fatal("Inverse is not the inverse")
		}
	}
	for _, c := range []Configuration{{0, 0}, {1, 2}, {-1, 0}} {
		if c.Check() == nil {
			t.Errorf("%v passes as a permutation", []int(c))
		}
	}
}

// All 4! configurations are drawn equally often: 24000 draws, each count within five standard
// deviations of 1000.
func TestRandomIsUniform(t *testing.T) {
	r, counts := generator(2), map[[4]int]int{}
	for range 24000 {
		counts[[4]int(Random(r, 4))]++
	}
	if len(counts) != 24 {
		t.Fatalf("%d of 24 configurations drawn", len(counts))
	}
	for c, k := range counts {
		if math.Abs(float64(k)-1000) > 5*math.Sqrt(1000) {
			t.Errorf("%v drawn %d times of 24000", c, k)
		}
	}
}

func TestSharesAreNestedAndAsLargeAsTheySay(t *testing.T) {
	r := generator(3)
	const draws = 100000
	for _, n := range []int{8, 27} {
		in := map[float64]int{}
		for range draws {
			c := Random(r, n)
			if c.InShare(0.01) && !c.InShare(0.1) {
				t.Fatal("the small share is not part of the large one")
			}
			for _, share := range []float64{0.01, 0.1, 1} {
				if c.InShare(share) {
					in[share]++
				}
			}
		}
		for share, k := range in {
			if sigma := math.Sqrt(draws * share * (1 - share)); math.Abs(float64(k)-draws*share) > 5*sigma {
				t.Errorf("n = %d: %d of %d configurations in the share %v", n, k, draws, share)
			}
		}
		if c := RandomInShare(r, n, 0.01); !c.InShare(0.01) {
			t.Error("RandomInShare left its share")
		}
	}
	for _, share := range []float64{0, -1, 1.1, math.NaN(), 1e-9} {
		if CheckShare(8, share) == nil {
			t.Errorf("share %v of 8! was accepted", share)
		}
	}
	if err := CheckShare(27, 1e-9); err != nil {
		t.Error(err)
	}
}

func TestPatchesStayInsideTheirCells(t *testing.T) {
	r := generator(4)
	for _, l := range []Layout{
		{Grid{3, 3, 3}, []int{120, 120, 120}, []int{32, 32, 32}},
		{Grid{2, 2, 2}, []int{120, 120, 120}, []int{48, 48, 48}},
		{Grid{3, 2}, []int{128, 65}, []int{42, 16}},
		{Grid{2, 1, 2}, []int{5, 3, 4}, []int{1, 3, 2}},
	} {
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		at, coordinates := make([]int, len(l.Grid)), make([]int, len(l.Grid))
		lowest, highest := math.MaxInt, 0
		for p := range l.Grid.Cells() {
			l.Grid.Coordinates(coordinates, p)
			for draw := range 400 {
				g := r
				if draw == 0 {
					g = nil
				}
				l.Corner(at, p, g)
				for axis, c := range coordinates {
					cell := l.Crop[axis] / l.Grid[axis]
					first := (l.Crop[axis]-cell*l.Grid[axis])/2 + c*cell
					if at[axis] < first || at[axis]+l.Patch[axis] > first+cell {
						t.Fatalf("patch of %v at %v leaves its cell", l, at)
					}
					if axis == 0 {
						lowest, highest = min(lowest, at[0]-first), max(highest, at[0]-first)
						if g == nil && at[axis]-first != (cell-l.Patch[axis])/2 {
							t.Fatalf("without a generator the patch lies at %v", at)
						}
					}
				}
			}
		}
		if lowest != 0 || highest != l.Cell(0)-l.Patch[0] {
			t.Errorf("patches of %v jitter from %d to %d", l, lowest, highest)
		}
	}
	for _, l := range []Layout{
		{Grid{3, 3, 3}, []int{120, 120, 120}, []int{48, 32, 32}},
		{Grid{3, 3}, []int{120, 120, 120}, []int{32, 32, 32}},
		{Grid{3, 3}, []int{9, 9}, []int{0, 1}},
		{Grid{3, 3}, []int{2, 9}, []int{1, 1}},
	} {
		if l.Check() == nil {
			t.Errorf("%v was accepted", l)
		}
	}
}

// Chance is compared with all 5! answers, and the score with counting by hand.
func TestScoreAndChance(t *testing.T) {
	truth := Configuration{3, 1, 4, 0, 2}
	var all Score
	var permute func(c Configuration, k int)
	permute = func(c Configuration, k int) {
		if k == len(c) {
			all.Add(c, truth)
			return
		}
		for i := k; i < len(c); i++ {
			c[k], c[i] = c[i], c[k]
			permute(c, k+1)
			c[k], c[i] = c[i], c[k]
		}
	}
	permute(Identity(5), 0)
	if want := (Score{Puzzles: 120, Correct: 1, Near: 11, Patches: 600, Placed: 120}); all != want {
		t.Errorf("score over all answers %+v, want %+v", all, want)
	}
	c, n, p := all.Shares()
	cc, cn, cp := Grid{5, 1}.Chance()
	for i, d := range []float64{c - cc, n - cn, p - cp} {
		if math.Abs(d) > 1e-12 {
			t.Errorf("chance of metric %d is off by %v", i, d)
		}
	}
	// Two groups of identical patches: over all orders within them, {0, 2, 4} and {1, 3}.
	var within Score
	for _, x := range [][3]int{{0, 2, 4}, {0, 4, 2}, {2, 0, 4}, {2, 4, 0}, {4, 0, 2}, {4, 2, 0}} {
		for _, y := range [][2]int{{1, 3}, {3, 1}} {
			within.Add(Configuration{x[0], y[0], x[1], y[1], x[2], 5}, Identity(6))
		}
	}
	c, n, p = within.Shares()
	cc, cn, cp = Grid{2, 3}.Ceiling(3, 1, 2)
	for i, d := range []float64{c - cc, n - cn, p - cp} {
		if math.Abs(d) > 1e-12 {
			t.Errorf("ceiling of metric %d is off by %v", i, d)
		}
	}
	if a, b, c := (Score{}).Shares(); a != 0 || b != 0 || c != 0 {
		t.Error("an empty score is not zero")
	}
}

// The expected scores with missing patches are compared with all ways to place those that are
// there.
func TestExpectedWithMissingPatches(t *testing.T) {
	// The positions of groups follow one another; the first patches of each are there.
	for _, groups := range [][]Group{{{5, 3}}, {{5, 5}}, {{4, 2}, {2, 1}}, {{3, 2}, {3, 1}, {1, 1}},
		{{2, 2}, {3, 2}, {2, 0}}, {{6, 1}}} {
		var missing []bool
		var of []int // the group of a position
		present := 0
		for g, group := range groups {
			for k := range group.Positions {
				missing, of = append(missing, k >= group.Present), append(of, g)
			}
			present += group.Present
		}
		n := len(missing)
		truth, answer, used := Identity(n), make(Configuration, n), make([]bool, n)
		var score Score
		var place func(a int)
		place = func(a int) {
			if a == n {
				score.AddPresent(answer, truth, missing)
				return
			}
			if missing[a] {
				place(a + 1)
				return
			}
			for p := range n {
				if of[p] == of[a] && !used[p] {
					used[p], answer[a] = true, p
					place(a + 1)
					used[p] = false
				}
			}
		}
		place(0)
		correct, near, patches := score.Shares()
		wantCorrect, wantNear, wantPatches := Expected(present, groups...)
		for i, d := range []float64{correct - wantCorrect, near - wantNear, patches - wantPatches} {
			if math.Abs(d) > 1e-12 {
				t.Errorf("%v: expected score of metric %d is off by %v", groups, i, d)
			}
		}
	}
}

// inverse is the configuration i with i[c[s]] = s: which slot holds the patch that belongs at a
// position.
func inverse(c Configuration) Configuration {
	inverse := make(Configuration, len(c))
	for s, p := range c {
		inverse[p] = s
	}
	return inverse
}

// position is the inverse of Coordinates.
func position(g Grid, coordinates ...int) int {
	p := 0
	for axis, c := range coordinates {
		p = p*g[axis] + c
	}
	return p
}
