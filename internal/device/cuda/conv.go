//go:build gpu

package cuda

import (
	"errors"
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/device"
)

// convolution is conv.cu's Conv.
type convolution struct {
	Images, Groups, In, Out       int32
	From, To, Kernel, Stride, Pad [3]int32
	Transposed                    int32
}

// Conv implements [device.Device].
func (d *Device) Conv(s device.ConvSpec) (device.Kernel, error) {
	return d.conv(s, device.ConvForward)
}

// ConvTransposed implements [device.Device].
func (d *Device) ConvTransposed(s device.ConvSpec) (device.Kernel, error) {
	return d.conv(s, device.ConvTransposed)
}

// conv chooses an algorithm. Operands of all are y <- x, w, [b].
func (d *Device) conv(s device.ConvSpec, kind device.ConvKind) (device.Kernel, error) {
	if err := checkConv(s); err != nil {
		return nil, err
	}
	o := convOperands{to: out(0), a: in(0), b: in(1)}
	if s.Bias {
		o.bias = in(2)
	}
	k := d.newKernel()
	k.convolution(s, kind, o)
	return k.done()
}

// tiles is how many tiles of each image the first of our own variants leaves moments of, or, where
// a tile may be of several images, how many there are of all.
func (d *Device) tiles(s device.ConvSpec, c convolution) (n int, mixed bool) {
	rows, ok := d.conv5For(c, s.Type)
	if a, fits := d.convGroupsFor(c, s.Type); fits && a.pays(ok) {
		return a.momentTiles(), a.mixed()
	}
	switch {
	case ok:
		return rows.tiles(), false
	case c.is5One(s.Type):
		return c.tilesOfOne(s.Type).perImage(), false
	case c.Images == 1 || volume(c.To)%convTile == 0:
		return blocksOf(volume(c.To), convTile), false
	}
	return blocksOf(int(c.Images)*volume(c.To), convTile), true
}

// NormConv implements [device.Normaliser]: where a tile is of one image, or the norm is the
// batch's, there are no groups, and nobody has chosen another variant than ours.
func (d *Device) NormConv(s device.ConvSpec, n device.ActivateSpec) (*device.NormConv, error) {
	if err := errors.Join(checkConv(s), checkActivate(n)); err != nil {
		return nil, err
	}
	if _, ok := d.choices[device.ChoiceKey(s, device.ConvForward)]; ok || s.Grouped() {
		return nil, nil
	}
	c := forward(s)
	tiles, mixed := d.tiles(s, c)
	if n.Norm == device.NoNorm || n.Norm == device.BatchNorm && !n.Training || mixed && n.Norm != device.BatchNorm {
		return nil, nil
	}
	shape := channels{c.Images, c.Out, int32(volume(c.To)), 0, 0}
	if mixed { // the moments are those of one image
		shape.Images = 1
	}
	conv, statistics := d.newKernel(), d.newKernel()
	o := convOperands{to: out(0), a: in(0), b: in(1), moments: out(1)}
	if s.Bias {
		o.bias = in(2)
	}
	d.own(s, device.ConvForward)[0].append(conv, o)
	running := [2]operand{}
	if n.Norm == device.BatchNorm {
		running = [2]operand{in(1), in(2)}
	}
	statistics.normFinish(n, activationOf(n, shape), tiles, out(0), running[0], running[1], in(0))
	apply := d.newKernel()
	operands := listOperands(n, 2, false)
	if n.Norm == device.BatchNorm { // its running statistics are no operands here
		operands = listOperands(instanceOf(n), 2, false)
	}
	operands.statistics = in(1)
	apply.activate(n, operands)
	if err := errors.Join(conv.err, statistics.err, apply.err); err != nil {
		return nil, err
	}
	return &device.NormConv{Conv: conv, Statistics: statistics, Apply: apply,
		Moments: momentsBytes * int64(shape.Images) * int64(tiles) * int64(c.Out)}, nil
}

// instanceOf is a norm of the same operands as batch norm but for the running statistics.
func instanceOf(s device.ActivateSpec) device.ActivateSpec {
	s.Norm = device.InstanceNorm
	return s
}

// pieces is how many times 16 bytes of bfloat16 the larger of both tensors has.
func (c convolution) pieces() int {
	return int(c.Images) * int(c.Groups) * max(volume(c.From)*int(c.In), volume(c.To)*int(c.Out)) / 8
}

// mostVoxels is how many voxels a tensor may have: kernels number them by 31 bits, and count to the
// end of a block's share, which may lie beyond the last one.
const mostVoxels = 1<<31 - 1<<23

// checkConv says what is wrong with a convolution.
func checkConv(s device.ConvSpec) error {
	if err := s.Check(); err != nil {
		return err
	}
	if x, y := s.N*s.XShape().Voxels(), s.N*s.YShape().Voxels(); max(x, y) > mostVoxels {
		return fmt.Errorf("convolution of %d images of %v: more than 2^31 voxels", s.N, s.Size)
	}
	return nil
}

// forward and adjoint have the channels of one group.
func forward(s device.ConvSpec) convolution {
	g := s.OfGroup()
	return convolution{int32(s.N), int32(groupsOfConv(s)), int32(g.In), int32(g.Out), int3(s.Size), int3(s.OutSize()),
		int3(s.Kernel), int3(s.Stride), int3(s.Pad), 0}
}

func adjoint(s device.ConvSpec) convolution {
	g := s.OfGroup()
	return convolution{int32(s.N), int32(groupsOfConv(s)), int32(g.Out), int32(g.In), int3(s.OutSize()), int3(s.Size),
		int3(s.Kernel), int3(s.Stride), int3(s.Pad), 1}
}

// groupsOfConv is the number of groups: 1 where there is no word of any.
func groupsOfConv(s device.ConvSpec) int { return max(1, s.Groups) }

// is5 says whether it is one with 5^3 taps that keeps the size.
func (c convolution) is5() bool {
	return c.Kernel == [3]int32{5, 5, 5} && c.Stride == [3]int32{1, 1, 1} && c.Pad == [3]int32{2, 2, 2} && c.Groups == 1
}

// is5One says whether it is one of the kernels for one channel. In bfloat16 a thread writes four
// channels at a time.
func (c convolution) is5One(t device.Type) bool {
	return c.is5() && c.In == 1 && c.Transposed == 0 && (t == device.Float32 || c.Out%4 == 0)
}

// packing is conv.cu's Pack: a convolution without the taps that reach no voxel, and where the ones
// that are left lie in the kernel that w has.
type packing struct {
	convolution
	Whole, First [3]int32
}

// live leaves out the taps that reach no voxel.
func (c convolution) live() packing {
	x := c.From
	if c.Transposed != 0 {
		x = c.To
	}
	spec := device.ConvSpec{Size: ints(x), Kernel: ints(c.Kernel), Stride: ints(c.Stride), Pad: ints(c.Pad)}
	live, first := spec.Live()
	p := packing{c, c.Kernel, int3(first)}
	p.Kernel, p.Pad = int3(live.Kernel), int3(live.Pad)
	return p
}

// packWeights appends the weights as gathered tiles, patches and cuDNN want them: (out, taps, in).
func (k *kernel) packWeights(p packing, t device.Type, w operand) operand {
	n := p.weights()
	to := k.scratch(int64(n) * t.Bytes())
	k.launch("packWeights"+suffix(t), grid{min(1024, blocksOf(n, 256)), 1, 1}, 256, 0, p, to, w)
	return to
}

func volume(v [3]int32) int { return int(v[0]) * int(v[1]) * int(v[2]) }

func (c convolution) weights() int { return int(c.Groups) * int(c.In) * int(c.Out) * volume(c.Kernel) }

// multiplier is the suffix of kernels that multiply elements of a type.
func (d *Device) multiplier(t device.Type) string {
	switch {
	case t == device.BFloat16:
		return "_bf16"
	case d.precision == fp32:
		return "_fp32"
	}
	return "_tf32"
}

// columnsFor chooses the width of tiles that pads the channels least. Widths are given from the
// widest on; of equally good ones the widest is taken.
func columnsFor(channels int, widths ...int) int {
	best := widths[0]
	for _, w := range widths[1:] {
		if blocksOf(channels, w)*w < blocksOf(channels, best)*best {
			best = w
		}
	}
	return best
}

// convTile is how many voxels a block of conv.cu makes.
const convTile = 128

// convGeneral appends the convolution of any shape. Moments are of tiles of one phase.
func (k *kernel) convGeneral(c convolution, t device.Type, y, moments, x, w, bias operand) {
	const stages, pitch, rowBytes, voxelBytes = 4, 80, 16, 4
	live := c.live()
	packed := k.packWeights(live, t, w)
	n := columnsFor(int(c.Out), 64, 32, 16)
	phases, perImage := 1, volume(c.To)
	if c.Transposed != 0 {
		phases, perImage = volume(c.Stride), 1
		for i := range 3 { // of the first phase, which is the largest
			perImage *= blocksOf(int(c.To[i]), int(c.Stride[i]))
		}
	}
	shared := stages*(convTile+n)*pitch + convTile*(rowBytes+voxelBytes)
	blocks := grid{blocksOf(int(c.Images)*perImage, convTile), int(c.Groups) * blocksOf(int(c.Out), n), phases}
	k.launch(fmt.Sprintf("conv%s_%d", k.d.multiplier(t), n), blocks, 256, shared, live.convolution, y, moments, x,
		packed, bias)
}

// conv5Rows says how conv5.cu makes a convolution, and how it is launched.
type conv5Rows struct {
	conv5Shape
	tile conv5Tile
}

type conv5Shape struct {
	Images, In, Out int32
	Size            [3]int32
	Rows, Block     int32
}

// numbers is conv5.cu's Conv5.
func (a conv5Rows) numbers() any {
	return struct {
		conv5Shape
		ByW, ByTiles, ByD, ByParts divisor
	}{a.conv5Shape, divisorOf(int(a.Size[2])), divisorOf(a.tilesOfPlane()), divisorOf(int(a.Size[0])),
		divisorOf(int(a.Block / 8))}
}

// A conv5Tile is a variant of conv5.cu: channels of a tile, voxels of a warp, warps of a block at
// most.
type conv5Tile struct {
	kernel                  string
	channels, voxels, warps int
}

// conv5Tiles are the variants for a number of output channels, the one that is taken without a
// measurement first.
func conv5Tiles(out int32) []conv5Tile {
	if out%32 == 0 {
		// the second one loads each weight for twice as many voxels, with half as many threads
		return []conv5Tile{{"conv5_32", 32, 16, 16}, {"conv5_32x2", 32, 32, 8}}
	}
	return []conv5Tile{{"conv5_16", 16, 32, 16}}
}

// conv5For says how conv5.cu makes a convolution, if it can, and if that pays.
func (d *Device) conv5For(c convolution, t device.Type) (conv5Rows, bool) {
	a, fits := d.conv5Fits(c, t, conv5Tiles(c.Out)[0])
	return a, fits && a.pays()
}

// conv5Fits says how conv5.cu makes a convolution, if it can: with as many rows as the threads of a
// block make, and as many channels at a time as its shared memory holds.
func (d *Device) conv5Fits(c convolution, t device.Type, tile conv5Tile) (conv5Rows, bool) {
	width, most := int(c.To[2]), tile.warps*tile.voxels
	if t != device.BFloat16 || !c.is5() || c.In%16 != 0 || c.Out%16 != 0 || width > most {
		return conv5Rows{}, false
	}
	a := conv5Rows{conv5Shape{c.Images, c.In, c.Out, c.To, min(c.To[1], int32(most/width)), 64}, tile}
	for c.In%a.Block != 0 {
		a.Block /= 2
	}
	for ; a.Rows > 0; a.Rows-- {
		for b := a.Block; b >= 16; b /= 2 {
			if s := a; true {
				s.Block = b
				if s.shared() <= d.sharedMost {
					return s, true
				}
			}
		}
	}
	return conv5Rows{}, false
}

// pays says whether blocks are large enough: small images are better gathered, several to a tile.
func (a conv5Rows) pays() bool {
	live, made := int(a.Rows*a.Size[2]), a.threads()/32*a.tile.voxels
	return live >= 64 && 4*live >= 3*made
}

// tiles is how many tiles an image has.
func (a conv5Rows) tiles() int { return int(a.Size[0]) * a.tilesOfPlane() }

func (a conv5Rows) tilesOfPlane() int { return blocksOf(int(a.Size[1]), int(a.Rows)) }

func (a conv5Rows) threads() int { return 32 * blocksOf(int(a.Rows*a.Size[2]), a.tile.voxels) }

// shared is the bytes of shared memory: two stages of x, or the result and its moments.
func (a conv5Rows) shared() int {
	stage := (int(a.Rows+4)*int(a.Size[2]) + 64) * (2*int(a.Block) + 16)
	result := 4*a.threads()/32*a.tile.voxels*(a.tile.channels+1) + momentsBytes*a.threads()
	return max(2*stage, result)
}

func (k *kernel) conv5(a conv5Rows, c convolution, y, moments, x, w, bias operand) {
	n := a.tile.channels
	packed := k.scratch(2 * int64(c.weights()))
	pack := struct{ In, Out, N, Transposed int32 }{c.In, c.Out, int32(n), c.Transposed}
	k.launch("packConv5", grid{min(1024, blocksOf(c.weights(), 256)), 1, 1}, 256, 0, pack, packed, w)
	tiles := int(a.Images) * a.tiles()
	k.launch(a.tile.kernel, grid{tiles, int(a.Out) / n, 1}, a.threads(), a.shared(), a.numbers(), y,
		moments, x, packed, bias)
}

// oneTiles are the tiles of conv5One: voxels of one, and how many an image has along each axis.
type oneTiles struct{ tile, along [3]int }

func (a oneTiles) perImage() int { return a.along[0] * a.along[1] * a.along[2] }

func (c convolution) tilesOfOne(t device.Type) (a oneTiles) {
	const most = 32 // rows; those of large images have equally many
	a.tile = [3]int{2, 8, 32}
	if h := int(c.To[1]); t == device.BFloat16 {
		a.tile = [3]int{4, blocksOf(h, blocksOf(h, most)), 32}
	}
	for i := range a.along {
		a.along[i] = blocksOf(int(c.To[i]), a.tile[i])
	}
	return a
}

// conv5One is conv5.cu's Conv5One.
type conv5One struct {
	Out           int32
	Size          [3]int32
	ByX, ByY, ByZ divisor
}

// conv5One appends the convolution of one channel. Blocks make 16 channels; those in bfloat16 make
// several tiles, as many as a multiprocessor has at a time.
func (k *kernel) conv5One(c convolution, t device.Type, y, moments, x, w, bias operand) {
	a, columns := c.tilesOfOne(t), blocksOf(int(c.Out), 16)
	tiles := int(c.Images) * a.perImage()
	one := conv5One{c.Out, c.To, divisorOf(a.along[2]), divisorOf(a.along[1]), divisorOf(a.along[0])}
	if t != device.BFloat16 {
		const shared = max(4*(6*12*36+125*16), 4*512*17+momentsBytes*256)
		k.launch("conv5One_f32", grid{tiles, columns, 1}, 256, shared, one, y, moments, x, w, bias)
		return
	}
	// two tiles of x, and their moments; the weights lie in the second one at first
	const blocksOfProcessor, planes, warps = 2, 8, 8
	words := (24*(a.tile[1]+4)+27)/32*32 + 4
	shared := 4*planes*words + max(4*planes*words+2*warps*16*momentsBytes, 4*125*16)
	blocks := min(tiles, max(1, blocksOfProcessor*k.d.processors/columns))
	k.launch("conv5One_bf16", grid{blocks, columns, 1}, 256, shared, struct {
		conv5One
		Rows, Words, Tiles int32
	}{one, int32(a.tile[1]), int32(words), int32(tiles)}, y, moments, x, w, bias)
}

// --- The gradient of weights

// convWeights is conv_weights.cu's ConvWeights.
type convWeights struct {
	Groups, In, Out           int32
	X, Y, Kernel, Stride, Pad [3]int32
	Voxels, PerSplit, Splits  int32
	ByW, ByH, ByD             divisor
}

// ConvGradWeights implements [device.Device].
func (d *Device) ConvGradWeights(s device.ConvSpec) (device.Kernel, error) {
	if err := checkConv(s); err != nil {
		return nil, err
	}
	k := d.newKernel()
	k.convolution(s, device.ConvWeights, convOperands{to: out(0), a: in(0), b: in(1)})
	return k.done()
}

// gradWeights appends dw <- x, dy.
func (k *kernel) gradWeights(s device.ConvSpec, dw, x, dy operand) {
	const rows, voxelsOfChunk, leastChunks = 128, 32, 8
	stages := 3
	if s.Type == device.BFloat16 {
		stages = 4
	}
	live, _ := s.Live()
	depth := live.WShape().Row()
	groups, group := groupsOfConv(s), s.OfGroup()
	n := columnsFor(group.Out, 64, 32, 16)
	columns := groups * blocksOf(group.Out, n)
	tiles := blocksOf(depth, rows) * columns
	shared := stages * voxelsOfChunk * (voxelPitch(s.Type, rows) + voxelPitch(s.Type, n))
	together := 2 // blocks of a multiprocessor
	if s.Type == device.BFloat16 {
		const reserved = 1 << 10 // of a block's shared memory
		together = min(map[int]int{16: 4, 32: 4, 64: 2}[n], (k.d.sharedMost+reserved)/(shared+reserved))
	}
	a := k.d.splitVoxels(s, tiles, together, voxelsOfChunk, leastChunks)
	parts := k.scratch(4 * int64(a.Splits) * int64(s.Out) * int64(depth))
	blocks := grid{blocksOf(depth, rows), columns, int(a.Splits)}
	k.launch(fmt.Sprintf("convWeights%s_%d", k.d.multiplier(s.Type), n), blocks, 256, shared, a, parts, x, dy)
	k.sumWeights(a.parts(s), dw, parts)
}

// weightParts are parts of a gradient of weights, of out channels of all groups and in channels of
// one, and where the taps that they have begin in the whole kernel. The number of parts may differ
// between the first planes of taps; the last number is that of all others.
type weightParts struct {
	out, in              int
	kernel, whole, first [3]int
	splits               [5]int32
}

// allSplits is the same number of parts of each plane of taps.
func allSplits(n int) [5]int32 { return [5]int32{int32(n), int32(n), int32(n), int32(n), int32(n)} }

// parts are those that a kernel of conv_weights.cu leaves.
func (a convWeights) parts(s device.ConvSpec) weightParts {
	_, first := s.Live()
	return weightParts{s.Out, int(a.In), ints(a.Kernel), s.Kernel, first, allSplits(int(a.Splits))}
}

// sumWeights appends dw <- the sum of parts, with zeros for the taps that reach no voxel.
func (k *kernel) sumWeights(p weightParts, dw, parts operand) {
	const threads, mostTaps, many, few, mostShare, leastParts = 256, 32, 1 << 20, 1 << 16, 16, 8
	taps := p.whole[0] * p.whole[1] * p.whole[2]
	if p.in == 1 && p.kernel == p.whole && p.splits == allSplits(int(p.splits[0])) {
		// both are in one order
		p.out, p.in, taps = 1, p.out*taps, 1
		p.kernel, p.whole = [3]int{1, 1, 1}, [3]int{1, 1, 1}
	}
	// a block turns so many channels and taps round: a thread has one, or of large kernels several
	piece := min(taps, mostTaps)
	tile := min(p.in, threads/piece)
	if p.out*p.in*taps >= many {
		tile = min(p.in, 4*threads/piece)
	}
	share := 1
	if most := int(slices.Max(p.splits[:])); p.out*p.in*taps < few {
		for share < mostShare && most >= 2*share*leastParts {
			share *= 2
		}
		if share > 1 {
			tile = min(p.in, threads/share)
			piece = min(piece, threads/share/tile)
		}
	}
	shared := 4 * share * tile * (piece | 1)
	k.launch("sumWeights", grid{p.out, blocksOf(p.in, tile), blocksOf(taps, piece)}, threads, shared, struct {
		Out, In, Tile, Piece               int32
		Kernel, Whole, First               [3]int32
		Splits                             [5]int32
		Share                              int32
		ByElements                         divisor
		ByTile, ByPiece, ByWidth, ByHeight divisor
	}{int32(p.out), int32(p.in), int32(tile), int32(piece), int3(p.kernel), int3(p.whole), int3(p.first), p.splits,
		int32(share), divisorOf(tile * piece), divisorOf(tile), divisorOf(piece), divisorOf(p.whole[2]),
		divisorOf(p.whole[1])}, dw, parts)
}

// splitVoxels divides the voxels of a convolution without its dead taps into splits, so that each
// multiprocessor has enough blocks at once (together). Each tile has a block for every split, and a
// split has at least so many pieces (least) of so many voxels (piece).
func (d *Device) splitVoxels(s device.ConvSpec, tiles, together, piece, least int) convWeights {
	o, group, voxels := s.OutSize(), s.OfGroup(), s.N*s.YShape().Voxels()
	splits := min(max(1, together*d.processors/tiles), blocksOf(voxels, least*piece))
	perSplit := blocksOf(blocksOf(voxels, splits), piece) * piece
	live, _ := s.Live()
	return convWeights{
		int32(groupsOfConv(s)), int32(group.In), int32(group.Out), int3(s.Size), int3(o), int3(live.Kernel),
		int3(s.Stride), int3(live.Pad), int32(voxels), int32(perSplit), int32(blocksOf(voxels, perSplit)),
		divisorOf(o[2]), divisorOf(o[1]), divisorOf(o[0]),
	}
}

// voxelPitch is the pitch of conv_weights.cu's VoxelTile in bytes.
func voxelPitch(t device.Type, elements int) int {
	if t == device.BFloat16 {
		if bytes := 2 * elements; bytes/16%2 == 1 {
			return bytes
		}
		return 2*elements + 16
	}
	return 4 * (elements + 8)
}

// ConvGradWeightsSGD implements [device.WeightStepper].
func (d *Device) ConvGradWeightsSGD(s device.ConvSpec) (device.Kernel, error) {
	if err := checkConv(s); err != nil {
		return nil, err
	}
	n, k := s.WShape().Elements(), d.newKernel()
	dw := k.scratch(4 * int64(n))
	k.convolution(s, device.ConvWeights, convOperands{to: dw, a: in(0), b: in(1)})
	k.sumSquares([]int{n}, []operand{out(2)}, []operand{dw})
	k.sgd([]int{n}, out(0), out(1), dw, in(2))
	return k.done()
}
