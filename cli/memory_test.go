package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/voxsaw/voxsaw/internal/memory"
)

// A number of GiB, as everywhere, or one with its unit; a number of bytes is told from it.
func TestAmountsOfMemory(t *testing.T) {
	for text, bytes := range map[string]int64{
		"0": 0, "1.5": 3 << 29, "512MiB": 512 << 20, "2 GiB": 2 << 30, "2GB": 2e9, "1TiB": 1 << 40, "64KiB": 64 << 10,
	} {
		var g gibibytes
		if err := g.Set(text); err != nil || math.Abs(float64(g.bytes()-bytes)) > 1 {
			t.Errorf("%q: %d bytes, %v; want %d", text, g.bytes(), err, bytes)
		}
	}
	var bytes gibibytes
	if err := bytes.Set("8589934592"); err == nil || !strings.HasSuffix(err.Error(), "if it is bytes, write 8GiB") {
		t.Errorf("a number of bytes: %v", err)
	}
	for _, text := range []string{"", "-1", "much", "4294967296", "1 GiBi", "NaN", "inf"} {
		var g gibibytes
		if err := g.Set(text); err == nil {
			t.Errorf("%q is let pass: %v", text, g)
		}
	}
}

// A training plans with less than the limit: the program itself is in it, too. The garbage
// collector knows the whole of it.
func TestPlannedMemory(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	defer memory.Limit(0)
	for limit, planned := range map[string]int64{"1GiB": 1<<30 - 32<<20, "200MiB": 168 << 20, "40MiB": 30 << 20} {
		var g gibibytes
		if err := g.Set(limit); err != nil {
			t.Fatal(err)
		}
		if got := g.planned(); got != planned {
			t.Errorf("%s: %d bytes may be planned, want %d", limit, got, planned)
		}
		if got := debug.SetMemoryLimit(-1); got != g.bytes() {
			t.Errorf("%s: the garbage collector has a limit of %d", limit, got)
		}
	}
}

// Who set a limit and reads of more is told what the limit is for.
func TestPeakNote(t *testing.T) {
	const mebibyte = 1 << 20
	if got := peakNote(90*mebibyte, 0); got != "the most memory in use was 90 MiB" ||
		peakNote(90*mebibyte, 100*mebibyte) != got {
		t.Error(got)
	}
	if got := peakNote(90*mebibyte, 64*mebibyte); !strings.Contains(got,
		"90 MiB: --memory keeps the program, the network, the scan and the sums over it within 64 MiB; files") {
		t.Error(got)
	}
}

// bomb FILE I J K writes a compressed NIfTI file of so many zeros, a byte each, in a thousandth of
// their size: the compressed zeros of one slice, again and again.
func bomb(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 4 {
		ts.Fatalf("usage: bomb FILE I J K")
	}
	var shape [3]int
	for n, text := range args[1:] {
		var err error
		if shape[n], err = strconv.Atoi(text); err != nil {
			ts.Fatalf("%v", err)
		}
	}
	header := make([]byte, 352)
	put := binary.LittleEndian.PutUint16
	binary.LittleEndian.PutUint32(header, 348)
	put(header[40:], 3)
	for n, extent := range shape {
		put(header[42+2*n:], uint16(extent))
	}
	put(header[70:], 2) // uint8
	put(header[72:], 8)
	put(header[254:], 1) // of the sform
	binary.LittleEndian.PutUint32(header[108:], math.Float32bits(352))
	for n := range 3 {
		binary.LittleEndian.PutUint32(header[80+4*n:], math.Float32bits(1))
		binary.LittleEndian.PutUint32(header[280+20*n:], math.Float32bits(1))
	}
	copy(header[344:], "n+1\x00")
	member := func(data []byte) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, err := z.Write(data)
		ts.Check(err)
		ts.Check(z.Close())
		return b.Bytes()
	}
	file := append(member(header), bytes.Repeat(member(make([]byte, shape[0]*shape[1])), shape[2])...)
	path := ts.MkAbs(args[0])
	ts.Check(os.MkdirAll(filepath.Dir(path), 0o777))
	ts.Check(os.WriteFile(path, file, 0o666))
}
