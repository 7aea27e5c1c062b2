package jpeg2000

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
	"github.com/tetratelabs/wazero/sys"
)

// wasmVariable names the folder of encode.wasi.wasm and decode.wasi.wasm: OpenJPH, as the PyPI
// package itkwasm-htj2k-wasi has it in itkwasm_htj2k_wasi/wasm_modules.
const wasmVariable = "VOXSAW_HTJ2K_WASM"

// openJPH runs these modules. They take and give their data by way of their memory, described in
// JSON, as all modules of itk-wasm do (https://wasm.itk.org, --memory-io).
type openJPH struct {
	runtime        wazero.Runtime
	encode, decode wazero.CompiledModule
}

func newOpenJPH(t *testing.T) *openJPH {
	t.Helper()
	folder := os.Getenv(wasmVariable)
	if folder == "" {
		t.Skipf("%s does not name the folder of OpenJPH's modules: streams are compared with what it made of them "+
			"earlier, in testdata/htj2k.json, and not with what it makes of new ones", wasmVariable)
	}
	ctx := t.Context()
	o := &openJPH{runtime: wazero.NewRuntime(ctx)}
	t.Cleanup(func() { o.runtime.Close(context.Background()) })
	wasi_snapshot_preview1.MustInstantiate(ctx, o.runtime)
	for name, module := range map[string]*wazero.CompiledModule{"encode": &o.encode, "decode": &o.decode} {
		code, err := os.ReadFile(filepath.Join(folder, name+".wasi.wasm"))
		if err != nil {
			t.Fatal(err)
		}
		if *module, err = o.runtime.CompileModule(ctx, code); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// call runs a module with one input, whose arrays are put where its description has %d, and returns
// the description of its output and the first array of it.
func (o *openJPH) call(ctx context.Context, module wazero.CompiledModule, input string, arrays [][]byte,
	options ...string) (output, array []byte, err error) {
	args := append([]string{"module", "--memory-io", "0", "0"}, options...)
	var said strings.Builder
	config := wazero.NewModuleConfig().
		WithName("").
		WithStartFunctions("_initialize").
		WithArgs(args...).
		WithStderr(&said).
		WithStdout(io.Discard)
	m, err := o.runtime.InstantiateModule(ctx, module, config)
	if err != nil {
		return nil, nil, err
	}
	defer m.Close(ctx)
	number := func(function string, args ...uint64) uint32 {
		if err != nil {
			return 0
		}
		var results []uint64
		results, err = m.ExportedFunction("itk_wasm_"+function).Call(ctx, args...)
		var exit *sys.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("exit code %d", exit.ExitCode())
		}
		if err != nil {
			return 0
		}
		return api.DecodeU32(results[0])
	}
	write := func(at uint32, data []byte) {
		if err == nil && !m.Memory().Write(at, data) {
			err = errors.New("writes outside the memory")
		}
	}
	var places []any
	for n, data := range arrays {
		at := number("input_array_alloc", 0, 0, uint64(n), uint64(len(data)))
		write(at, data)
		places = append(places, at)
	}
	text := fmt.Sprintf(input, places...)
	write(number("input_json_alloc", 0, 0, uint64(len(text))), []byte(text))
	if code := number("delayed_start"); err == nil && code != 0 {
		err = fmt.Errorf("fails with %d: %s", code, said.String())
	}
	read := func(kind string, index ...uint64) []byte {
		data, ok := m.Memory().Read(number("output_"+kind+"_address", index...),
			number("output_"+kind+"_size", index...))
		if err == nil && !ok {
			err = errors.New("reads outside the memory")
		}
		return append([]byte(nil), data...)
	}
	if err == nil {
		output, array = read("json", 0, 0), read("array", 0, 0, 0)
	}
	return output, array, err
}

// pixels decodes a stream.
func (o *openJPH) pixels(ctx context.Context, stream []byte) ([]int, error) {
	input := fmt.Sprintf(`{"size":%d,"data":"data:application/vnd.itk.address,0:%%d"}`, len(stream))
	output, data, err := o.call(ctx, o.decode, input, [][]byte{stream})
	if err != nil {
		return nil, err
	}
	var image struct {
		ImageType struct{ ComponentType string }
	}
	if err := json.Unmarshal(output, &image); err != nil {
		return nil, err
	}
	var pixels []int
	switch kind := image.ImageType.ComponentType; kind {
	case "uint8", "int8":
		for _, b := range data {
			if kind == "int8" {
				pixels = append(pixels, int(int8(b)))
			} else {
				pixels = append(pixels, int(b))
			}
		}
	case "uint16", "int16":
		for ; len(data) > 1; data = data[2:] {
			if u := binary.LittleEndian.Uint16(data); kind == "int16" {
				pixels = append(pixels, int(int16(u)))
			} else {
				pixels = append(pixels, int(u))
			}
		}
	default:
		return nil, fmt.Errorf("pixels of type %s", kind)
	}
	return pixels, nil
}

// stream encodes pixels of int16 or uint16.
func (o *openJPH) stream(ctx context.Context, pixels []int, columns int, kind string, options ...string) ([]byte,
	error) {
	data := make([]byte, 0, 2*len(pixels))
	for _, v := range pixels {
		data = binary.LittleEndian.AppendUint16(data, uint16(v))
	}
	direction := make([]byte, 32)
	binary.LittleEndian.PutUint64(direction, 0x3FF0000000000000)
	binary.LittleEndian.PutUint64(direction[24:], 0x3FF0000000000000)
	input := fmt.Sprintf(
		`{"imageType":{"dimension":2,"componentType":%q,"pixelType":"Scalar","components":1},"name":"image",`+
			`"origin":[0,0],"spacing":[1,1],"size":[%d,%d],"metadata":[],`+
			`"direction":"data:application/vnd.itk.address,0:%%[2]d","data":"data:application/vnd.itk.address,0:%%[1]d"}`,
		kind,
		columns,
		len(pixels)/columns,
	)
	_, stream, err := o.call(ctx, o.encode, input, [][]byte{data, direction}, options...)
	return stream, err
}

func TestOpenJPHDecodesTheSame(t *testing.T) {
	o := newOpenJPH(t)
	t.Run("golden", func(t *testing.T) { goldenByOpenJPH(t, o) })
	t.Run("new", func(t *testing.T) { newByOpenJPH(t, o) })
}

// The streams of testdata/htj2k.json that OpenJPH reads.
func goldenByOpenJPH(t *testing.T, o *openJPH) {
	compared := 0
	for _, c := range streamCases(t) {
		// the module has no type for these
		if !slices.Contains(c.Decoders, "openjph") || c.Signed && c.Bits == 8 {
			continue
		}
		want, err := o.pixels(t.Context(), c.Stream)
		if err != nil || len(want) != c.Columns*c.Rows {
			t.Fatal(c.Name, err, len(want))
		}
		out := make([]uint32, len(want))
		if _, err := Decode(c.Stream, c.Columns, c.Rows, out); err != nil {
			t.Fatal(c.Name, err)
		}
		for n, got := range out {
			// OpenJPH does not clip reversible samples: those that are out of range have wrapped
			// around.
			least := 0
			if c.Signed {
				least = -1 << (c.Bits - 1)
			}
			if c.Bits%8 != 0 {
				want[n] = min(max(int(int16(want[n])), least), least+1<<c.Bits-1)
			}
			if d := int(int32(got)) - want[n]; d != 0 && (max(d, -d) > 1 || !strings.Contains(c.Name, "irreversible")) {
				t.Fatalf("%s: pixel %d is %d, OpenJPH's is %d", c.Name, n, int32(got), want[n])
			}
		}
		compared++
	}
	if compared < 40 {
		t.Errorf("only %d streams were compared", compared)
	}
}

// New images, which OpenJPH encodes and decodes.
func newByOpenJPH(t *testing.T, o *openJPH) {
	r := rand.New(rand.NewPCG(15444, 15))
	for n := range 60 {
		columns, rows := 1+r.IntN(130), 1+r.IntN(90)
		kind := []string{"uint16", "int16"}[r.IntN(2)]
		pixels := make([]int, columns*rows)
		spread := 1 << r.IntN(16)
		for k := range pixels {
			pixels[k] = r.IntN(spread) + k%columns*r.IntN(2)
			if kind == "int16" {
				pixels[k] = int(int16(pixels[k] - spread/2))
			} else {
				pixels[k] &= 0xFFFF
			}
		}
		reversible := r.IntN(3) > 0
		options := []string{"--decompositions", fmt.Sprint(1 + r.IntN(5)), "--progression-order", fmt.Sprint(r.IntN(5)),
			"--block-dimensions", fmt.Sprint(4 << r.IntN(4)), fmt.Sprint(4 << r.IntN(5))}
		if !reversible {
			options = append(options, "--not-reversible", "--quantization-step", fmt.Sprint(0.0001+0.01*r.Float64()))
		}
		if r.IntN(3) == 0 {
			options = append(options, "--tile-size", fmt.Sprint(16+r.IntN(64)), fmt.Sprint(16+r.IntN(64)))
		}
		name := fmt.Sprint(n, columns, rows, kind, options)
		stream, err := o.stream(t.Context(), pixels, columns, kind, options...)
		if err != nil {
			t.Fatal(name, err)
		}
		want, err := o.pixels(t.Context(), stream)
		if err != nil || len(want) != len(pixels) {
			t.Fatal(name, err, len(want))
		}
		out := make([]uint32, len(pixels))
		if _, err := Decode(stream, columns, rows, out); err != nil {
			t.Fatal(name, err)
		}
		for k, got := range out {
			if d := int(int32(got)) - want[k]; d != 0 && (reversible || max(d, -d) > 1) {
				t.Fatalf("%s: pixel %d is %d, OpenJPH's is %d, the image's %d", name, k, int32(got), want[k], pixels[k])
			}
			if reversible && int(int32(got)) != pixels[k] {
				t.Fatalf("%s: pixel %d is %d, that of the image %d", name, k, int32(got), pixels[k])
			}
		}
	}
}
