//go:build gpu

package devices_test

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/turns"
	"github.com/voxsaw/voxsaw/internal/voc/voctest"
)

// The verbs and tasks besides jigsaw puzzles and segmentation, on the CPU and on the simulated GPU
// with the same settings: few steps, tiny crops, fp32.

// onCPU and onGPU choose the device. Fast transforms of the CPU round differently.
var (
	onCPU = []string{"--device", "cpu", "--conv", "direct"}
	onGPU = []string{"--device", "cuda", "--precision", "fp32"}
)

// preparedPhantoms are three scans with labels, prepared.
func preparedPhantoms(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	scans, prepared := filepath.Join(folder, "scans"), filepath.Join(folder, "prepared")
	if err := miniature.Scans(scans, miniature.ScanOptions{Cases: 4, Labelled: 3}); err != nil {
		t.Fatal(err)
	}
	commandtest.Run(t, 0, "prepare", scans, "--out", prepared)
	return prepared
}

// agree says where numbers of the GPU are not the CPU's.
func agree(t *testing.T, what string, gpu, cpu []float64, tolerance float64) {
	t.Helper()
	if len(gpu) != len(cpu) || len(cpu) == 0 {
		t.Fatalf("%s: %d numbers of the GPU, %d of the CPU", what, len(gpu), len(cpu))
	}
	for i := range cpu {
		if e := max(gpu[i]-cpu[i], cpu[i]-gpu[i]); !(e <= tolerance*max(1, cpu[i], -cpu[i])) {
			t.Errorf("%s: number %d is %v on the GPU, %v on the CPU", what, i+1, gpu[i], cpu[i])
		}
	}
}

// numbersIn are the numbers of a JSON value, those of an object in the order of its keys.
func numbersIn(t *testing.T, text string) (all []float64) {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatal(err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case float64:
			all = append(all, v)
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				walk(v[key])
			}
		}
	}
	walk(value)
	return all
}

// TestTasksOnGPU: each task of pretrain has the CPU's losses, and solve, with the same weights, the
// CPU's scores. A quarter of the tasks has its turn.
func TestTasksOnGPU(t *testing.T) {
	simulatedGPU(t)
	data := preparedPhantoms(t)
	tasks := map[string]string{
		"kway":   "--crop 8 --grid 2x2x2 --patch 4 --head kway --classes 10 --hidden 16 --features 16",
		"binary": "--crop 8 --grid 2x2x2 --patch 4 --head paper --rounds 2 --binary --column-sum 0.1 --features 16",
		"hard": "--crop 8 --grids 2x2x2,2x2x1 --patch 4 --head attention --hidden 16 --attention-heads 2 " +
			"--rounds 2 --missing 0.3 --identical --skip-air --features 16",
		"rotation": "--crop 8 --task rotation --features 16",
		"position": "--crop 16 --task position --hidden 16 --features 16",
		"rubik":    "--crop 16 --task rubik --grid 2x2x2 --patch 4 --hidden 16 --classes 10 --features 16",
		"mae":      "--crop 8 --task mae --mask-block 4",
		"fusion":   "--crop 8 --task fusion --smallest-box 2 --batch 2",
	}
	for n, name := range slices.Sorted(maps.Keys(tasks)) {
		if !turns.Has(t, n, 4) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			arguments := slices.Concat([]string{"pretrain", "--data", data, "--channels", "2", "--levels", "1",
				"--batch", "1", "--warmup", "0", "--seed", "3", "--steps", "2", "--validate-every", "0",
				"--validate-cases", "1"}, strings.Fields(tasks[name]))
			cpu, gpu := filepath.Join(t.TempDir(), "cpu"), filepath.Join(t.TempDir(), "gpu")
			commandtest.Run(t, 0, slices.Concat(arguments, onCPU, []string{"--out", cpu})...)
			commandtest.Run(t, 0, slices.Concat(arguments, onGPU, []string{"--out", gpu})...)
			agree(t, "losses", losses(t, gpu), losses(t, cpu), 1e-4)
			solve := []string{"solve", "--data", data, "--checkpoint", gpu, "--cases", "case_1", "--json", "--device"}
			ofCPU, _ := commandtest.Run(t, 0, append(solve, "cpu")...)
			ofGPU, _ := commandtest.Run(t, 0, append(solve, "cuda", "--precision", "fp32")...)
			agree(t, "scores of solve", numbersIn(t, ofGPU), numbersIn(t, ofCPU), 1e-4)
		})
	}
}

// TestResumePretrainOnGPU: a run that moves to the GPU and back has the losses of one that stays on
// the CPU, and says that it moved.
func TestResumePretrainOnGPU(t *testing.T) {
	if !turns.Has(t, 0, 3) {
		return
	}
	simulatedGPU(t)
	data, folder := preparedPhantoms(t), t.TempDir()
	straight, moved := filepath.Join(folder, "straight"), filepath.Join(folder, "moved")
	arguments := slices.Concat([]string{"pretrain", "--data", data, "--schedule", "constant", "--conv", "direct"},
		strings.Fields("--channels 2 --levels 1 --batch 1 --warmup 0 --seed 3 --validate-every 0 --validate-cases 1 "+
			"--crop 8 --grid 2x2x2 --patch 4 --features 16 --hidden 16"))
	commandtest.Run(t, 0, append(arguments, "--steps", "6", "--out", straight)...)
	commandtest.Run(t, 0, append(arguments, "--steps", "2", "--out", moved)...)
	for _, part := range [][]string{append(onGPU, "--steps", "4"), {"--device", "cpu", "--steps", "6"}} {
		_, log := commandtest.Run(t, 0, append([]string{"pretrain", "--resume", "--out", moved}, part...)...)
		if !strings.Contains(log, "the run was started on ") ||
			!strings.Contains(log, "results may differ in the last bits") {
			t.Errorf("a run that moves to %s does not say so:\n%s", part[1], log)
		}
	}
	agree(t, "losses", losses(t, moved), losses(t, straight), 1e-4)
}

// TestCrossvalOnGPU: an experiment, from pretraining to the table of scores.
func TestCrossvalOnGPU(t *testing.T) {
	if !turns.Has(t, 1, 3) {
		return
	}
	simulatedGPU(t)
	data, folder := preparedPhantoms(t), t.TempDir()
	plan := filepath.Join(folder, "plan.yaml")
	if err := os.WriteFile(plan, []byte(`
folds: 3
run_folds: [1]
fractions: [1]
seeds: [1]
initialisations: [{name: jigsaw, pretrain: {grid: 2x2x2, patch: 4}}]
pretrain: {network: {channels: 2, levels: 1}, train: {steps: 1}, crop: 8, features: 8, hidden: 8}
finetune: {network: {channels: 2, levels: 1}, train: {steps: 1}, crop: 8, labels: [2, 3]}
inference: {overlap: 0}
metrics: {overlap_only: true}
score_on: prepared
`), 0o666); err != nil {
		t.Fatal(err)
	}
	scores := func(name string, device ...string) []float64 {
		out, _ := commandtest.Run(t, 0, slices.Concat([]string{"crossval", "--config", plan, "--data", data, "--json",
			"--out",
			filepath.Join(folder, name)}, device)...)
		return numbersIn(t, out)
	}
	// a voxel or two may tie
	agree(t, "scores", scores("gpu", onGPU...), scores("cpu", "--device", "cpu"), 1e-2)
	if text, err := os.ReadFile(filepath.Join(folder, "gpu", "trials", "jigsaw", "fold-1", "fraction-1", "seed-1",
		"run.json")); err != nil || !strings.Contains(string(text), "simulated GPU") {
		t.Errorf("the trial does not say that a GPU computed it: %v\n%s", err, text)
	}
	// What the GPU cannot learn of a student is said before teachers work, without sizes, too.
	out := filepath.Join(folder, "self")
	_, said := commandtest.Run(t, 1, "selftrain", "--data", data, "--device", "cuda", "--hold-out", "0", "--out", out,
		"--teacher", filepath.Join(folder, "cpu", "trials", "jigsaw", "fold-1", "fraction-1", "seed-1"))
	if _, err := os.Stat(out); !strings.Contains(said, "--undrawn background") || err == nil {
		t.Errorf("a student that the GPU cannot train: %v\n%s", err, said)
	}
}

// TestUnlabelledOnGPU: a mean teacher, and a student of label maps. What a GPU cannot merge is left
// out.
func TestUnlabelledOnGPU(t *testing.T) {
	if !turns.Has(t, 0, 3) {
		return
	}
	simulatedGPU(t)
	data, folder := preparedPhantoms(t), t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	sizes := strings.Fields("--crop 8 --channels 2 --levels 1 --norm group --groups 2 --batch 1 --steps 2 --warmup 0 " +
		"--validate-every 0 --hold-out 0 --schedule constant --lr 0.01")
	for name, arguments := range map[string][]string{
		"teacher": {"finetune", "--unlabelled", "--average", "0.5", "--unlabelled-confidence", "0.1",
			"--unlabelled-ramp", "1"},
		"student": {"selftrain", "--undrawn", "background", "--agreement", "0", "--labelled-last", "0"},
	} {
		arguments = slices.Concat(arguments, sizes, []string{"--data", data})
		of := ""
		if name == "student" {
			first := []string{"finetune", "--data", data, "--out", in("a")}
			commandtest.Run(t, 0, slices.Concat(first, sizes, onCPU)...)
			arguments, of = append(arguments, "--teacher", in("a")), "round-1/student"
		}
		commandtest.Run(t, 0, slices.Concat(arguments, onCPU, []string{"--out", in(name + "-cpu")})...)
		commandtest.Run(t, 0, slices.Concat(arguments, onGPU, []string{"--out", in(name + "-gpu")})...)
		gpu, cpu := losses(t, filepath.Join(in(name+"-gpu"), of)), losses(t, filepath.Join(in(name+"-cpu"), of))
		agree(t, name, gpu, cpu, 1e-3)
	}
}

// TestPhotographsOnGPU: puzzles of photographs, and detection with the network that has local
// response normalisation, groups and pooling rounded up, and pools regions.
func TestPhotographsOnGPU(t *testing.T) {
	if !turns.Has(t, 2, 3) {
		return
	}
	simulatedGPU(t)
	folder := t.TempDir()
	in := func(name string) string { return filepath.Join(folder, name) }
	if err := voctest.Write(in("VOC2007"), voctest.Options{Side: 64, Seed: 1, Train: 4, Val: 2, Test: 1}); err != nil {
		t.Fatal(err)
	}
	commandtest.Run(t, 0, "2d", "prepare", in("VOC2007"), "--out", in("voc"), "--size", "72x64")
	for name, flags := range map[string]string{
		"pretrain": "2d pretrain --backbone resnet18 --grid 2x2 --cell 20 --patch 16 --batch 2 --features 16 " +
			"--hidden 16 --head symmetric --binary=false",
		"detect": "2d finetune --task detect --train-on train --checkpoint random --backbone " +
			"alexnet --regions 8 --images 1 --proposals " + in("VOC2007/proposals.csv"),
	} {
		arguments := slices.Concat(strings.Fields(flags), []string{"--data", in("voc"), "--width", "0.0625", "--steps",
			"2", "--warmup", "0", "--validate-every", "0"})
		commandtest.Run(t, 0, slices.Concat(arguments, onCPU, []string{"--out", in(name + "-cpu")})...)
		commandtest.Run(t, 0, slices.Concat(arguments, onGPU, []string{"--out", in(name + "-gpu")})...)
		agree(t, name, losses(t, in(name+"-gpu")), losses(t, in(name+"-cpu")), 1e-4)
	}
}
