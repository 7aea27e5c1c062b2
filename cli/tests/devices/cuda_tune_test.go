//go:build gpu

package devices_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// TestTuneOnGPU: tune writes a file for the simulated GPU and the simulated cuDNN, a run follows it
// and says so in its log, its record and its checkpoint, and a plan that is wrong is refused.
func TestTuneOnGPU(t *testing.T) {
	if !turns.Has(t, 1, 3) {
		return
	}
	simulatedGPU(t)
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	if text, err := exec.Command("../../../internal/device/cuda/sim/cudnn/build.sh",
		in("libcudnnsim.so")).CombinedOutput(); err != nil {
		t.Fatalf("building the simulated cuDNN: %v\n%s", err, text)
	}
	t.Setenv("VOXSAW_CUDNN", in("libcudnnsim.so"))
	voxsaw := func(args ...string) string {
		t.Helper()
		_, stderr := commandtest.Run(t, 0, args...)
		return stderr
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(in(name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	network := []string{"--channels", "2", "--levels", "1", "--crop", "4x4x4", "--batch", "1", "--device", "cuda"}
	voxsaw(append([]string{"tune", "--out", in("measured.yaml")}, network...)...)
	measured := read("measured.yaml")
	header, _, found := strings.Cut(measured, "choices:")
	if !found || !strings.Contains(header, `processor: "simulated GPU, driver of CUDA `) ||
		!strings.Contains(measured, " = cuDNN 9.28.0 ") {
		t.Fatalf("tune wrote\n%s", measured)
	}

	// choices that do not depend on what was fastest today
	const right, wrong = "forward 1x1-2 @4x4x4 kernel 5x5x5 stride 1x1x1 pad 2x2x2 = cuDNN 9.28.0 by data: eng0",
		"transposed 1x4-4 @4x4x4 kernel 5x5x5 stride 1x1x1 pad 2x2x2 = cuDNN 9.28.0 data: eng1_k2=5"
	chosen := header + "choices:\n  - \"" + right + "\"\n  - \"" + wrong + "\"\n"
	if err := os.WriteFile(in("tuning.yaml"), []byte(chosen), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := miniature.Scans(in("scans"), miniature.ScanOptions{Cases: 1, Labelled: 1}); err != nil {
		t.Fatal(err)
	}
	voxsaw("prepare", in("scans"), "--out", in("prepared"))
	t.Setenv("VOXSAW_SIM_CUDNN", "wrong")
	training := func(tuning, out string) []string {
		return append([]string{"finetune", "--data", in("prepared"), "--labels", "2,3", "--steps", "2", "--warmup",
			"0", "--hold-out", "0", "--validate-every", "0", "--tuning", in(tuning), "--out", in(out)}, network...)
	}
	log := voxsaw(training("tuning.yaml", "run")...)
	for _, want := range []string{"by measurement: " + right,
		"eng1_k2=5 is refused, our own kernel computes it: it is wrong"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
	for _, file := range []string{"run/run.json", "run/last.safetensors"} {
		if text := read(file); !strings.Contains(text, right) || strings.Contains(text, wrong) {
			t.Errorf("%s: the engine that computes must stand there, the one that is refused must not", file)
		}
	}

	// files of another machine, and of a program with other kernels
	for _, other := range [][2]string{{"simulated GPU", "NVIDIA H200"}, {", kernels ", ", kernels 0"}} {
		text := strings.Replace(chosen, other[0], other[1], 1)
		if text == chosen {
			t.Fatalf("the file does not say %q:\n%s", other[0], header)
		}
		if err := os.WriteFile(in("other.yaml"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		code := cli.Run(training("other.yaml", "other"), io.Discard, &stderr)
		if code == 0 || !strings.Contains(stderr.String(), "other.yaml was measured on ") ||
			!strings.Contains(stderr.String(), "voxsaw tune --device cuda --out FILE") {
			t.Errorf("choices of %q: exit code %d, %s", other[1], code, stderr.String())
		}
	}
}
