package cpu

import "github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"

// Nested Winograd convolution: F(m, r) along each of the three axes, so that a tile of m^3 outputs
// takes (m+r-1)^3 multiplications a pair of channels where a direct convolution takes m^3 r^3; F(4,
// 5): 512 instead of 8000.
//
// A transformed activation would be (m+r-1)^3 / m^3 times as large as the activation. So everything
// happens in blocks of tiles that stay in a core's cache: some rows of tiles in one layer (an image
// and a z), or some whole layers.
//
//	transform z: all the points in z, for the voxels of the block           [operand.transformZ]
//	for each point in z:
//		transform y                                                         [operand.transformY]
//		for each point in y:
//			transform x: m+r-1 points                                       [operand.transformX]
//			multiply: for each point, tiles x channels times channels x channels
//			transform back: x                                               [result.transformX]
//		transform back: y                                                   [result.transformY]
//	transform back: z                                                       [result.transformZ]
//
// A flat convolution has one tap along z, so that each plane is an image of its own. It has one
// point and one output there: voxels are copied instead of transformed along z, and outputs written
// where they belong as soon as y is transformed back [result.transformPlanes].
//
// With a stride of 2 a tile has 2m+r-2 points and as many inputs, and the next one begins 2m
// further on: the taps that see every other input have points as above, and the inputs between,
// which one tap sees, are points as they are and share its weights [toomcook.Tile.Weights].
//
// Blocks that lie side by side along y have some rows of voxels in common. They are worked on one
// after the other where they can be, in a strip, and what the next one needs of a block's rows is
// moved instead of being transformed along z again [operand.slide].
//
// Where all weights cannot be transformed before the activations, a point in z is transformed along
// y and x at once [operand.transformYX, result.transformXY, result.transformFlat].
//
// Large outputs go past the caches, and leave what a norm needs of them: conv_norm.go.
//
// The planes of points lie an odd number of cache lines apart: at powers of two they would fall
// into the same few sets of the cache.

// tiling is how the outputs of a convolution are cut into tiles, and the tiles into blocks.
type tiling struct {
	tile   toomcook.Tile
	flat   bool   // one tap along z
	m      int    // outputs of a tile along y and x
	points int    // m + r - 1
	mz, pz int    // both along z: 1 where it is flat
	tiles  [3]int // of an image
	images int

	// of a block: layers (one image, one z), and rows and columns of tiles in each of them
	layers, rows, columns int
	// blocks along y in a layer, 1 where a block has several layers, and along x
	perLayer, perRow int
	blocks           int
	strip            int // blocks along y that are worked on one after the other
	most             int // tiles in the largest block
}

// newTiling cuts an image size into tiles, and those into blocks of about want tiles, fewer where
// there would not be atLeast blocks.
func newTiling(tile toomcook.Tile, flat bool, images int, size [3]int, want, atLeast int) tiling {
	t := tiling{tile: tile, flat: flat, m: tile.Outputs, points: tile.Points(), images: images, layers: 1, perLayer: 1,
		strip: 1}
	if t.mz, t.pz = t.m, t.points; flat {
		t.mz, t.pz = 1, 1
	}
	for i, m := range [3]int{t.mz, t.m, t.m} {
		t.tiles[i] = (size[i] + m - 1) / m
	}
	layers, inLayer := images*t.tiles[0], t.tiles[1]*t.tiles[2]
	want = max(1, min(want, layers*inLayer/atLeast))
	if inLayer > want {
		t.perLayer = min(t.tiles[1], (inLayer+want-1)/want)
	} else {
		groups := max(1, (layers*inLayer+want-1)/want)
		t.layers = (layers + groups - 1) / groups
	}
	t.rows = (t.tiles[1] + t.perLayer - 1) / t.perLayer
	t.perLayer = (t.tiles[1] + t.rows - 1) / t.rows
	t.blocks = (layers + t.layers - 1) / t.layers * t.perLayer
	t.columns, t.perRow = t.tiles[2], 1
	t.most = t.layers * t.rows * t.columns
	return t
}

// cutRows makes blocks of at most want tiles of rows that are a third longer than that, or more. It
// is for kernels to whom it does not matter which tiles are together in a block.
func (t *tiling) cutRows(want int) {
	if 3*t.tiles[2] <= 4*want {
		return
	}
	t.layers, t.rows, t.perLayer = 1, 1, t.tiles[1]
	t.columns, t.perRow = even(t.tiles[2], (t.tiles[2]+want-1)/want)
	t.blocks = t.images * t.tiles[0] * t.perLayer * t.perRow
	t.most = t.columns
}

// makeStrips makes strips of blocks: as long as they can be, but at least 16 for each of several
// threads.
func (t *tiling) makeStrips(threads int) {
	longest := t.perLayer
	if threads > 1 {
		longest = max(1, t.blocks/(16*threads))
	}
	t.strip, _ = even(t.perLayer, (t.perLayer+longest-1)/longest)
}

// strips is the number of strips.
func (t *tiling) strips() int { return t.blocks / t.perLayer * ((t.perLayer + t.strip - 1) / t.strip) }

// blocksOf are the blocks of a strip: the first, how many, and how much further on each next one.
func (t *tiling) blocksOf(strip int) (first, n, step int) {
	inLayer := (t.perLayer + t.strip - 1) / t.strip
	y := strip % inLayer * t.strip
	strip /= inLayer
	first = (strip/t.perRow*t.perLayer+y)*t.perRow + strip%t.perRow
	return first, min(t.strip, t.perLayer-y), t.perRow
}

// even cuts n into at most so many parts, and returns how large these are and how many.
func even(n, parts int) (size, count int) {
	size = (n + parts - 1) / parts
	return size, (n + size - 1) / size
}

// tileBlock is one block.
type tileBlock struct {
	index           int
	layer, layers   int // first layer, number of them
	row, rows       int // first row of tiles, number of them
	column, columns int // first column of tiles, number of them
	tiles           int
}

func (t *tiling) block(i int) tileBlock {
	b := tileBlock{index: i, column: i % t.perRow * t.columns}
	i /= t.perRow
	b.layer, b.row = i/t.perLayer*t.layers, i%t.perLayer*t.rows
	b.layers = min(t.layers, t.images*t.tiles[0]-b.layer)
	b.rows = min(t.rows, t.tiles[1]-b.row)
	b.columns = min(t.columns, t.tiles[2]-b.column)
	b.tiles = b.layers * b.rows * b.columns
	return b
}

// oddLines rounds up to an odd number of cache lines.
func oddLines(n int) int { return ((n+block-1)/block | 1) * block }

// all is the block of all tiles.
func (t *tiling) all() tileBlock {
	n := t.images * t.tiles[0]
	return tileBlock{layers: n, rows: t.tiles[1], columns: t.tiles[2], tiles: n * t.tiles[1] * t.tiles[2]}
}

// first is the number of tiles before a block's first one, where blocks have whole rows.
func (t *tiling) first(b tileBlock) int { return (b.layer*t.tiles[1] + b.row) * t.tiles[2] }

// operand is an activation that is transformed to points: the inputs of a convolution, by BT, or
// the gradient of its outputs, by A.
type operand struct {
	t *tiling
	l layout
	f transformFunc

	blocks  int // of channels, transformed together
	inputs  int // of a tile along y and x: the columns of f's matrix
	step    int // of them to the next tile
	inputsZ int // along z
	stepZ   int
	lead    [3]int // padding before the first voxel
	rows    int    // of voxels, of a block's layer
	columns int    // of voxels

	zPlane      int // [z point][layer][row][channel block][column][16], at 0
	rowStep     int // from one row to the next there
	yAt, yPlane int // [y point][column][16]
	ysPlane     int // of rows that are transformed along y apart from x, from one point to the next
	// [input][column][16]: rows with the planes of zeros that are missing; elements of all
	stageAt, size int
	// of the points, [y and x point][tile][channel]: channels, and elements from one point to the
	// next
	depth, plane int
}

func newOperand(t *tiling, l layout, f transformFunc, blocks, inputs, step int, lead [3]int) *operand {
	o := &operand{t: t, l: l, f: f, blocks: blocks, inputs: inputs, step: step, inputsZ: inputs, stepZ: step,
		lead: lead}
	if t.flat {
		o.inputsZ, o.stepZ = 1, 1
	}
	o.rows, o.columns = o.extent(t.rows), o.extent(t.columns)
	o.depth = blocks * block
	o.rowStep = oddLines(blocks * o.columns * block)
	o.zPlane = oddLines(t.layers * o.rows * o.rowStep)
	o.yPlane = oddLines(o.columns * block)
	o.ysPlane = oddLines(blocks * t.layers * t.rows * o.columns * block)
	o.plane = oddLines(t.most * o.depth)
	o.yAt = t.pz * o.zPlane
	o.stageAt = o.yAt + t.points*o.yPlane
	o.size = o.stageAt + inputs*o.columns*block
	return o
}

// extent is the voxels of so many tiles in a row.
func (o *operand) extent(tiles int) int { return tiles*o.step + o.inputs - o.step }

// row is the offset of a row of voxels that is transformed along z, in a point.
func (o *operand) row(channels, layer, row int) int {
	return (layer*o.rows+row)*o.rowStep + channels*o.columns*block
}

// slide moves the rows of voxels that a block of a strip has in common with the next one to where
// that has them, and returns how many there are.
func (o *operand) slide(work []float32) int {
	shared := o.inputs - o.step
	for p := range o.t.pz {
		plane := work[p*o.zPlane:]
		copy(plane[:shared*o.rowStep], plane[o.row(0, 0, o.t.rows*o.step):])
	}
	return shared
}

// transformZ transforms the voxels of a block along z, for the channel blocks from the given one.
// So many rows of voxels have been transformed before, see slide.
func (o *operand) transformZ(work, src []float32, b tileBlock, channels, before int) {
	t := o.t
	first := b.column*o.step - o.lead[2]
	left := max(0, -first)
	first += left
	rowSize, planeSize := o.extent(b.columns)*block, o.l.size[1]*o.l.size[2]*block
	width := max(0, min(o.l.size[2]-first, rowSize/block-left))
	for cb := range o.blocks {
		for l := range b.layers {
			n, z := (b.layer+l)/t.tiles[0], (b.layer+l)%t.tiles[0]*o.stepZ-o.lead[0]
			image := src[o.l.plane(n, channels+cb):][:o.l.voxels*block]
			for row := before; row < o.extent(b.rows); row++ {
				dst := work[o.row(cb, l, row):]
				y := b.row*o.step - o.lead[1] + row
				if y < 0 || y >= o.l.size[1] {
					for p := range t.pz {
						clear(dst[p*o.zPlane:][:rowSize])
					}
					continue
				}
				for p := range t.pz {
					clear(dst[p*o.zPlane:][:left*block])
					clear(dst[p*o.zPlane+(left+width)*block:][:rowSize-(left+width)*block])
				}
				if width == 0 {
					continue
				}
				from := (y*o.l.size[2] + first) * block
				if t.flat {
					copy(dst[left*block:][:width*block], image[z*planeSize+from:])
					continue
				}
				if z >= 0 && z+o.inputsZ <= o.l.size[0] {
					o.f(&dst[left*block], &image[z*planeSize+from], o.zPlane, planeSize, block, block, width)
					continue
				}
				stage := work[o.stageAt:]
				for i := range o.inputsZ {
					to := stage[i*rowSize:][:width*block]
					if z+i < 0 || z+i >= o.l.size[0] {
						clear(to)
					} else {
						copy(to, image[(z+i)*planeSize+from:])
					}
				}
				o.f(&dst[left*block], &stage[0], o.zPlane, rowSize, block, block, width)
			}
		}
	}
}

// transformYX transforms one point in z along y and x, into points.
func (o *operand) transformYX(points, work []float32, z int, b tileBlock) {
	t := o.t
	for cb := range o.blocks {
		for l := range b.layers {
			for row := range b.rows {
				src := work[z*o.zPlane+o.row(cb, l, row*o.step):]
				ys := work[o.yAt:]
				o.f(&ys[0], &src[0], o.yPlane, o.rowStep, block, block, o.columns)
				to := points[(l*b.rows+row)*t.tiles[2]*o.depth+cb*block:]
				if t.tiles[2] >= t.points {
					for y := range t.points {
						o.f(&to[y*t.points*o.plane], &ys[y*o.yPlane], o.plane, block, o.depth, o.step*block, t.tiles[2])
					}
				} else {
					for x := range t.tiles[2] {
						o.f(&to[x*o.depth], &ys[x*o.step*block], o.plane, block, t.points*o.plane, o.yPlane, t.points)
					}
				}
			}
		}
	}
}

// transformY transforms one point in z along y, into
// [y point][channel block][layer][row][column][16].
func (o *operand) transformY(ys, work []float32, z int, b tileBlock) {
	t := o.t
	for cb := range o.blocks {
		for l := range b.layers {
			for row := range b.rows {
				src := work[z*o.zPlane+o.row(cb, l, row*o.step):]
				to := &ys[((cb*t.layers+l)*t.rows+row)*o.columns*block]
				o.f(to, &src[0], o.ysPlane, o.rowStep, block, block, o.extent(b.columns))
			}
		}
	}
}

// transformX transforms one point in y of those along x, into points: [x point][tile][channel].
func (o *operand) transformX(points, ys []float32, y int, b tileBlock) {
	t := o.t
	for cb := range o.blocks {
		for l := range b.layers {
			for row := range b.rows {
				src := ys[y*o.ysPlane+((cb*t.layers+l)*t.rows+row)*o.columns*block:]
				o.f(&points[(l*b.rows+row)*b.columns*o.depth+cb*block], &src[0], o.plane, block, o.depth, o.step*block,
					b.columns)
			}
		}
	}
}

// result is an activation that is transformed back from points: the outputs of a convolution, by
// AT.
type result struct {
	t *tiling
	l layout
	f outputFunc
	// of outputs that go past the caches, nil where they do not
	past *passing

	blocks  int // of channels, transformed together
	columns int // of voxels

	zPlane      int // [z point][channel block][layer][row][column][16], at 0
	yAt, yPlane int // [y point][column][16]
	ysPlane     int // of rows that are transformed along x apart from y, from one point to the next
	// [plane][column][16]: rows with the planes that are not outputs; elements of all
	stageAt, size int
	// of the points, [y and x point][tile][channel]: channels, and elements from one point to the
	// next
	depth, plane int
}

// passing is how outputs are stored past the caches, and their moments left for a norm: see
// conv_norm.go.
type passing struct {
	f     pastFunc // nil for outputs that begin at no cache line, which go through caches after all
	lanes *laneKernels
	// a piece for each block, layer in it and channel block; nil where nobody asks for them
	moments Slice
}

func newResult(t *tiling, l layout, f outputFunc, blocks int) *result {
	r := &result{t: t, l: l, f: f, blocks: blocks, columns: t.columns * t.m}
	r.depth = blocks * block
	r.plane = oddLines(t.most * r.depth)
	r.yPlane = oddLines(r.columns * block)
	r.ysPlane = oddLines(blocks * t.layers * t.rows * r.columns * block)
	zPlane := 0
	if !t.flat {
		zPlane = oddLines(blocks * t.layers * t.rows * t.m * r.columns * block)
	}
	r.setPlane(zPlane)
	return r
}

// setPlane puts the points in z so far apart.
func (r *result) setPlane(zPlane int) {
	t := r.t
	r.zPlane = zPlane
	r.yAt = t.pz * r.zPlane
	r.stageAt = r.yAt + t.points*r.yPlane
	r.size = r.stageAt + t.m*r.columns*block + momentsPiece
}

// transformXY transforms the products of one point in z back along x and y.
func (r *result) transformXY(work, points []float32, z, blocks int, b tileBlock) {
	t := r.t
	ys := work[r.yAt:]
	for cb := range blocks {
		for l := range b.layers {
			for row := range b.rows {
				r.transformRow(ys, points[(l*b.rows+row)*t.tiles[2]*r.depth+cb*block:])
				to := work[z*r.zPlane+((cb*t.layers+l)*t.rows+row)*t.m*r.columns*block:]
				r.f(&to[0], &ys[0], r.columns*block, r.yPlane, block, block, r.columns, &zeros[0])
			}
		}
	}
}

// transformRow transforms the products of one row of tiles back along x: [y point][column][16].
func (r *result) transformRow(ys, from []float32) {
	t := r.t
	if t.tiles[2] >= t.points {
		for y := range t.points {
			r.f(&ys[y*r.yPlane], &from[y*t.points*r.plane], block, r.plane, t.m*block, r.depth, t.tiles[2], &zeros[0])
		}
		return
	}
	for x := range t.tiles[2] {
		r.f(&ys[x*t.m*block], &from[x*r.depth], block, r.plane, r.yPlane, t.points*r.plane, t.points, &zeros[0])
	}
}

// transformFlat transforms the products of a block of whole rows back along x and y, into the
// outputs, for channel blocks from the given one: where there is one point in z.
func (r *result) transformFlat(dst, work, points, bias []float32, channels, blocks int, b tileBlock) {
	t := r.t
	ys := work[r.yAt:]
	for cb := range blocks {
		for l := range b.layers {
			for row := range b.rows {
				r.transformRow(ys, points[(l*b.rows+row)*t.tiles[2]*r.depth+cb*block:])
				r.writeRow(dst, work, ys, r.yPlane, bias, channels+cb, l, row, b, nil)
			}
		}
	}
}

// transformX transforms the products of one point in y back along x, into
// [y point][channel block][layer][row][column][16].
func (r *result) transformX(ys, points []float32, y int, b tileBlock) {
	t := r.t
	for cb := range r.blocks {
		for l := range b.layers {
			for row := range b.rows {
				to := ys[y*r.ysPlane+((cb*t.layers+l)*t.rows+row)*r.columns*block:]
				r.f(&to[0], &points[(l*b.rows+row)*b.columns*r.depth+cb*block], block, r.plane, t.m*block, r.depth,
					b.columns, &zeros[0])
			}
		}
	}
}

// transformY transforms all points in y of one point in z back.
func (r *result) transformY(work, ys []float32, z int, b tileBlock) {
	t := r.t
	for cb := range r.blocks {
		for l := range b.layers {
			for row := range b.rows {
				to := work[z*r.zPlane+((cb*t.layers+l)*t.rows+row)*t.m*r.columns*block:]
				r.f(&to[0], &ys[((cb*t.layers+l)*t.rows+row)*r.columns*block], r.columns*block, r.ysPlane, block, block,
					b.columns*t.m, &zeros[0])
			}
		}
	}
}

// transformPlanes transforms all points in y back, into the outputs: where there is one point in z.
func (r *result) transformPlanes(dst, work, ys, bias []float32, b tileBlock) {
	t := r.t
	for cb := range r.blocks {
		for l := range b.layers {
			moments := r.momentsOf(work, b, l, cb)
			for row := range b.rows {
				r.writeRow(dst, work, ys[((cb*t.layers+l)*t.rows+row)*r.columns*block:], r.ysPlane, bias, cb, l, row, b,
					moments)
			}
		}
	}
}

// writeRow transforms one row of tiles of a block's layer back along y, into the outputs of a
// channel block.
func (r *result) writeRow(dst, work, ys []float32, plane int, bias []float32, channels, layer, row int, b tileBlock,
	moments []float32) {
	t, width := r.t, r.l.size[2]
	n, z := (b.layer+layer)/t.tiles[0], (b.layer+layer)%t.tiles[0]
	y, x := (b.row+row)*t.m, b.column*t.m
	to := dst[r.l.plane(n, channels)+((z*r.l.size[1]+y)*width+x)*block:]
	rows, columns := min(t.m, r.l.size[1]-y), min(b.columns*t.m, width-x)
	r.write(to, ys, width*block, plane, rows, columns, &bias[channels*block], work, moments, row == 0)
}

// write transforms a row of columns back along the last axis, into so many planes of the outputs.
// first says that these are the first outputs of a piece of moments.
func (r *result) write(to, from []float32, toStep, fromStep, planes, columns int, bias *float32,
	work, moments []float32, first bool) {
	stage := work[r.stageAt:]
	asked := moments != nil && r.past.moments != nil
	if first && asked {
		head := min(columns, momentsColumns)
		r.f(&stage[0], &from[0], head*block, fromStep, block, block, head, bias)
		r.past.begin(moments, stage[:planes*head*block])
	}
	switch {
	case planes == r.t.m && asked && r.past.f != nil:
		spare := stage[r.size-r.stageAt-momentsPiece:]
		r.past.short(spare, moments)
		r.past.f(&to[0], &from[0], toStep, fromStep, block, block, columns, bias, &spare[0])
		r.past.join(moments, spare)
	case planes == r.t.m && moments != nil && r.past.f != nil:
		r.past.f(&to[0], &from[0], toStep, fromStep, block, block, columns, bias, &moments[0])
	case planes == r.t.m && moments == nil:
		r.f(&to[0], &from[0], toStep, fromStep, block, block, columns, bias)
	default:
		r.f(&stage[0], &from[0], columns*block, fromStep, block, block, columns, bias)
		if asked {
			r.past.add(moments, stage[:planes*columns*block], stage[r.size-r.stageAt-momentsPiece:])
		}
		for i := range planes {
			copy(to[i*toStep:][:columns*block], stage[i*columns*block:])
		}
	}
}

// transformZ transforms a block back along z, into the outputs, for channel blocks from the given
// one.
func (r *result) transformZ(dst, work, bias []float32, channels, blocks int, b tileBlock) {
	t, width, planeSize := r.t, r.l.size[2], r.l.size[1]*r.l.size[2]*block
	x := b.column * t.m
	columns := min(b.columns*t.m, width-x)
	for cb := range blocks {
		bias := &bias[(channels+cb)*block]
		for l := range b.layers {
			n, z := (b.layer+l)/t.tiles[0], (b.layer+l)%t.tiles[0]*t.mz
			planes, moments := min(t.mz, r.l.size[0]-z), r.momentsOf(work, b, l, cb)
			for row := range min(b.rows*t.m, r.l.size[1]-b.row*t.m) {
				from := work[((cb*t.layers+l)*t.rows*t.m+row)*r.columns*block:]
				to := dst[r.l.plane(n, channels+cb)+z*planeSize+((b.row*t.m+row)*width+x)*block:]
				r.write(to, from, planeSize, r.zPlane, planes, columns, bias, work, moments, row == 0)
			}
		}
	}
}
