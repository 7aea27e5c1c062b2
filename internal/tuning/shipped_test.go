package tuning

import (
	"testing"
	"testing/fstest"
)

// TestShipped: a table is found by the GPU's name, the precision and the program's kernels,
// whatever the driver, and a wrong one is an error.
func TestShipped(t *testing.T) {
	files := fstest.MapFS{
		"shipped/README.md": {Data: []byte("no table")},
		"shipped/h200.yaml": {Data: []byte("processor: \"NVIDIA H200, driver 570.86.15, bf16, kernels 1a2b3c4d\"\n" +
			"choices:\n  - \"a = rows\"\n")},
		"shipped/broken.yaml": {Data: []byte("processor: \"NVIDIA A100, driver 1, bf16\"\nchoices:\n  - \"a\"\n")},
	}
	for machine, want := range map[string]int{
		"NVIDIA H200, driver 580.65.06 of CUDA 13.0, bf16, kernels 1a2b3c4d": 1,
		"NVIDIA H200, driver 570.86.15 of CUDA 12.8, bf16, kernels 5e6f7081": 0,
		"NVIDIA H200, driver 570.86.15 of CUDA 12.8, tf32, kernels 1a2b3c4d": 0,
		"NVIDIA H100, driver 570.86.15 of CUDA 12.8, bf16, kernels 1a2b3c4d": 0,
	} {
		f, ok, err := shippedIn(files, machine)
		if err != nil || ok != (want > 0) || len(f.Choices) != want {
			t.Errorf("%s: %v, %v, %v", machine, f, ok, err)
		}
	}
	if _, _, err := shippedIn(files, "NVIDIA A100, driver 2, bf16"); err == nil {
		t.Error("a table that is wrong was taken")
	}
	if _, ok, err := Shipped("simulated GPU, driver of CUDA 12.9, bf16"); ok || err != nil {
		t.Errorf("for the simulated GPU: %v, %v", ok, err)
	}
}
