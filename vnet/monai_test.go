package vnet

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

const monaiWeights = "../testdata/monai_vnet.safetensors"

// small is the network of monai_vnet.safetensors: MONAI's own, at one channel.
var small = voxsaw.Network{Preset: "monai", Channels: 1, Classes: 2, Dropout: -1}

func smallModel(t *testing.T, size [3]int) *Model {
	t.Helper()
	dev := cputest.New(t, cpu.Options{Threads: 2})
	m, err := New(dev, small, size, 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

func readTensors(t *testing.T, path string) (map[string][]float32, *safetensors.File) {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	all := map[string][]float32{}
	for _, name := range f.Names() {
		if strings.HasSuffix(name, "num_batches_tracked") {
			continue
		}
		if all[name], err = f.Read(name); err != nil {
			t.Fatal(err)
		}
	}
	return all, f
}

// MONAI's own network, with the weights that it saved, gives these logits.
func TestLogitsOfMONAI(t *testing.T) {
	m := smallModel(t, [3]int{32, 16, 16})
	loaded, err := m.Load(monaiWeights)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Missing) > 0 || len(loaded.Loaded) != len(m.Names()) {
		t.Errorf("loaded %v", loaded)
	}
	for _, s := range loaded.Skipped {
		if !strings.HasSuffix(s.Name, "num_batches_tracked") {
			t.Errorf("skipped %v", s)
		}
	}
	numbers, _ := readTensors(t, "../testdata/monai_numbers.safetensors")
	var image []float32 // the first 16 rows of 24
	for k := range 16 {
		for _, hu := range numbers["image"][k*24*32:][:16*32] {
			image = append(image, (hu-75)/200)
		}
	}
	logits, err := m.Logits(image)
	if err != nil {
		t.Fatal(err)
	}
	worst, size := 0.0, 0.0
	for n, want := range numbers["logits"] {
		worst, size = max(worst, math.Abs(float64(logits[n]-want))), max(size, math.Abs(float64(want)))
	}
	// what fast convolutions round: 7e-6 to 1.5e-5, by the algorithms that are chosen
	if len(logits) != len(numbers["logits"]) || !(worst < 3e-5*size) {
		t.Errorf("logits differ by up to %v of %v", worst, size)
	}
}

// Every name of MONAI's is one of ours, and the other way round, whatever the activation.
func TestNamesOfMONAI(t *testing.T) {
	data, err := os.ReadFile("../testdata/monai_names.json")
	if err != nil {
		t.Fatal(err)
	}
	var monai map[string]map[string][2]any // shape and type
	if err := json.Unmarshal(data, &monai); err != nil {
		t.Fatal(err)
	}
	dev := cputest.New(t, cpu.Options{Threads: 1})
	for activation, names := range monai {
		settings := small
		settings.Activation, settings.Classes = activation, 3
		m, err := New(dev, settings, [3]int{16, 16, 16}, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var got []string
		for name, tensor := range names {
			if strings.HasSuffix(name, "num_batches_tracked") {
				continue
			}
			ours := translate(name)
			got = append(got, ours)
			if back, ok := monaiName(ours); !ok || back != name {
				t.Errorf("%s is %s is %s, %v", name, ours, back, ok)
			}
			if translate("module."+name) != ours || translate(ours) != ours {
				t.Errorf("%s in other guises is another parameter", name)
			}
			if len(m.Shape(ours)) != len(tensor[0].([]any)) {
				t.Errorf("%s has shape %v, MONAI's %s has %v", ours, m.Shape(ours), name, tensor[0])
			}
		}
		slices.Sort(got)
		if want := slices.Sorted(slices.Values(m.Names())); !slices.Equal(got, want) {
			t.Errorf("%s: MONAI has %d parameters that are ours, of %d", activation, len(got), len(want))
		}
	}
	for _, name := range []string{"down_tr33.bn1.weight", "down_tr16.bn1.weight", "in_tr.conv7.weight", "decoder",
		"puzzle.weight"} {
		if got := translate(name); got != name {
			t.Errorf("%s is taken for %s", name, got)
		}
	}
	if name, ok := monaiName("puzzle.weight"); ok {
		t.Errorf("puzzle.weight would be MONAI's %s", name)
	}
}

// Weights of vnet.pytorch load by their names. Its convolutions have biases before batch norms,
// which shift the running mean here: the network says the same.
func TestWeightsOfVNetPyTorch(t *testing.T) {
	weights, f := readTensors(t, monaiWeights)
	macy := strings.NewReplacer("conv_block.conv.", "conv1.", "conv_block.adn.N.", "bn1.")
	var tensors []safetensors.Tensor
	for _, name := range f.Names() {
		values := weights[name]
		if values == nil {
			continue
		}
		tensors = append(tensors, safetensors.Tensor{Name: macy.Replace(name), Shape: f.Shape(name),
			Values: func() ([]float32, error) { return values, nil }})
		if strings.HasSuffix(name, ".running_mean") {
			// the mean of what has a bias of 0.25, 0.5, ... is larger by it
			conv := strings.NewReplacer("adn.N.running_mean", "conv.bias", "bn1.running_mean",
				"down_conv.bias").Replace(name)
			if strings.HasPrefix(name, "up_tr") && strings.HasSuffix(name, "bn1.running_mean") {
				continue // has its bias here, too
			}
			bias, mean := make([]float32, len(values)), slices.Clone(values)
			for n := range bias {
				bias[n] = float32(n+1) / 4
				mean[n] += bias[n]
			}
			tensors[len(tensors)-1].Values = func() ([]float32, error) { return mean, nil }
			tensors = append(tensors, safetensors.Tensor{Name: macy.Replace(conv), Shape: f.Shape(name),
				Values: func() ([]float32, error) { return bias, nil }})
		}
	}
	path := filepath.Join(t.TempDir(), "macy.safetensors")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := safetensors.Write(out, nil, tensors); err != nil {
		t.Fatal(err)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	m, want := smallModel(t, [3]int{16, 16, 16}), smallModel(t, [3]int{16, 16, 16})
	if _, err := want.Load(monaiWeights); err != nil {
		t.Fatal(err)
	}
	loaded, err := m.Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Missing) > 0 || len(loaded.Loaded) != len(m.Names()) || len(loaded.Skipped) == 0 ||
		!strings.Contains(loaded.Skipped[0].Reason, "the running mean of the norm behind it is shifted instead") {
		t.Errorf("loaded %v", loaded)
	}
	for _, name := range m.Names() {
		a, errA := m.Weights(name)
		b, errB := want.Weights(name)
		for n := range a {
			if errA != nil || errB != nil || math.Abs(float64(a[n]-b[n])) > 1e-6 {
				t.Fatalf("%s: %v, want %v", name, a, b)
			}
		}
	}
}

// What is written for MONAI is, name by name and bit by bit, what MONAI had saved. MONAI took such
// a file with strict=True: see testdata/monai_vnet.py.
func TestToMONAI(t *testing.T) {
	m := smallModel(t, [3]int{16, 16, 16})
	if _, err := m.Load(monaiWeights); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path, out := filepath.Join(dir, "checkpoint.safetensors"), filepath.Join(dir, "monai.safetensors")
	write := func(kind, settings string) {
		t.Helper()
		if err := checkpoint.Write(path, checkpoint.Description{Kind: kind, Settings: settings}, m.params); err != nil {
			t.Fatal(err)
		}
	}
	same := func() {
		t.Helper()
		n, err := ToMONAI(path, out)
		if err != nil || n.Channels != 1 || n.Activation != "elu" {
			t.Fatalf("%+v, %v", n, err)
		}
		got, _ := readTensors(t, out)
		want, _ := readTensors(t, monaiWeights)
		if len(got) != len(want) {
			t.Errorf("%d tensors, MONAI has %d", len(got), len(want))
		}
		for name, values := range want {
			if !slices.Equal(got[name], values) {
				t.Errorf("%s differs", name)
			}
		}
	}
	write(checkpoint.Segmentation, "network: {preset: monai, channels: 1, classes: 2}\n")
	same()
	// the heads of deep supervision are not MONAI's
	deep := small
	deep.DeepSupervision = true
	network := mustResolve(t, deep)
	g := nn.NewGraph(nn.Train, device.Float32)
	network.Decoder(g, network.Encoder(g, g.Input("x", 1, 1, 32, 32, 32)))
	params := nn.NewParams(devicetest.NewReference(), 1)
	if err := params.Declare(g); err != nil {
		t.Fatal(err)
	}
	if loaded, err := checkpoint.LoadRenamed(monaiWeights, params, translate); err != nil || len(loaded.Missing) != 4 {
		t.Fatalf("%v, %v", loaded, err)
	}
	if err := checkpoint.Write(path, checkpoint.Description{Kind: checkpoint.Segmentation,
		Settings: "network: {preset: monai, channels: 1, classes: 2, deep_supervision: true}\n"}, params); err != nil {
		t.Fatal(err)
	}
	same()
	for want, c := range map[string][2]string{
		`kind "jigsaw"`:     {"jigsaw", "network: {preset: monai, channels: 1}\n"},
		"preset monai":      {checkpoint.Segmentation, "network: {preset: paper, channels: 1}\n"},
		"norm batch":        {checkpoint.Segmentation, "network: {preset: monai, norm: instance, channels: 1}\n"},
		`of kind "another"`: {checkpoint.Segmentation, "network: {kind: another}\n"},
	} {
		write(c[0], c[1])
		if _, err := ToMONAI(path, filepath.Join(dir, "none")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", c, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "none")); err == nil {
		t.Error("a file was written of what was refused")
	}
}
