package cpu

import (
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu/toomcook"
)

// winograd is a convolution of stride 1, or the data gradient of one: a convolution with flipped weights, input and output channels exchanged.
type winograd struct {
	cpu     *CPU
	t       tiling
	f       *transforms
	in      *operand
	out     layout
	weights *pointWeights
	bias    bool

	mAt, mPlane int // products: [y and x point][tile][channel]
	yAt, yPlane int // after x: [y point][column][16]
	zAt, zPlane int // after y: [z point][channel block][layer][row][column][16]
	stageAt     int // [plane][column][16]: rows with the planes that are not outputs

	weightsAt, biasAt, workAt, work, total int

	y, x, w, scratch Slice
}

// newWinograd makes the kernel of a geometry with stride 1; pad is the number of taps before the first input.
func newWinograd(c *CPU, s device.ConvSpec, transposed bool, tile toomcook.Tile) *winograd {
	k := &winograd{cpu: c, f: c.kernels.winograd[tile], bias: s.Bias}
	taps := s.Kernel[0] * s.Kernel[1] * s.Kernel[2]
	in, out, pad, wIn, wOut := layoutOf(s.XShape()), layoutOf(s.YShape()), s.Pad, taps, taps*s.In
	if transposed {
		in, out, wIn, wOut = out, in, wOut, wIn
		for i := range pad {
			pad[i] = s.Kernel[i] - 1 - pad[i]
		}
	}
	k.out = out
	k.t = newTiling(tile, s.N, out.size, blockTiles(in.blocks, out.blocks))
	t := &k.t
	k.in = newOperand(t, in, k.f.data, t.points, pad)
	k.weights = newPointWeights(t, c.kernels, in.channels, out.channels, wIn, wOut, transposed)
	columns := t.tiles[2] * t.m
	k.mPlane = oddLines(t.most * out.blocks * block)
	k.yPlane = oddLines(columns * block)
	k.zPlane = oddLines(out.blocks * t.layers * t.rows * t.m * columns * block)
	k.mAt = k.in.size
	k.yAt = k.mAt + t.points*t.points*k.mPlane
	k.zAt = k.yAt + t.points*k.yPlane
	k.stageAt = k.zAt + t.points*k.zPlane
	k.work = aligned(max(k.stageAt+t.m*columns*block, k.weights.work))
	k.biasAt = k.weights.size
	k.workAt = k.biasAt + out.blocks*block
	k.total = k.workAt + k.work*c.opt.Threads
	return k
}

// blockTiles is how many tiles a block should have: enough that the weights, which each block reads from a more distant cache, cost little beside the arithmetic.
func blockTiles(in, out int) int {
	return max(24, min(108, 24*(in+out)/4))
}

// Scratch implements [device.Kernel].
func (k *winograd) Scratch() int { return k.total }

// Run implements [device.Kernel].
func (k *winograd) Run(out, in []device.Buffer, scratch device.Buffer) {
	k.y, k.x, k.w, k.scratch = out[0].(Slice), in[0].(Slice), in[1].(Slice), scratch.(Slice)
	bias := k.scratch[k.biasAt:k.workAt]
	clear(bias)
	if k.bias {
		pad(bias, in[2].(Slice)[:k.out.channels])
	}
	k.cpu.pool.run(k.weights.items(), (*winogradWeights)(k))
	k.cpu.pool.run(k.t.blocks, k)
	k.y, k.x, k.w, k.scratch = nil, nil, nil, nil
}

// winogradWeights transforms the weights.
type winogradWeights winograd

func (k *winogradWeights) do(worker, item int) {
	k.weights.transform(k.scratch, k.w, k.scratch[k.workAt+worker*k.work:], item)
}

var oneTerm = []term{{0, 0}}

// do computes the outputs of one block of tiles.
func (k *winograd) do(worker, item int) {
	t, in := &k.t, k.in
	work := k.scratch[k.workAt+worker*k.work:][:k.work]
	b := t.block(item)
	in.transformZ(work, k.x, b)
	for z := range t.points {
		in.transformYX(work, z, b)
		for p := range t.points * t.points {
			a, c := work[in.pAt+p*in.plane:], work[k.mAt+p*k.mPlane:]
			weights := k.scratch[(z*t.points*t.points+p)*k.weights.plane:]
			for g := 0; 2*g < k.out.blocks; g++ {
				vectors := k.weights.vectors(2 * g)
				k.cpu.kernels.rowsProduct(b.tiles, vectors, a, weights[k.weights.group(g):], c[2*g*block:], oneTerm, k.weights.in, in.depth, vectors*block, k.out.blocks*block, block, false)
			}
		}
		k.outputXY(work, z, b)
	}
	k.outputZ(work, b)
}

// outputXY transforms the products of one point in z back along x and y.
func (k *winograd) outputXY(work []float32, z int, b tileBlock) {
	t, depth, columns := &k.t, k.out.blocks*block, k.t.tiles[2]*k.t.m
	ys := work[k.yAt:]
	for cb := range k.out.blocks {
		for l := range b.layers {
			for row := range b.rows {
				from := work[k.mAt+(l*b.rows+row)*t.tiles[2]*depth+cb*block:]
				if t.tiles[2] >= t.points {
					for y := range t.points {
						k.f.output(&ys[y*k.yPlane], &from[y*t.points*k.mPlane], block, k.mPlane, t.m*block, depth, t.tiles[2], &zeros[0])
					}
				} else {
					for x := range t.tiles[2] {
						k.f.output(&ys[x*t.m*block], &from[x*depth], block, k.mPlane, k.yPlane, t.points*k.mPlane, t.points, &zeros[0])
					}
				}
				to := work[k.zAt+z*k.zPlane+((cb*t.layers+l)*t.rows+row)*t.m*columns*block:]
				k.f.output(&to[0], &ys[0], columns*block, k.yPlane, block, block, columns, &zeros[0])
			}
		}
	}
}

// outputZ transforms a block back along z, into the output.
func (k *winograd) outputZ(work []float32, b tileBlock) {
	t, columns := &k.t, k.t.tiles[2]*k.t.m
	width, planeSize := k.out.size[2], k.out.size[1]*k.out.size[2]*block
	for cb := range k.out.blocks {
		bias := &k.scratch[k.biasAt+cb*block]
		for l := range b.layers {
			n, z := (b.layer+l)/t.tiles[0], (b.layer+l)%t.tiles[0]*t.m
			planes := min(t.m, k.out.size[0]-z)
			for row := range min(b.rows*t.m, k.out.size[1]-b.row*t.m) {
				from := &work[k.zAt+((cb*t.layers+l)*t.rows*t.m+row)*columns*block]
				to := k.y[k.out.plane(n, cb)+z*planeSize+(b.row*t.m+row)*width*block:]
				if planes == t.m {
					k.f.output(&to[0], from, planeSize, k.zPlane, block, block, width, bias)
					continue
				}
				stage := work[k.stageAt:]
				k.f.output(&stage[0], from, width*block, k.zPlane, block, block, width, bias)
				for i := range planes {
					copy(to[i*planeSize:][:width*block], stage[i*width*block:])
				}
			}
		}
	}
}
