package exec

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// puzzle cuts a rectangle of time and memory into blocks: they fit into it without a gap.
func puzzle(r *rand.Rand, first, last, size, pieces int) []unit {
	if pieces <= 1 || last == first && size < 2 {
		return []unit{{{size: size, first: first, last: last}}}
	}
	part := 1 + r.IntN(pieces-1)
	if last > first && (size < 2 || r.IntN(2) == 0) {
		cut := first + r.IntN(last-first)
		return append(puzzle(r, first, cut, size, part), puzzle(r, cut+1, last, size, pieces-part)...)
	}
	cut := 1 + r.IntN(size-1)
	return append(puzzle(r, first, last, cut, part), puzzle(r, first, last, size-cut, pieces-part)...)
}

// Blocks that are alive together never overlap, and blocks that are known to fit without a gap are
// packed with hardly any.
func TestPlacePacksPuzzles(t *testing.T) {
	const memory, time, rounds = 10000, 100, 20
	for _, c := range []struct {
		pieces int
		// how many of the puzzles are solved, at least, and by how much the memory may be exceeded
		// on average
		at, all float64
	}{{10, 1, 0}, {30, 0.9, 0.001}, {100, 0.5, 0.01}} {
		solved, sum := 0, 0
		for seed := range uint64(rounds) {
			r := rand.New(rand.NewPCG(seed, 3))
			l := &layout{units: puzzle(r, 0, time-1, memory, c.pieces), scratch: make([]*block, time)}
			r.Shuffle(len(l.units), func(i, j int) { l.units[i], l.units[j] = l.units[j], l.units[i] })
			fits := l.fits(memory)
			arena := l.place(memory)
			top := 0
			for i, u := range l.units {
				top = max(top, u[0].offset+u[0].size)
				for _, v := range l.units[:i] {
					if a, b := u[0], v[0]; a.first <= b.last && b.first <= a.last && a.offset < b.offset+
						b.size && b.offset < a.offset+a.size || a.offset < 0 {
						t.Fatalf("%+v and %+v overlap", *a, *b)
					}
				}
			}
			if top != arena || arena < memory || fits != (arena == memory) {
				t.Errorf("%d pieces, seed %d: an arena of %d, blocks up to %d, the least is %d, fits: %v", c.pieces,
					seed, arena, top, memory, fits)
			}
			if sum += arena; arena == memory {
				solved++
			}
			if target := memory * 5 / 4; !l.fits(target) || l.place(target) > target {
				t.Errorf("%d pieces, seed %d: an arena of %d will not do", c.pieces, seed, target)
			}
		}
		above := float64(sum)/memory/rounds - 1
		t.Logf("%d pieces: %d of %d are solved, %.1f %% above the least on average", c.pieces, solved, rounds,
			100*above)
		if float64(solved) < c.at*rounds || above > c.all {
			t.Errorf("%d pieces: %d of %d are solved, %.1f %% above the least on average", c.pieces, solved, rounds,
				100*above)
		}
	}
}

// The smallest gap is the one that is found by trying one offset after the other.
func TestSmallestGap(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	some := func() *block {
		first := r.IntN(6)
		return &block{size: 1 + r.IntN(5), first: first, last: first + r.IntN(3), offset: r.IntN(25)}
	}
	for range 2000 {
		var placed []block
		for range r.IntN(12) {
			placed = append(placed, *some())
		}
		slices.SortFunc(placed, byOffset)
		u := unit{some()}
		for r.IntN(2) == 0 {
			u = append(u, some())
		}
		free := func(offset int) bool {
			for _, m := range u {
				for _, q := range placed {
					if q.last >= m.first && m.last >= q.first && q.offset < offset+m.size && offset < q.offset+q.size {
						return false
					}
				}
				offset += m.size
			}
			return true
		}
		want, least := -1, 1000
		for from := 0; want < 0 || from < 40; from++ {
			to := from
			for free(to) && to < 100 {
				to++
			}
			if size := to - from; size > 0 && size < least {
				want, least = from, size
			}
			from = to
		}
		if got, _ := smallestGap(placed, u, nil); got != want {
			t.Fatalf("%v between %v: offset %d, want %d", u, placed, got, want)
		}
	}
}
