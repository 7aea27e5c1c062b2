package gunzip

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// A gzip file is one member after another: a header, a stream of blocks, and a trailer with the
// checksum and the length of what is in it.

var (
	// ErrHeader says that a gzip header is damaged.
	ErrHeader = errors.New("gzip: invalid header")
	// ErrChecksum says that the content is not what was compressed.
	ErrChecksum = errors.New("gzip: invalid checksum")
	errGarbage  = errors.New("gzip: other data follow the compressed ones")
)

// end is the end of a member.
type end struct {
	at        int // in the output
	crc, size uint32
}

// place is where decoding can begin: a block of the usual kind (dynamic, and not its member's
// last), or a member's header.
type place struct {
	bit    int64 // of the file
	member bool
}

// advance decodes into out[o:] up to the first place at or after bit until (found is true), up to
// the end of the file, or until out is full (less than slack is left, and d.kind is not noBlock).
// The decoder remembers whether a member's header is up next, where in out the present member
// begins (low), and where others ended.
func advance[T symbol](d *decoder, out []T, o int, until int64) (stop int, found, over bool, err error) {
	for {
		if d.kind == noBlock {
			if d.final {
				if over, err = d.finish(o); over || err != nil {
					return o, false, over, err
				}
			}
			if d.bit() >= until && (d.member || d.dynamic()) {
				return o, true, false, nil
			}
			if d.member {
				if err := d.header(); err != nil {
					return o, false, false, err
				}
				d.member, d.low = false, o
			}
			if err := d.begin(); err != nil {
				return o, false, false, err
			}
		}
		if o, err = block(d, out, o, d.low); err != nil || d.kind != noBlock {
			return o, false, false, err
		}
	}
}

// dynamic says whether the next block is a dynamic one and not the last. This is the pattern that
// find looks for.
func (d *decoder) dynamic() bool {
	if d.count < 3 {
		d.refill()
	}
	return d.bits&7 == 4
}

// finish reads a member's trailer, and the zeros that some programs fill their files with. Over is
// true at the end of the file.
func (d *decoder) finish(o int) (over bool, err error) {
	d.align()
	var trailer [8]byte
	for n := range trailer {
		if trailer[n], err = d.readByte(); err != nil {
			return false, err
		}
	}
	d.ends = append(d.ends, end{o, binary.LittleEndian.Uint32(trailer[:]), binary.LittleEndian.Uint32(trailer[4:])})
	d.final = false
	for {
		b, err := d.readByte()
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF):
			return true, nil
		case err != nil:
			return false, err
		case b == 0x1f:
			d.next--
			d.member = true
			return false, nil
		case b != 0:
			return false, errGarbage
		}
	}
}

// header reads a member's header.
func (d *decoder) header() error {
	const (
		hasChecksum = 1 << 1
		hasExtra    = 1 << 2
		hasName     = 1 << 3
		hasComment  = 1 << 4
		unknown     = 7 << 5
	)
	d.align()
	sum := uint32(0)
	var one [1]byte
	read := func() (b byte, err error) {
		b, err = d.readByte()
		one[0] = b
		sum = crc32.Update(sum, crc32.IEEETable, one[:])
		return b, err
	}
	var fixed [10]byte
	for n := range fixed {
		var err error
		if fixed[n], err = read(); err != nil {
			return err
		}
	}
	flags := fixed[3]
	if fixed[0] != 0x1f || fixed[1] != 0x8b || fixed[2] != 8 || flags&unknown != 0 {
		return ErrHeader
	}
	if flags&hasExtra != 0 {
		low, err := read()
		if err != nil {
			return err
		}
		high, err := read()
		if err != nil {
			return err
		}
		for range int(high)<<8 | int(low) {
			if _, err := read(); err != nil {
				return err
			}
		}
	}
	for _, text := range []byte{hasName, hasComment} {
		for flags&text != 0 {
			b, err := read()
			if err != nil {
				return err
			}
			if b == 0 {
				break
			}
		}
	}
	if flags&hasChecksum != 0 {
		want := uint16(sum)
		low, err := d.readByte()
		if err != nil {
			return err
		}
		high, err := d.readByte()
		if err != nil {
			return err
		}
		if uint16(high)<<8|uint16(low) != want {
			return ErrHeader
		}
	}
	return nil
}
