package tuning

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
)

func testDevice(t *testing.T, choices map[string]string) *cpu.CPU {
	t.Helper()
	return cputest.New(t, cpu.Options{Threads: 2, Choices: choices})
}

func small(bias bool) device.ConvSpec {
	return device.ConvSpec{N: 1, In: 16, Out: 16, Size: [3]int{8, 8, 8}, Kernel: [3]int{5, 5, 5},
		Stride: [3]int{1, 1, 1}, Pad: [3]int{2, 2, 2}, Bias: bias}
}

func TestConvolutionsTakeNoMemory(t *testing.T) {
	big := small(true)
	big.Size = [3]int{2048, 2048, 2048} // half a terabyte
	found, err := Convolutions(testDevice(t, nil), func(dev device.Device) error {
		if _, err := dev.Alloc(1 << 40); err != nil {
			return err
		}
		for _, s := range []device.ConvSpec{big, small(true), small(false)} {
			for _, f := range []func(device.ConvSpec) (device.Kernel, error){dev.Conv, dev.ConvTransposed} {
				if _, err := f(s); err != nil {
					return err
				}
			}
		}
		_, err := dev.ConvGradWeights(small(true))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, c := range found {
		keys = append(keys, c.Key())
	}
	want := []string{cpu.ChoiceKey(big, cpu.Forward), cpu.ChoiceKey(big, cpu.Transposed),
		cpu.ChoiceKey(small(false), cpu.Forward), cpu.ChoiceKey(small(false), cpu.Transposed),
		cpu.ChoiceKey(small(false), cpu.Weights)}
	if !slices.Equal(keys, want) {
		t.Errorf("%q\nwant %q", keys, want)
	}
}

func TestMeasureAndFile(t *testing.T) {
	choices := map[string]string{"another": "kept"}
	dev := testDevice(t, choices)
	var measured []Choice
	for _, kind := range []cpu.ConvKind{cpu.Forward, cpu.Transposed, cpu.Weights} {
		c, err := Measure(dev, choices, Convolution{small(false), kind})
		if err != nil {
			t.Fatal(err)
		}
		names, err := dev.Candidates(c.Spec, kind)
		if err != nil || !slices.Contains(names, c.Algorithm) || c.Model != names[0] || c.Time <= 0 ||
			c.ModelTime < c.Time {
			t.Errorf("%s: %+v of %q, %v", kind, c, names, err)
		}
		measured = append(measured, c)
	}
	if len(choices) != 1 || choices["another"] != "kept" {
		t.Errorf("measuring left %v", choices)
	}

	// What overrules the model is kept, what agrees with it is not, and other convolutions' choices
	// stay.
	measured[0].Algorithm, measured[0].Model = "x", "y"
	measured[1].Algorithm, measured[1].Model = "x", "x"
	f := File{Processor: "this one", Choices: []string{"forward 1x1-1 = direct", measured[1].Key() + " = old"}}
	if err := f.Set(measured[:2]); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tuning.yaml")
	if err := f.Save(path); err != nil {
		t.Fatal(err)
	}
	g, err := Load(path, "this one")
	if err != nil || !slices.Equal(g.Choices, []string{"forward 1x1-1 = direct", measured[0].Key() + " = x"}) {
		t.Errorf("%q, %v", g.Choices, err)
	}
	if _, err := Load(path, "another one"); err == nil ||
		!strings.Contains(err.Error(), "was measured on this one, this is another one") {
		t.Errorf("another machine's file: %v", err)
	}
	if err := (File{Processor: "p"}).Save(path); err != nil {
		t.Fatal(err)
	}
	if g, err := Load(path, "p"); err != nil || len(g.Choices) != 0 {
		t.Errorf("an empty file: %q, %v", g.Choices, err)
	}
}

func TestDamagedFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuning.yaml")
	for text, want := range map[string]string{
		"processor: p\nchoices: [nothing]\n":              "is no choice",
		"processor: p\nchoices: [\"a = b\", \"a = c\"]\n": "two choices for a",
		"processor: p\nchoice: []\n":                      "choice",
		"":                                                "was measured on",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path, "p"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Who measures at the same time as another one loses nothing of the other's choices.
func TestTwoAddToOneFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tuning.yaml")
	one, two := File{Processor: "cpu"}, File{Processor: "cpu"}
	found, err := Convolutions(testDevice(t, nil), func(dev device.Device) error {
		_, err := dev.Conv(small(true))
		_, failed := dev.ConvTransposed(small(false))
		return errors.Join(err, failed)
	})
	if err != nil || len(found) != 2 {
		t.Fatal(found, err)
	}
	first := Choice{Convolution: found[0], Algorithm: "direct", Model: "other"}
	second := Choice{Convolution: found[1], Algorithm: "direct", Model: "other"}
	for _, step := range []func() error{
		func() error { return one.Add(path, first) }, func() error { return two.Add(path, second) },
		func() error { return one.Add(path, first) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	var done sync.WaitGroup
	for range 8 {
		done.Go(func() {
			f := File{Processor: "cpu"}
			if err := f.Add(path); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	read, err := Load(path, "cpu")
	if err != nil || len(read.Choices) != 2 {
		t.Errorf("%q, %v", read.Choices, err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
		t.Errorf("%q is left", left)
	}
}
