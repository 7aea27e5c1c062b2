//go:build gpu

package cuda

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// TestFeed: what is fed is what an upload brings, to the bit, in each of many steps that nobody
// waits for in between, and a feed that is there takes no more of anything. The host writes over
// its values as soon as they are sent.
func TestFeed(t *testing.T) {
	d := openSimulated(t, bf16)
	for _, x := range []device.Tensor{{Shape: device.Shape{2, 3, 4, 5, 6}, Type: device.BFloat16},
		{Shape: device.Shape{1, 1, 4, 5, 6}, Type: device.BFloat16}, {Shape: device.Shape{2, 4, 5, 6}}} {
		const steps = 9
		r := rand.New(rand.NewPCG(1, 2))
		want, fed := make([]device.Buffer, steps), make([]device.Buffer, steps)
		values := make([][]float32, steps)
		for i := range steps {
			values[i] = normals(r, x.Shape.Elements(), 1)
			want[i], fed[i] = onGPU(t, d, d.Size(x), nil), onGPU(t, d, d.Size(x), nil)
			if err := d.Upload(want[i], x, values[i]); err != nil {
				t.Fatal(err)
			}
		}
		f, err := d.NewFeed(x)
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Sync(); err != nil {
			t.Fatal(err)
		}
		send := func(values []float32) {
			t.Helper()
			if err := f.Send(values); err != nil {
				t.Fatal(err)
			}
			clear(values)
		}
		before := d.Calls(t)
		send(normals(r, x.Shape.Elements(), 1)) // which nobody wants after all
		send(values[0])
		for i := range steps {
			if err := f.Deliver(fed[i]); err != nil {
				t.Fatal(err)
			}
			if i+1 < steps {
				send(values[i+1])
			}
		}
		if c := d.Calls(t).Sub(before); c.TakesOrGives != 0 || c.Waits != 0 {
			t.Errorf("%v: %d resources taken or given back, %d waits for the work of the GPU", x.Shape, c.TakesOrGives,
				c.Waits)
		}
		for i := range steps {
			if !slices.Equal(downloaded(t, d, fed[i], x), downloaded(t, d, want[i], x)) {
				t.Errorf("%v, step %d: what was fed is not what was sent", x.Shape, i)
			}
		}
		if f.Deliver(fed[0]) == nil {
			t.Error("a tensor was delivered twice")
		}
		if f.Send(make([]float32, 7)) == nil {
			t.Error("7 values were sent")
		}
		taken := d.taken
		f.Close()
		if taken-d.taken != d.FeedBytes(x) {
			t.Errorf("%v: a feed took %d bytes, and %d were planned", x.Shape, taken-d.taken, d.FeedBytes(x))
		}
	}
}

// The order of the two streams and the host, with a wait left out or an event in the wrong place.
// Statements of feed.go are replaced.
var feedFaults = []struct{ what, old, new string }{
	{"a batch is read before its copy has arrived",
		"if err := d.locked(func() error { return d.stream.Wait(s.arrived, 0) }); err != nil {\n\t\treturn err\n\t}\n",
		""},
	{"a buffer is written over while a step reads it",
		"if err := d.copies.Wait(s.read, 0); err != nil {\n\t\t\treturn err\n\t\t}\n", ""},
	{"a buffer is handed back a step too early", "f.turner.Run([]device.Buffer{b}, []device.Buffer{s.onGPU}, nil)\n",
		"d.locked(func() error { return s.read.Record(d.stream) })\n\tf.turner.Run([]device.Buffer{b}, " +
			"[]device.Buffer{s.onGPU}, nil)\n\treturn d.err\n"},
	{"pinned memory is filled while a copy reads it",
		"if err := s.arrived.Synchronize(); err != nil {\n\t\t\treturn err\n\t\t}\n", ""},
}

// TestPlantedFaultsOfFeeds plants each of them. One program has them all, and is told which one it
// has: to compile it for each would take longer than all the rest.
func TestPlantedFaultsOfFeeds(t *testing.T) {
	t.Parallel()
	library, err := simulator()
	if err != nil {
		t.Fatal(err)
	}
	program := plantInFeed(t)
	run := func(fault string, seed int) (string, error) {
		c := exec.Command(program, "-test.run=^TestFeed$", "-test.v")
		c.Env = append(os.Environ(), "VOXSAW_CUDA_DRIVER="+library, fmt.Sprint("VOXSAW_SIM_SEED=", seed),
			"VOXSAW_TEST_FAULT="+fault)
		text, err := c.CombinedOutput()
		if !strings.Contains(string(text), "=== RUN   TestFeed") {
			t.Fatalf("the test did not start: %v\n%s", err, text)
		}
		return failures(string(text)), err
	}
	if text, err := run("", 1); err != nil {
		t.Fatalf("without a fault: %v\n%s", err, text)
	}
	for _, f := range feedFaults {
		noticed := false
		for seed := 1; seed <= 3 && !noticed; seed++ {
			text, err := run(f.what, seed)
			if noticed = err != nil; noticed {
				reason, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
				t.Logf("%s: seed %d: %s", f.what, seed, reason)
			}
		}
		if !noticed {
			t.Errorf("%s: nobody noticed", f.what)
		}
	}
}

// plantInFeed compiles the tests with all faults in feed.go, of which VOXSAW_TEST_FAULT chooses.
func plantInFeed(t *testing.T) (program string) {
	t.Helper()
	source, err := filepath.Abs("feed.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for _, f := range feedFaults {
		if strings.Count(changed, f.old) != 1 {
			t.Fatalf("feed.go has no %q: the fault is not planted", f.old)
		}
		changed = strings.Replace(changed, f.old, fmt.Sprintf("if planted(%q) {\n%s} else {\n%s}\n", f.what, f.new,
			f.old), 1)
	}
	folder := t.TempDir()
	program = filepath.Join(folder, "faults.test")
	files := map[string]string{
		"feed.go": changed,
		"planted.go": "//go:build gpu\n\npackage cuda\n\nimport \"os\"\n\nfunc planted(fault string) bool { return " +
			"os.Getenv(\"VOXSAW_TEST_FAULT\") == fault }\n",
	}
	replace := map[string]string{}
	for name, text := range files {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(filepath.Dir(source), name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "overlay.json"), overlay, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	tags := "gpu" // with those of this very program, all but this package is compiled already
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "-tags" {
				tags = s.Value
			}
		}
	}
	build := exec.Command("go", "test", "-c", "-ldflags=-s -w", "-tags", tags, "-overlay",
		filepath.Join(folder, "overlay.json"), "-o", program, ".")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return program
}
