// Package tensorboard writes event files as TensorBoard reads them: numbers and pictures by step.
//
// Start at [Board], which writes those of a training, or at [Events]. A file is a row of records,
// each with its length and two checksums, and a record is one Event of TensorFlow's event.proto, in
// Protocol Buffers' encoding. Only the fields that are written are known here. [Whole] says how
// much of a file that was cut short is of use.
package tensorboard

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"math"
)

// Events are the bytes of an event file, or the next bytes of one.
type Events []byte

// castagnoli is the polynomial of the records' checksums.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum is the masked checksum of TensorFlow's record files.
func checksum(data []byte) uint32 { return masked(crc32.Checksum(data, castagnoli)) }

func masked(sum uint32) uint32 { return (sum>>15 | sum<<17) + 0xa282ead8 }

// record appends a record.
func (e *Events) record(data []byte) {
	length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	b := append(*e, length...)
	b = binary.LittleEndian.AppendUint32(b, checksum(length))
	b = append(b, data...)
	*e = binary.LittleEndian.AppendUint32(b, checksum(data))
}

// Begin appends what every file begins with. Time is in seconds since 1970.
func (e *Events) Begin(time float64) {
	e.record(message{}.double(1, time).bytes(3, []byte("brain.Event:2")))
}

// Resume appends that a training goes on after a step: what the file says of later ones is void.
func (e *Events) Resume(time float64, step int) {
	const start = 1
	event := message{}.double(1, time).varint(2, uint64(step)+1)
	e.record(event.bytes(7, message{}.varint(1, start)))
}

// Whole is the length of the whole records that a file begins with: a process that was killed may
// have left a part of one, behind which nobody would read on. The error comes from reading.
func Whole(file io.Reader) (length int64, err error) {
	r := bufio.NewReaderSize(file, 1<<20)
	buffer := make([]byte, 1<<16)
	for {
		n, err := record(r, buffer)
		switch {
		case err == io.EOF, err == io.ErrUnexpectedEOF, err == errDamaged:
			return length, nil
		case err != nil:
			return length, err
		}
		length += n
	}
}

var errDamaged = errors.New("a checksum is wrong")

// record reads a record, and returns its length.
func record(r io.Reader, buffer []byte) (length int64, err error) {
	head := buffer[:12]
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, err
	}
	n := binary.LittleEndian.Uint64(head)
	if checksum(head[:8]) != binary.LittleEndian.Uint32(head[8:]) || n > math.MaxInt32 {
		return 0, errDamaged
	}
	sum := uint32(0)
	for left := int64(n); left > 0; {
		part := buffer[:min(left, int64(len(buffer)))]
		if _, err := io.ReadFull(r, part); err != nil {
			return 0, err
		}
		sum, left = crc32.Update(sum, castagnoli, part), left-int64(len(part))
	}
	foot := buffer[:4]
	if _, err := io.ReadFull(r, foot); err != nil {
		return 0, err
	}
	if masked(sum) != binary.LittleEndian.Uint32(foot) {
		return 0, errDamaged
	}
	return 16 + int64(n), nil
}

// Scalar appends a number.
func (e *Events) Scalar(time float64, step int, tag string, value float64) {
	bits := math.Float32bits(float32(value))
	e.summary(time, step, binary.LittleEndian.AppendUint32(message{}.bytes(1, []byte(tag)).key(2, fixed32), bits))
}

// Picture appends a PNG file of a size in pixels.
func (e *Events) Picture(time float64, step int, tag string, width, height int, file []byte) {
	const rgb = 3
	picture := message{}.varint(1, uint64(height)).varint(2, uint64(width)).varint(3, rgb).bytes(4, file)
	e.summary(time, step, message{}.bytes(1, []byte(tag)).bytes(4, picture))
}

// summary appends an event of one value.
func (e *Events) summary(time float64, step int, value message) {
	event := message{}.double(1, time)
	if step != 0 {
		event = event.varint(2, uint64(step))
	}
	e.record(event.bytes(5, message{}.bytes(1, value)))
}

// message is a message of Protocol Buffers under construction.
type message []byte

// The ways in which a field may follow its key.
const (
	varint = iota
	fixed64
	delimited
	fixed32 = 5
)

func (m message) key(field, kind int) message { return binary.AppendUvarint(m, uint64(field<<3|kind)) }

func (m message) varint(field int, v uint64) message {
	return binary.AppendUvarint(m.key(field, varint), v)
}

func (m message) double(field int, v float64) message {
	return binary.LittleEndian.AppendUint64(m.key(field, fixed64), math.Float64bits(v))
}

func (m message) bytes(field int, v []byte) message {
	return append(binary.AppendUvarint(m.key(field, delimited), uint64(len(v))), v...)
}
