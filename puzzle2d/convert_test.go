package puzzle2d

import (
	"context"
	"encoding/json"
	"image"
	"image/color"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/safetensors"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// pyTorch is a file of weights that PyTorch wrote: see testdata/photonet_weights.py.
const pyTorch = "../testdata/photonet_weights.safetensors"

func thin() Network { return Network{Backbone: "resnet18", Width: 0.0625} }

// ofFormula is the photograph of the script, prepared.
func ofFormula(t *testing.T) *photos.Store {
	t.Helper()
	dir := t.TempDir()
	m := image.NewRGBA(image.Rect(0, 0, 48, 40))
	for y := range 40 {
		for x := range 48 {
			v := 7*x + 13*y
			m.SetRGBA(x, y, color.RGBA{uint8(v), uint8(v + 31), uint8(v + 62), 255})
		}
	}
	writePNG(t, filepath.Join(dir, "photos", "a.png"), m)
	return storeOf(t, filepath.Join(dir, "photos"), 0, 48, 40)
}

// PyTorch's weights make PyTorch's features: from its file, and from the checkpoint that is made of
// it.
func TestFeaturesOfPyTorchsWeights(t *testing.T) {
	text, err := os.ReadFile("../testdata/photonet_weights.json")
	if err != nil {
		t.Fatal(err)
	}
	var want struct{ Features []float64 }
	if err := json.Unmarshal(text, &want); err != nil || len(want.Features) != 32 {
		t.Fatalf("%d features, %v", len(want.Features), err)
	}
	dev, store := open(t), ofFormula(t)
	checkpoint := filepath.Join(t.TempDir(), "thin.safetensors")
	loaded, err := FromPyTorch(dev, pyTorch, checkpoint, thin(), 64)
	if err != nil {
		t.Fatal(err)
	}
	// 20 convolutions with four tensors of their norms; fc and the counters are left out
	if len(loaded.Loaded) != 100 || len(loaded.Skipped) != 22 || len(loaded.Missing) != 0 {
		t.Error(loaded)
	}
	for _, path := range []string{pyTorch, checkpoint} {
		f, err := OpenFeatures(dev, path, FeatureOptions{Random: thin(), Side: 40, Batch: 1})
		if err != nil {
			t.Fatal(err)
		}
		got, err := f.Extract(context.Background(), []sample.Sample{store.Photo(0)})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range got {
			if math.Abs(float64(v)-want.Features[i]) > 2e-5 {
				t.Errorf("%s: feature %d is %v, PyTorch's %v", path, i, v, want.Features[i])
			}
		}
		if (f.Note() != "") != (path == pyTorch) {
			t.Errorf("%s: noted %q", path, f.Note())
		}
		f.Close()
	}
	// and back: the same names, shapes and values as in PyTorch's file, but for fc and the counters
	out := filepath.Join(t.TempDir(), "back.safetensors")
	n, classes, left, err := ToPyTorch(checkpoint, out)
	if err != nil || len(left) != 0 || n != thin() || classes != 0 {
		t.Errorf("%v, %v, %v", n, left, err)
	}
	compareTensors(t, pyTorch, out)
}

// compareTensors wants a file to have the tensors of another but for the classifier and counters.
func compareTensors(t *testing.T, first, second string) {
	t.Helper()
	a, err := safetensors.Open(first)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := safetensors.Open(second)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	count := 0
	for _, name := range a.Names() {
		if strings.HasPrefix(name, "fc.") || strings.HasSuffix(name, ".num_batches_tracked") {
			continue
		}
		count++
		x, err := a.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Read(name)
		if err != nil || !slices.Equal(a.Shape(name), b.Shape(name)) || !slices.Equal(x, y) {
			t.Errorf("%s: %v, shape %v and %v", name, err, a.Shape(name), b.Shape(name))
		}
	}
	if count == 0 || count != len(b.Names()) {
		t.Errorf("%d tensors, and %d", count, len(b.Names()))
	}
}

func TestConvertRefuses(t *testing.T) {
	dev, out := open(t), filepath.Join(t.TempDir(), "out.safetensors")
	for want, n := range map[string]Network{
		"of another --backbone or --width": {Backbone: "resnet18", Width: 0.125},
		"tensors of a resnet50 of width":   {Backbone: "resnet50", Width: 0.0625},
		"another kind or width":            {Backbone: "alexnet", Width: 1},
		"there is no network":              {Backbone: "vgg16", Width: 1},
	} {
		if _, err := FromPyTorch(dev, pyTorch, out, n, 64); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want %q", n, err, want)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a file was written")
	}
	pickle := filepath.Join(t.TempDir(), "resnet18.pth")
	if err := os.WriteFile(pickle, []byte("PK\x03\x04 a zip file of torch.save"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadSource(pickle, thin()); err == nil ||
		!strings.Contains(err.Error(), "safetensors.torch.save_file") {
		t.Errorf("a file of torch.save: %v", err)
	}
}
