package gunzip

import (
	"encoding/binary"
	"errors"
	"io"
	"unsafe"
)

// symbol is what comes out: bytes, or, where the window before a chunk is not known yet, 16 bits
// that are a byte or, from marker on, a place in that window.
type symbol interface{ uint8 | uint16 }

const (
	window = 32 << 10
	marker = 1 << 15

	// slack is the room that block wants in front of the end of out: three packed literals twice, a
	// match, and what copying in words writes too much.
	slack = 320
)

var errDamaged = errors.New("gzip: invalid compressed data")

// decoder decodes one block after the other.
type decoder struct {
	*input
	tables
	kind   blockKind
	final  bool // the block that was begun last is its member's last
	stored int  // bytes to come in a stored block
	fixed  bool // the tables are those of fixed blocks

	// See advance.
	member bool
	low    int
	ends   []end
}

type blockKind int

const (
	noBlock blockKind = iota
	storedBlock
	codedBlock
)

var codeLengthOrder = [19]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// begin reads a block's header.
func (d *decoder) begin() error {
	if err := d.fill(); err != nil {
		return err
	}
	d.final = d.take(1) == 1
	switch d.take(2) {
	case 0:
		d.align()
		head := d.buffer[d.next:]
		d.next += 4
		if d.overrun() {
			return io.ErrUnexpectedEOF
		}
		n := binary.LittleEndian.Uint16(head)
		if n != ^binary.LittleEndian.Uint16(head[2:]) {
			return errDamaged
		}
		d.kind, d.stored = storedBlock, int(n)
		return nil
	case 1:
		d.kind = codedBlock
		d.fixedTables()
	case 2:
		d.kind = codedBlock
		if err := d.dynamicTables(); err != nil {
			if d.overrun() {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	default:
		if d.overrun() {
			return io.ErrUnexpectedEOF
		}
		return errDamaged
	}
	if d.overrun() {
		return io.ErrUnexpectedEOF
	}
	return nil
}

func (d *decoder) fixedTables() {
	if d.fixed {
		return
	}
	var lengths [288]uint8
	for s := range lengths {
		switch {
		case s < 144:
			lengths[s] = 8
		case s < 256:
			lengths[s] = 9
		case s < 280:
			lengths[s] = 7
		default:
			lengths[s] = 8
		}
	}
	d.buildLit(lengths[:])
	for s := range 32 {
		lengths[s] = 5
	}
	d.buildDist(lengths[:32])
	d.fixed = true
}

func (d *decoder) dynamicTables() error {
	d.fixed = false
	literals, distances, n := int(d.take(5))+257, int(d.take(5))+1, int(d.take(4))+4
	if literals > 286 || distances > 30 {
		return errDamaged
	}
	var lengths [286 + 30]uint8
	for _, s := range codeLengthOrder[:n] {
		lengths[s] = uint8(d.take(3))
	}
	if !d.codes.sort(lengths[:19]) || len(d.codes.symbols) < 2 {
		return errDamaged
	}
	// bits 0-2 code length, 3-7 symbol
	var table [128]uint8
	d.codes.each(7, func(symbol int, length, at, step, end uint) {
		for ; at < end; at += step {
			table[at] = uint8(symbol)<<3 | uint8(length)
		}
	}, nil)
	lengths = [286 + 30]uint8{}
	for i := 0; i < literals+distances; {
		d.refill()
		e := table[d.bits&127]
		d.drop(uint(e & 7))
		s := e >> 3
		if s < 16 {
			lengths[i] = s
			i++
			continue
		}
		var value uint8
		var times int
		switch s {
		case 16:
			if i == 0 {
				return errDamaged
			}
			value, times = lengths[i-1], 3+int(d.take(2))
		case 17:
			times = 3 + int(d.take(3))
		default:
			times = 11 + int(d.take(7))
		}
		if i+times > literals+distances {
			return errDamaged
		}
		for ; times > 0; times-- {
			lengths[i] = value
			i++
		}
	}
	if !d.buildLit(lengths[:literals]) || !d.buildDist(lengths[literals:literals+distances]) {
		return errDamaged
	}
	return nil
}

// block goes on with the block that was begun, into out[o:]. Matches reach back to out[low] at
// most. It returns where it stopped: behind the block, which is then noBlock, or less than slack
// before the end of out.
func block[T symbol](d *decoder, out []T, o, low int) (int, error) {
	for d.kind != noBlock && o <= len(out)-slack {
		if err := d.fill(); err != nil {
			return o, err
		}
		var err error
		if d.kind == storedBlock {
			o = copyStored(d, out, o)
		} else {
			o, err = decode(d, out, o, low)
		}
		if d.overrun() {
			return o, io.ErrUnexpectedEOF
		}
		if err != nil {
			return o, err
		}
	}
	return o, nil
}

func copyStored[T symbol](d *decoder, out []T, o int) int {
	n := min(d.stored, len(out)-o, len(d.buffer)-d.next)
	src, dst := d.buffer[d.next:d.next+n], out[o:o+n]
	if bytes, ok := any(dst).([]uint8); ok {
		copy(bytes, src)
	} else {
		for i, b := range src {
			dst[i] = T(b)
		}
	}
	d.next += n
	d.stored -= n
	if d.stored == 0 {
		d.kind = noBlock
	}
	return o + n
}

// decode is block for coded ones, as long as the buffered input lasts.
//
// It writes through pointers, because half of the time would go into checking bounds that are
// known. What is known: a step begins with o <= len(out)-slack, and writes less than slack symbols
// from o on: nine literals of which the last are stored four at a time, and a match of 258 at most,
// copied in words of eight bytes, which may go 15 bytes too far. It reads from src >= low >= 0 on
// and before o, or what it wrote itself.
func decode[T symbol](d *decoder, out []T, o, low int) (int, error) {
	symbolBytes := unsafe.Sizeof(T(0))
	base := unsafe.Pointer(unsafe.SliceData(out))
	in, next, bits, count := d.buffer, d.next, d.bits, d.count
	lit, dist := &d.lit, &d.dist
	limit, last := len(out)-slack, len(in)-16
	var err error
	for o <= limit && next <= last {
		bits |= binary.LittleEndian.Uint64(in[next:]) << (count & 63)
		next += int((63 - count) >> 3 & 7)
		count |= 56
		e := lit[bits&(1<<litBits-1)]
		if e&manyLiterals != 0 {
			store(unsafe.Add(base, uintptr(o)*symbolBytes), symbolBytes, e)
			o += int(e >> 4 & 3)
			bits >>= e & 15
			count -= uint(e & 15)
			e = lit[bits&(1<<litBits-1)]
			if e&manyLiterals != 0 {
				store(unsafe.Add(base, uintptr(o)*symbolBytes), symbolBytes, e)
				o += int(e >> 4 & 3)
				bits >>= e & 15
				count -= uint(e & 15)
				e = lit[bits&(1<<litBits-1)]
				if e&manyLiterals != 0 {
					store(unsafe.Add(base, uintptr(o)*symbolBytes), symbolBytes, e)
					o += int(e >> 4 & 3)
					bits >>= e & 15
					count -= uint(e & 15)
					continue
				}
			}
			// A length and a distance take up to 48 bits.
			bits |= binary.LittleEndian.Uint64(in[next:]) << (count & 63)
			next += int((63 - count) >> 3 & 7)
			count |= 56
		}
		if e&kindMask == isSubtable {
			e = lit[(uint64(e>>8&0xffff)+bits>>litBits&(1<<(e>>24&15)-1))&(litSize-1)]
			if e&manyLiterals != 0 {
				store(unsafe.Add(base, uintptr(o)*symbolBytes), symbolBytes, e)
				o++
				bits >>= e & 15
				count -= uint(e & 15)
				continue
			}
		}
		if e&kindMask != isLength {
			if e&kindMask == isEnd {
				bits >>= e & 15
				count -= uint(e & 15)
				d.kind = noBlock
			} else {
				err = errDamaged
			}
			break
		}
		all := e >> 20 & 31
		length := int(e>>8&511) + int(bits&(1<<all-1)>>(e&15))
		bits >>= all
		count -= uint(all)
		e = dist[bits&(1<<distBits-1)]
		if e&farSubtable != 0 {
			e = dist[(uint64(e>>16&0x7fff)+bits>>distBits&(1<<(e&15)-1))&(distSize-1)]
		}
		all = e & 31
		distance := int(e>>16) + int(bits&(1<<all-1)>>(e>>8&15))
		bits >>= all
		count -= uint(all)
		if e == 0 || distance > o-low {
			err = errDamaged
			break
		}
		// Most matches are short and no repetition: two words.
		at := unsafe.Add(base, uintptr(o)*symbolBytes)
		o += length
		if far := uintptr(distance) * symbolBytes; far >= 8 {
			*(*uint64)(at) = *(*uint64)(unsafe.Add(at, -int(far)))
			*(*uint64)(unsafe.Add(at, 8)) = *(*uint64)(unsafe.Add(at, 8-int(far)))
			if uintptr(length)*symbolBytes <= 16 {
				continue
			}
		}
		copyMatch(at, uintptr(distance)*symbolBytes, uintptr(length)*symbolBytes)
	}
	d.next, d.bits, d.count = next, bits, count
	return o, err
}

// store writes the three literals that an entry has room for, and a fourth symbol of no meaning.
func store(at unsafe.Pointer, symbolBytes uintptr, e uint32) {
	if symbolBytes == 1 {
		*(*uint32)(at) = e >> 8
		return
	}
	x := uint64(e >> 8)
	x = (x | x<<16) & 0x0000_00ff_0000_ffff
	*(*uint64)(at) = (x | x<<8) & 0x00ff_00ff_00ff_00ff
}

// copyMatch copies length bytes from distance before, a word of eight at a time.
func copyMatch(at unsafe.Pointer, distance, length uintptr) {
	if distance < 8 {
		// A word holds the repetition: as many whole ones as fit.
		x := *(*uint64)(unsafe.Add(at, -int(distance))) & (1<<(8*distance&63) - 1) * repeat[distance]
		for n, step := uintptr(0), 8-8%distance; n < length; n += step {
			*(*uint64)(unsafe.Add(at, n)) = x
		}
		return
	}
	for n := uintptr(0); n < length; n += 8 {
		*(*uint64)(unsafe.Add(at, n)) = *(*uint64)(unsafe.Add(at, int(n)-int(distance)))
	}
}

// repeat[n] times a number of n bytes is these bytes over and over.
var repeat = [8]uint64{
	1: 0x0101010101010101, 2: 0x0001000100010001, 3: 0x0001000001000001, 4: 0x0000000100000001, 5: 0x0000010000000001,
	6: 0x0001000000000001, 7: 0x0100000000000001,
}
