package exec

import (
	"cmp"
	"slices"
)

// orders are the ways in which blocks are placed one after the other; which one packs best depends on the program.
var orders = []func(a, b *block) int{
	func(a, b *block) int { return cmp.Compare(b.size, a.size) },
	func(a, b *block) int {
		return cmp.Compare(b.size*(b.last-b.first+1), a.size*(a.last-a.first+1))
	},
	func(a, b *block) int { return cmp.Compare(b.last-b.first, a.last-a.first) },
	func(a, b *block) int { return cmp.Compare(a.first, b.first) },
	func(a, b *block) int { return cmp.Compare(b.last, a.last) },
}

// place gives every block an offset such that blocks that are alive together do not overlap, and returns the size of the arena: the least that any of the orders
// leads to. No order can do better than the most that is alive at one time, which ends the search.
func (l *layout) place() int {
	blocks, least := l.blocks, heightOf(l.alive()).peak
	arena, offsets := -1, make([]int, len(l.blocks))
	for _, order := range orders {
		if n := placeInOrder(blocks, order); arena < 0 || n < arena {
			arena = n
			for i, m := range blocks {
				offsets[i] = m.offset
			}
		}
		if arena <= least {
			break
		}
	}
	for i, m := range blocks {
		m.offset = offsets[i]
	}
	return max(arena, 0)
}

// placeInOrder puts each block into the smallest gap between the blocks already placed that are alive with it.
func placeInOrder(blocks []*block, order func(a, b *block) int) int {
	sorted := slices.Clone(blocks)
	slices.SortStableFunc(sorted, order)
	var placed []*block // by offset
	arena := 0
	for _, m := range sorted {
		best, bestGap, end := -1, 0, 0
		for _, q := range placed {
			if q.last < m.first || m.last < q.first {
				continue
			}
			if gap := q.offset - end; gap >= m.size && (best < 0 || gap < bestGap) {
				best, bestGap = end, gap
			}
			end = max(end, q.offset+q.size)
		}
		if best < 0 {
			best = end
		}
		m.offset = best
		arena = max(arena, best+m.size)
		i, _ := slices.BinarySearchFunc(placed, m, func(a, b *block) int { return cmp.Compare(a.offset, b.offset) })
		placed = slices.Insert(placed, i, m)
	}
	return arena
}
