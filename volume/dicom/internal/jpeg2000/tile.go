package jpeg2000

import (
	"errors"
	"math"
	"sync"
)

// tilePart is what the tile-parts of a tile say together.
type tilePart struct {
	coding       coding
	quantization quantization
	shift        int
	changes      []progression // of the order of packets; none where coding tells it
	ownChanges   bool          // they are the tile's own, not the main header's
	data         []byte        // packets
}

// resolution is one of the levels+1 of a tile (B.5, B.6).
type resolution struct {
	area      rectangle
	bands     []*band
	across    int // precincts
	down      int
	precincts []*precinct
}

// band is a sub-band: LL (0), HL (1), LH (2) or HH (3).
type band struct {
	orientation int
	area        rectangle
	planes      int     // bit-planes, guard bits included
	step        float32 // size of a quantisation step
	// where it lies in the tile's buffer, in the arrangement of the wavelet transform
	x, y int
}

// precinct is a piece of a resolution: the code-blocks of each band that a packet brings.
type precinct struct {
	x, y   int // on the reference grid, for the order of packets
	layers int // that have been read
	parts  []part
}

// part is a precinct in one band.
type part struct {
	band            *band
	across, down    int // code-blocks
	blocks          []*block
	inclusion, zero *tagTree
}

// block is a code-block.
type block struct {
	area     rectangle // in the band
	included bool
	missing  int // bit-planes that are zero
	length   int // Lblock
	segments []codeSegment
}

// codeSegment is a run of coding passes that end together.
type codeSegment struct {
	passes, most int
	data         []byte
}

// memory serves one tile after the other.
type memory struct {
	blocks                  blockDecoder
	whole, wholeLine        []int32
	fractions, fractionLine []float32
}

var memories = sync.Pool{New: func() any { return new(memory) }}

// zeros returns n zeros, in the memory of old if that is enough.
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
	c := &p.coding
	resolutions, err := d.layout(area, p)
	if err != nil {
		return err
	}
	width, height := area.width(), area.height()
	if err := p.packets(resolutions, 8*(width*height+len(p.data))); err != nil {
		return err
	}
	m := memories.Get().(*memory)
	defer memories.Put(m)
	m.blocks.style = c.style
	var whole []int32
	var fractions []float32
	if c.reversible {
		m.whole = zeros(m.whole, width*height)
		whole = m.whole
	} else {
		m.fractions = zeros(m.fractions, width*height)
		fractions = m.fractions
	}
	for _, r := range resolutions {
		for _, precinct := range r.precincts {
			for _, part := range precinct.parts {
				b := part.band
				for _, one := range part.blocks {
					if len(one.segments) == 0 {
						continue
					}
					values, err := m.blocks.decode(one, b.orientation, b.planes+p.shift)
					if err != nil {
						return err
					}
					if p.shift > 0 {
						regionOfInterest(values, p.shift)
					}
					w := one.area.width()
					for row := range one.area.height() {
						from := (b.y+one.area.y0-b.area.y0+row)*width + b.x + one.area.x0 - b.area.x0
						src := values[row*w:][:w]
						if c.reversible {
							dst := whole[from:][:w]
							for n, v := range src {
								dst[n] = v / 2 // the half of a truncated value goes
							}
						} else {
							dst := fractions[from:][:w]
							scale := b.step / 2
							for n, v := range src {
								dst[n] = float32(v) * scale
							}
						}
					}
				}
			}
		}
	}
	least, most, add := 0, 1<<d.precision-1, 1<<(d.precision-1)
	if d.signed {
		least, most, add = -1<<(d.precision-1), 1<<(d.precision-1)-1, 0
	}
	if c.reversible {
		m.wholeLine = transform(whole, m.wholeLine, width, resolutions, lift53)
	} else {
		m.fractionLine = transform(fractions, m.fractionLine, width, resolutions, lift97)
	}
	for row := range height {
		dst := out[(area.y0-d.image.y0+row)*d.columns+area.x0-d.image.x0:][:width]
		if c.reversible {
			for n, v := range whole[row*width:][:width] {
				dst[n] = uint32(int32(min(max(int(v)+add, least), most)))
			}
			continue
		}
		for n, v := range fractions[row*width:][:width] {
			dst[n] = uint32(int32(min(max(int(math.RoundToEven(float64(v)))+add, least), most)))
		}
	}
	return nil
}

// regionOfInterest takes back the shift of the values that stand out by it (annex H). Values are
// doubled.
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
	for r := range c.levels + 1 {
		down := c.levels - r
		res := &resolution{area: rectangle{ceilShift(tile.x0, down), ceilShift(tile.y0, down), ceilShift(tile.x1, down), ceilShift(tile.y1, down)}}
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
		// Every packet takes a byte at least: what claims more than there are is not believed.
		packets += res.across * res.down * c.layers
		if res.across > len(p.data) || res.down > len(p.data) || packets > len(p.data) {
			return nil, errShort
		}
		for n := range res.across * res.down {
			i, j := gx+n%res.across, gy+n/res.across
			pr := &precinct{x: max(tile.x0, i<<(px+down)), y: max(tile.y0, j<<(py+down))}
			for _, b := range res.bands {
				bx, by := px, py // of the precinct in the band
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
						part.blocks = append(part.blocks, &block{area: rectangle{x << cx, y << cy, (x + 1) << cx, (y + 1) << cy}.intersect(area), length: 3})
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
