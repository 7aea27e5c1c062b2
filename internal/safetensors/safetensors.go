// Package safetensors reads and writes the safetensors format: named tensors in one file, with
// nothing in it that could be run.
//
// Start at [Write] and [Open]. The format is eight bytes with the length of a header, the header in
// JSON (for each tensor its type, shape and place; under "__metadata__" a map of strings), and the
// tensors' bytes, little-endian and without holes (https://github.com/huggingface/safetensors).
// Tensors are written as float32; float16, bfloat16 and float64 are converted when read. Tensors of
// other types may lie beside them, such as PyTorch's counts of batches; to read one is an
// [UnsupportedError].
//
// A header is not trusted: nothing is allocated that the file is not long enough to fill.
package safetensors

import (
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A FormatError says that a file is not valid safetensors.
type FormatError string

func (e FormatError) Error() string { return "not a valid safetensors file: " + string(e) }

// An UnsupportedError says that a file is valid safetensors, but holds something that this package
// does not read.
type UnsupportedError string

func (e UnsupportedError) Error() string { return "unsupported in a safetensors file: " + string(e) }

// headerLimit is the largest header that the format allows, in bytes.
const headerLimit = 100_000_000

// maxTensors bounds the tensors of a file that is read: a network of a thousand layers, with the
// state of its optimiser, has some ten thousand. Empty tensors cost a file nothing, and a reader
// much.
const maxTensors = 1 << 16

const metadataKey = "__metadata__"

// sizes of the types, in bytes an element.
var sizes = map[string]int64{
	"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "U64": 8, "I32": 4, "U32": 4, "I16": 2, "U16": 2, "I8": 1,
	"U8": 1, "BOOL": 1, "F8_E4M3": 1, "F8_E5M2": 1,
}

// readable are the types that can be read; I64 is for the counters that PyTorch keeps beside batch
// norms.
var readable = []string{"F64", "F32", "F16", "BF16", "I64"}

// elements is the product of the axes, or an error if it is negative or too large to count.
func elements(shape []int) (int64, error) {
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("negative axis in shape %v", numbers.Extents(shape))
		}
		if d > 0 && n > math.MaxInt64/16/int64(d) {
			return 0, fmt.Errorf("shape %v is absurdly large", numbers.Extents(shape))
		}
		n *= int64(d)
	}
	return n, nil
}
