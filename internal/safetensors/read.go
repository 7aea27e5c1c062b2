package safetensors

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/half"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/standin"
)

// A File is an open safetensors file. Its header has been read and checked; tensors are read on
// demand.
type File struct {
	Metadata map[string]string

	file    io.Closer
	data    io.ReaderAt // of the whole file
	start   int64       // of the tensors' bytes
	names   []string
	tensors map[string]entry
}

// An entry is a tensor in the header.
type entry struct {
	Dtype   string   `json:"dtype"`
	Shape   []int    `json:"shape"`
	Offsets [2]int64 `json:"data_offsets"`
}

// Open reads and checks the header of a file. Errors are a [FormatError], an [UnsupportedError] or
// those of the file system.
func Open(path string) (*File, error) {
	f, err := folders.Open(path) // a pipe is refused: opening it would wait for a writer
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", path)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	file, err := parse(f, info.Size())
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	file.file = f
	return file, nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }

// Names lists the tensors in the order in which they lie in the file.
func (f *File) Names() []string { return slices.Clone(f.names) }

// Has says whether there is a tensor of this name.
func (f *File) Has(name string) bool {
	_, ok := f.tensors[name]
	return ok
}

// Shape is the shape of a tensor, nil if there is none of this name.
func (f *File) Shape(name string) []int { return slices.Clone(f.tensors[name].Shape) }

// Data is the tensors' bytes, in the order of Names.
func (f *File) Data() io.Reader {
	size := int64(0)
	for _, e := range f.tensors {
		size = max(size, e.Offsets[1])
	}
	return io.NewSectionReader(f.data, f.start, size)
}

// pieceLength is how many elements are read or written at a time.
const pieceLength = 1 << 14

// Read returns the elements of a tensor in row-major order.
func (f *File) Read(name string) ([]float32, error) { return f.ReadInto(name, nil) }

// ReadInto is Read into the given memory where that is enough, as append does.
func (f *File) ReadInto(name string, values []float32) ([]float32, error) {
	e, ok := f.tensors[name]
	if !ok {
		return nil, fmt.Errorf("there is no tensor %q", name)
	}
	if !slices.Contains(readable, e.Dtype) {
		return nil, UnsupportedError(fmt.Sprintf("tensor %q of type %q", name, e.Dtype))
	}
	size := sizes[e.Dtype]
	n := int((e.Offsets[1] - e.Offsets[0]) / size)
	values = slices.Grow(values[:0], n)[:n]
	raw := make([]byte, size*int64(min(n, pieceLength)))
	for done := 0; done < n; done += pieceLength {
		piece := values[done:min(done+pieceLength, n)]
		raw := raw[:size*int64(len(piece))]
		if _, err := io.ReadFull(io.NewSectionReader(f.data, f.start+e.Offsets[0]+size*int64(done), int64(len(raw))),
			raw); err != nil {
			return nil, fmt.Errorf("reading tensor %q: %w", name, err)
		}
		for i := range piece {
			switch e.Dtype {
			case "F64":
				piece[i] = float32(math.Float64frombits(binary.LittleEndian.Uint64(raw[8*i:])))
			case "I64":
				piece[i] = float32(int64(binary.LittleEndian.Uint64(raw[8*i:])))
			case "F32":
				piece[i] = math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:]))
			case "F16":
				piece[i] = half.Float(binary.LittleEndian.Uint16(raw[2*i:])).Float32()
			case "BF16":
				piece[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(raw[2*i:])) << 16)
			}
		}
	}
	return values, nil
}

// parse reads the header of a file of the given size.
func parse(data io.ReaderAt, size int64) (*File, error) {
	var prefix [8]byte
	var start [standin.Enough]byte
	n, _ := data.ReadAt(start[:min(size, standin.Enough)], 0)
	if what := standin.Instead(start[:n]); what != "" {
		return nil, FormatError("it " + what)
	}
	if size < 8 {
		return nil, FormatError(fmt.Sprintf("%d bytes are too few for a header", size))
	}
	if _, err := io.ReadFull(io.NewSectionReader(data, 0, 8), prefix[:]); err != nil {
		return nil, err
	}
	length := binary.LittleEndian.Uint64(prefix[:])
	if zip, pickle := []byte("PK\x03\x04"), []byte{0x80, 2}; length > headerLimit && (bytes.HasPrefix(start[:], zip) ||
		bytes.HasPrefix(start[:], pickle)) {
		return nil, FormatError("it looks like a file of torch.save, which is not read; " +
			"in Python, safetensors.torch.save_file(torch.load(FILE, weights_only=True), " +
			"OUT) makes one that is, of a dict of tensors")
	}
	if length > headerLimit {
		return nil, FormatError("it does not begin as a safetensors file does, with the length of its header")
	}
	if int64(length) > size-8 {
		return nil, FormatError(fmt.Sprintf("a header of %d bytes in a file of %d", length, size))
	}
	header := make([]byte, length)
	if _, err := io.ReadFull(io.NewSectionReader(data, 8, int64(length)), header); err != nil {
		return nil, err
	}
	f := &File{Metadata: map[string]string{}, data: data, start: 8 + int64(length), tensors: map[string]entry{}}
	if err := f.parseHeader(header); err != nil {
		return nil, err
	}
	return f, f.checkPlaces(size - f.start)
}

// parseHeader takes the header apart key by key, because a map would hide a name that comes twice.
func (f *File) parseHeader(header []byte) error {
	malformed := func(err error) error { return FormatError("header: " + err.Error()) }
	if len(header) == 0 || header[0] != '{' {
		return FormatError("the header does not start with {")
	}
	d := json.NewDecoder(bytes.NewReader(header))
	if _, err := d.Token(); err != nil {
		return malformed(err)
	}
	sawMetadata := false
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return malformed(err)
		}
		name := key.(string) // inside an object, More promises a key, and keys are strings
		if name == metadataKey {
			if sawMetadata {
				return FormatError("metadata comes twice")
			}
			sawMetadata = true
			if err := d.Decode(&f.Metadata); err != nil {
				return malformed(err)
			}
			if f.Metadata == nil { // "__metadata__": null
				f.Metadata = map[string]string{}
			}
			continue
		}
		if len(f.names) == maxTensors {
			return UnsupportedError(fmt.Sprintf("more than %d tensors", maxTensors))
		}
		var e entry
		if err := d.Decode(&e); err != nil {
			return malformed(fmt.Errorf("tensor %q: %w", name, err))
		}
		if f.Has(name) {
			return FormatError(fmt.Sprintf("tensor %q comes twice", name))
		}
		f.tensors[name] = e
		f.names = append(f.names, name)
	}
	if _, err := d.Token(); err != nil {
		return malformed(err)
	}
	if rest := bytes.TrimRight(header[d.InputOffset():], " "); len(rest) > 0 {
		return FormatError("something follows the header's last brace")
	}
	return nil
}

// checkPlaces sorts the tensors by place and makes sure that they cover the size bytes of data
// exactly, each with as many bytes as its shape needs.
func (f *File) checkPlaces(size int64) error {
	slices.SortStableFunc(f.names, func(a, b string) int {
		x, y := f.tensors[a].Offsets, f.tensors[b].Offsets
		// an empty tensor lies before the one that starts at the same place
		return slices.Compare(x[:], y[:])
	})
	end := int64(0)
	for _, name := range f.names {
		e := f.tensors[name]
		width, ok := sizes[e.Dtype]
		if !ok {
			return UnsupportedError(fmt.Sprintf("tensor %q of type %q", name, e.Dtype))
		}
		n, err := elements(e.Shape)
		if err != nil {
			return FormatError(fmt.Sprintf("tensor %q: %v", name, err))
		}
		if e.Offsets[0] != end || e.Offsets[1]-end != n*width || e.Offsets[1] > size {
			return FormatError(fmt.Sprintf("tensor %q (%s %v) at bytes %v of %d: expected %d bytes from %d on", name,
				e.Dtype, numbers.Extents(e.Shape), numbers.List(e.Offsets[:]), size, n*width, end))
		}
		end = e.Offsets[1]
	}
	if end != size {
		return FormatError(fmt.Sprintf("%d bytes of data, of which the tensors cover %d", size, end))
	}
	return nil
}
