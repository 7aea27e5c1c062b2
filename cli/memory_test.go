package cli

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/exec"
	"github.com/voxsaw/voxsaw/internal/hint"
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
	for limit, planned := range map[string]int64{"1GiB": 960 << 20, "320MiB": 278 << 20, "40MiB": 30 << 20} {
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

// Too little memory is told with the flags of this command that take less, and no others.
func TestMemoryHint(t *testing.T) {
	short := fmt.Errorf("preparing to train: %w", &exec.MemoryError{Need: 2, Limit: 1})
	for _, c := range []struct {
		verb string
		args []string
		want string
	}{
		{"finetune", []string{"--memory", "1GiB"}, "make --crop, --batch or --channels smaller, or raise --memory"},
		{"finetune", nil, "make --crop, --batch or --channels smaller"},
		{"finetune", []string{"--resume", "--memory", "1GiB"}, "raise --memory"},
		{"predict", nil, "make --window or --batch smaller"},
		{"plan", []string{"--memory", "1GiB"}, "raise --memory"}, // its --channels are names
		{"plan", nil, ""},
		{"finetune", []string{"--init", "run", "--memory", "1GiB"}, "make --crop or " +
			"--batch smaller, or raise --memory"},
		{"job", []string{"--memory", "1GiB"}, "raise --memory"}, // the sizes are its plan's
	} {
		ctx, verb := t.Context(), c.verb
		if verb == "job" {
			ctx, verb = context.WithValue(ctx, stageKey{}, &stageOf{}), "finetune"
		}
		cmd, _, err := newRoot().Find([]string{verb})
		cmd.SetContext(ctx)
		if err == nil {
			err = cmd.ParseFlags(c.args)
		}
		if err != nil {
			t.Fatal(err)
		}
		if got := hintOf(memoryHint(cmd, short)); got != c.want {
			t.Errorf("%s %v: %q, want %q", c.verb, c.args, got, c.want)
		}
		if other := errors.New("no such file"); memoryHint(cmd, other) != other {
			t.Errorf("%s: another error has a hint about memory", c.verb)
		}
		if got := hintOf(memoryHint(cmd, hint.Addf(short, "do this"))); got != "do this" {
			t.Errorf("%s: %q instead of the hint that was there", c.verb, got)
		}
	}
}
