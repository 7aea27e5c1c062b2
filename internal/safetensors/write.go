package safetensors

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A Tensor is what [Write] is given: a name, a shape, and a function that returns the elements in
// row-major order, called when their turn comes and asked for nothing again, so that all tensors
// may share one tensor's memory.
type Tensor struct {
	Name   string
	Shape  []int
	Values func() ([]float32, error)
}

// Write writes tensors as float32, in the order given. Equal input gives equal bytes.
func Write(w io.Writer, metadata map[string]string, tensors []Tensor) error {
	header, err := header(metadata, tensors)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(w, 1<<16)
	// a bufio.Writer keeps its first error for Flush
	out.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(header))))
	out.Write(header)
	var piece []byte
	for _, t := range tensors {
		values, err := t.Values()
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if n, _ := elements(t.Shape); int64(len(values)) != n {
			return fmt.Errorf("tensor %q of shape %v has %d elements", t.Name, numbers.Extents(t.Shape), len(values))
		}
		for part := range slices.Chunk(values, pieceLength) {
			piece = piece[:0]
			for _, v := range part {
				piece = binary.LittleEndian.AppendUint32(piece, math.Float32bits(v))
			}
			if _, err := out.Write(piece); err != nil {
				return err
			}
		}
	}
	return out.Flush()
}

// header is the JSON header, padded with spaces so that the data starts at a multiple of eight.
func header(metadata map[string]string, tensors []Tensor) ([]byte, error) {
	out := []byte("{")
	put := func(key string, value any) error {
		k, err := json.Marshal(key)
		if err != nil {
			return err
		}
		v, err := json.Marshal(value)
		if err != nil {
			return err
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, k...), ':'), v...)
		return nil
	}
	if len(metadata) > 0 {
		if err := put(metadataKey, metadata); err != nil {
			return nil, err
		}
	}
	seen, end := map[string]bool{metadataKey: true}, int64(0)
	for _, t := range tensors {
		if seen[t.Name] {
			return nil, fmt.Errorf("the name %q is taken", t.Name)
		}
		seen[t.Name] = true
		n, err := elements(t.Shape)
		if err != nil {
			return nil, fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		// a scalar's shape is [], not null
		e := entry{Dtype: "F32", Shape: append([]int{}, t.Shape...), Offsets: [2]int64{end, end + 4*n}}
		if err := put(t.Name, e); err != nil {
			return nil, err
		}
		end += 4 * n
	}
	out = append(out, '}')
	for len(out)%8 != 0 {
		out = append(out, ' ')
	}
	if len(out) > headerLimit {
		return nil, fmt.Errorf("a header of %d bytes is more than safetensors allows", len(out))
	}
	return out, nil
}
