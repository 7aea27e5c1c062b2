//go:build gpu

package devices_test

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/cli"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/turns"
)

// simulatedGPU builds the GPU that the CPU plays, and makes it the driver of this process.
func simulatedGPU(t *testing.T) {
	t.Helper()
	if os.Getenv("VOXSAW_CUDA_DRIVER") != "" {
		return // somebody's own
	}
	library := filepath.Join(t.TempDir(), "libcudasim.so")
	if text, err := exec.Command("../../../internal/device/cuda/sim/build.sh", library).CombinedOutput(); err != nil {
		t.Fatalf("building the simulated GPU: %v\n%s", err, text)
	}
	t.Setenv("VOXSAW_CUDA_DRIVER", library)
}

// losses are the column of a run's metrics.
func losses(t *testing.T, folder string) []float64 {
	t.Helper()
	f, err := os.Open(filepath.Join(folder, "metrics.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var v []float64
	for _, row := range rows[1:] {
		x, err := strconv.ParseFloat(row[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		v = append(v, x)
	}
	return v
}

// TestTrainOnGPU: six steps of a small network, of puzzles and of segmentation, on the CPU and on
// the simulated GPU. Losses of fp32 agree within 1e-4, of bf16 within 2e-2. A run that one of them
// began goes on on the other, and predictions of both are the same but for ties.
func TestTrainOnGPU(t *testing.T) {
	if !turns.Has(t, 2, 3) {
		return
	}
	simulatedGPU(t)
	shared := t.TempDir()
	in := func(name string) string { return filepath.Join(shared, name) }
	voxsaw := func(args ...string) string {
		t.Helper()
		_, stderr := commandtest.Run(t, 0, args...)
		return stderr
	}
	if err := miniature.Scans(in("scans"), miniature.ScanOptions{Cases: 4, Labelled: 4}); err != nil {
		t.Fatal(err)
	}
	if err := miniature.Scans(in("one"), miniature.ScanOptions{Cases: 1}); err != nil {
		t.Fatal(err)
	}
	voxsaw("prepare", in("scans"), "--out", in("prepared"))
	// VOXSAW_TEST_LONG: as many voxels as make every kernel work in several blocks
	grid, crop, patch, steps := "2x2x2", "8x8x8", "4x4x4", 6
	if os.Getenv("VOXSAW_TEST_LONG") != "" {
		crop, patch, steps = "16x16x16", "8x8x8", 10
	}
	network := []string{"--data", in("prepared"), "--channels", "16", "--levels", "1", "--batch", "1", "--warmup", "0",
		"--seed", "3", "--validate-every", "0", "--validate-cases", "1", "--steps", strconv.Itoa(steps)}
	for verb, flags := range map[string][]string{
		"pretrain": {"--grid", grid, "--crop", crop, "--patch", patch, "--features", "32", "--hidden", "16", "--rounds",
			"1"},
		"finetune": {"--crop", crop, "--validate-overlap", "0", "--labels", "2,3"},
	} {
		train := func(out string, more ...string) []float64 {
			t.Helper()
			arguments := append(append([]string{verb}, network...), flags...)
			voxsaw(append(append(arguments, "--out", in(out)), more...)...)
			return losses(t, in(out))
		}
		// fast transforms of the CPU round differently, and a few steps make much of that
		cpu := train(verb+"-cpu", "--conv", "direct")
		for precision, tolerance := range map[string]float64{"fp32": 1e-4, "bf16": 2e-2} {
			gpu := train(verb+"-"+precision, "--device", "cuda", "--precision", precision)
			if len(gpu) != steps || len(cpu) != steps {
				t.Fatalf("%s: %d losses on the CPU, %d on the GPU, want %d", verb, len(cpu), len(gpu), steps)
			}
			for i := range cpu {
				if e := math.Abs(gpu[i]-cpu[i]) / math.Abs(cpu[i]); !(e <= tolerance) {
					t.Errorf("%s, %s, step %d: loss %v on the GPU, %v on the CPU", verb, precision, i+1, gpu[i], cpu[i])
				}
			}
		}
	}

	// begun on one device, stopped after the first steps, gone on with on the other
	devices := map[string][]string{"cpu": {"--device", "cpu"}, "cuda": {"--device", "cuda", "--precision", "fp32"}}
	for from, to := range map[string]string{"cpu": "cuda", "cuda": "cpu"} {
		out := in("moved-from-" + from)
		arguments := append(append([]string{"finetune"}, network...), "--crop", crop, "--validate-overlap", "0",
			"--labels", "2,3", "--validate-every", "3", "--conv", "direct", "--out", out)
		stopped := commandtest.PauseAt(io.Discard, `after step 3\b`)
		go func() {
			for !stopped.Paused() {
				time.Sleep(time.Millisecond)
			}
			syscall.Kill(os.Getpid(), syscall.SIGINT)
		}()
		if code := cli.Run(slices.Concat(arguments, devices[from]), io.Discard, stopped); code != 130 {
			t.Fatalf("an interrupted run ends with exit code %d, want 130", code)
		}
		begun := len(losses(t, out))
		if text := voxsaw(slices.Concat(arguments, devices[to], []string{"--resume"})...); !strings.Contains(text,
			"the run was started on ") || !strings.Contains(text, "results may differ in the last bits") {
			t.Errorf("a run that moves from %s to %s does not say so:\n%s", from, to, text)
		}
		moved, straight := losses(t, out), losses(t, in("finetune-cpu"))
		if begun == 0 || begun == steps || len(moved) != steps {
			t.Fatalf("%d steps on %s, %d in all, want some of %d, and %[4]d", begun, from, len(moved), steps)
		}
		for i := range straight {
			if e := math.Abs(moved[i]-straight[i]) / math.Abs(straight[i]); !(e <= 1e-4) {
				t.Errorf("step %d of a run that moved from %s to %s after step %d: loss %v, on the CPU alone %v", i+1,
					from, to, begun, moved[i], straight[i])
			}
		}
	}

	// the same weights, on each device; windows are blended there, and resampled to the scan's grid
	labels, probabilities := map[string][]byte{}, map[string][]byte{}
	for _, device := range []string{"cpu", "cuda"} {
		out := in("labels-" + device)
		voxsaw("predict", in("one"), "--overlap", "0", "--checkpoint", in("finetune-cpu/last.safetensors"), "--out",
			out, "--device", device, "--probabilities")
		labels[device], probabilities[device] = mapBytes(t, out, false), mapBytes(t, out, true)
	}
	// Where the devices disagree, the CPU's two highest classes are as good as tied in bf16.
	const tie = 2e-2
	cpu, gpu, n := probabilities["cpu"], probabilities["cuda"], len(labels["cpu"])
	if n == 0 || len(labels["cuda"]) != n || len(cpu) != len(gpu) || len(cpu)%(4*n) != 0 {
		t.Fatalf("%d and %d bytes of labels, %d and %d of probabilities", n, len(labels["cuda"]), len(cpu), len(gpu))
	}
	value := func(of []byte, class, at int) float64 {
		return float64(math.Float32frombits(binary.LittleEndian.Uint32(of[4*(class*n+at):])))
	}
	sum, differ := 0.0, 0
	for at := range n {
		highest := []float64{0, 0}
		for class := range len(cpu) / (4 * n) {
			p := value(cpu, class, at)
			sum += math.Abs(value(gpu, class, at) - p)
			highest = append(highest, p)
		}
		slices.Sort(highest)
		if labels["cpu"][at] == labels["cuda"][at] {
			continue
		}
		differ++
		if gap := highest[len(highest)-1] - highest[len(highest)-2]; gap > tie {
			t.Errorf("voxel %d is %d on the CPU and %d on the GPU, and no tie: the "+
				"two highest probabilities are %.2g apart", at, labels["cpu"][at], labels["cuda"][at], gap)
		}
	}
	t.Logf("%d of %d voxels have another label, all of them ties (bf16)", differ, n)
	if mean := 4 * sum / float64(len(cpu)); !(mean <= 2e-2) {
		t.Errorf("probabilities differ by %.2g on average between the devices (bf16)", mean)
	}
}

// mapBytes are the voxels of all label maps of a folder, a byte each, or of all maps of
// probabilities.
func mapBytes(t *testing.T, folder string, probabilities bool) []byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.nii.gz"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: no label maps: %v", folder, err)
	}
	var all []byte
	for _, file := range files {
		if strings.HasSuffix(file, "_probabilities.nii.gz") != probabilities {
			continue
		}
		text, err := exec.Command("gzip", "-dc", file).Output()
		if err != nil {
			t.Fatal(fmt.Errorf("%s: %w", file, err))
		}
		all = append(all, text[int(math.Float32frombits(binary.LittleEndian.Uint32(text[108:]))):]...) // vox_offset
	}
	return all
}

// TestDoctorOnGPU: doctor names the GPU, whether it computes or not, and gives no advice on
// processors where it does.
func TestDoctorOnGPU(t *testing.T) {
	simulatedGPU(t)
	for device, want := range map[string]string{"cpu": "cuda: simulated", "cuda": "cuda is what this tells about"} {
		var stdout, stderr bytes.Buffer
		if code := cli.Run([]string{"doctor", "--crop", "16", "--channels", "2", "--levels", "1", "--device", device},
			&stdout, &stderr); code != 0 {
			t.Fatalf("doctor on %s: exit code %d\n%s", device, code, stderr.String())
		}
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("doctor on %s does not say %q:\n%s", device, want, stdout.String())
		}
		// beside --data, which every doctor advises, that on a processor has advice on processors
		if advice := strings.Count(stdout.String(), "\n- ") > 1; advice != (device == "cpu") {
			t.Errorf("doctor on %s advises on processors: %v\n%s", device, advice, stdout.String())
		}
	}
}
