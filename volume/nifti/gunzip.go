package nifti

import (
	"bufio"
	"errors"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/errgroup"

	"github.com/voxsaw/voxsaw/volume"
)

// unzipped reads a gzip file of one member or of many (bgzip's, pigz's), and passes over zeros
// behind the last one, which some programs fill their files with.
type unzipped struct {
	in *bufio.Reader
	z  *gzip.Reader
}

// errGarbage says that neither a member nor zeros follow.
var errGarbage = errors.New("gzip: other data follow the compressed ones")

func unzip(file io.Reader) (*unzipped, error) {
	u := &unzipped{bufio.NewReaderSize(file, 128<<10), new(gzip.Reader)}
	return u, u.begin()
}

// begin reads a member's header.
func (u *unzipped) begin() error {
	err := u.z.Reset(u.in)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	u.z.Multistream(false)
	return err
}

// Read implements [io.Reader]. At [io.EOF] all checksums were right.
func (u *unzipped) Read(b []byte) (int, error) {
	for {
		n, err := u.z.Read(b)
		switch {
		case n > 0 && errors.Is(err, io.EOF):
			return n, nil // and what follows the next time
		case n > 0 || !errors.Is(err, io.EOF):
			return n, err
		}
		if err := u.next(); err != nil {
			return 0, err
		}
	}
}

// next goes to the next member; io.EOF says that there is none.
func (u *unzipped) next() error {
	for {
		switch b, err := u.in.ReadByte(); {
		case err != nil:
			return err
		case b == 0x1f:
			return errors.Join(u.in.UnreadByte(), u.begin())
		case b != 0:
			return errGarbage
		}
	}
}

// fill reads until b is full; io.EOF says that there is no more.
func (u *unzipped) fill(b []byte) (n int, err error) {
	for n < len(b) && err == nil {
		var more int
		more, err = u.Read(b[n:])
		n += more
	}
	return n, err
}

// damaged is the error of a compressed file whose content ends with err.
func (c *content) damaged(err error) error {
	problem := "is damaged"
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		problem = "is truncated: its compressed data end too early"
	case errors.Is(err, gzip.ErrHeader):
		problem = "has a damaged gzip header"
	}
	return &volume.FormatError{Path: c.path, Problem: problem, Err: err}
}

// eachUnzipped does what [eachPiece] does with a compressed file: while a piece is converted, the
// next one is decompressed.
func (h *Header) eachUnzipped(c *content, index int, take func(first int64, src []byte) bool) error {
	total := h.bytes()
	u, err := unzip(c.file)
	if err == nil {
		_, err = io.CopyN(io.Discard, u, h.offset+total*int64(index))
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	var refused atomic.Bool
	got := int64(0)
	for err == nil && got < total && !refused.Load() {
		buffer := buffers.Get().(*[piece]byte)
		var n int
		n, err = u.fill(buffer[:min(piece, total-got)])
		first, whole := got/int64(h.size), buffer[:n-n%h.size]
		got += int64(n)
		g.Go(func() error {
			defer buffers.Put(buffer)
			if !take(first, whole) {
				refused.Store(true)
				return errRange
			}
			return nil
		})
	}
	if failed := g.Wait(); failed != nil {
		return failed
	}
	if (err == nil || errors.Is(err, io.EOF)) && got < total {
		return h.truncated(got)
	}
	if err == nil && index == h.Volumes-1 { // the checksum comes after the last volume
		var behind int64
		behind, err = io.CopyN(io.Discard, u, beyond)
		h.behind.Store(behind)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		return c.damaged(err)
	}
	return nil
}
