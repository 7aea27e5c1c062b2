package photo

import (
	"bytes"
	"encoding/binary"
)

// coefficients are those of a component, block by block and row by row, as several scans complete
// them; within a block they stand in the order in which they come.
type coefficients struct {
	values       []int16
	across, down int // blocks that are stored: those of whole MCUs
	width, rows  int // blocks that hold samples
}

// decoder reads the scans of a JPEG that has more than one: progressive ones, and sequential ones
// that take a channel at a time.
type decoder struct {
	jpegHeader
	components []component
	stored     []coefficients
	mcus       [2]int
	bits       coded

	first, last int // coefficients of the scan, in the order in which they come
	high, low   uint
	endOfBand   int // blocks that still have nothing new
}

// newDecoder makes room for coefficients.
func newDecoder(h jpegHeader, components []component, mcusAcross, mcusDown int) *decoder {
	d := &decoder{jpegHeader: h, components: components, mcus: [2]int{mcusAcross, mcusDown}}
	for _, c := range components {
		k := coefficients{across: mcusAcross * int(c.across), down: mcusDown * int(c.down)}
		k.width, k.rows = (c.width+7)/8, (c.height+7)/8
		k.values = make([]int16, 64*k.across*k.down)
		d.stored = append(d.stored, k)
	}
	return d
}

// maxScans bounds what a small file may ask for; encoders write about ten.
const maxScans = 500

// decode reads all scans, of which data is the first, and makes the samples.
func (d *decoder) decode(data []byte) error {
	for n := 0; ; n++ {
		if n == maxScans {
			return errDamaged
		}
		d.bits = coded{data: data}
		if err := d.scan(); err != nil {
			return err
		}
		rest, err := d.next(data[d.bits.at:])
		if err != nil {
			return err
		}
		if rest == nil {
			break
		}
		data = rest
	}
	for n := range d.components {
		if err := d.samples(n); err != nil {
			return err
		}
	}
	return nil
}

// next reads the markers up to the next scan. It gives what follows, or nil at the end.
func (d *decoder) next(data []byte) ([]byte, error) {
	for {
		at := bytes.IndexByte(data, 0xff)
		if at < 0 || at+2 > len(data) {
			return nil, nil
		}
		marker := data[at+1]
		if marker == endOfImage {
			return nil, nil
		}
		if marker == 0 || marker == 0xff || marker == 1 || marker >= 0xd0 && marker <= 0xd8 {
			data = data[at+1:]
			continue
		}
		data = data[at+2:]
		if len(data) < 2 {
			return nil, nil
		}
		size := int(binary.BigEndian.Uint16(data))
		if size < 2 || size > len(data) || isFrame(marker) {
			return nil, errDamaged
		}
		if err := d.read(marker, data[2:size]); err != nil {
			return nil, err
		}
		data = data[size:]
		if marker == startOfScan {
			return data, nil
		}
	}
}

// scan reads one.
func (d *decoder) scan() error {
	n := len(d.scanned) / 2
	d.first, d.last, d.high, d.low = int(d.spectrum[0]), int(d.spectrum[1]), uint(d.spectrum[2]>>4),
		uint(d.spectrum[2]&15)
	if d.frame != progressive {
		d.first, d.last, d.high, d.low = 0, 63, 0, 0
	}
	if n < 1 || n > len(d.components) || d.first > d.last || d.last > 63 || d.low > 13 || d.first > 0 && n > 1 {
		return errDamaged
	}
	var chosen []int
	for k := range n {
		id, tables := d.scanned[2*k], d.scanned[2*k+1]
		found := -1
		for i, c := range d.components {
			if c.id == id {
				found = i
			}
		}
		if found < 0 {
			return errDamaged
		}
		c := &d.components[found]
		c.previous = 0
		var err error
		if d.first == 0 && d.high == 0 {
			if c.dc, err = d.table(0, tables>>4); err != nil {
				return err
			}
		}
		if d.last > 0 {
			if c.ac, err = d.table(1, tables&15); err != nil {
				return err
			}
		}
		chosen = append(chosen, found)
	}
	d.endOfBand = 0
	if n == 1 {
		d.alone(chosen[0])
	} else {
		d.interleaved(chosen)
	}
	return nil
}

// alone reads the blocks of one component, row by row.
func (d *decoder) alone(component int) {
	k := &d.stored[component]
	read, left := d.reader(), d.interval
	for y := range k.rows {
		for x := range k.width {
			left = d.restart(left)
			read(&d.components[component], k.block(x, y))
		}
	}
}

// interleaved reads the blocks of several components, MCU by MCU.
func (d *decoder) interleaved(chosen []int) {
	read, left := d.reader(), d.interval
	for y := range d.mcus[1] {
		for x := range d.mcus[0] {
			left = d.restart(left)
			for _, n := range chosen {
				c := &d.components[n]
				for v := range int(c.down) {
					for h := range int(c.across) {
						read(c, d.stored[n].block(x*int(c.across)+h, y*int(c.down)+v))
					}
				}
			}
		}
	}
}

// restart counts an MCU of those before the next marker of a restart.
func (d *decoder) restart(left int) int {
	if d.interval == 0 {
		return 0
	}
	if left == 0 {
		d.bits.restart()
		d.endOfBand = 0
		for n := range d.components {
			d.components[n].previous = 0
		}
		left = d.interval
	}
	return left - 1
}

func (k *coefficients) block(x, y int) *[64]int16 {
	return (*[64]int16)(k.values[64*(y*k.across+x):])
}

// reader is what reads a block in this kind of scan (T.81, annex G).
func (d *decoder) reader() func(*component, *[64]int16) {
	switch {
	case d.frame != progressive:
		return d.whole
	case d.first == 0 && d.high == 0:
		return func(c *component, b *[64]int16) {
			_, _, number := d.bits.symbol(c.dc)
			c.previous += number
			b[0] = int16(c.previous << d.low)
		}
	case d.first == 0:
		return func(_ *component, b *[64]int16) { b[0] |= int16(d.bits.read(1) << d.low) }
	case d.high == 0:
		return d.begin
	}
	return d.refine
}

// whole reads all coefficients of a block.
func (d *decoder) whole(c *component, b *[64]int16) {
	_, _, number := d.bits.symbol(c.dc)
	c.previous += number
	b[0] = int16(c.previous)
	for n := 1; n < 64; n++ {
		run, size, number := d.bits.symbol(c.ac)
		if size == 0 {
			if run < 15 {
				return
			}
			n += 15
			continue
		}
		if n += run; n > 63 {
			return
		}
		b[n] = int16(number)
	}
}

// begin reads the upper bits of a band of coefficients.
func (d *decoder) begin(c *component, b *[64]int16) {
	if d.endOfBand > 0 {
		d.endOfBand--
		return
	}
	for n := d.first; n <= d.last; n++ {
		run, size, number := d.bits.symbol(c.ac)
		if size == 0 {
			if run < 15 {
				d.endOfBand = 1<<run - 1 + int(d.bits.read(run))
				return
			}
			n += 15
			continue
		}
		if n += run; n > 63 {
			return
		}
		b[n] = int16(number << d.low)
	}
}

// refine reads one more bit of a band: of coefficients that are there already, and of new ones.
func (d *decoder) refine(c *component, b *[64]int16) {
	bit, n := int16(1)<<d.low, d.first
	band := b[:d.last+1]
	for d.endOfBand == 0 && n < len(band) {
		run, size, number := d.bits.symbol(c.ac)
		if size == 0 && run < 15 {
			d.endOfBand = 1<<run + int(d.bits.read(run))
			break
		}
		for ; n < len(band); n++ {
			if v := band[n]; v != 0 {
				band[n] = d.bits.correct(v, bit)
				continue
			}
			if run == 0 {
				break
			}
			run--
		}
		if n < len(band) && size > 0 {
			band[n] = int16(number) * bit
		}
		n++
	}
	if d.endOfBand > 0 {
		for ; n < len(band); n++ {
			if v := band[n]; v != 0 {
				band[n] = d.bits.correct(v, bit)
			}
		}
		d.endOfBand--
	}
}

// correct adds a bit to a coefficient, if the next bit of the scan says so.
func (c *coded) correct(v, bit int16) int16 {
	if c.n < 1 {
		c.refill()
	}
	set := int64(c.next) < 0
	c.next <<= 1
	c.n--
	switch {
	case !set || v&bit != 0:
		return v
	case v > 0:
		return v + bit
	}
	return v - bit
}

// samples makes those of a component out of its coefficients.
func (d *decoder) samples(component int) error {
	c, k := &d.components[component], &d.stored[component]
	table := d.quantisation[c.table]
	if table == nil {
		return errDamaged
	}
	var b [64]int32
	for y := range k.rows {
		for x := range k.width {
			values := k.block(x, y)
			var rest int16
			for _, v := range values[1:] {
				rest |= v
			}
			dst := c.plane[8*(y*c.stride+x):]
			if rest == 0 {
				flat(dst, c.stride, int32(values[0])*table[0])
				continue
			}
			for n, v := range values {
				b[zigzag[n]&63] = int32(v) * table[n]
			}
			toSamples(dst, c.stride, &b)
		}
	}
	return nil
}
