//go:build gpu

package cuda

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// convGroups says how conv_groups.cu makes a convolution, and how it is launched.
type convGroups struct {
	groupShape
	live     packing
	products int // of a warp, each of 64 voxels: 1, 2 or 4
}

// groupShape is conv_groups.cu's ConvGroup, but for the divisors.
type groupShape struct {
	Images, In, Out             int32
	Size                        [3]int32
	Slabs, Inner, Rows, Columns int32
	Units, Ring, Tiles          int32
}

// groupVoxels are the rows of a product; a block makes two for each of a warp's, of two planes.
const groupVoxels, groupTile = 64, 2 * 64

// convGroupsFor says how conv_groups.cu makes a convolution best, if it can: on GPUs of compute
// capability 9.0, where the taps that reach a voxel are 5^3 or 3^3 and the size is kept.
func (d *Device) convGroupsFor(c convolution, t device.Type) (best convGroups, ok bool) {
	least := 0.0
	for _, a := range d.convGroupsFits(c, t) {
		if took := a.took(d.processors); !ok || took < least {
			best, least, ok = a, took, true
		}
	}
	return best, ok
}

// convGroupsFits are all ways of conv_groups.cu to make a convolution.
func (d *Device) convGroupsFits(c convolution, t device.Type) (all []convGroups) {
	live := c.live()
	k := live.Kernel[0]
	if !d.warpgroups || t != device.BFloat16 || c.Groups != 1 || k != 3 && k != 5 || live.Kernel != [3]int32{k, k, k} ||
		c.Stride != [3]int32{1, 1, 1} || live.Pad != [3]int32{k / 2, k / 2, k / 2} || c.In%32 != 0 || c.Out%32 != 0 {
		return nil
	}
	add := func(slabs, inner, rows, columns, products int) {
		a := convGroups{groupShape{c.Images, c.In, c.Out, c.To, int32(slabs), int32(inner), int32(rows),
			int32(columns), 0, 4, 0}, live, products}
		across, down, pairs := a.along()
		a.Tiles = int32(blocksOf(int(c.Images), slabs*inner) * pairs * down * across * int(c.Out) / 32)
		// What the last product reads past the last row; and 8 channels begin 2 units further on
		// modulo 8, so that copies meet no bank twice.
		units := slabs * (rows + int(k) - 1) * (columns + int(k) - 1) * inner
		if inner > 1 {
			units += blocksOf(columns*inner, groupVoxels)*groupVoxels - columns*inner
		}
		a.Units = int32(blocksOf(units+6, 8)*8 + 2)
		if a.shared() > d.sharedMost {
			a.Ring = 3
		}
		if a.shared() <= d.sharedMost {
			all = append(all, a)
		}
	}
	for _, products := range []int{4, 2, 1} {
		for slabs := 1; slabs <= 2*products; slabs *= 2 {
			for down := 1; slabs*down <= 2*products; down *= 2 {
				add(slabs, 1, 8*down, 8*(2*products/(slabs*down)), products)
			}
		}
		height, width := int(c.To[1]), int(c.To[2])
		for inner := 8; inner <= 32 && inner < 2*int(c.Images); inner *= 2 {
			line := blocksOf(width*inner, groupVoxels)
			for rows := 1; rows <= height; rows++ {
				for slabs := 1; slabs*rows*line <= 2*products; slabs *= 2 {
					if slabs*rows*line > products {
						add(slabs, inner, rows, width, products)
					}
				}
			}
		}
	}
	return all
}

// along is how many tiles an image has along each axis, the last one first; those along the first
// axis are pairs of planes.
func (a convGroups) along() (across, down, pairs int) {
	return blocksOf(int(a.Size[2]), int(a.Columns)), blocksOf(int(a.Size[1]), int(a.Rows)), blocksOf(int(a.Size[0]), 2)
}

// shared is the bytes of shared memory: stages of weights, two of x, the moments of warps, and two
// tables of where x lies.
func (a convGroups) shared() int {
	const tap, block, moments = 2048, 32, 2*8*32*momentsBytes + 8*4
	return int(a.Ring)*int(a.live.Kernel[0])*block/16*tap + 2*block/8*int(a.Units)*16 + moments + 2*4*int(a.Units)
}

// took is an estimate of the time in cycles. Each multiprocessor has one block at a time, which
// makes its tiles one after the other, and multiplies while the next operands cross the caches.
func (a convGroups) took(processors int) float64 {
	const ends, rate = 3000, 20 // cycles of a tile beside its products; bytes in a cycle
	k, in := int(a.live.Kernel[0]), float64(a.In)
	// a warp's product of 64 voxels, two planes and 32 channels takes 32 cycles, of one plane 16
	products := 2 * float64(a.products) * in / 16 * float64(k*k*32*k)
	voxels := int(a.Slabs*a.Inner) * int(min(a.Rows+int32(k)-1, a.Size[1])*min(a.Columns+int32(k)-1, a.Size[2]))
	bytes := 2 * in * (float64((k+1)*voxels) + float64(2*k*k*k*32))
	return float64(blocksOf(int(a.Tiles), processors)) * (max(products, bytes/rate) + bytes/rate/10 + ends)
}

// pays says whether tiles are so full that the next best kernel is not as fast: half of the
// products at least are of voxels, or a third where the next best is the general one.
func (a convGroups) pays(rows bool) bool {
	voxels := float64(a.Images) * float64(volume(a.Size)) * float64(a.Out) / 32
	full := voxels / (float64(a.Tiles) * float64(2*groupTile*a.products))
	if rows {
		return full >= 0.5
	}
	return full >= 0.33
}

// mixed says whether moments are of tiles of several images.
func (a convGroups) mixed() bool { return a.Inner > 1 || a.Slabs > 2 }

// momentTiles is how many tiles of an image moments are left of, or, where they are mixed, of all
// images.
func (a convGroups) momentTiles() int {
	across, down, _ := a.along()
	n := int(a.Size[0]) * down * across
	if a.mixed() {
		n *= blocksOf(int(a.Images), int(a.Slabs*a.Inner))
	}
	return n
}

// convGroups appends the convolution.
func (k *kernel) convGroups(a convGroups, y, moments, x, w, bias operand) {
	taps := int(a.live.Kernel[0])
	n := 2 * a.live.weights() // most planes of x reach two of y: their weights lie side by side
	packed := k.scratch(2 * int64(n))
	k.launch("packGroup", grid{min(1024, blocksOf(n, 256)), 1, 1}, 256, 0, struct {
		In, Out, Taps, Transposed int32
		Whole, First              [3]int32
	}{a.In, a.Out, int32(taps), a.live.Transposed, a.live.Whole, a.live.First}, packed, w)
	across, down, pairs := a.along()
	k.launch(fmt.Sprintf("convGroup%d_%d", taps, a.products), grid{min(int(a.Tiles), k.d.processors), 1, 1}, 256,
		a.shared(), struct {
			groupShape
			ByOut, ByAcross, ByDown, ByPairs divisor
			ByInner, ByHalo, ByHaloRows      divisor
		}{a.groupShape, divisorOf(int(a.Out) / 32), divisorOf(across), divisorOf(down), divisorOf(pairs),
			divisorOf(int(a.Inner)), divisorOf(int(a.Columns) + taps - 1), divisorOf(int(a.Rows) + taps - 1)}, y,
		moments,
		x, packed, bias)
}
