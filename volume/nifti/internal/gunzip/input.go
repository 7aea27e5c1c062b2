package gunzip

import (
	"encoding/binary"
	"errors"
	"io"
)

// input is a stretch of the compressed file, and the bits of it that are up next.
//
// The bits are read as libdeflate does: bits holds the next ones, the first in the lowest place. At
// least count of them are accounted for; those above are bits of the file as well, or zero, so that
// a refill can put them there a second time. Behind the end of the file lie padding zeros: whoever
// has used more bits than the file has finds out by overrun, and need not look at each step.
type input struct {
	file io.ReaderAt
	size int64 // of the file

	memory []byte
	buffer []byte // what of memory is filled, padding at the end of the file included
	base   int64  // of buffer in the file
	next   int    // byte of buffer that comes into bits next
	bits   uint64
	count  uint
}

const (
	inputBytes = 128 << 10
	// reserve is how many bytes there are between two calls of fill: a block's header is the
	// longest (17 bits, 19 lengths of 3 bits, 316 of at most 14).
	reserve = 1024
	padding = reserve
)

// reset begins with another file, of size bytes.
func (in *input) reset(file io.ReaderAt, size int64) {
	memory := in.memory
	if need := int(min(inputBytes, size)) + 8 + reserve + padding; cap(memory) < need {
		memory = make([]byte, need)
	} else {
		memory = memory[:need]
	}
	*in = input{file: file, size: size, memory: memory}
}

// seek goes to a bit of the file.
func (in *input) seek(bit int64) error {
	in.bits, in.count = 0, 0
	if b := bit/8 - in.base; b >= 0 && b < int64(len(in.buffer)) {
		in.next = int(b)
	} else {
		in.base, in.next, in.buffer = bit/8, 0, in.memory[:0]
	}
	if err := in.fill(); err != nil {
		return err
	}
	in.refill()
	in.drop(uint(bit % 8))
	return nil
}

// bit is where in the file the next bit lies.
func (in *input) bit() int64 { return (in.base+int64(in.next))*8 - int64(in.count) }

// overrun says whether more bits were used than the file has.
func (in *input) overrun() bool { return in.bit() > in.size*8 }

// fill sees to it that the buffer holds at least reserve bytes beyond next, or all there are and
// the padding.
func (in *input) fill() error {
	if len(in.buffer)-in.next >= reserve || in.base+int64(len(in.buffer)) > in.size {
		return nil
	}
	keep := min(in.next, 8) // bytes that may be in bits and be given back
	n := copy(in.memory, in.buffer[in.next-keep:])
	in.base += int64(in.next - keep)
	in.next = keep
	want := min(int64(len(in.memory)-padding-n), max(in.size-in.base-int64(n), 0))
	got, err := in.file.ReadAt(in.memory[n:n+int(want)], in.base+int64(n))
	if int64(got) < want { // the file has become shorter, or the disk fails
		if err == nil || errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return err
	}
	n += got
	if in.base+int64(n) >= in.size {
		clear(in.memory[n : n+padding])
		n += padding
	}
	in.buffer = in.memory[:n]
	return nil
}

// refill brings at least 56 bits into bits. There must be 8 bytes in the buffer.
func (in *input) refill() {
	in.bits |= binary.LittleEndian.Uint64(in.buffer[in.next:]) << (in.count & 63)
	in.next += int((63 - in.count) >> 3 & 7)
	in.count |= 56
}

func (in *input) drop(n uint) {
	in.bits >>= n & 63
	in.count -= n
}

// take returns the next n bits, at most 32.
func (in *input) take(n uint) uint32 {
	if in.count < n {
		in.refill()
	}
	x := uint32(in.bits & (1<<n - 1))
	in.drop(n)
	return x
}

// align goes to the next whole byte, and gives the bytes in bits back to the buffer.
func (in *input) align() {
	in.drop(in.count & 7)
	in.next -= int(in.count / 8)
	in.bits, in.count = 0, 0
}

// readByte returns the next byte, after align.
func (in *input) readByte() (byte, error) {
	if in.base+int64(in.next) >= in.size {
		return 0, io.ErrUnexpectedEOF
	}
	if err := in.fill(); err != nil {
		return 0, err
	}
	b := in.buffer[in.next]
	in.next++
	return b, nil
}
