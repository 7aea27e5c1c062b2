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

// place gives every unit an offset, so that blocks that are alive together do not overlap, and
// returns the size of the arena. No arena can be smaller than the most that is alive at one time.
// The search ends when the arena is that small, or as small as the target. Where the target is 0,
// half a percent more than the least is good enough.
func (l *layout) place(target int) int {
	all, ok := l.pack(target)
	if !ok {
		p := all
		if p.search(l.units, false); p.arena < all.arena {
			all = p
		}
	}
	all.restore()
	return all.arena
}

// fits says whether place finds an arena that is no larger than target.
func (l *layout) fits(target int) bool {
	p, ok := l.pack(target)
	return p.least <= target && (ok || p.search(l.units, true))
}

// pack places all units in the best of the orders above, and says whether the result is small
// enough.
func (l *layout) pack(target int) (p packing, ok bool) {
	p = packing{least: heightOf(l.alive()).peak, random: rand.New(rand.NewPCG(1, 2))}
	if p.target = max(p.least, target); target == 0 {
		p.target += p.least / 200
	}
	p.add(l.units)
	return p, p.arena <= p.target
}

// packing is units with their offsets. Each is put into the smallest gap that those before it
// leave.
type packing struct {
	units         []unit
	offsets       []int
	arena         int
	least, target int
	random        *rand.Rand
}

// restore puts the blocks of all units where they lie.
func (p *packing) restore() {
	for i, u := range p.units {
		u.place(p.offsets[i])
	}
}

// take makes a packing of units in their order. Units before from keep their places. As soon as the
// arena is larger than most it asks whether to go on, and reports false where it did not.
func (p *packing) take(units []unit, from, most int, goOn func() bool) bool {
	if !placeInOrder(units, from, most, goOn) {
		return false
	}
	p.units, p.offsets, p.arena = units, make([]int, 0, len(units)), 0
	for _, u := range units {
		p.offsets, p.arena = append(p.offsets, u[0].offset), max(p.arena, u[0].offset+u.size())
	}
	return true
}

// add puts more units into the packing, in the best of the orders above.
func (p *packing) add(units []unit) {
	best := packing{arena: -1}
	for _, order := range orders {
		sorted := slices.Clone(units)
		slices.SortStableFunc(sorted, order)
		next := *p
		p.restore()
		next.take(slices.Concat(p.units, sorted), len(p.units), math.MaxInt, nil)
		if best.arena < 0 || next.arena < best.arena {
			best = next
		}
		if best.arena <= p.target {
			break
		}
	}
	*p = best
}

// attempts is how often the order of a packing is changed in the search for a better one.
const attempts = 1000

// search places the large units first and looks for an order in which the arena stays within the
// target. Then it adds smaller and smaller ones, which find room between the large ones. Where some
// units exceed the target it gives up, if it may; otherwise the height that they reach becomes the
// target for the rest.
func (p *packing) search(units []unit, giveUp bool) bool {
	p.units, p.offsets, p.arena = nil, nil, 0
	for from, above := p.least/16, math.MaxInt; len(p.units) < len(units); from, above = from/16, from {
		p.add(slices.DeleteFunc(slices.Clone(units), func(u unit) bool { return u.size() < from || u.size() >= above }))
		p.improve()
		if giveUp && p.arena > p.target {
			return false
		}
		p.target = max(p.target, p.arena)
	}
	return true
}

// improve changes the order of the units until the arena is within the target. It moves the unit
// that lies highest to an earlier place in the order, or one of two units that are alive with it
// before the other. Now and then it keeps a change for the worse, so that the search does not get
// stuck.
func (p *packing) improve() {
	best := *p
	p.restore()
	for range attempts {
		if best.arena <= p.target {
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
		changed := slices.Insert(slices.Delete(slices.Clone(p.units), from, from+1), to, u)
		if !next.take(changed, to, p.arena, func() bool { return p.random.IntN(50) == 0 }) {
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
// placed that are alive with it. As soon as one reaches higher than most it asks whether to go on,
// and reports false where it did not.
func placeInOrder(sorted []unit, from, most int, goOn func() bool) bool {
	placed := make([]block, 0, len(sorted)+len(sorted)/4) // by offset, of equal ones the last first
	for _, u := range sorted[:from] {
		for _, m := range u {
			placed = append(placed, *m)
		}
	}
	slices.Reverse(placed)
	slices.SortStableFunc(placed, byOffset)
	var taken []stretch // used again and again
	for _, u := range sorted[from:] {
		offset := 0
		offset, taken = smallestGap(placed, u, taken)
		u.place(offset)
		if offset+u.size() > most {
			if !goOn() {
				return false
			}
			most = math.MaxInt
		}
		for _, m := range u {
			at, _ := slices.BinarySearchFunc(placed, *m, byOffset)
			placed = slices.Insert(placed, at, *m)
		}
	}
	return true
}

func byOffset(a, b block) int { return cmp.Compare(a.offset, b.offset) }

// smallestGap is the offset of the smallest gap into which a unit fits, and of the lowest of equal
// ones. Above all that is placed there is always room. The stretches are what was used before.
func smallestGap(placed []block, u unit, taken []stretch) (int, []stretch) {
	g := gap{offset: -1}
	if len(u) == 1 {
		size, first, last := u[0].size, u[0].first, u[0].last
		for i := range placed {
			if q := &placed[i]; q.last >= first && last >= q.first && g.see(q.offset-size, q.offset+q.size) {
				break
			}
		}
		return g.best(), taken
	}
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
	slices.SortFunc(taken, func(a, b stretch) int { return cmp.Compare(a.from, b.from) })
	for _, s := range taken {
		if g.see(s.from, s.to) {
			break
		}
	}
	return g.best(), taken
}

// A stretch is offsets that a unit cannot have: more than from and less than to.
type stretch struct{ from, to int }

// A gap is the smallest one so far, and where what has been seen ends.
type gap struct{ offset, size, end int }

// see takes one more stretch of offsets that are taken, the lowest first, and reports whether the
// gap cannot become smaller.
func (g *gap) see(from, to int) bool {
	if size := from - g.end; size >= 0 && (g.offset < 0 || size < g.size) {
		g.offset, g.size = g.end, size
	}
	g.end = max(g.end, to)
	return g.offset >= 0 && g.size == 0
}

func (g *gap) best() int {
	if g.offset < 0 {
		return g.end
	}
	return g.offset
}
