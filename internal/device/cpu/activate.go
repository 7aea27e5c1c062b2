package cpu

import (
	"math"

	"github.com/voxsaw/voxsaw/internal/device"
)

// activate is Activate and ActivateGrad. Passes over memory, S the size of x; a result that is
// written for the first time counts once where it goes past the caches, else it is read before:
//
//	forward without norm:  read x [r], write y                       2S, 3S with a full residual
//	forward with norm:     read x for the statistics, then as above  3S, 4S; 2S, 3S after a convolution
//	                       that has left moments, see conv_norm.go
//	backward without norm: read dy, x [r], write dx (which is dr)    3S, 4S
//	backward with norm:    read dy, x [r], write dz (which is dr); read dz, x, write dx   6S, 7S
//
// To compute dz twice instead of keeping it (5S) takes longer: there is too much to compute.
type activate struct {
	c     *CPU
	lanes *laneKernels
	s     device.ActivateSpec
	l     layout
	cut   chunks
	elu   int

	params []actParams // a plane each
	mixed  []mixParams
	group  []float64 // sums a statistic
	// The operands of the run.
	x, y, r, dy, dz, dr, partial Slice
	stream, streamDz             bool // y, dz go past the caches
}

// newActivate prepares the numbers of each plane that do not depend on operands.
func newActivate(c *CPU, s device.ActivateSpec) *activate {
	k := &activate{c: c, lanes: lanesOf(c.kernels.name), s: s, l: forRank(s.Shape)}
	k.cut = planeChunks(k.l)
	k.params = make([]actParams, k.l.n*k.l.blocks)
	k.mixed = make([]mixParams, len(k.params))
	if s.Act == device.ELU {
		k.elu = 1
	}
	if n := s.StatisticsShape(); n != nil {
		k.group = make([]float64, 2*n[1])
	}
	for i := range k.params {
		for lane := range block {
			if k.l.lanes == 1 || lane < k.l.liveLanes(i%k.l.blocks) {
				k.params[i].scale[lane], k.params[i].residual[lane] = 1, 1
				if s.Act == device.Identity {
					k.params[i].slope[lane] = 1
				}
			}
		}
	}
	return k
}

// residual is which of a table's three kernels is needed. One channel tiled over one channel is a
// full residual.
func (k *activate) residual() int {
	if k.s.Residual == device.TiledResidual && k.l.lanes == 1 {
		return int(device.FullResidual)
	}
	return int(k.s.Residual)
}

// residualOf is the part of r that belongs to elements lo..hi of a plane.
func (k *activate) residualOf(r Slice, plane, lo, hi int) Slice {
	switch k.residual() {
	case int(device.FullResidual):
		return r[lo:hi]
	case int(device.TiledResidual):
		first := plane/k.l.blocks*k.l.voxels + (lo-plane*k.cut.plane)/block
		return r[first : first+(hi-lo)/block]
	}
	return nil
}

// statistic is the index of the mean of channel c of image n, its inverse deviation lies groups
// further on.
func (k *activate) statistic(n, c int) int {
	switch k.s.Norm {
	case device.InstanceNorm:
		return n*k.l.channels + c
	case device.GroupNorm:
		return n*k.s.Groups + c/(k.l.channels/k.s.Groups)
	}
	return c
}

// setParams fills the numbers of each plane from the operands, nil where the spec has none.
func (k *activate) setParams(gamma, beta, statistics, slope Slice) {
	groups := len(k.group) / 2
	for i := range k.params {
		n, b := i/k.l.blocks, i%k.l.blocks
		p := &k.params[i]
		if slope != nil {
			k.l.spread(&p.slope, b, slope)
		}
		if k.s.Norm == device.NoNorm {
			continue
		}
		for lane := range k.l.liveLanes(b) {
			ch := b*k.l.lanes + lane
			g := k.statistic(n, ch)
			p.mean[lane] = statistics[g]
			p.scale[lane] = gamma[ch] * statistics[groups+g]
			p.shift[lane] = beta[ch]
		}
		k.replicate(&p.mean)
		k.replicate(&p.scale)
		k.replicate(&p.shift)
	}
}

// replicate copies lane 0 to all where there is one lane.
func (k *activate) replicate(v *[block]float32) {
	if k.l.lanes == 1 {
		for i := range v {
			v[i] = v[0]
		}
	}
}

type activateForward struct{ activate }

// Activate implements [device.Device].
func (c *CPU) Activate(s device.ActivateSpec) (device.Kernel, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	if len(s.Shape) == 2 {
		return &activateRows{s: s}, nil
	}
	return &activateForward{*newActivate(c, s)}, nil
}

// Scratch holds an approximate mean, the sum of the differences from it and the sum of their
// squares, for each lane of each piece.
func (k *activateForward) Scratch() int64 {
	if k.s.Norm == device.NoNorm {
		return 0
	}
	return bytesOf(k.cut.pieces() * 3 * block)
}

func (k *activateForward) Run(out, in []device.Buffer, scratch device.Buffer) {
	ins := operands{in}
	k.y, k.x = out[0].(Slice), ins.next()
	var gamma, beta, statistics Slice
	if k.s.Norm != device.NoNorm {
		gamma, beta, statistics = ins.next(), ins.next(), out[1].(Slice)
		var runningMean, runningVariance Slice
		if k.s.Norm == device.BatchNorm {
			runningMean, runningVariance = ins.next(), ins.next()
		}
		if k.s.Norm == device.BatchNorm && !k.s.Training {
			k.useRunning(statistics, runningMean, runningVariance)
		} else {
			k.partial = scratch.(Slice)
			k.c.pool.run(k.cut.items(), (*activateMoments)(&k.activate))
			k.gather(&k.activate, statistics, runningMean, runningVariance)
		}
	}
	k.apply(ins, gamma, beta, statistics)
}

// apply normalises and activates; what is left of the operands are a residual and a slope.
func (k *activate) apply(ins operands, gamma, beta, statistics Slice) {
	var slope Slice
	if k.s.Residual != device.NoResidual {
		k.r = ins.next()
	}
	if k.s.Act == device.PReLU {
		slope = ins.next()
	}
	k.setParams(gamma, beta, statistics, slope)
	k.stream = pastCaches(k.y, k.x, k.r)
	k.c.pool.run(k.cut.items(), (*activateApply)(k))
}

// operands hands out a list one by one.
type operands struct{ rest []device.Buffer }

func (o *operands) next() Slice {
	s := o.rest[0].(Slice)
	o.rest = o.rest[1:]
	return s
}

// activateMoments sums up each piece on its own, in one pass: the differences from an approximate
// mean m, and their squares. m is the mean of voxels in the piece's middle, where an image has no
// border. Of a piece's n voxels h have mean m, so its variance is at least
// h/n (1 - h/n) (mean - m)^2: the squares about m are at most some n/h = 16 times the squares about
// the mean, and that is all the precision that can cancel, however far the values are from zero.
//
// Both are sums of short sums. One long sum of values that are alike, as of air, rounds to the same
// side again and again: its error grew with the number of voxels, and a norm, which divides by a
// small deviation, made it 1e-4 of its result and more.
type activateMoments activate

const (
	momentsHead = 64 * block
	momentsRun  = 32 * block // of a short sum
)

// sumMoments is runMoments in short sums.
func (k *laneKernels) sumMoments(x []float32, mean, d, s *[block]float32) {
	var differences, squares [block]float32
	for len(x) > 0 {
		n := min(momentsRun, len(x))
		k.runMoments(x[:n], mean, d, s)
		for lane := range d {
			differences[lane] += d[lane]
			squares[lane] += s[lane]
		}
		x = x[n:]
	}
	*d, *s = differences, squares
}

func (k *activateMoments) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		_, lo, hi := k.cut.piece(i)
		head := min(momentsHead, hi-lo)
		mean, differences, squares := k.moments(i)
		middle := lo + (hi-lo-head)/2/block*block
		k.lanes.runSum(k.x[middle:middle+head], mean)
		k.l.fold(mean)
		for lane := range mean {
			mean[lane] /= float32(head / k.l.lanes)
		}
		(*activate)(k).replicate(mean)
		k.lanes.sumMoments(k.x[lo:hi], mean, differences, squares)
		k.l.fold(differences)
		k.l.fold(squares)
	}
}

// moments is what activateMoments leaves of piece i.
func (k *activateMoments) moments(i int) (mean, differences, squares *[block]float32) {
	at := 3 * block * i
	return vector(&k.partial[0], at), vector(&k.partial[0], at+block), vector(&k.partial[0], at+2*block)
}

// A leaver has left moments in pieces.
type leaver interface {
	momentPieces() int
	// momentPiece is the image, the block of channels and the number of voxels of a piece, 0 where
	// nothing was left
	momentPiece(i int) (image, channels, voxels int)
}

func (k *activate) momentPieces() int { return k.cut.pieces() }

func (k *activate) momentPiece(i int) (image, channels, voxels int) {
	_, lo, hi := k.cut.piece(i)
	return i / k.cut.perPlane / k.l.blocks, i / k.cut.perPlane % k.l.blocks, (hi - lo) / k.l.lanes
}

// gather puts the pieces' moments together. With m a piece's approximate mean, d and s the sums of
// its n differences from m and of their squares:
//
//	mean = sum (n m + d) / N        variance = sum (s - 2 d (mean - m) + n (mean - m)^2) / N
func (k *activateForward) gather(left leaver, statistics, runningMean, runningVariance Slice) {
	groups := len(k.group) / 2
	count := float64(k.l.n*k.l.channels*k.l.voxels) / float64(groups)
	means, squares := k.group[:groups], k.group[groups:]
	clear(k.group)
	for second := range 2 {
		for i := range left.momentPieces() {
			n, b, voxels := left.momentPiece(i)
			if voxels == 0 {
				continue
			}
			part := float64(voxels)
			m, d, s := (*activateMoments)(&k.activate).moments(i)
			for lane := range k.l.liveLanes(b) {
				g := k.statistic(n, b*k.l.lanes+lane)
				if second == 0 {
					means[g] += part*float64(m[lane]) + float64(d[lane])
					continue
				}
				off := means[g] - float64(m[lane])
				squares[g] += float64(s[lane]) + off*(part*off-2*float64(d[lane]))
			}
		}
		if second == 0 {
			for g := range means {
				means[g] /= count
			}
		}
	}
	for g := range groups {
		statistics[g] = float32(means[g])
		statistics[groups+g] = float32(1 / math.Sqrt(squares[g]/count+float64(k.s.Epsilon)))
		if k.s.Norm == device.BatchNorm {
			m := k.s.Momentum
			runningMean[g] += m * (float32(means[g]) - runningMean[g])
			runningVariance[g] += m * (float32(squares[g]/(count-1)) - runningVariance[g])
		}
	}
}

func (k *activateForward) useRunning(statistics, mean, variance Slice) {
	for g := range k.l.channels {
		statistics[g] = mean[g]
		statistics[k.l.channels+g] = float32(1 / math.Sqrt(float64(variance[g])+float64(k.s.Epsilon)))
	}
}

type activateApply activate

func (k *activateApply) do(_, item int) {
	a := (*activate)(k)
	for i, end := k.cut.item(item); i < end; i++ {
		plane, lo, hi := k.cut.piece(i)
		k.lanes.runActivate(k.elu, a.residual(), k.y[lo:hi], k.x[lo:hi], a.residualOf(k.r, plane, lo, hi),
			&k.params[plane], k.stream)
	}
}
