package exec

import (
	"cmp"
	"slices"
)

func (u unit) size() (size int) {
	for _, m := range u {
		size += m.size
	}
	return size
}

func (u unit) first() int {
	return slices.MinFunc(u, func(a, b *block) int { return cmp.Compare(a.first, b.first) }).first
}

func (u unit) last() int {
	return slices.MaxFunc(u, func(a, b *block) int { return cmp.Compare(a.last, b.last) }).last
}

// place sets the offsets of all blocks.
func (u unit) place(offset int) {
	for _, m := range u {
		m.offset = offset
		offset += m.size
	}
}

// orders are the ways in which units are placed one after the other; which one packs best depends on the program.
var orders = []func(a, b unit) int{
	func(a, b unit) int { return cmp.Compare(b.size(), a.size()) },
	func(a, b unit) int {
		return cmp.Compare(b.size()*(b.last()-b.first()+1), a.size()*(a.last()-a.first()+1))
	},
	func(a, b unit) int { return cmp.Compare(b.last()-b.first(), a.last()-a.first()) },
	func(a, b unit) int { return cmp.Compare(a.first(), b.first()) },
	func(a, b unit) int { return cmp.Compare(b.last(), a.last()) },
}

// attempts is how often an order is changed in the search for a better one.
const attempts = 100

// place gives every unit an offset such that blocks that are alive together do not overlap, and returns the size of the arena. It tries the orders above, then changes
// the best of them: the unit that lies highest is placed earlier. No order can do better than the most that is alive at one time, which ends the search.
func (l *layout) place() int {
	least := heightOf(l.alive()).peak
	arena := -1
	var best []unit
	var offsets []int // of the best
	try := func(sorted []unit) {
		if n := placeInOrder(sorted); arena < 0 || n < arena {
			arena, best, offsets = n, slices.Clone(sorted), offsets[:0]
			for _, u := range sorted {
				offsets = append(offsets, u[0].offset)
			}
		}
	}
	for _, order := range orders {
		if arena != least {
			sorted := slices.Clone(l.units)
			slices.SortStableFunc(sorted, order)
			try(sorted)
		}
	}
	sorted := slices.Clone(best)
	for range attempts {
		if arena == least || len(sorted) == 0 {
			break
		}
		highest := 0
		for i, u := range sorted {
			if u[0].offset+u.size() > sorted[highest][0].offset+sorted[highest].size() {
				highest = i
			}
		}
		u := sorted[highest]
		sorted = slices.Insert(slices.Delete(sorted, highest, highest+1), highest/2, u)
		try(sorted)
	}
	for i, u := range best {
		u.place(offsets[i])
	}
	return max(arena, 0)
}

// placeInOrder puts each unit into the smallest gap between the blocks already placed that are alive with it.
func placeInOrder(sorted []unit) int {
	type stretch struct{ from, to int } // offsets that a unit cannot have: more than from and less than to
	var taken []stretch
	var placed []*block
	arena := 0
	for _, u := range sorted {
		taken = taken[:0]
		at := 0 // of the block in the unit
		for _, m := range u {
			for _, q := range placed {
				if q.last >= m.first && m.last >= q.first {
					taken = append(taken, stretch{q.offset - at - m.size, q.offset + q.size - at})
				}
			}
			at += m.size
		}
		slices.SortFunc(taken, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
		best, bestGap, end := -1, 0, 0
		for _, s := range taken {
			if gap := s.from - end; gap >= 0 && (best < 0 || gap < bestGap) {
				best, bestGap = end, gap
			}
			end = max(end, s.to)
		}
		if best < 0 {
			best = end
		}
		u.place(best)
		arena = max(arena, best+at)
		placed = append(placed, u...)
	}
	return arena
}
