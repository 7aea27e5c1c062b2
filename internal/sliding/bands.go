package sliding

import (
	"fmt"
	"slices"
)

// A band is lines of the prepared scan across a slab's planes: those that the voxels of the results
// between from and to take their values from. Where the sums over all lines are too much, windows
// are computed for a band at a time. No sum is another one then, but windows that reach into two
// bands are computed for each.
type band struct {
	from, to int // voxels of results that lie at from or between it and to belong to the band
	lines    int // that are held, from the first on
}

// mostBands is how many bands a scan is taken apart into at most: more save little.
const mostBands = 32

// bandsOf shares so many lines out among bands. Interpolation across them needs one line more.
func bandsOf(lines, count int, interpolated bool) (all []band) {
	count = min(count, lines)
	for n := range count {
		b := band{from: n * lines / count, to: (n + 1) * lines / count}
		b.lines = b.to - b.from
		if interpolated && b.to < lines {
			b.lines++
		}
		all = append(all, b)
	}
	return all
}

// hold makes a slab one of the lines of a band alone.
func (s *slab) hold(b band) {
	s.first, s.lines, s.base = b.from, b.lines, 0
	s.sums = s.all[:s.channels*s.depth*s.plane()]
	clear(s.sums)
	for _, e := range s.to {
		e.begin(s.across, b)
	}
}

// begin makes an emission one of the lines of a band alone, which lie across axis a.
func (e *emission) begin(a int, b band) {
	e.next, e.lines = 0, nil
	for n, t := range e.taps[a] {
		if t.Index[0] >= b.from && t.Index[0] < b.to {
			e.lines = append(e.lines, n)
		}
	}
}

// bands are those of a slab, so many.
func (w Wanted) bands(s *slab, count int) []band {
	return bandsOf(s.shape[s.across], count, w.interpolated()[s.across])
}

// reach lists those starts of windows of a size that reach into a band.
func (b band) reach(starts []int, size int) []int {
	return slices.DeleteFunc(slices.Clone(starts), func(at int) bool {
		return at >= b.from+b.lines || at+size <= b.from
	})
}

// count is into how many bands a scan of a shape is taken apart, so that it fits beside its source,
// of so many bytes: as few as possible. Sums that lie on a device are not taken apart.
func (s *Inferer) count(shape [3]int, source int64, w Wanted) int {
	for n := 1; n < mostBands && s.room >= 0; n++ {
		if s.bytes(shape, s.classes, w, n)+source <= s.room {
			return n
		}
	}
	if s.room < 0 {
		return 1
	}
	return mostBands
}

// windowsOf is how many windows each layer of a scan has, and how many there are in bands.
func (s *Inferer) windowsOf(sums *slab, starts [3][]int, bands []band) (n int) {
	for _, b := range bands {
		n += len(b.reach(starts[sums.across], s.Size[sums.across]))
	}
	return n * len(starts[0]) * len(starts[sums.along])
}

// apart says how a scan is taken apart.
func (s *Inferer) apart(sums *slab, starts [3][]int, bands, whole []band) string {
	return fmt.Sprintf("in %d bands, to keep to the memory: the same label map, from %.1f times as many windows",
		len(bands), float64(s.windowsOf(sums, starts, bands))/float64(s.windowsOf(sums, starts, whole)))
}

// interpolated says along which prepared axes results lie between prepared voxels.
func (w Wanted) interpolated() (yes [3]bool) {
	for a := range 3 {
		yes[a] = !w.Classes.Exact(a) || (w.Probabilities || w.Logits) && !w.Maps.Exact(a)
	}
	return yes
}
