package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

// A Tensor is what [Write] writes beside the weights: a name, a shape, and a function that returns
// the elements in row-major order, into the given memory where that is enough.
type Tensor struct {
	Name   string
	Shape  []int
	Values func(into []float32) ([]float32, error)
}

// Write writes weights, and further tensors, to one file: whole or not at all. A value that is not
// finite is an error: such weights are no checkpoint, and the file that was there before is kept.
func Write(path string, d Description, weights Weights, extra ...Tensor) error {
	var tensors []safetensors.Tensor
	var values []float32 // of one tensor at a time: memory may be short
	add := func(t Tensor) {
		tensors = append(tensors, safetensors.Tensor{Name: t.Name, Shape: t.Shape,
			Values: func() (_ []float32, err error) {
				values, err = t.Values(values)
				if err == nil && slices.ContainsFunc(values, func(v float32) bool { return !numbers.Finite(v) }) {
					err = fmt.Errorf("not all of it is finite after step %d: the "+
						"training has diverged: lower the learning rate", d.Step)
				}
				return values, err
			}})
	}
	for _, name := range weights.Names() {
		add(Tensor{name, weights.Shape(name),
			func(into []float32) ([]float32, error) { return weights.ReadInto(name, into) }})
	}
	for _, t := range extra {
		add(t)
	}
	meta, err := d.metadata()
	if err != nil {
		return err
	}
	for _, list := range [][]string{d.TrainedOn, scanLines(d.Learnt.Scans)} {
		if err := WriteList(filepath.Dir(path), list); err != nil {
			return err
		}
	}
	return atomicfile.Write(path, func(w io.Writer) error { return writeDigested(w, meta, tensors) })
}

// Export writes the weights of a checkpoint, without its description, under the names and with the
// shapes that rename gives them: for other programs. A shape has as many elements as before. A
// moving average is written in the place of its parameter. A parameter that gets no name is left
// out; the names of these are returned.
func Export(path, out string, rename func(name string, shape []int) (to string, as []int, err error)) (left []string,
	err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var tensors []safetensors.Tensor
	var values []float32 // of one tensor at a time
	for _, name := range f.Names() {
		if isExtra(name) {
			continue
		}
		to, shape, err := rename(name, f.Shape(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		if to == "" {
			left = append(left, name)
			continue
		}
		from := name
		if f.Has(AveragePrefix + name) {
			from = AveragePrefix + name
		}
		tensors = append(tensors, safetensors.Tensor{Name: to, Shape: shape, Values: func() (_ []float32, err error) {
			values, err = f.ReadInto(from, values)
			return values, err
		}})
	}
	if len(tensors) == 0 {
		return left, fmt.Errorf("%s has no weights that the other program knows", path)
	}
	// what PyTorch's own files say
	return left, atomicfile.Write(out,
		func(w io.Writer) error { return safetensors.Write(w, map[string]string{"format": "pt"}, tensors) })
}

// unknownDigest holds the digest's place while the tensors are written.
var unknownDigest = strings.Repeat("0", hex.EncodedLen(sha256.Size))

// writeDigested writes a file whose metadata has the digest of its tensors. The metadata come first
// and the digest is known last, so it is written into its place afterwards.
func writeDigested(w io.Writer, meta map[string]string, tensors []safetensors.Tensor) error {
	at, ok := w.(io.WriterAt)
	if !ok {
		return errors.New("the file cannot be written to twice")
	}
	meta[digestKey] = unknownDigest
	d := &digester{w: w, sum: sha256.New()}
	for _, t := range tensors {
		describe(d.sum, t.Name, t.Shape)
	}
	if err := safetensors.Write(d, meta, tensors); err != nil {
		return err
	}
	// Quotes are escaped in the other texts, so that the key with its quotes is there once.
	key := []byte(`"` + digestKey + `":"`)
	place := bytes.Index(d.header, append(key, unknownDigest...))
	if place < 0 {
		return errors.New("the header has no place for the digest")
	}
	_, err := at.WriteAt([]byte(hex.EncodeToString(d.sum.Sum(nil))), int64(place+len(key)))
	return err
}

// describe adds a tensor's name and shape to a digest.
func describe(h hash.Hash, name string, shape []int) {
	if shape == nil {
		shape = []int{}
	}
	fmt.Fprintf(h, "%q %v\n", name, shape)
}

// digester passes a safetensors file on. It keeps the header and sums up what follows it.
type digester struct {
	w      io.Writer
	sum    hash.Hash
	header []byte // with the eight bytes of its length
	rest   bool   // the header is complete
}

func (d *digester) Write(p []byte) (int, error) {
	n, err := d.w.Write(p)
	data := p[:n]
	for len(data) > 0 && !d.rest {
		want := 8
		if len(d.header) >= 8 {
			want = 8 + int(binary.LittleEndian.Uint64(d.header))
		}
		take := min(want-len(d.header), len(data))
		d.header, data = append(d.header, data[:take]...), data[take:]
		d.rest = len(d.header) >= 8 && len(d.header) == 8+int(binary.LittleEndian.Uint64(d.header))
	}
	d.sum.Write(data)
	return n, err
}
