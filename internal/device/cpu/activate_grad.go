package cpu

import (
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device"
)

type activateBackward struct{ activate }

// ActivateGrad implements [device.Device].
func (c *CPU) ActivateGrad(s device.ActivateSpec) (device.Kernel, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	if len(s.Shape) == 2 {
		return &activateGradRows{s: s}, nil
	}
	return &activateBackward{*newActivate(c, s)}, nil
}

// Scratch holds the sums of each piece.
func (k *activateBackward) Scratch() int64 { return bytesOf(k.cut.pieces() * sumsLen) }

const sumsLen = 3 * block // float32 in actSums

// sumsAt is the i-th actSums of a piece of scratch memory.
func sumsAt(partial Slice, i int) *actSums {
	return (*actSums)(unsafe.Pointer(&partial[i*sumsLen : (i+1)*sumsLen][0]))
}

func (k *activateBackward) Run(out, in []device.Buffer, scratch device.Buffer) {
	ins, outs := operands{in}, operands{out}
	k.dy, k.x = ins.next(), ins.next()
	var gamma, beta, statistics, slope, dgamma, dbeta, dslope Slice
	if k.s.Norm != device.NoNorm {
		gamma, beta, statistics = ins.next(), ins.next(), ins.next()
	}
	if k.s.Residual != device.NoResidual {
		k.r = ins.next()
	}
	if k.s.Act == device.PReLU {
		slope = ins.next()
	}
	dx := outs.next()
	k.dz, k.y, k.partial = dx, dx, scratch.(Slice)
	if k.s.Norm != device.NoNorm {
		dgamma, dbeta = outs.next(), outs.next()
	}
	if k.s.Residual != device.NoResidual && !k.s.ResidualGradIsDX() {
		k.dr = outs.next()
		if k.s.Norm != device.NoNorm && k.residual() == int(device.FullResidual) {
			k.dz = k.dr
		}
	}
	if k.s.Act == device.PReLU {
		dslope = outs.next()
	}
	sum := outs.next()
	k.setParams(gamma, beta, statistics, slope)
	k.streamDz, k.stream = pastCaches(k.dz, k.dy, k.x, k.r), pastCaches(k.y, k.dz, k.x)
	if k.residual() == int(device.TiledResidual) {
		k.c.pool.run(k.l.n*k.cut.perPlane, (*activateTiledGradients)(&k.activate))
	} else {
		k.c.pool.run(k.cut.items(), (*activateGradients)(&k.activate))
	}
	k.gather(gamma, statistics, dgamma, dbeta, dslope, sum)
	if k.s.Norm != device.NoNorm {
		k.c.pool.run(k.cut.items(), (*activateMix)(&k.activate))
		k.sumUp(sum)
	}
}

// gradients computes dz of one piece and its sums.
func (k *activate) gradients(i int) {
	plane, lo, hi := k.cut.piece(i)
	s := sumsAt(k.partial, i)
	*s = actSums{}
	k.lanes.runGradient(k.elu, k.residual(), k.dz[lo:hi], k.dy[lo:hi], k.x[lo:hi], k.residualOf(k.r, plane, lo, hi),
		&k.params[plane], s, k.streamDz)
	k.l.fold(&s.dz)
	k.l.fold(&s.dzx)
	k.l.fold(&s.dslope)
}

type activateGradients activate

func (k *activateGradients) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		(*activate)(k).gradients(i)
	}
}

// activateTiledGradients takes the same voxels of all blocks of an image in one item: dr is the sum
// over the channels.
type activateTiledGradients activate

func (k *activateTiledGradients) do(_, item int) {
	n, j := item/k.cut.perPlane, item%k.cut.perPlane
	for b := range k.l.blocks {
		i := (n*k.l.blocks+b)*k.cut.perPlane + j
		(*activate)(k).gradients(i)
		plane, lo, hi := k.cut.piece(i)
		k.lanes.sumLanes((*activate)(k).residualOf(k.dr, plane, lo, hi), k.dz[lo:hi], b)
	}
}

// gather adds up the pieces' sums and makes the numbers of dx = scale (gamma dz - mean(gamma dz) -
// n mean(gamma dz n)), n = (x - mean) scale.
func (k *activateBackward) gather(gamma, statistics, dgamma, dbeta, dslope, sum Slice) {
	groups := len(k.group) / 2
	clear(k.group)
	for b := range k.l.blocks {
		for lane := range k.l.liveLanes(b) {
			ch := b*k.l.lanes + lane
			var allDz, allDzn, allSlope float64
			for n := range k.l.n {
				var dz, dzx float64
				for j := range k.cut.perPlane {
					s := sumsAt(k.partial, (n*k.l.blocks+b)*k.cut.perPlane+j)
					dz += float64(s.dz[lane])
					dzx += float64(s.dzx[lane])
					allSlope += float64(s.dslope[lane])
				}
				if k.s.Norm != device.NoNorm {
					g := k.statistic(n, ch)
					dzn := dzx * float64(statistics[groups+g])
					k.group[g] += dz * float64(gamma[ch])
					k.group[groups+g] += dzn * float64(gamma[ch])
					allDzn += dzn
				}
				allDz += dz
			}
			if k.s.Norm != device.NoNorm {
				dgamma[ch], dbeta[ch] = float32(allDzn), float32(allDz)
			} else {
				sum[ch] = float32(allDz) // dx is dz
			}
			if dslope != nil {
				dslope[ch] = float32(allSlope)
			}
		}
	}
	if k.s.Norm == device.NoNorm {
		return
	}
	count := float64(k.l.n*k.l.channels*k.l.voxels) / float64(groups)
	if k.s.Norm == device.BatchNorm && !k.s.Training {
		clear(k.group) // constants have no gradient
	}
	for i := range k.mixed {
		n, b := i/k.l.blocks, i%k.l.blocks
		m := &k.mixed[i]
		for lane := range k.l.liveLanes(b) {
			ch := b*k.l.lanes + lane
			g := k.statistic(n, ch)
			scale := float64(statistics[groups+g])
			m.a[lane] = float32(scale * float64(gamma[ch]))
			m.b[lane] = float32(-scale * scale * k.group[groups+g] / count)
			m.c[lane] = float32(-scale * k.group[g] / count)
			m.mean[lane] = statistics[g]
		}
		k.replicate(&m.a)
		k.replicate(&m.b)
		k.replicate(&m.c)
		k.replicate(&m.mean)
	}
}

// activateMix leaves the sums of dx where those of dz were.
type activateMix activate

func (k *activateMix) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		plane, lo, hi := k.cut.piece(i)
		sum := &sumsAt(k.partial, i).dz
		*sum = [block]float32{}
		k.lanes.runMix(k.y[lo:hi], k.dz[lo:hi], k.x[lo:hi], &k.mixed[plane], sum, k.stream)
		k.l.fold(sum)
	}
}

// sumUp adds up what mix left.
func (k *activateBackward) sumUp(sum Slice) {
	for b := range k.l.blocks {
		for lane := range k.l.liveLanes(b) {
			total := 0.0
			for n := range k.l.n {
				for j := range k.cut.perPlane {
					total += float64(sumsAt(k.partial, (n*k.l.blocks+b)*k.cut.perPlane+j).dz[lane])
				}
			}
			sum[b*k.l.lanes+lane] = float32(total)
		}
	}
}
