package cpu

import "github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"

// Nested Winograd convolution: F(m, r) along each of the three axes, so that a tile of m^3 outputs takes (m+r-1)^3 multiplications a pair of channels where a direct
// convolution takes m^3 r^3; F(4, 5): 512 instead of 8000.
//
// A transformed activation would be (m+r-1)^3 / m^3 times as large as the activation. So everything happens in blocks of tiles that stay in a core's cache: some rows
// of tiles in one layer (an image and a z), or some whole layers.
//
//	transform z: all the points in z, for the voxels of the block       [operand.transformZ]
//	for each point in z:
//		transform y, then x: (m+r-1)^2 points                           [operand.transformYX]
//		multiply: for each point, tiles x channels times channels x channels
//		transform back: x, y                                            [winograd.outputXY]
//	transform back: z                                                   [winograd.outputZ]
//
// The planes of points lie an odd number of cache lines apart: at powers of two they would fall into the same few sets of the cache.

// tiling is how the outputs of a convolution are cut into tiles, and the tiles into blocks.
type tiling struct {
	tile   toomcook.Tile
	m      int    // outputs of a tile along an axis
	points int    // m + r - 1
	tiles  [3]int // of an image
	images int

	layers, rows int // of a block: layers (one image, one z) and rows of tiles in each of them
	perLayer     int // blocks in a layer, 1 where a block has several layers
	blocks       int
	most         int // tiles in the largest block
}

func newTiling(tile toomcook.Tile, images int, size [3]int, want int) tiling {
	t := tiling{tile: tile, m: tile.Outputs, points: tile.Points(), images: images, layers: 1, perLayer: 1}
	for i := range 3 {
		t.tiles[i] = (size[i] + t.m - 1) / t.m
	}
	layers, inLayer := images*t.tiles[0], t.tiles[1]*t.tiles[2]
	if inLayer > want {
		t.perLayer = min(t.tiles[1], (inLayer+want-1)/want)
	} else {
		groups := max(1, (layers*inLayer+want-1)/want)
		t.layers = (layers + groups - 1) / groups
	}
	t.rows = (t.tiles[1] + t.perLayer - 1) / t.perLayer
	t.perLayer = (t.tiles[1] + t.rows - 1) / t.rows
	t.blocks = (layers + t.layers - 1) / t.layers * t.perLayer
	t.most = t.layers * t.rows * t.tiles[2]
	return t
}

// tileBlock is one block.
type tileBlock struct {
	layer, layers int // first layer, number of them
	row, rows     int // first row of tiles, number of them
	tiles         int
}

func (t *tiling) block(i int) tileBlock {
	b := tileBlock{layer: i / t.perLayer * t.layers, row: i % t.perLayer * t.rows}
	b.layers = min(t.layers, t.images*t.tiles[0]-b.layer)
	b.rows = min(t.rows, t.tiles[1]-b.row)
	b.tiles = b.layers * b.rows * t.tiles[2]
	return b
}

// oddLines rounds up to an odd number of cache lines.
func oddLines(n int) int { return ((n+block-1)/block | 1) * block }

// operand is an activation that is transformed to points: the inputs of a convolution, by BT, or the gradient of its outputs, by A.
type operand struct {
	t *tiling
	l layout
	f transformFunc

	inputs  int    // of a tile along an axis: the columns of f's matrix
	lead    [3]int // padding before the first voxel
	rows    int    // of voxels, of a block's layer
	columns int    // of voxels
	depth   int    // channels of a row of points: whole blocks

	zAt, zPlane int // [z point][channel block][layer][row][column][16]
	yAt, yPlane int // [y point][column][16]
	pAt, plane  int // [y and x point][tile][channel]
	stageAt     int // [input][column][16]: rows with the planes of zeros that are missing
	size        int // of all of these
}

func newOperand(t *tiling, l layout, f transformFunc, inputs int, lead [3]int) *operand {
	o := &operand{t: t, l: l, f: f, inputs: inputs, lead: lead}
	o.rows = t.rows*t.m + inputs - t.m
	o.columns = t.tiles[2]*t.m + inputs - t.m
	o.depth = l.blocks * block
	o.zPlane = oddLines(l.blocks * t.layers * o.rows * o.columns * block)
	o.yPlane = oddLines(o.columns * block)
	o.plane = oddLines(t.most * o.depth)
	o.yAt = o.zAt + t.points*o.zPlane
	o.pAt = o.yAt + t.points*o.yPlane
	o.stageAt = o.pAt + t.points*t.points*o.plane
	o.size = o.stageAt + inputs*o.columns*block
	return o
}

// transformZ transforms the voxels of a block along z.
func (o *operand) transformZ(work, src []float32, b tileBlock) {
	t := o.t
	left := o.lead[2]
	width := min(o.l.size[2], o.columns-left)
	rowSize, planeSize := o.columns*block, o.l.size[1]*o.l.size[2]*block
	for cb := range o.l.blocks {
		for l := range b.layers {
			n, z := (b.layer+l)/t.tiles[0], (b.layer+l)%t.tiles[0]*t.m-o.lead[0]
			image := src[o.l.plane(n, cb):][:o.l.voxels*block]
			for row := range b.rows*t.m + o.inputs - t.m {
				dst := work[o.zAt+((cb*t.layers+l)*o.rows+row)*rowSize:]
				y := b.row*t.m - o.lead[1] + row
				if y < 0 || y >= o.l.size[1] {
					for p := range t.points {
						clear(dst[p*o.zPlane:][:rowSize])
					}
					continue
				}
				for p := range t.points {
					clear(dst[p*o.zPlane:][:left*block])
					clear(dst[p*o.zPlane+(left+width)*block:][:rowSize-(left+width)*block])
				}
				if z >= 0 && z+o.inputs <= o.l.size[0] {
					o.f(&dst[left*block], &image[z*planeSize+y*o.l.size[2]*block], o.zPlane, planeSize, block, block, width)
					continue
				}
				stage := work[o.stageAt:]
				for i := range o.inputs {
					to := stage[i*rowSize:][:width*block]
					if z+i < 0 || z+i >= o.l.size[0] {
						clear(to)
					} else {
						copy(to, image[(z+i)*planeSize+y*o.l.size[2]*block:])
					}
				}
				o.f(&dst[left*block], &stage[0], o.zPlane, rowSize, block, block, width)
			}
		}
	}
}

// transformYX transforms one point in z along y and x.
func (o *operand) transformYX(work []float32, z int, b tileBlock) {
	t := o.t
	for cb := range o.l.blocks {
		for l := range b.layers {
			for row := range b.rows {
				src := work[o.zAt+z*o.zPlane+((cb*t.layers+l)*o.rows+row*t.m)*o.columns*block:]
				ys := work[o.yAt:]
				o.f(&ys[0], &src[0], o.yPlane, o.columns*block, block, block, o.columns)
				to := work[o.pAt+(l*b.rows+row)*t.tiles[2]*o.depth+cb*block:]
				if t.tiles[2] >= t.points {
					for y := range t.points {
						o.f(&to[y*t.points*o.plane], &ys[y*o.yPlane], o.plane, block, o.depth, t.m*block, t.tiles[2])
					}
				} else {
					for x := range t.tiles[2] {
						o.f(&to[x*o.depth], &ys[x*t.m*block], o.plane, block, t.points*o.plane, o.yPlane, t.points)
					}
				}
			}
		}
	}
}
