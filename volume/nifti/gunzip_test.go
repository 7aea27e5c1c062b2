package nifti

import (
	"bytes"
	"compress/flate"
	stdgzip "compress/gzip"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/gzip"
)

// member is a member of a gzip file made by hand: with every optional part of a header that the
// bits of n ask for, after RFC 1952.
func member(data []byte, n int) []byte {
	flags := byte(n%16) << 1
	file := []byte{0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255}
	if flags&4 != 0 {
		file = append(file, 6, 0, 'B', 'C', 2, 0, 0, 0)
	}
	if flags&8 != 0 {
		file = append(file, "scan.nii\x00"...)
	}
	if flags&16 != 0 {
		file = append(file, "a comment\x00"...)
	}
	if flags&2 != 0 {
		file = binary.LittleEndian.AppendUint16(file, uint16(crc32.ChecksumIEEE(file)))
	}
	var b bytes.Buffer
	z, _ := flate.NewWriter(&b, 6)
	z.Write(data)
	z.Close()
	file = append(file, b.Bytes()...)
	file = binary.LittleEndian.AppendUint32(file, crc32.ChecksumIEEE(data))
	return binary.LittleEndian.AppendUint32(file, uint32(len(data)))
}

func unzipAll(file io.Reader) ([]byte, error) {
	u, err := unzip(file)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(u)
}

// Files of many members, with all kinds of headers, empty ones among them and zeros behind the last
// one, are what compress/gzip makes of the members.
func TestMembersOfGzip(t *testing.T) {
	var file, want []byte
	for n := range 40 {
		data := bytes.Repeat([]byte{byte(n), 1, 2}, n*n*20)
		if n%7 == 3 {
			data = nil
		}
		file, want = append(file, member(data, n)...), append(want, data...)
	}
	z, err := stdgzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	if other, err := io.ReadAll(z); err != nil || !bytes.Equal(other, want) {
		t.Fatal("the test's own file is wrong", err)
	}
	for _, zeros := range []int{0, 1, 600} {
		padded := slices.Concat(file, make([]byte, zeros))
		for name, r := range map[string]io.Reader{"whole": bytes.NewReader(padded),
			"byte by byte": iotest.OneByteReader(bytes.NewReader(padded))} {
			if got, err := unzipAll(r); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s, %d zeros: %d bytes of %d, %v", name, zeros, len(got), len(want), err)
			}
		}
	}
}

// A file that is cut anywhere, or has another bit anywhere, is no file with other content.
func TestDamagedGzip(t *testing.T) {
	data := []byte("some bytes, some more bytes, and some more")
	file := member(data, 0)
	change := func(at int, xor byte) []byte {
		f := bytes.Clone(file)
		f[(at+len(f))%len(f)] ^= xor
		return f
	}
	for _, c := range []struct {
		name string
		file []byte
		want error
	}{
		{"nothing", nil, io.ErrUnexpectedEOF},
		{"another magic", change(1, 1), gzip.ErrHeader},
		{"another method", change(2, 1), gzip.ErrHeader},
		{"name without an end", change(3, 1<<3)[:12], io.ErrUnexpectedEOF},
		{"header's checksum", slices.Concat([]byte{0x1f, 0x8b, 8, 2, 0, 0, 0, 0, 0, 0, 1, 2}, file[10:]),
			gzip.ErrHeader},
		{"checksum", change(-5, 1), gzip.ErrChecksum},
		{"length", change(-1, 1), gzip.ErrChecksum},
		{"other data behind", append(bytes.Clone(file), "x"...), errGarbage},
		{"half a second member", slices.Concat(file, file[:len(file)-9]), io.ErrUnexpectedEOF},
		{"garbage after the second member", slices.Concat(file, file, []byte{0, 0, 3}), errGarbage},
	} {
		if _, err := unzipAll(bytes.NewReader(c.file)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", c.name, err, c.want)
		}
	}
	for n := range file {
		if _, err := unzipAll(bytes.NewReader(file[:n])); err == nil {
			t.Errorf("cut after %d of %d bytes: no error", n, len(file))
		}
		for bit := range 8 {
			got, err := unzipAll(bytes.NewReader(change(n, 1<<bit)))
			if err == nil && !bytes.Equal(got, data) {
				t.Errorf("bit %d of byte %d changed: other content and no error", bit, n)
			}
		}
	}
}
