package exec

import (
	"cmp"
	"math"
	"math/rand/v2"
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

// orders are the ways in which units are placed one after the other; which one packs best depends
// on the program.
var orders = []func(a, b unit) int{
	func(a, b unit) int { return cmp.Compare(b.size(), a.size()) },
	func(a, b unit) int {
		return cmp.Compare(b.size()*(b.last()-b.first()+1), a.size()*(a.last()-a.first()+1))
	},
	func(a, b unit) int { return cmp.Compare(b.last()-b.first(), a.last()-a.first()) },
	func(a, b unit) int { return cmp.Compare(a.first(), b.first()) },
	func(a, b unit) int { return cmp.Compare(b.last(), a.last()) },
}

// place gives every unit an offset such that blocks that are alive together do not overlap, and
// returns the size of the arena. No arena can be smaller than the most that is alive at one time:
// it is content with that, or with enough, whichever is more; where enough is 0, with half a
// percent more than that.
func (l *layout) place(enough int) int {
	all, ok := l.pack(enough)
	if !ok {
		p := all
		if p.search(l.units, false); p.arena < all.arena {
			all = p
		}
	}
	all.restore()
	return all.arena
}

// fits says whether place finds an arena that is no larger than enough.
func (l *layout) fits(enough int) bool {
	p, ok := l.pack(enough)
	return p.least <= enough && (ok || p.search(l.units, true))
}

// pack packs all units as they come in the best of the orders above, and says whether that will do.
func (l *layout) pack(enough int) (p packing, ok bool) {
	p = packing{least: heightOf(l.alive()).peak, random: rand.New(rand.NewPCG(1, 2))}
	if p.enough = max(p.least, enough); enough == 0 {
		p.enough += p.least / 200
	}
	p.add(l.units)
	return p, p.arena <= p.enough
}

// packing is units with their offsets. Each is put into the smallest gap that those before it
// leave.
type packing struct {
	units         []unit
	offsets       []int
	arena         int
	least, enough int
	random        *rand.Rand
}

// restore puts the blocks of all units where they lie.
func (p *packing) restore() {
	for i, u := range p.units {
		u.place(p.offsets[i])
	}
}

// take makes a packing of units in their order, of which those before from lie where they lay.
func (p *packing) take(units []unit, from int) {
	p.units, p.offsets, p.arena = units, make([]int, 0, len(units)), 0
	placeInOrder(units, from)
	for _, u := range units {
		p.offsets, p.arena = append(p.offsets, u[0].offset), max(p.arena, u[0].offset+u.size())
	}
}

// add puts more units into the packing, in that of the orders above which does best.
func (p *packing) add(units []unit) {
	best := packing{arena: -1}
	for _, order := range orders {
		sorted := slices.Clone(units)
		slices.SortStableFunc(sorted, order)
		next := *p
		p.restore()
		if next.take(slices.Concat(p.units, sorted), len(p.units)); best.arena < 0 || next.arena < best.arena {
			best = next
		}
		if best.arena <= p.enough {
			break
		}
	}
	*p = best
}

// attempts is how often the order of a packing is changed in the search for a better one.
const attempts = 1000

// search packs the units that are large, finds an order of them in which they lie no higher than is
// enough, then goes on with smaller ones, down to all: these find room where the large ones leave
// any. Where some lie too high it gives up, if it may, and else lets all others lie as high.
func (p *packing) search(units []unit, giveUp bool) bool {
	p.units, p.offsets, p.arena = nil, nil, 0
	for from, above := p.least/16, math.MaxInt; len(p.units) < len(units); from, above = from/16, from {
		p.add(slices.DeleteFunc(slices.Clone(units), func(u unit) bool { return u.size() < from || u.size() >= above }))
		p.improve()
		if giveUp && p.arena > p.enough {
			return false
		}
		p.enough = max(p.enough, p.arena)
	}
	return true
}

// improve changes the order of the units until they lie no higher than is enough: the one that lies
// highest is placed earlier, or one of two that are alive with it before the other. A change for
// the worse is kept now and then, lest the search stick.
func (p *packing) improve() {
	best := *p
	p.restore()
	for range attempts {
		if best.arena <= p.enough {
			break
		}
		highest := 0
		for i, u := range p.units {
			if p.offsets[i]+u.size() > p.offsets[highest]+p.units[highest].size() {
				highest = i
			}
		}
		from, to := highest, p.random.IntN(highest+1)
		if to == from || p.random.IntN(3) == 0 {
			var with []int
			first, last := p.units[highest].first(), p.units[highest].last()
			for i, u := range p.units {
				if u.first() <= last && u.last() >= first {
					with = append(with, i)
				}
			}
			i, j := with[p.random.IntN(len(with))], with[p.random.IntN(len(with))]
			from, to = max(i, j), min(i, j)
		}
		u, next := p.units[from], *p
		next.take(slices.Insert(slices.Delete(slices.Clone(p.units), from, from+1), to, u), to)
		if next.arena > p.arena && p.random.IntN(50) > 0 {
			p.restore()
			continue
		}
		if *p = next; p.arena < best.arena {
			best = next
		}
	}
	*p = best
}

// placeInOrder puts each unit from a given one on into the smallest gap between the blocks already
// placed that are alive with it.
func placeInOrder(sorted []unit, from int) {
	// offsets that a unit cannot have: more than from and less than to
	type stretch struct{ from, to int }
	var taken []stretch
	placed := make([]block, 0, len(sorted)+len(sorted)/4) // by offset
	put := func(u unit) {
		for _, m := range u {
			at, _ := slices.BinarySearchFunc(placed, m.offset, func(q block, offset int) int { return cmp.Compare(q.offset, offset) })
			placed = slices.Insert(placed, at, *m)
		}
	}
	for _, u := range sorted[:from] {
		put(u)
	}
	for _, u := range sorted[from:] {
		taken = taken[:0]
		at := 0 // of the block in the unit
		for _, m := range u {
			for i := range placed {
				if q := &placed[i]; q.last >= m.first && m.last >= q.first {
					taken = append(taken, stretch{q.offset - at - m.size, q.offset + q.size - at})
				}
			}
			at += m.size
		}
		if len(u) > 1 { // else they are in order already
			slices.SortFunc(taken, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
		}
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
		put(u)
	}
}
