// Package itk reads the image formats of ITK and 3D Slicer: NRRD (.nrrd, or .nhdr with its data
// beside it) and MetaImage (.mha, or .mhd with its data beside it).
//
// Start at [ReadHeader], [Read] and [ReadLabels]. World coordinates are RAS+ millimetres, as in
// package volume. Data may be raw or compressed with gzip (NRRD) or zlib (MetaImage), one number a
// voxel, or several volumes. The package leaves out other encodings (text, hex, bzip2), data in
// several files, colours and tensors, and writing.
package itk

import (
	"bufio"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/standin"
	"github.com/voxsaw/voxsaw/volume"
)

// Header says what a file holds.
type Header struct {
	volume.Grid          // of one volume
	Path        string   // as it was given
	Format      string   // NRRD or MetaImage
	Volumes     int      // how many the file holds
	Dims        []int    // all extents, as the file lists them
	Datatype    string   // numpy's name: int16, uint8, float32, ...
	Problems    []string // what is odd, though the file can be read
	// Names are those of a segmentation's labels, where the file has them, as 3D Slicer's
	// .seg.nrrd.
	Names map[uint16]string
	// Segments are those of a segmentation of 3D Slicer, in their order.
	Segments []Segment

	kind        voxelType
	order       binary.ByteOrder
	compression string // "", gzip or zlib
	data        string // the file with the voxels
	header      int64  // bytes of a header that lies before them in that file
	// of them in that file; until the file is looked at, -1 says that they end it
	offset int64
	first  bool // the volumes' axis is the first: the values of a voxel lie together
}

// A Segment is a structure of a segmentation of 3D Slicer: the voxels of one value in one layer.
// Layers are the volumes of the file: segments that overlap lie in different ones, and each layer
// may count its values from 1.
type Segment struct {
	Name  string // "" where the file has none
	Layer int    // 0 for the first
	Value uint16 // of its voxels in that layer
	// Label is its number among all segments: its value where no two segments have the same, else
	// its place, 1 for the first.
	Label uint16
}

// voxelType is how a value is stored.
type voxelType struct {
	name  string
	bytes int
	read  func(b []byte, o binary.ByteOrder) float64
}

// types are the values that are read, by numpy's name.
var types = map[string]voxelType{}

func init() {
	for _, t := range []voxelType{
		{"int8", 1, func(b []byte, _ binary.ByteOrder) float64 { return float64(int8(b[0])) }},
		{"uint8", 1, func(b []byte, _ binary.ByteOrder) float64 { return float64(b[0]) }},
		{"int16", 2, func(b []byte, o binary.ByteOrder) float64 { return float64(int16(o.Uint16(b))) }},
		{"uint16", 2, func(b []byte, o binary.ByteOrder) float64 { return float64(o.Uint16(b)) }},
		{"int32", 4, func(b []byte, o binary.ByteOrder) float64 { return float64(int32(o.Uint32(b))) }},
		{"uint32", 4, func(b []byte, o binary.ByteOrder) float64 { return float64(o.Uint32(b)) }},
		{"int64", 8, func(b []byte, o binary.ByteOrder) float64 { return float64(int64(o.Uint64(b))) }},
		{"uint64", 8, func(b []byte, o binary.ByteOrder) float64 { return float64(o.Uint64(b)) }},
		{"float32", 4,
			func(b []byte, o binary.ByteOrder) float64 { return float64(math.Float32frombits(o.Uint32(b))) }},
		{"float64", 8, func(b []byte, o binary.ByteOrder) float64 { return math.Float64frombits(o.Uint64(b)) }},
	} {
		types[t.name] = t
	}
}

// extensions of the files that have headers.
var extensions = []string{".nrrd", ".nhdr", ".mha", ".mhd"}

// Stem removes the extension of such a file's name or path, in small or capital letters. It returns
// false for other names, and for those of hidden files.
func Stem(path string) (stem string, ok bool) {
	if strings.HasPrefix(filepath.Base(path), ".") {
		return "", false
	}
	for _, ext := range extensions {
		if len(path) > len(ext) && strings.EqualFold(path[len(path)-len(ext):], ext) {
			return path[:len(path)-len(ext)], true
		}
	}
	return "", false
}

// VoxelBytes is what a voxel takes in memory: 2 bytes where all values may be whole numbers of 16
// bits, otherwise 4.
func (h *Header) VoxelBytes() int {
	if h.kind.bytes == 1 || h.kind.name == "int16" {
		return 2
	}
	return 4
}

// Files are those that the image lies in, the one with the header first.
func (h *Header) Files() []string {
	if h.data == h.Path {
		return []string{h.Path}
	}
	return []string{h.Path, h.data}
}

// maxHeader bounds the bytes of a header.
const maxHeader = 1 << 20

// ReadHeader reads what a file says about itself. Errors are [volume.FormatError],
// [volume.UnsupportedError], and of the file system.
func ReadHeader(path string) (*Header, error) {
	f, err := folders.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r := &lines{from: bufio.NewReader(io.LimitReader(f, maxHeader))}
	h := &Header{Path: path, Volumes: 1, data: path, order: binary.LittleEndian}
	start, _ := r.from.Peek(standin.Enough)
	if len(start) == 0 {
		return nil, h.damaged("is empty")
	}
	if what := standin.Instead(start); what != "" {
		return nil, h.damaged("%s", what)
	}
	if strings.HasPrefix(string(start), "NRRD") {
		h.Format = "NRRD"
		err = h.readNRRD(r)
	} else {
		h.Format = "MetaImage"
		err = h.readMeta(r)
	}
	if err == nil {
		err = h.check()
	}
	return h, err
}

// damaged is the error of a file that contradicts itself.
func (h *Header) damaged(format string, args ...any) error {
	return &volume.FormatError{Path: h.Path, Problem: fmt.Sprintf(format, args...)}
}

// unsupported is the error of a file that holds something that is not read.
func (h *Header) unsupported(format string, args ...any) error {
	return &volume.UnsupportedError{Path: h.Path, Problem: fmt.Sprintf(format, args...)}
}

// check looks at what the header says as a whole.
func (h *Header) check() error {
	if err := h.Grid.Check(); err != nil {
		return &volume.FormatError{Path: h.Path, Problem: "has no usable geometry", Err: err}
	}
	const most = 1 << 33 // voxels of all volumes
	if h.Volumes < 1 || h.Volumes > 1<<16 || int64(h.Volumes) > most/int64(h.Len()) {
		return h.damaged("%d volumes of %v voxels are none of a patient", h.Volumes, h.Shape)
	}
	stat, err := os.Stat(h.data)
	if err != nil {
		return &volume.FormatError{Path: h.Path, Problem: "the file with its voxels is not there", Err: err}
	}
	// what a file can hold, before memory is taken for it
	const densest = 1100 // times that deflate makes a file smaller, at most
	needed := int64(h.Volumes) * int64(h.Len()) * int64(h.kind.bytes)
	if h.offset < 0 {
		h.offset = max(stat.Size()-needed, h.header)
	}
	if h.offset > stat.Size() {
		if err := h.standsIn(); err != nil {
			return err
		}
		return h.damaged("its voxels begin at byte %d of a file that has %d", h.offset, stat.Size())
	}
	room := stat.Size() - h.offset
	if h.compression != "" {
		room *= densest
	}
	if needed > room {
		if err := h.standsIn(); err != nil {
			return err
		}
		return h.short(io.ErrUnexpectedEOF)
	}
	slice := int64(h.Shape[0]) * int64(h.Shape[1]) * int64(h.kind.bytes)
	if h.compression == "" && room-needed >= slice {
		h.Problems = append(h.Problems,
			fmt.Sprintf("its file has %d bytes more than the %v voxels that its header says: "+
				"is the header that of another file?", room-needed, numbers.Extents(h.Dims)))
	}
	return nil
}

// standsIn is the error of a file of voxels that holds something else in their place; nil where it
// seems to hold voxels.
func (h *Header) standsIn() error {
	f, err := folders.Open(h.data)
	if err != nil {
		return nil // who opens it says so
	}
	defer f.Close()
	var start [standin.Enough]byte
	n, _ := io.ReadFull(f, start[:])
	if what := standin.Instead(start[:n]); what != "" {
		return &volume.FormatError{Path: h.data, Problem: what}
	}
	return nil
}

// set takes a field of a header, which may not say two things.
func (h *Header) set(fields map[string]string, key, value string) error {
	if other, twice := fields[key]; twice && other != value {
		return h.damaged("its header says %s twice: %q and %q", key, other, value)
	}
	fields[key] = value
	return nil
}

// lines reads the lines of a header and counts their bytes.
type lines struct {
	from *bufio.Reader
	read int64
}

func (l *lines) next() (string, error) {
	line, err := l.from.ReadString('\n')
	l.read += int64(len(line))
	return strings.TrimRight(line, "\r\n"), err
}

// setAxes makes the grid of directions (mm from voxel to voxel along each axis) and an origin, both
// in a space whose axes the signs turn to RAS.
func (h *Header) setAxes(directions [3][3]float64, origin, signs [3]float64) {
	for row := range 3 {
		for axis := range 3 {
			h.Affine[row][axis] = signs[row] * directions[axis][row]
		}
		h.Affine[row][3] = signs[row] * origin[row]
	}
	h.Affine[3] = [4]float64{0, 0, 0, 1}
}

// lps are the signs that turn LPS to RAS.
var lps = [3]float64{-1, -1, 1}

// beside is the path of a file that a header names: no other folder's, because a header may come
// from anywhere.
func (h *Header) beside(name string) (string, error) {
	name = filepath.FromSlash(strings.ReplaceAll(name, `\`, "/"))
	if name == "" || !filepath.IsLocal(name) {
		return "", h.unsupported("its voxels lie in %q: only files beside it, or in a folder there, are read", name)
	}
	return filepath.Join(filepath.Dir(h.Path), name), nil
}

// Read reads a volume: number 1 for the first, 0 where there must be only one. Voxels are int16
// where all values are whole numbers that fit, float32 otherwise.
func Read(path string, number int) (*volume.Volume, error) {
	h, err := ReadHeader(path)
	if err != nil {
		return nil, err
	}
	if number == 0 && h.Volumes > 1 {
		return nil, h.unsupported("holds %d volumes: choose one with --volume", h.Volumes)
	}
	if number > h.Volumes {
		return nil, h.unsupported("holds %d volumes: there is no volume %d", h.Volumes, number)
	}
	if err := h.fits(2); err != nil {
		return nil, err
	}
	v := &volume.Volume{Grid: h.Grid, Int16: make([]int16, h.Len())}
	err = h.each(max(number, 1)-1, func(n int, x float64) error {
		if v.Float32 == nil && x == math.Trunc(x) && x >= math.MinInt16 && x <= math.MaxInt16 {
			v.Int16[n] = int16(x)
			return nil
		}
		if v.Float32 == nil {
			if err := h.fits(2 + 4); err != nil {
				return err
			}
			v.Float32 = make([]float32, h.Len())
			for m, whole := range v.Int16[:n] {
				v.Float32[m] = float32(whole)
			}
			v.Int16 = nil
		}
		v.Float32[n] = float32(x)
		return nil
	})
	return v, err
}

// ReadLabels reads a volume of labels, as [Read] reads one of numbers: whole numbers from 0 to
// 65535. It names them where the file does; of a file of several layers, the numbers are the
// layer's values, and [Header.Segments] says what they are.
func ReadLabels(path string, number int) (*volume.LabelMap, error) {
	h, err := ReadHeader(path)
	if err != nil {
		return nil, err
	}
	if number == 0 && h.Volumes > 1 {
		return nil, h.unsupported("holds %d volumes, labels must be one", h.Volumes)
	}
	if number > h.Volumes {
		return nil, h.unsupported("holds %d volumes: there is no volume %d", h.Volumes, number)
	}
	if err := h.fits(2); err != nil {
		return nil, err
	}
	l := &volume.LabelMap{Grid: h.Grid, Labels: make([]uint16, h.Len())}
	if h.Volumes == 1 {
		l.Names = h.Names
	}
	err = h.each(max(number, 1)-1, func(n int, x float64) error {
		label, ok := volume.ToLabel(x)
		if !ok {
			return h.damaged("is not a label map: it holds %g; labels are whole numbers from 0 to 65535", x)
		}
		l.Labels[n] = label
		return nil
	})
	return l, err
}

// fits says whether there is memory for one volume of voxels of so many bytes.
func (h *Header) fits(voxel int64) error {
	if err := memory.Check(voxel * int64(h.Len())); err != nil {
		return &volume.UnsupportedError{
			Path: h.Path, Problem: fmt.Sprintf("has %v voxels", numbers.Extents(h.Shape[:])), Err: err,
		}
	}
	return nil
}

// each calls f with the values of a volume, in the order of its voxels.
func (h *Header) each(index int, f func(n int, x float64) error) error {
	r, err := h.open()
	if err != nil {
		return err
	}
	defer r.Close()
	stride, skip := 1, int64(index)*int64(h.Len())
	if h.first {
		stride, skip = h.Volumes, int64(index)
	}
	in := bufio.NewReaderSize(r, 1<<18)
	if _, err := io.CopyN(io.Discard, in, skip*int64(h.kind.bytes)); err != nil {
		return h.short(err)
	}
	value := make([]byte, h.kind.bytes*stride)
	for n := range h.Len() {
		want := value
		if n == h.Len()-1 {
			want = value[:h.kind.bytes] // the last may be the end of the file
		}
		if _, err := io.ReadFull(in, want); err != nil {
			return h.short(err)
		}
		if err := f(n, h.kind.read(value, h.order)); err != nil {
			return err
		}
	}
	if h.compression != "" && (h.first || index == h.Volumes-1) {
		return h.checksum(in)
	}
	return nil
}

// checksum reads what is compressed behind the last voxel, to get to the checksum: without it,
// damage goes unseen. A file that has much more there is not read to its end.
func (h *Header) checksum(behind io.Reader) error {
	const most = 64 << 20 // bytes
	_, err := io.CopyN(io.Discard, behind, most)
	// what has another header follows the compressed voxels, whose checksum was right
	if err == nil || errors.Is(err, io.EOF) || errors.Is(err, gzip.ErrHeader) {
		return nil
	}
	return h.short(err)
}

// short is the error of voxels that end too early, or are damaged.
func (h *Header) short(err error) error {
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return &volume.FormatError{Path: h.data, Problem: "its voxels are damaged", Err: err}
	}
	return &volume.FormatError{Path: h.data, Problem: fmt.Sprintf("does not hold the %v voxels that its header says",
		numbers.Extents(h.Dims)), Err: err}
}

// oneOf says whether a word is among others, whatever the case of its letters.
func oneOf(word string, words ...string) bool {
	return slices.ContainsFunc(words, func(w string) bool { return strings.EqualFold(w, word) })
}
