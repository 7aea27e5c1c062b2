package cpu

import "time"

// Ceilings are what a machine can do at most, on all workers together: what the rate of a kernel is
// to be compared with.
type Ceilings struct {
	FMA            float64 // floating-point operations a second of multiply-adds on registers alone
	L2, L3, Memory float64 // bytes a second read from there
}

// What each worker reads, in elements: several times the first-level cache and less than the
// second; a share of the third; more than all caches.
const (
	ceilingL2     = 96 << 10
	ceilingL3     = 1 << 20
	ceilingMemory = 32 << 20
)

// peakTurns is how often a call of the kernel multiplies all its sums.
const peakTurns = 1000

// Ceilings measures them with this package's own kernels, in about a second.
func (c *CPU) Ceilings() Ceilings {
	r := &ceilingRun{c: c, lanes: lanesOf(c.kernels.name), x: make([][]float32, c.Threads())}
	for w := range r.x {
		r.x[w] = alignedSlice(ceilingMemory)
		for i := range r.x[w] {
			r.x[w][i] = 1 // a page that was never written may not be memory yet
		}
	}
	var out Ceilings
	for _, m := range []struct {
		to   *float64
		n    int // 0: multiply
		work float64
	}{{&out.FMA, 0, float64(2 * block * peakTurns * c.kernels.peakSums)}, {&out.L2, ceilingL2, 4 * ceilingL2},
		{&out.L3, ceilingL3, 4 * ceilingL3}, {&out.Memory, ceilingMemory, 4 * ceilingMemory}} {
		r.n, r.times = m.n, 1
		for range 12 {
			start := time.Now()
			c.pool.run(c.Threads(), r)
			seconds := time.Since(start).Seconds()
			*m.to = max(*m.to, m.work*float64(r.times*c.Threads())/seconds)
			if seconds < 0.01 { // too short to be told from handing out the work
				r.times *= 2
			}
		}
	}
	return out
}

type ceilingRun struct {
	c     *CPU
	lanes *laneKernels
	x     [][]float32 // of each worker
	n     int
	times int
}

// do takes the worker's place by the item: each item is another's memory, and there is one a
// worker.
func (r *ceilingRun) do(_, item int) {
	ks, x := r.c.kernels, r.x[item]
	var sums [maxDotRows]float32
	for range r.times {
		// products of so many rows with another: as many independent sums, so that reading is what
		// takes the time
		if r.n > 0 {
			rows := r.lanes.dotRows
			length := whole(r.n / (rows + 1))
			r.lanes.dots[rows][0](&x[length], &x[0], &sums[0], length, length, 0, 1, 0)
			continue
		}
		ks.peak(peakTurns)
	}
}
