package photonet

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

var _ jigsaw.Backbone = (*Network)(nil)

// The sizes that the papers tell: of a patch, and of a photograph with the same weights.
func TestAlexNetSizes(t *testing.T) {
	for _, c := range []struct {
		config Config
		sides  map[string]int
		fc6    int // inputs
	}{
		{Config{Kind: AlexNet}, map[string]int{"conv1": 27, "conv2": 13, "conv3": 6, "conv5": 6, "pool5": 3}, 256 * 9},
		{Config{Kind: AlexNet, Size: [2]int{227, 227}}, map[string]int{"conv1": 55, "conv2": 27, "conv3": 13,
			"conv5": 13, "pool5": 6}, 256 * 36},
		{Config{Kind: ResNet50}, map[string]int{"conv1": 32, "layer1": 16, "layer2": 8, "layer3": 4, "layer4": 2}, 0},
	} {
		n, params := declared(t, c.config, 20)
		for layer, side := range c.sides {
			g, p := nn.NewGraph(nn.Eval, device.Float32), n.Patch()
			if s := n.Layer(g, g.Input("x", 2, p[0], p[1], p[2], p[3]), layer).Shape(); g.Err() != nil ||
				s[3] != side || s[4] != side {
				t.Errorf("%+v: %s has shape %v, want %d: %v", n.Config(), layer, s, side, g.Err())
			}
		}
		if s := params.Shape("encoder.fc6.weight"); c.fc6 > 0 && !s.Equal(device.Shape{1024, c.fc6}) {
			t.Errorf("%+v: fc6 has shape %v, want %d inputs", n.Config(), s, c.fc6)
		}
	}
}

// Weights of patches fit the network of whole photographs: all but fc6, whose input is larger.
func TestTransferTakesTheConvolutions(t *testing.T) {
	_, small := declared(t, Config{Kind: AlexNet, Width: 0.125, Features: 16}, 3)
	_, large := declared(t, Config{Kind: AlexNet, Width: 0.125, Features: 16, Size: [2]int{227, 227}}, 3)
	var tensors []safetensors.Tensor
	for _, name := range small.Names() {
		to, shape, _ := ToPyTorch(name, small.Shape(name))
		tensors = append(tensors, safetensors.Tensor{Name: to, Shape: shape,
			Values: func() ([]float32, error) { return small.Read(name) }})
	}
	path := writeTensors(t, tensors...)
	r, err := Import(path, large)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Missing) != 0 && !slices.Equal(r.Missing, []string{"encoder.fc6.weight"}) || len(r.Skipped) != 1 ||
		r.Skipped[0].Name != "fc6.weight" {
		t.Error(r)
	}
	if !slices.Equal(read(t, small, "encoder.conv4.weight"), read(t, large, "encoder.conv4.weight")) {
		t.Error("conv4 has other weights")
	}
}

func writeTensors(t *testing.T, tensors ...safetensors.Tensor) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file.safetensors")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := safetensors.Write(f, nil, tensors); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, p *nn.Params, name string) []float32 {
	t.Helper()
	v, err := p.Read(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Files of PyTorch's have convolutions of four axes, counters, and prefixes of the scripts that
// wrote them. What does not fit is noted.
func TestImport(t *testing.T) {
	_, params := declared(t, Config{Kind: ResNet18, Width: 0.125}, 3)
	write := func(tensors ...safetensors.Tensor) string { return writeTensors(t, tensors...) }
	filled := func(name string, value float32, shape ...int) safetensors.Tensor {
		return safetensors.Tensor{Name: name, Shape: shape, Values: func() ([]float32, error) {
			return slices.Repeat([]float32{value}, device.Shape(shape).Elements()), nil
		}}
	}
	r, err := Import(write(
		filled("module.conv1.weight", 1, 8, 3, 7, 7), filled("bn1.weight", 2, 8), filled("bn1.running_var", 3, 8),
		filled("bn1.num_batches_tracked", 4),
		filled("layer1.0.conv1.weight", 5, 64, 64, 3, 3), filled("fc.weight", 6, 3, 64), filled("conv9.weight", 7, 1),
	), params)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float32{"encoder.conv1.weight": 1, "encoder.bn1.weight": 2,
		"encoder.bn1.running_var": 3, "fc.weight": 6} {
		if v := read(t, params, name); v[0] != want || v[len(v)-1] != want {
			t.Errorf("%s is %v, want %v", name, v[0], want)
		}
	}
	if len(r.Loaded) != 4 || len(r.Skipped) != 3 || len(r.Missing)+len(r.Loaded) != len(params.Names()) {
		t.Error(r)
	}
	for _, want := range []string{"shape 64x64x3x3 in the file, 8x8x3x3 in the network", "not in this network",
		"a counter"} {
		if !strings.Contains(r.String(), want) {
			t.Errorf("the report does not say %q:\n%v", want, r)
		}
	}
	if _, err := Import(write(filled("features.0.weight", 1, 64, 3, 11, 11), filled("classifier.6.weight", 1, 3, 8)),
		params); err == nil || !strings.Contains(err.Error(), "torchvision's AlexNet") {
		t.Errorf("torchvision's AlexNet: %v", err)
	}
	if _, err := Import(write(filled("blocks.0.weight", 1, 64, 3, 11, 11)), params); err == nil ||
		!strings.Contains(err.Error(), "another kind or width") {
		t.Errorf("a file of which nothing fits: %v", err)
	}
}

// The context-free network in PyTorch has names of its own. What looks at all nine patches has no
// place here.
func TestImportContextFree(t *testing.T) {
	_, params := declared(t, Config{Kind: AlexNet, Width: 0.125, Features: 16}, 3)
	ones := func(name string, shape ...int) safetensors.Tensor {
		return safetensors.Tensor{Name: name, Shape: shape, Values: func() ([]float32, error) {
			return slices.Repeat([]float32{1}, device.Shape(shape).Elements()), nil
		}}
	}
	conv1, fc6 := params.Shape("encoder.conv1.weight"), params.Shape("encoder.fc6.weight")
	r, err := Import(writeTensors(t, ones("conv.conv1_s1.weight", conv1[0], 3, 11, 11),
		ones("conv.conv1_s1.bias", conv1[0]),
		ones("fc6.fc6_s1.weight", fc6[0], fc6[1]), ones("fc7.fc7.weight", 16, 9*16),
		ones("classifier.fc8.weight", 100, 16)), params)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"encoder.conv1.weight", "encoder.conv1.bias", "encoder.fc6.weight"}; !slices.Equal(r.Loaded,
		want) || len(r.Skipped) != 2 {
		t.Errorf("loaded %v, want %v\n%v", r.Loaded, want, r)
	}
}

func TestSettingsThatMakeNoSense(t *testing.T) {
	for want, c := range map[string]Config{
		"there is no network":       {Kind: "vgg16"},
		"width is 0.01":             {Kind: ResNet18, Width: 0.01},
		"photographs of 2 channels": {Kind: ResNet18, Channels: 2},
		"patches of 9999x64":        {Kind: ResNet18, Size: [2]int{64, 9999}},
		"does not take patches":     {Kind: AlexNet, Size: [2]int{20, 20}},
		"AlexNet's settings":        {Kind: ResNet50, Norm: Batch},
		"norm \"group\"":            {Kind: AlexNet, Norm: "group"},
		"init \"xavier\"":           {Kind: AlexNet, Init: "xavier"},
		"stride is 12":              {Kind: AlexNet, Stride: 12},
		"features is -1":            {Kind: AlexNet, Features: -1},
		"dropout is 1":              {Kind: AlexNet, Dropout: 1},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", c, err, want)
		}
	}
}

// Regions of maps become rows as wide as the network's features, with the weights of the same
// layers.
func TestRegions(t *testing.T) {
	for _, c := range []Config{{Kind: AlexNet, Width: 0.25, Features: 32, Size: [2]int{227, 227}},
		{Kind: ResNet18, Width: 0.25, Size: [2]int{224, 160}}, {Kind: ResNet50, Width: 0.125}} {
		n, params := declared(t, c, 3)
		g, p := nn.NewGraph(nn.Train, device.Float32), n.Patch()
		maps, scale := n.Maps(g, g.Input("x", 2, p[0], p[1], p[2], p[3]))
		rows := n.Regions(g, maps, g.Input("regions", 5, 5), scale)
		width := n.Encode(g, g.Input("patches", 1, p[0], p[1], p[2], p[3])).Shape()[1]
		if g.Err() != nil || !rows.Shape().Equal(device.Shape{5, width}) {
			t.Errorf("%+v: %v of regions, want rows of %d: %v", n.Config(), rows.Shape(), width, g.Err())
			continue
		}
		if want := float32(maps.Shape()[3]) / float32(p[2]); scale < want*0.8 || scale > want*1.25 {
			t.Errorf("%+v: scale %v, the maps are %v of the photograph", n.Config(), scale, want)
		}
		if err := params.Declare(g); err != nil { // nothing but what the network has
			t.Error(err)
		}
	}
}
