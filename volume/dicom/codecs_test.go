package dicom

import (
	"encoding/binary"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// codecCase is one of testdata/codecs.json: a code stream and the pixels that dcmtk or gdcm decode from it.
type codecCase struct {
	Name, Syntax        string
	Columns, Rows, Bits int
	Signed              bool
	Stream, Pixels      []byte // base64 in the file
}

func codecCases(t testing.TB) []codecCase {
	t.Helper()
	text, err := os.ReadFile("../../testdata/codecs.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []codecCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestCodecsAgreeWithPeers(t *testing.T) {
	for _, c := range codecCases(t) {
		t.Run(c.Name, func(t *testing.T) {
			out := make([]uint32, c.Columns*c.Rows)
			precision, err := syntaxes[c.Syntax].codec(c.Stream, c.Columns, c.Rows, out)
			if err != nil {
				t.Fatal(err)
			}
			if precision < c.Bits {
				t.Errorf("precision of %d bits, want %d", precision, c.Bits)
			}
			tolerance := 0
			if strings.Contains(c.Name, "irreversible") {
				tolerance = 1 // float32, rounded once: the order of operations is another than OpenJPEG's
			}
			mask := uint32(1)<<c.Bits - 1
			for n, got := range out {
				want := uint32(binary.LittleEndian.Uint16(c.Pixels[2*n:])) & mask
				if d := int(got&mask) - int(want); max(d, -d) > tolerance {
					t.Fatalf("pixel %d is %d, want %d", n, got&mask, want)
				}
			}
		})
	}
}

// A code stream that is cut anywhere is an error, or (where only padding is missing) the same image; never a panic.
func TestCutStreams(t *testing.T) {
	for _, c := range codecCases(t) {
		out := make([]uint32, c.Columns*c.Rows)
		failed, tried := 0, 0
		for n := 0; n < len(c.Stream); n += 1 + len(c.Stream)/50 {
			tried++
			if _, err := syntaxes[c.Syntax].codec(c.Stream[:n], c.Columns, c.Rows, out); err != nil {
				failed++
			}
		}
		if failed < tried*9/10 {
			t.Errorf("%s: only %d of %d cut streams are errors", c.Name, failed, tried)
		}
		if _, err := syntaxes[c.Syntax].codec(c.Stream, c.Columns+1, c.Rows, make([]uint32, (c.Columns+1)*c.Rows)); err == nil {
			t.Errorf("%s: an image of another size was accepted", c.Name)
		}
	}
}
