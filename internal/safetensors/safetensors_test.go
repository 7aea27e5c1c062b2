package safetensors

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The golden file is written by Hugging Face's own package: see testdata/train.py.
func TestReadsWhatTheReferenceWrites(t *testing.T) {
	f, err := Open("../../testdata/train_numpy.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Metadata["kind"] != "golden" || f.Metadata["note"] != "written by safetensors" {
		t.Errorf("metadata %v", f.Metadata)
	}
	negativeZero := float32(math.Copysign(0, -1))
	for name, want := range map[string]struct {
		shape  []int
		values []float32
	}{
		"scalar": {[]int{}, []float32{-2.5}},
		// 6e-8 rounds to the smallest subnormal half
		"half":  {[]int{5}, []float32{1.5, negativeZero, 1.0 / (1 << 24), 65504, float32(math.Inf(1))}},
		"empty": {[]int{0, 4}, []float32{}},
	} {
		got, err := f.Read(name)
		if err != nil || !slices.Equal(got, want.values) || !slices.Equal(f.Shape(name), want.shape) {
			t.Errorf("%s: %v %v, %v, want %v", name, f.Shape(name), got, err, want)
		}
	}
	if got, err := f.Read("encoder.weight"); err != nil || len(got) != 6 {
		t.Errorf("encoder.weight: %v, %v", got, err)
	}
}

func values(v ...float32) func() ([]float32, error) {
	return func() ([]float32, error) { return v, nil }
}

func TestRoundTrip(t *testing.T) {
	var b bytes.Buffer
	tensors := []Tensor{{"b", []int{2, 2}, values(1, float32(math.Pi), float32(math.Inf(-1)), 1e-40)},
		{"a", nil, values(7)}, {"none", []int{3, 0}, values()}, {`od"d` + "\n", []int{1}, values(0)}}
	if err := Write(&b, map[string]string{"config": "a: \"b\"\n"}, tensors); err != nil {
		t.Fatal(err)
	}
	f, err := parse(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	if f.Metadata["config"] != "a: \"b\"\n" || f.start%8 != 0 {
		t.Errorf("metadata %q, data from %d", f.Metadata, f.start)
	}
	for _, tensor := range tensors {
		want, _ := tensor.Values()
		got, err := f.Read(tensor.Name)
		if err != nil || !slices.Equal(got, want) || !slices.Equal(f.Shape(tensor.Name), tensor.Shape) {
			t.Errorf("%q: %v %v, %v, want %v", tensor.Name, f.Shape(tensor.Name), got, err, want)
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, tensors := range map[string][]Tensor{
		"a name twice":       {{"a", []int{1}, values(1)}, {"a", []int{1}, values(1)}},
		"the metadata's key": {{metadataKey, []int{1}, values(1)}},
		"a wrong length":     {{"a", []int{2}, values(1)}},
		"a negative axis":    {{"a", []int{-1}, values()}},
		"an error":           {{"a", []int{1}, func() ([]float32, error) { return nil, os.ErrInvalid }}},
	} {
		if err := Write(&bytes.Buffer{}, nil, tensors); err == nil {
			t.Errorf("%s was written", name)
		}
	}
}

// raw is a file with the given header and n bytes of data.
func raw(header string, n int) []byte {
	return append(append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...), make([]byte, n)...)
}

func TestHostileHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		file        []byte
		unsupported bool
	}{
		"empty":                {file: nil},
		"seven bytes":          {file: make([]byte, 7)},
		"huge header":          {file: binary.LittleEndian.AppendUint64(nil, 1<<62)},
		"negative header":      {file: binary.LittleEndian.AppendUint64(nil, 1<<63)},
		"header past the end":  {file: raw(`{}`, 0)[:9]},
		"no header":            {file: raw("", 0)},
		"not an object":        {file: raw(`[]`, 0)},
		"cut short":            {file: raw(`{"a":{"dtype":"F32","shape":[1],"data_off`, 4)},
		"trailing text":        {file: raw(`{} {}`, 0)},
		"metadata not strings": {file: raw(`{"__metadata__":{"a":1}}`, 0)},
		"metadata twice":       {file: raw(`{"__metadata__":{},"__metadata__":{}}`, 0)},
		"name twice":           {file: raw(`{"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}}`, 0)},
		"data past the end":    {file: raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 4)},
		"shape and bytes":      {file: raw(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}}`, 4)},
		"absurd shape":         {file: raw(`{"a":{"dtype":"F32","shape":[4294967296,4294967296,4294967296],"data_offsets":[0,4]}}`, 4)},
		"overflowing shape": {file: raw(`{"a":{"dtype":"F32","shape":[4611686018427387905],"data_offsets":[0,4]}}`,
			4)},
		"negative shape":  {file: raw(`{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,-4]}}`, 0)},
		"negative offset": {file: raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 0)},
		"extreme offsets": {file: raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-9223372036854775808,9223372036854775807]}}`, 4)},
		"a hole":          {file: raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}}`, 8)},
		"an overlap":      {file: raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"b":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4)},
		"bytes left over": {file: raw(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 8)},
		"a type of nobody's": {file: raw(`{"a":{"dtype":"C64","shape":[1],"data_offsets":[0,8]}}`, 8),
			unsupported: true},
	} {
		_, err := parse(bytes.NewReader(c.file), int64(len(c.file)))
		var malformed FormatError
		var unsupported UnsupportedError
		if c.unsupported && !errors.As(err, &unsupported) || !c.unsupported && !errors.As(err, &malformed) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if f, err := parse(bytes.NewReader(raw(`{"__metadata__":null}  `, 0)), 31); err != nil || f.Metadata == nil {
		t.Errorf("null metadata and padding: %v", err)
	}
}

// PyTorch's counts of batches lie beside the weights of batch norms. They are passed over, and are
// no numbers of a network.
func TestIntegersLieBesideWeights(t *testing.T) {
	file := raw(
		`{"mask":{"dtype":"U64","shape":[],"data_offsets":[0,8]},"bn.weight":{"dtype":"F32","shape":[1],"data_offsets":[8,12]}}`,
		12,
	)
	f, err := parse(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	if v, err := f.Read("bn.weight"); err != nil || len(v) != 1 {
		t.Errorf("%v, %v", v, err)
	}
	var unsupported UnsupportedError
	if v, err := f.Read("mask"); !errors.As(err, &unsupported) {
		t.Errorf("%v, %v", v, err)
	}
	short := raw(`{"a":{"dtype":"I64","shape":[2],"data_offsets":[0,8]}}`, 8)
	if _, err := parse(bytes.NewReader(short), int64(len(short))); err == nil {
		t.Error("two integers in eight bytes")
	}
}

// Empty tensors take no bytes of a file but those of their names.
func TestManyEmptyTensors(t *testing.T) {
	header := func(tensors int) []byte {
		b := []byte("{")
		for n := range tensors {
			b = fmt.Appendf(b, `"t%d":{"dtype":"F32","shape":[0],"data_offsets":[0,0]},`, n)
		}
		b[len(b)-1] = '}'
		return raw(string(b), 0)
	}
	var unsupported UnsupportedError
	million := header(1_000_000)
	if _, err := parse(bytes.NewReader(million), int64(len(million))); !errors.As(err, &unsupported) ||
		!strings.Contains(err.Error(), "65536 tensors") {
		t.Errorf("a million: %v", err)
	}
	most := header(maxTensors)
	if f, err := parse(bytes.NewReader(most), int64(len(most))); err != nil || len(f.Names()) != maxTensors {
		t.Errorf("%d: %v", maxTensors, err)
	}
}

// A file of torch.save begins as a zip archive does, or, before PyTorch 1.6, as a pickle of
// protocol 2: whoever has one is told how to make another of it.
func TestFilesOfTorchSave(t *testing.T) {
	for _, start := range []string{"PK\x03\x04\x00\x00\x08\x08\x00\x00", "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."} {
		path := filepath.Join(t.TempDir(), "weights.pth")
		if err := os.WriteFile(path, append([]byte(start), make([]byte, 100)...), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "safetensors.torch.save_file(") {
			t.Errorf("%q: %v", start, err)
		}
	}
}

func TestOpenNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.safetensors")
	if err := os.WriteFile(path, []byte("not a checkpoint"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if _, err := Open(filepath.Dir(path)); err == nil {
		t.Error("a folder was opened")
	}
}

// Whatever the bytes, reading ends with one of our two errors, or with a file that is read whole
// and written again with the same content.
func FuzzParse(f *testing.F) {
	f.Add(raw(`{"a":{"dtype":"I64","shape":[],"data_offsets":[0,8]}}`, 8))
	f.Add(raw(`{"__metadata__":{"a":"b"},"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}`, 4))
	f.Add(
		raw(
			`{"a":{"dtype":"BF16","shape":[2,1],"data_offsets":[0,4]},"b":{"dtype":"F64","shape":[],"data_offsets":[4,12]}}`,
			12,
		),
	)
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := parse(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			var malformed FormatError
			var unsupported UnsupportedError
			if !errors.As(err, &malformed) && !errors.As(err, &unsupported) {
				t.Fatalf("an error of another type: %v", err)
			}
			return
		}
		var tensors []Tensor
		for _, name := range file.Names() {
			if _, err := file.Read(name); err != nil {
				var unsupported UnsupportedError
				if !errors.As(err, &unsupported) {
					t.Fatalf("reading %q: %v", name, err)
				}
				continue // integers
			}
			tensors = append(tensors, Tensor{name, file.Shape(name),
				func() ([]float32, error) { return file.Read(name) }})
		}
		var b bytes.Buffer
		if err := Write(&b, file.Metadata, tensors); err != nil {
			t.Fatal(err)
		}
		again, err := parse(bytes.NewReader(b.Bytes()), int64(b.Len()))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range again.Names() {
			x, _ := file.Read(name)
			y, err := again.Read(name)
			same := func(a, b float32) bool { return a == b || a != a && b != b }
			if err != nil || !slices.EqualFunc(x, y, same) {
				t.Fatalf("%q: %v became %v, %v", name, x, y, err)
			}
		}
	})
}
