//go:build gpu

package devices_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// TestBatchAutoOnGPU: a whole run with the largest batch that fits into the memory of the GPU that
// it may take. The device lets it take no more, and a run that goes on keeps the batch. Where not
// even a batch of 1 fits, the run says what is missing, and leaves nothing.
func TestBatchAutoOnGPU(t *testing.T) {
	if !turns.Has(t, 0, 3) {
		return
	}
	simulatedGPU(t)
	data, folder := preparedPhantoms(t), t.TempDir()
	out := filepath.Join(folder, "run")
	arguments := slices.Concat([]string{"pretrain", "--data", data}, onGPU,
		strings.Fields("--channels 2 --levels 1 --warmup 0 --seed 3 --validate-every 0 --validate-cases 1 --crop 8 "+
			"--grid 2x2x2 --patch 4 --features 16 --hidden 16"))
	_, log := commandtest.Run(t, 0, append(arguments, strings.Fields("--batch auto "+
		"--gpu-memory 250KiB --steps 2 --out "+
		out)...)...)
	found := regexp.MustCompile(`(?m)^batch auto: ([0-9]+) puzzles, which take ([0-9.]+) of ([0-9.]+) MiB of memory`).
		FindStringSubmatch(log)
	if found == nil {
		t.Fatalf("no word on the batch:\n%s", log)
	}
	t.Log(found[0])
	n, _ := strconv.Atoi(found[1])
	if text, err := os.ReadFile(filepath.Join(out, "config.yaml")); err != nil || n < 2 ||
		!strings.Contains(string(text), "\nbatch: "+found[1]+" ") {
		t.Errorf("batch auto took %d puzzles, %v; the run's settings:\n%s", n, err, text)
	}
	if len(losses(t, out)) != 2 {
		t.Errorf("losses %v of 2 steps", losses(t, out))
	}
	_, log = commandtest.Run(t, 0, append(arguments,
		strings.Fields("--batch auto --gpu-memory 8MiB --steps 3 --resume --out "+
			out)...)...)
	if !strings.Contains(log, "batch auto: "+found[1]+" puzzles, as the run has it") {
		t.Errorf("the run goes on with another batch:\n%s", log)
	}
	none := filepath.Join(folder, "none")
	var messages strings.Builder
	code := cli.Run(append(arguments, strings.Fields("--batch auto --gpu-memory 80KiB --steps 1 --out "+none)...),
		&strings.Builder{}, &messages)
	want := regexp.MustCompile(
		`(?s)batch auto: 1 of the puzzles: more do not fit into 0\.1 MiB of memory.*the program needs .* of memory and may take `,
	)
	if code != 1 || !want.MatchString(messages.String()) {
		t.Errorf("a GPU that is too small: exit code %d\n%s", code, messages.String())
	}
	if _, err := os.Stat(none); err == nil {
		t.Error("a run that could not begin left a folder")
	}
}
