// Package pytorch reads what torch.save writes, without Python and without carrying out anything
// that a file says.
//
// Start at [Open]. A checkpoint is a zip file: data.pkl is a pickle of dictionaries, lists and
// texts, which [File.Root] gives, and data/N are the numbers of its tensors, which [File.Read]
// reads when they are asked for. So the state of an optimiser, which is as large as the weights,
// costs nothing.
//
// The pickle's machine is pickle.go. Files of before PyTorch 1.6, which are no zip files, are
// refused by name.
package pytorch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/half"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// mostPickle is how many bytes the pickle of a checkpoint may have.
const mostPickle = 64 << 20

// File is an open checkpoint. Close it.
type File struct {
	path     string
	file     *os.File
	entries  map[string]*zip.File // by their names below the root folder
	order    binary.ByteOrder
	storages map[string]*storage
	root     any
}

// storage is memory that tensors share.
type storage struct {
	key   string
	kind  string // FloatStorage, ...
	count int64  // of numbers
	whole bool   // its bytes have the checksum that the archive says
}

// storages are the types of numbers and their widths in bytes.
var storages = map[string]int64{
	"FloatStorage": 4, "HalfStorage": 2, "BFloat16Storage": 2, "DoubleStorage": 8, "LongStorage": 8, "IntStorage": 4,
	"ShortStorage": 2, "CharStorage": 1, "ByteStorage": 1, "BoolStorage": 1,
}

// A Tensor is a part of a file that holds numbers.
type Tensor struct {
	Shape   []int
	strides []int64
	offset  int64 // of the first number, in numbers
	storage *storage
}

// Elements is how many numbers a tensor has.
func (t *Tensor) Elements() int {
	n := 1
	for _, s := range t.Shape {
		n *= s
	}
	return n
}

// Same says whether two tensors are the same numbers of a file.
func (t *Tensor) Same(o *Tensor) bool {
	return t.storage == o.storage && t.offset == o.offset &&
		fmt.Sprint(t.Shape, t.strides) == fmt.Sprint(o.Shape, o.strides)
}

// mostElements bounds a tensor: forty times the largest layer of nnU-Net's largest network.
const mostElements = 1 << 27

// Open reads the pickle of a checkpoint. Errors are a [volume.FormatError] where the file is
// damaged, and a [volume.UnsupportedError], which may wrap a [RefusedError], where it holds what no
// checkpoint of weights needs.
func Open(name string) (*File, error) {
	f, err := folders.Open(name)
	if err != nil {
		return nil, err
	}
	c := &File{path: name, file: f, storages: map[string]*storage{}, order: binary.LittleEndian}
	if err := c.read(); err != nil {
		f.Close()
		return nil, err
	}
	return c, nil
}

// Close closes the file.
func (c *File) Close() error { return c.file.Close() }

// Root is what was saved: a [Dict], most often.
func (c *File) Root() any { return c.root }

func (c *File) damaged(format string, args ...any) error {
	return &volume.FormatError{Path: c.path, Problem: "the checkpoint of PyTorch is damaged",
		Err: fmt.Errorf(format, args...)}
}

func (c *File) read() error {
	stat, err := c.file.Stat()
	if err != nil {
		return err
	}
	if stat.IsDir() {
		return &volume.UnsupportedError{Path: c.path, Problem: "it is a folder, and no checkpoint of PyTorch"}
	}
	archive, err := zip.NewReader(c.file, stat.Size())
	if err != nil {
		return &volume.UnsupportedError{Path: c.path,
			Problem: "it is no zip file, as torch.save has written them since PyTorch 1.6", Err: err}
	}
	if err := c.list(archive, stat.Size()); err != nil {
		return err
	}
	pickle := c.entries["data.pkl"]
	if pickle.UncompressedSize64 > mostPickle {
		return c.damaged("its pickle has %d bytes, more than %d", pickle.UncompressedSize64, mostPickle)
	}
	in, err := pickle.Open()
	if err != nil {
		return c.damaged("%w", err)
	}
	defer in.Close()
	var text bytes.Buffer
	// to its end, where its checksum is compared
	if _, err := io.Copy(&text, io.LimitReader(in, mostPickle+1)); err != nil {
		return c.damaged("data.pkl: %w", unexpected(err))
	}
	c.root, err = unpickle(&text, c.share)
	if _, refused := errors.AsType[*RefusedError](err); refused {
		return &volume.UnsupportedError{Path: c.path, Problem: "it is not only weights", Err: err}
	}
	if err != nil {
		return c.damaged("%w", err)
	}
	return nil
}

// list finds the files of the archive's root folder.
func (c *File) list(archive *zip.Reader, size int64) error {
	root := ""
	for _, f := range archive.File {
		if path.Base(f.Name) == "data.pkl" {
			root = strings.TrimSuffix(f.Name, "data.pkl")
			break
		}
	}
	c.entries = map[string]*zip.File{}
	for _, f := range archive.File {
		if inner, ok := strings.CutPrefix(f.Name, root); ok {
			c.entries[inner] = f
		}
	}
	if c.entries["data.pkl"] == nil {
		return &volume.UnsupportedError{Path: c.path,
			Problem: "it is a zip file without a data.pkl, and so no checkpoint of PyTorch"}
	}
	if order := c.entries["byteorder"]; order != nil {
		text, err := c.bytes(order, 0, min(int64(order.UncompressedSize64), 16))
		if err != nil {
			return err
		}
		if strings.TrimSpace(string(text)) == "big" {
			c.order = binary.BigEndian
		}
	}
	return nil
}

// share is the storage of a key, checked against the file of its numbers.
func (c *File) share(key, kind string, count int64) (*storage, error) {
	if s, ok := c.storages[key]; ok {
		if s.kind != kind || s.count != count {
			return nil, fmt.Errorf("storage %s is called both %d of %s and %d of %s", key, s.count, s.kind, count, kind)
		}
		return s, nil
	}
	width, ok := storages[kind]
	if !ok {
		return nil, fmt.Errorf("numbers of type %s are not known", kind)
	}
	entry := c.entries["data/"+key]
	if entry == nil {
		return nil, fmt.Errorf("the numbers of storage %q are missing", key)
	}
	if count < 0 || count > math.MaxInt64/width || uint64(count*width) > entry.UncompressedSize64 {
		return nil, fmt.Errorf("storage %s has %d bytes, and is said to hold %d numbers of %d bytes", key,
			entry.UncompressedSize64, count, width)
	}
	s := &storage{key: key, kind: kind, count: count}
	c.storages[key] = s
	return s, nil
}

// persistent makes a storage of what the pickle says of it.
func (r *unpickler) persistent(arg any) (any, error) {
	id, ok := arg.(Tuple)
	if !ok || len(id) < 5 || id[0] != "storage" {
		return nil, fmt.Errorf("the pickle refers to a %s that is no storage of numbers", describe(arg))
	}
	kind, isGlobal := id[1].(Global)
	key, isText := id[2].(string)
	count, isNumber := id[4].(int64)
	if !isGlobal || !isText || !isNumber {
		return nil, errors.New("the pickle refers to a storage without type, name or size")
	}
	return r.storage(key, kind.Name, count)
}

// rebuildTensor is torch._utils._rebuild_tensor_v2(storage, offset, size, stride, ...).
func rebuildTensor(_ *unpickler, args Tuple) (any, error) {
	if len(args) < 4 {
		return nil, fmt.Errorf("made of %d values", len(args))
	}
	s, isStorage := args[0].(*storage)
	offset, isNumber := args[1].(int64)
	shape, isShape := args[2].(Tuple)
	strides, isStrides := args[3].(Tuple)
	if !isStorage || !isNumber || !isShape || !isStrides || len(shape) != len(strides) || len(shape) > 16 {
		return nil, errors.New("made of no storage, offset, size and strides")
	}
	t := &Tensor{storage: s, offset: offset}
	last, elements := offset, int64(1)
	for n := range shape {
		extent, ok1 := shape[n].(int64)
		stride, ok2 := strides[n].(int64)
		if !ok1 || !ok2 || extent < 0 || extent > mostElements || stride < 0 || stride > mostElements {
			return nil, fmt.Errorf("size %v with strides %v", shape[n], strides[n])
		}
		if elements *= extent; elements > mostElements {
			return nil, fmt.Errorf("a tensor of more than %d numbers", mostElements)
		}
		last += max(extent-1, 0) * stride
		t.Shape, t.strides = append(t.Shape, int(extent)), append(t.strides, stride)
	}
	if offset < 0 || elements > 0 && last >= s.count {
		return nil, fmt.Errorf("a tensor of size %s reaches beyond the %d numbers of its storage",
			numbers.Extents(t.Shape), s.count)
	}
	return t, nil
}

// rebuildParameter is torch._utils._rebuild_parameter(tensor, ...).
func rebuildParameter(_ *unpickler, args Tuple) (any, error) {
	if len(args) > 0 {
		if t, ok := args[0].(*Tensor); ok {
			return t, nil
		}
	}
	return nil, errors.New("made of no tensor")
}

// bytes reads a part of a file of the archive. What torch.save writes is not compressed, so that it
// can be read from any place.
func (c *File) bytes(entry *zip.File, offset, n int64) ([]byte, error) {
	if entry.Method != zip.Store {
		return nil, &volume.UnsupportedError{Path: c.path,
			Problem: entry.Name + " is compressed, which torch.save does not do"}
	}
	start, err := entry.DataOffset()
	if err != nil {
		return nil, c.damaged("%s: %w", entry.Name, err)
	}
	b := make([]byte, n)
	if _, err := c.file.ReadAt(b, start+offset); err != nil {
		return nil, c.damaged("%s: %w", entry.Name, unexpected(err))
	}
	return b, nil
}

// check compares the bytes of a storage with their checksum, once. A checksum of 0 is one that
// torch.save was told not to compute.
func (c *File) check(s *storage, entry *zip.File) error {
	if s.whole {
		return nil
	}
	in, err := entry.Open()
	if err != nil {
		return c.damaged("%s: %w", entry.Name, err)
	}
	defer in.Close()
	if _, err := io.Copy(io.Discard, in); err != nil {
		return c.damaged("%s: %w", entry.Name, unexpected(err))
	}
	s.whole = true
	return nil
}

// Read reads a tensor's numbers, row-major, as float32.
func (c *File) Read(t *Tensor) ([]float32, error) {
	entry := c.entries["data/"+t.storage.key]
	width := storages[t.storage.kind]
	var last int64
	for n, s := range t.Shape {
		last += int64(max(s-1, 0)) * t.strides[n]
	}
	values := make([]float32, t.Elements())
	if len(values) == 0 {
		return values, nil
	}
	if err := c.check(t.storage, entry); err != nil {
		return nil, err
	}
	raw, err := c.bytes(entry, t.offset*width, (last+1)*width)
	if err != nil {
		return nil, err
	}
	index := make([]int, len(t.Shape))
	at := int64(0)
	for n := range values {
		values[n] = c.number(raw[at*width:], t.storage.kind)
		for a := len(index) - 1; a >= 0; a-- { // the last axis first
			index[a]++
			at += t.strides[a]
			if index[a] < t.Shape[a] {
				break
			}
			at -= int64(t.Shape[a]) * t.strides[a]
			index[a] = 0
		}
	}
	return values, nil
}

// number is the first number of some bytes.
func (c *File) number(b []byte, kind string) float32 {
	switch kind {
	case "FloatStorage":
		return math.Float32frombits(c.order.Uint32(b))
	case "DoubleStorage":
		return float32(math.Float64frombits(c.order.Uint64(b)))
	case "HalfStorage":
		return half.Float(c.order.Uint16(b)).Float32()
	case "BFloat16Storage":
		return math.Float32frombits(uint32(c.order.Uint16(b)) << 16)
	case "LongStorage":
		return float32(int64(c.order.Uint64(b)))
	case "IntStorage":
		return float32(int32(c.order.Uint32(b)))
	case "ShortStorage":
		return float32(int16(c.order.Uint16(b)))
	case "CharStorage":
		return float32(int8(b[0]))
	}
	return float32(b[0])
}
