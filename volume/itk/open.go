package itk

import (
	"compress/gzip"
	"compress/zlib"
	"errors"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/volume"
)

// opened is the voxels of a file, decompressed.
type opened struct {
	io.Reader
	file  *os.File
	inner io.Closer // of the decompression; nil for none
}

// Close closes the file.
func (o *opened) Close() error {
	if o.inner != nil {
		return errors.Join(o.inner.Close(), o.file.Close())
	}
	return o.file.Close()
}

// open goes to the first voxel.
func (h *Header) open() (*opened, error) {
	file, err := folders.Open(h.data)
	if err != nil {
		return nil, &volume.FormatError{Path: h.Path, Problem: "its voxels cannot be opened", Err: err}
	}
	o := &opened{Reader: file, file: file}
	if err := h.seek(o); err != nil {
		file.Close()
		return nil, err
	}
	return o, nil
}

// seek skips what lies before the voxels, and begins to decompress them.
func (h *Header) seek(o *opened) (err error) {
	if _, err := o.file.Seek(h.offset, io.SeekStart); err != nil {
		return err
	}
	switch h.compression {
	case "gzip":
		z, err := gzip.NewReader(o.file)
		if err != nil {
			return h.short(err)
		}
		o.Reader, o.inner = z, z
	case "zlib":
		z, err := zlib.NewReader(o.file)
		if err != nil {
			return h.short(err)
		}
		o.Reader, o.inner = z, z
	}
	return nil
}

// floats parses numbers that are divided by spaces: as many as are wanted.
func floats(text string, want int) ([]float64, error) {
	words := strings.Fields(text)
	if len(words) != want {
		return nil, errors.New("another number of values")
	}
	list := make([]float64, want)
	for n, word := range words {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, err
		}
		list[n] = x
	}
	return list, nil
}

// extents parses the extents of axes.
func extents(text string) ([]int, error) {
	var list []int
	for _, word := range strings.Fields(text) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, errors.New("extents must be whole numbers from 1 up")
		}
		list = append(list, n)
	}
	return list, nil
}
