package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// join is Concat and Split. Where all parts but the last are whole blocks, a block of the whole is
// a block of a part, copied as it lies; else lanes move.
type join struct {
	c     *CPU
	whole layout
	parts []layout
	runs  []laneRun
	split bool

	y Slice
	x []device.Buffer
}

// laneRun is a run of channels that are neighbours in both the whole and a part.
type laneRun struct {
	part                int
	partBlock, partAt   int // block and first lane
	wholeBlock, wholeAt int
	lanes               int
}

func newJoin(c *CPU, s device.ConcatSpec, split bool) (*join, error) {
	if err := accept(s, s.Type); err != nil {
		return nil, err
	}
	k := &join{c: c, whole: layoutOf(s.Whole()), split: split}
	ch := 0
	for i, channels := range s.Channels {
		l := layoutOf(s.Operand(i))
		k.parts = append(k.parts, l)
		for done := 0; done < channels; {
			r := laneRun{part: i, partBlock: done / l.lanes, partAt: done % l.lanes, wholeBlock: ch / k.whole.lanes,
				wholeAt: ch % k.whole.lanes}
			r.lanes = min(channels-done, l.lanes-r.partAt, k.whole.lanes-r.wholeAt)
			k.runs = append(k.runs, r)
			done += r.lanes
			ch += r.lanes
		}
	}
	return k, nil
}

// Concat implements [device.Device].
func (c *CPU) Concat(s device.ConcatSpec) (device.Kernel, error) { return newJoin(c, s, false) }

// Split implements [device.Device].
func (c *CPU) Split(s device.ConcatSpec) (device.Kernel, error) { return newJoin(c, s, true) }

func (k *join) Scratch() int64 { return 0 }

// Adjacent implements [device.Joiner]: of one image, all parts but the last whole blocks.
func (k *join) Adjacent() bool {
	for i, l := range k.parts {
		if l.lanes != k.whole.lanes || i+1 < len(k.parts) && l.liveLanes(l.blocks-1) != l.lanes {
			return false
		}
	}
	return k.whole.n == 1
}

// joinVoxels is how many voxels one item moves, of all channels.
const joinVoxels = 1024

func (k *join) Run(out, in []device.Buffer, _ device.Buffer) {
	if k.split {
		k.y, k.x = in[0].(Slice), out
	} else {
		k.y, k.x = out[0].(Slice), in
	}
	k.c.pool.run(k.whole.n*((k.whole.voxels+joinVoxels-1)/joinVoxels), k)
	k.x = nil
}

func (k *join) do(_, item int) {
	perImage := (k.whole.voxels + joinVoxels - 1) / joinVoxels
	n, lo := item/perImage, item%perImage*joinVoxels
	count := min(joinVoxels, k.whole.voxels-lo)
	for i, r := range k.runs {
		l := k.parts[r.part]
		part := k.x[r.part].(Slice)[l.plane(n, r.partBlock)+lo*l.lanes:][:count*l.lanes]
		whole := k.y[k.whole.plane(n, r.wholeBlock)+lo*k.whole.lanes:][:count*k.whole.lanes]
		dst, src := whole, part
		dstLanes, dstAt, srcLanes, srcAt := k.whole.lanes, r.wholeAt, l.lanes, r.partAt
		if k.split {
			dst, src, dstLanes, dstAt, srcLanes, srcAt = part, whole, srcLanes, srcAt, dstLanes, dstAt
		}
		// The last run that fills a destination block also clears the lanes past the last channel.
		last := dstAt+r.lanes < dstLanes && (i+1 == len(k.runs) || k.split && k.runs[i+1].part != r.part)
		if dstAt == 0 && srcAt == 0 && dstLanes == srcLanes && (r.lanes == dstLanes || last && k.deadAfter(r)) {
			copy(dst, src)
			continue
		}
		moveLanes(dst, src, dstLanes, dstAt, srcLanes, srcAt, r.lanes)
		if last {
			clearLanes(dst, dstLanes, dstAt+r.lanes)
		}
	}
}

// deadAfter says whether the source's lanes after the run's hold no channel either.
func (k *join) deadAfter(r laneRun) bool {
	if k.split {
		return k.whole.liveLanes(r.wholeBlock) == r.wholeAt+r.lanes
	}
	return true // a run ends with its part
}

// moveLanes: dst[v][dstAt+i] = src[v][srcAt+i] for i < n
func moveLanes(dst, src []float32, dstLanes, dstAt, srcLanes, srcAt, n int) {
	for v := range len(dst) / dstLanes {
		d, s := dst[v*dstLanes+dstAt:][:n], src[v*srcLanes+srcAt:][:n]
		for n := len(d); n >= 8; n -= 8 {
			*(*[8]float32)(d) = *(*[8]float32)(s)
			d, s = d[8:], s[8:]
		}
		for i := range d {
			d[i] = s[i]
		}
	}
}

// clearLanes: x[v][i] = 0 for i >= from
func clearLanes(x []float32, lanes, from int) {
	for v := 0; v < len(x); v += lanes {
		clear(x[v+from : v+lanes])
	}
}
