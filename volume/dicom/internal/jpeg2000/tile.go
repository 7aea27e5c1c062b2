package jpeg2000

import (
	"errors"
	"math"
	"sync"
)

// tilePart holds the parameters and the data of a tile, from all its tile-parts.
type tilePart struct {
	coding       coding
	quantization quantization
	shift        int
	changes      []progression // from POC markers; none where coding has the only progression
	ownChanges   bool          // whether they are from the tile, not from the main header
	data         []byte        // packets
	packed       bool          // whether packet headers are in headers, not in data
	headers      []byte
	pieces       []headerPiece // from the PPT markers of the tile-part that is read
}

// resolution is one of the levels+1 resolutions of a tile (B.5, B.6).
type resolution struct {
	area      rectangle
	bands     []*band
	across    int // number of precincts
	down      int
	precincts []*precinct
}

// band is a sub-band: LL (0), HL (1), LH (2) or HH (3).
type band struct {
	orientation int
	area        rectangle
	planes      int     // number of bit-planes, guard bits included
	step        float32 // size of a quantisation step
	x, y        int     // place in the buffer of the tile, see wavelet.transform
}

// precinct is a part of a resolution. A packet holds one layer of its code-blocks.
type precinct struct {
	x, y   int // place on the reference grid, which decides the order of packets
	layers int // number of layers that were read
	parts  []part
}

// part is the part of a precinct that is in one band.
type part struct {
	band            *band
	across, down    int // number of code-blocks
	blocks          []*block
	inclusion, zero *tagTree
}

// block is a code-block.
type block struct {
	area     rectangle // in the band
	included bool
	missing  int // number of zero bit-planes; of high throughput: those above the plane of HT set 0
	length   int // Lblock
	passes   int // number of passes that were read
	kind     blockKind
	segments []codeSegment
}

// blockKind is how a code-block is coded.
type blockKind uint8

const (
	classic        blockKind = iota // by the MQ coder
	highThroughput                  // segments hold, in turn, a clean-up pass and refinement passes
	undecided                       // no pass with bytes has shown the kind yet
)

// codeSegment is a number of coding passes whose bytes have one end.
type codeSegment struct {
	passes, most int
	data         []byte
}

// memory is reused from tile to tile.
type memory struct {
	blocks    blockDecoder
	whole     buffers[int32]   // reversible
	fractions buffers[float32] // irreversible
}

// buffers hold the sub-bands and the samples of a tile.
type buffers[T int32 | float32] struct{ bands, samples []T }

var memories = sync.Pool{New: func() any { return new(memory) }}

// zeros returns n zeros, in the memory of old if it is large enough.
func zeros[T any](old []T, n int) []T {
	if cap(old) < n {
		return make([]T, n)
	}
	old = old[:n]
	clear(old)
	return old
}

func ceilShift(x, n int) int { return (x + 1<<n - 1) >> n }

// tile decodes one tile into the image.
func (d *decoder) tile(area rectangle, p *tilePart, out []uint32) error {
	if area.empty() {
		return errors.New("JPEG 2000: an empty tile")
	}
	resolutions, err := d.layout(area, p)
	if err != nil {
		return err
	}
	width, height := area.width(), area.height()
	if err := p.packets(resolutions, 8*(width*height+len(p.data)+len(p.headers))); err != nil {
		return err
	}
	m := memories.Get().(*memory)
	defer memories.Put(m)
	m.blocks.style = p.coding.style
	if p.coding.reversible {
		err = decodeBands(&m.whole, &m.blocks, p, width, height, resolutions, &reversible)
	} else {
		err = decodeBands(&m.fractions, &m.blocks, p, width, height, resolutions, &irreversible)
	}
	if err != nil {
		return err
	}
	for row := range height {
		dst := out[(area.y0-d.image.y0+row)*d.columns+area.x0-d.image.x0:][:width]
		if p.coding.reversible {
			d.storeWhole(dst, m.whole.samples[row*width:])
		} else {
			d.storeFractions(dst, m.fractions.samples[row*width:])
		}
	}
	return nil
}

// decodeBands decodes the code-blocks of a tile into to.bands, and transforms these into
// to.samples.
func decodeBands[T int32 | float32](to *buffers[T], d *blockDecoder, p *tilePart, width, height int,
	resolutions []*resolution, f *wavelet[T]) error {
	to.bands = zeros(to.bands, width*height)
	for _, r := range resolutions {
		for _, precinct := range r.precincts {
			for _, part := range precinct.parts {
				b := part.band
				for _, one := range part.blocks {
					if len(one.segments) == 0 {
						continue
					}
					values, pitch, err := d.decode(one, b.orientation, b.planes+p.shift)
					if err != nil {
						return err
					}
					if p.shift > 0 {
						regionOfInterest(values, p.shift)
					}
					at := (b.y+one.area.y0-b.area.y0)*width + b.x + one.area.x0 - b.area.x0
					for row := range one.area.height() {
						f.dequantize(to.bands[at+row*width:][:one.area.width()], values[row*pitch:], b.step)
					}
				}
			}
		}
	}
	to.samples = f.transform(to.bands, to.samples, width, resolutions)
	return nil
}

// storeWhole stores a row of samples, clamped to their precision.
func (d *decoder) storeWhole(to []uint32, from []int32) {
	least, most, middle := d.limits()
	for n, v := range from[:len(to)] {
		v := int(v) + middle
		if v < least || v > most {
			v = min(max(v, least), most)
		}
		to[n] = uint32(v)
	}
}

// storeFractions rounds a row of samples, and stores it like storeWhole.
func (d *decoder) storeFractions(to []uint32, from []float32) {
	least, most, middle := d.limits()
	low, high := float64(least-middle), float64(most-middle)
	// float64 has no bits for fractions of such a number: adding it rounds to the nearest integer,
	// halves to even. The integer is in the lower bits of the sum.
	const large = 3 << 51
	for n, v := range from[:len(to)] {
		x := float64(v)
		if !(x >= low) { // also if x is not a number
			x = low
		} else if x > high {
			x = high
		}
		to[n] = uint32(math.Float64bits(x+large)) + uint32(middle)
	}
}

// limits returns the least and the greatest sample, and the level shift: what is added to decoded
// values to get samples (G.1).
func (d *decoder) limits() (least, most, middle int) {
	half := 1 << (d.precision - 1)
	if d.signed {
		return -half, half - 1, 0
	}
	return 0, 2*half - 1, half
}

// regionOfInterest undoes the shift of the values in the region of interest, which are larger than
// all others (annex H). Values are doubled.
func regionOfInterest(values []int32, shift int) {
	for n, v := range values {
		if m := max(v, -v); m>>1 >= 1<<shift {
			if m >>= shift; v < 0 {
				m = -m
			}
			values[n] = m
		}
	}
}

// layout divides a tile into resolutions, bands, precincts and code-blocks (annex B).
func (d *decoder) layout(tile rectangle, p *tilePart) ([]*resolution, error) {
	c := &p.coding
	var all []*resolution
	packets := 0
	kind := classic
	if c.style&styleHighThroughput != 0 {
		kind = undecided
	}
	for r := range c.levels + 1 {
		down := c.levels - r
		res := &resolution{area: rectangle{ceilShift(tile.x0, down), ceilShift(tile.y0, down), ceilShift(tile.x1, down),
			ceilShift(tile.y1, down)}}
		all = append(all, res)
		px, py := c.precincts[r][0], c.precincts[r][1]
		first, level := 0, c.levels // orientations and decomposition level of the bands
		if r > 0 {
			first, level = 1, c.levels-r+1
		}
		for o := first; o <= 3*min(first, 1); o++ {
			b := &band{orientation: o}
			if o == 0 {
				b.area = res.area
			} else {
				// (B-15)
				shift := func(x, high int) int {
					if level == 0 {
						return x
					}
					return ceilShift(x-high<<(level-1), level)
				}
				hx, hy := o&1, o>>1
				b.area = rectangle{shift(tile.x0, hx), shift(tile.y0, hy), shift(tile.x1, hx), shift(tile.y1, hy)}
				lower := all[r-1].area
				b.x, b.y = hx*lower.width(), hy*lower.height()
			}
			number := 0
			if r > 0 {
				number = 3*(r-1) + o
			}
			exponent, mantissa, err := p.quantization.band(number, level, c.levels)
			if err != nil {
				return nil, err
			}
			b.planes = p.quantization.guard + exponent - 1
			if b.planes < 0 || b.planes+p.shift > 30 {
				return nil, unsupported("%d bit-planes", b.planes+p.shift)
			}
			gain := []int{0, 1, 1, 2}[o]
			// (E-3)
			b.step = float32(math.Ldexp(1+float64(mantissa)/2048, d.precision+gain-exponent))
			res.bands = append(res.bands, b)
		}
		if res.area.empty() {
			continue
		}
		gx, gy := res.area.x0>>px, res.area.y0>>py
		res.across, res.down = ceilShift(res.area.x1, px)-gx, ceilShift(res.area.y1, py)-gy
		// Each packet header takes at least one byte, so there cannot be more packets than bytes.
		packets += res.across * res.down * c.layers
		most := len(p.data)
		if p.packed {
			most = len(p.headers)
		}
		if res.across > most || res.down > most || packets > most {
			return nil, errShort
		}
		for n := range res.across * res.down {
			i, j := gx+n%res.across, gy+n/res.across
			pr := &precinct{x: max(tile.x0, i<<(px+down)), y: max(tile.y0, j<<(py+down))}
			for _, b := range res.bands {
				bx, by := px, py // logarithms of the size of the precinct in the band
				if r > 0 {
					bx, by = px-1, py-1
				}
				area := rectangle{i << bx, j << by, (i + 1) << bx, (j + 1) << by}.intersect(b.area)
				part := part{band: b}
				if !area.empty() {
					cx, cy := min(c.blockX, bx), min(c.blockY, by)
					x0, y0 := area.x0>>cx, area.y0>>cy
					part.across, part.down = ceilShift(area.x1, cx)-x0, ceilShift(area.y1, cy)-y0
					for m := range part.across * part.down {
						x, y := x0+m%part.across, y0+m/part.across
						part.blocks = append(part.blocks,
							&block{area: rectangle{x << cx, y << cy, (x + 1) << cx, (y + 1) << cy}.intersect(area),
								length: 3, kind: kind})
					}
					part.inclusion, part.zero = newTagTree(part.across, part.down), newTagTree(part.across, part.down)
				}
				pr.parts = append(pr.parts, part)
			}
			res.precincts = append(res.precincts, pr)
		}
	}
	return all, nil
}
