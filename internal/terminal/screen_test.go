package terminal

import (
	"strings"
	"testing"
)

func TestScreen(t *testing.T) {
	const text = "Größe 肝臓 كبد\tx\nred\x1b[31m gpj.\u202egnp Gr\xf6sse \xe8\x82"
	const want = `Größe 肝臓 كبد` + "\tx\n" + `red\x1b[31m gpj.\u202egnp Gr\xf6sse \xe8\x82`
	for size := 1; size <= len(text); size++ { // wherever it is cut
		var b strings.Builder
		s := NewScreen(&b)
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if written, err := s.Write([]byte(rest[:n])); written != n || err != nil {
				t.Fatalf("%d bytes of %d, %v", written, n, err)
			}
			rest = rest[n:]
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if b.String() != want {
			t.Errorf("in pieces of %d: %q", size, b.String())
		}
	}
}
