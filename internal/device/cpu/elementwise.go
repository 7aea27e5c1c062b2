package cpu

import "github.com/voxsaw/voxsaw/internal/device"

// elementwise is every kernel that is z = x scale + r in disguise: Add, Scale, ScaleChannels.
type elementwise struct {
	c        *CPU
	lanes    *laneKernels
	cut      chunks
	residual int
	stream   bool        // y goes past the caches
	params   []actParams // one for all planes, or one a plane
	y, x, r  Slice
}

func newElementwise(c *CPU, cut chunks, params int) *elementwise {
	k := &elementwise{c: c, lanes: lanesOf(c.kernels.name), cut: cut, params: make([]actParams, params)}
	for i := range k.params {
		for lane := range block {
			k.params[i].scale[lane], k.params[i].residual[lane], k.params[i].slope[lane] = 1, 1, 1
		}
	}
	return k
}

func (k *elementwise) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		plane, lo, hi := k.cut.piece(i)
		var r Slice
		if k.r != nil {
			r = k.r[lo:hi]
		}
		k.lanes.runActivate(0, k.residual, k.y[lo:hi], k.x[lo:hi], r, &k.params[plane%len(k.params)], k.stream)
	}
}

func (k *elementwise) Scratch() int64 { return 0 }

type add struct{ *elementwise }

// Add implements [device.Device].
func (c *CPU) Add(t device.Tensor) (device.Kernel, error) {
	k := newElementwise(c, flatChunks(c, t.Shape), 1)
	k.residual = int(device.FullResidual)
	return add{k}, onlyFloat32(t.Type)
}

func (k add) Run(out, in []device.Buffer, _ device.Buffer) {
	k.y, k.x, k.r = out[0].(Slice), in[0].(Slice), in[1].(Slice)
	k.stream = pastCaches(k.y, k.x, k.r)
	k.c.pool.run(k.cut.items(), k.elementwise)
}

type scale struct{ *elementwise }

// Scale implements [device.Device].
func (c *CPU) Scale(t device.Tensor, factor float32) (device.Kernel, error) {
	k := newElementwise(c, flatChunks(c, t.Shape), 1)
	for lane := range block {
		k.params[0].scale[lane] = factor
	}
	return scale{k}, onlyFloat32(t.Type)
}

func (k scale) Run(out, in []device.Buffer, _ device.Buffer) {
	k.y, k.x = out[0].(Slice), in[0].(Slice)
	k.stream = pastCaches(k.y, k.x)
	k.c.pool.run(k.cut.items(), k.elementwise)
}

type scaleChannels struct {
	*elementwise
	l layout
}

// ScaleChannels implements [device.Device].
func (c *CPU) ScaleChannels(t device.Tensor) (device.Kernel, error) {
	s := t.Shape
	if err := accept(t, t.Type); err != nil {
		return nil, err
	}
	if len(s) == 2 {
		return &multiply{s.Elements()}, nil
	}
	l := layoutOf(s)
	return &scaleChannels{newElementwise(c, planeChunks(l), l.n*l.blocks), l}, nil
}

func (k *scaleChannels) Run(out, in []device.Buffer, _ device.Buffer) {
	m := in[1].(Slice)
	for i := range k.params {
		n, b := i/k.l.blocks, i%k.l.blocks
		k.l.spread(&k.params[i].scale, b, m[n*k.l.channels:])
	}
	k.y, k.x = out[0].(Slice), in[0].(Slice)
	k.stream = pastCaches(k.y, k.x)
	k.c.pool.run(k.cut.items(), k.elementwise)
}

// multiply is ScaleChannels of a matrix: one factor an element.
type multiply struct{ n int }

func (k *multiply) Scratch() int64 { return 0 }

func (k *multiply) Run(out, in []device.Buffer, _ device.Buffer) {
	y, x, m := out[0].(Slice), in[0].(Slice), in[1].(Slice)
	for i := range k.n {
		y[i] = x[i] * m[i]
	}
}

type sumChannels struct {
	c          *CPU
	lanes      *laneKernels
	l          layout
	cut        chunks
	total      []float64
	x, partial Slice
}

// SumChannels implements [device.Device].
func (c *CPU) SumChannels(t device.Tensor) (device.Kernel, error) {
	s := t.Shape
	if err := accept(t, t.Type); err != nil {
		return nil, err
	}
	if len(s) == 2 {
		return &sumRows{s[0], make([]float64, s[1])}, nil
	}
	l := layoutOf(s)
	return &sumChannels{c: c, lanes: lanesOf(c.kernels.name), l: l, cut: planeChunks(l),
		total: make([]float64, l.channels)}, nil
}

func (k *sumChannels) Scratch() int64 { return bytesOf(k.cut.pieces() * block) }

func (k *sumChannels) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.x, k.partial = in[0].(Slice), scratch.(Slice)
	k.c.pool.run(k.cut.items(), k)
	clear(k.total)
	for i := range k.cut.pieces() {
		b := i / k.cut.perPlane % k.l.blocks
		for lane := range k.l.liveLanes(b) {
			k.total[b*k.l.lanes+lane] += float64(k.partial[i*block+lane])
		}
	}
	for ch, sum := range k.total {
		out[0].(Slice)[ch] = float32(sum)
	}
}

func (k *sumChannels) do(_, item int) {
	for i, end := k.cut.item(item); i < end; i++ {
		_, lo, hi := k.cut.piece(i)
		s := vector(&k.partial[0], i*block)
		k.lanes.runSum(k.x[lo:hi], s)
		k.l.fold(s)
	}
}

// sumRows is SumChannels of a matrix: the sums of its columns.
type sumRows struct {
	rows  int
	total []float64
}

func (k *sumRows) Scratch() int64 { return 0 }

func (k *sumRows) Run(out, in []device.Buffer, _ device.Buffer) {
	x := in[0].(Slice)
	clear(k.total)
	for row := range k.rows {
		for j, v := range x[row*len(k.total):][:len(k.total)] {
			k.total[j] += float64(v)
		}
	}
	for j, sum := range k.total {
		out[0].(Slice)[j] = float32(sum)
	}
}
