package cli

import (
	"strings"
	"testing"
)

func TestTooFull(t *testing.T) {
	const gib = 1 << 30
	if text := tooFull(3*gib, 2*gib, "prepared"); !strings.Contains(text, "may take 3.0 GiB") ||
		!strings.Contains(text, "prepared has 2.0 GiB free") {
		t.Error(text)
	}
	for _, free := range []int64{-1, 2 * gib, 3 * gib} { // -1: unknown
		if text := tooFull(2*gib, free, "prepared"); text != "" {
			t.Errorf("%d: %s", free, text)
		}
	}
}
