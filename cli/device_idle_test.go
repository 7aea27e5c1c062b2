package cli

import (
	"strings"
	"testing"
)

// Settings of a GPU that do nothing are told, wherever a verb has them; without any, or on a GPU,
// nothing is.
func TestSettingsOfAGPUOnTheCPU(t *testing.T) {
	machine := func(device, precision string, memory gibibytes) deviceOptions {
		return deviceOptions{Device: device, Precision: precision, GPUMemory: memory}
	}
	for _, c := range []struct {
		cfg  any
		want string
	}{
		{&finetuneOptions{Machine: machine("cpu", "bf16", 0)}, "precision bf16: of a GPU, and does nothing here"},
		{&selftrainOptions{finetuneOptions: finetuneOptions{Machine: machine("cpu", "", 2)}}, "gpu_memory: of a GPU"},
		{&predictOptions{Machine: machine("cpu", "tf32", 2)}, "precision tf32 and gpu_memory: of a GPU"},
		{&finetuneOptions{Machine: machine("cuda", "bf16", 2)}, ""},
		{&finetuneOptions{Machine: machine("cpu", "", 0)}, ""},
		{&compareOptions{Metric: "dsc"}, ""}, {nil, ""},
	} {
		got := idleOnCPU(c.cfg)
		if c.want == "" && got != "" || !strings.HasPrefix(got, c.want) {
			t.Errorf("%T: %q, want %q", c.cfg, got, c.want)
		}
	}
}
