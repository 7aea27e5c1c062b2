//go:build gpu && mpi && linux

package devices_test

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// TestPeersGPU: two ranks, each on a simulated GPU of its own, sum their gradients through the
// simulated NCCL: the weights are those of sums through the hosts' memory, to the bit, and those of
// one rank but for rounding. Where NCCL cannot be used, the run says why, and sums through the
// memory; where it fails, the run ends.
func TestPeersGPU(t *testing.T) {
	s := newMPISite(t)
	simulatedGPU(t)
	if text, err := exec.Command("../../../internal/device/cuda/sim/nccl/build.sh",
		s.in("libncclsim.so")).CombinedOutput(); err != nil {
		t.Fatalf("building the simulated NCCL: %v\n%s", err, text)
	}
	t.Setenv("VOXSAW_NCCL", s.in("libncclsim.so"))
	t.Setenv("VOXSAW_SIM_GPUS", "2")
	line := []string{
		"finetune", "--data", s.data, "--channels", "2", "--levels", "1", "--crop", "8", "--labels", "2,3", "--batch",
		"2", "--steps", "3", "--warmup", "0",
		"--hold-out", "0", "--validate-overlap", "0", "--validate-every", "0", "--device", "cuda", "--precision",
		"fp32", "--seed", "3",
	}
	train := func(name string, ranks int, env ...string) rankRun {
		_, wait := s.start(t, "MPICH", ranks, env, append(line, "--out", s.in(name))...)
		return wait()
	}
	is := func(name string, r rankRun, code int, text string) {
		t.Helper()
		if !r.ended(code) || !strings.Contains(r.stderr, text) {
			t.Errorf("%s: exit code %d, want %d and %q\n%s", name, r.code, code, text, r.stderr)
		}
	}
	is("NCCL", train("peers", 2), 0, "gradients are summed between the GPUs by NCCL 2.27.3")
	is("without NCCL", train("memory", 2, "VOXSAW_NCCL=none"), 0,
		"gradients are summed through the hosts' memory: rank 0")
	is("one rank", train("one", 1), 0, "3/3")
	a, errA := os.ReadFile(weights(s.in("peers")))
	b, errB := os.ReadFile(weights(s.in("memory")))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("other weights than by sums through the memory: %v, %v", errA, errB)
	}
	traintest.Close(t, weights(s.in("one")), weights(s.in("peers")), 1e-4)
	plan := "initialisations: [{name: scratch}]\nfractions: [1]\nseeds: [1, 2]\nfolds: 2\nfinetune:\n" +
		"  network: {channels: 2, levels: 1}\n  crop: [8, 8, 8]\n  labels: [2, 3]\n  batch: 2\n" +
		"  train: {steps: 1, warmup: 0}\n"
	if err := os.WriteFile(s.in("peers.yaml"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	_, wait := s.start(t, "MPICH", 2, nil, "crossval", "--config", s.in("peers.yaml"), "--data", s.data, "--out",
		s.in("trials"), "--ranks", "2", "--device", "cuda", "--precision", "fp32")
	is("trials one after the other", wait(), 0, "")
	is("one GPU", train("shared", 2, "VOXSAW_SIM_GPUS=1"), 0, "rank 0 (")
	is("an old library", train("old", 2, "VOXSAW_SIM_NCCL=old"), 0, "NCCL 2.12.0 (")
	is("no network", train("join", 2, "VOXSAW_SIM_NCCL=join", "VOXSAW_SIM_NCCL_RANK=1"), 1,
		"joining the other ranks' GPUs: NCCL: ")
	is("a sum that does not begin", train("sum", 2, "VOXSAW_SIM_NCCL=sum"), 1,
		"summing the gradients over the ranks: NCCL: internal error")
	is("the network is lost", train("lost", 2, "VOXSAW_SIM_NCCL=lost", "VOXSAW_SIM_NCCL_RANK=1"), 1,
		"summing between the GPUs: NCCL: remote process exited")
}
