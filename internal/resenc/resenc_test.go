package resenc

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/safetensors"
)

// mustResolve is the network of settings that are not wrong.
func mustResolve(t testing.TB, settings voxsaw.Network) *unet {
	t.Helper()
	u, err := resolve(settings)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestParts(t *testing.T) {
	for _, norm := range []string{"none", "instance", "batch", "group"} {
		u := mustResolve(t, voxsaw.Network{Channels: 2, Levels: 3, Norm: norm, Groups: 2, Dropout: 0.1, Classes: 3})
		backbonetest.Parts(t, devicetest.NewReference(), u)
	}
}

// What is left out is nnU-Net's, and the network is then as large as PyTorch's, but for the head of
// the coarsest resolution, of channels x classes + classes numbers, which nnU-Net never trains.
func TestDefaults(t *testing.T) {
	for levels, want := range map[int]struct{ parameters, coarsest int }{4: {62809928, 256}, 5: {102349770, 320}} {
		u := mustResolve(t, voxsaw.Network{Levels: levels, Dropout: -1})
		if !slices.Equal(u.Blocks, []int{1, 3, 4, 6, 6, 6}[:levels+1]) || u.Activation != "leaky" ||
			u.Norm != "instance" || u.Dropout != 0 {
			t.Errorf("settings %+v", u.Settings())
		}
		g := nn.NewGraph(nn.Train, device.Float32)
		u.Decoder(g, u.Encoder(g, g.Input("x", 1, 1, 64, 64, 64)))
		p := nn.NewParams(devicetest.NewReference(), 1)
		if err := p.Declare(g); err != nil {
			t.Fatal(err)
		}
		if n := want.parameters - 2*want.coarsest - 2; p.Count() != n {
			t.Errorf("%d levels: %d parameters, want %d", levels, p.Count(), n)
		}
	}
	if u := mustResolve(t, voxsaw.Network{Blocks: []int{1, 2, 3}}); u.Levels != 2 {
		t.Errorf("%d levels of three numbers of blocks", u.Levels)
	}
}

// Heads below the finest are there to train with. The two coarsest resolutions have none.
func TestDeepSupervision(t *testing.T) {
	for _, c := range []struct {
		mode           nn.Mode
		levels, logits int
	}{{nn.Train, 4, 3}, {nn.Train, 2, 1}, {nn.Train, 1, 1}, {nn.Eval, 4, 1}} {
		u := mustResolve(t, voxsaw.Network{Channels: 2, Levels: c.levels})
		g := nn.NewGraph(c.mode, device.Float32)
		if n := len(u.Decoder(g, u.Encoder(g, g.Input("x", 1, 1, 32, 32, 32)))); n != c.logits || g.Err() != nil {
			t.Errorf("mode %d, %d levels: %d logits, want %d (%v)", c.mode, c.levels, n, c.logits, g.Err())
		}
	}
}

// A block is its shortcut at first, and biases are zero: nnU-Net's first values.
func TestFirstValues(t *testing.T) {
	u := mustResolve(t, voxsaw.Network{Channels: 8, Levels: 1})
	g := nn.NewGraph(nn.Train, device.Float32)
	u.Decoder(g, u.Encoder(g, g.Input("x", 1, 1, 16, 16, 16)))
	p := nn.NewParams(devicetest.NewReference(), 1)
	if err := p.Declare(g); err != nil {
		t.Fatal(err)
	}
	for _, name := range p.Names() {
		values, err := p.Read(name)
		if err != nil {
			t.Fatal(err)
		}
		mean, square := 0.0, 0.0
		for _, v := range values {
			mean += float64(v) / float64(len(values))
			square += float64(v) * float64(v) / float64(len(values))
		}
		s := p.Shape(name)
		switch {
		case strings.HasSuffix(name, "conv2.norm.weight"), strings.HasSuffix(name, ".bias"):
			if square != 0 {
				t.Errorf("%s: %v, want zeros", name, values)
			}
		case strings.HasSuffix(name, ".norm.weight"):
			if mean != 1 || square != 1 {
				t.Errorf("%s: %v, want ones", name, values)
			}
		case s.Elements() > 1000: // of fewer, the variance says little
			if want := 2 / 1.0001 / float64(s.Elements()/s[0]); square < 0.85*want || square > 1.15*want {
				t.Errorf("%s: mean square %v, want %v", name, square, want)
			}
		}
	}
}

// The state dict of an nnU-Net loads, under whichever of its names a tensor comes, and the network
// then computes what PyTorch's does.
func TestStateDict(t *testing.T) {
	path := filepath.Join("..", "..", "testdata", "resenc_nnunet.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want, err := f.Read("logits of noise")
	if err != nil {
		t.Fatal(err)
	}
	dev := cputest.New(t, cpu.Options{})
	x := backbonetest.Noise("x", 8*12*16)
	u := mustResolve(t, voxsaw.Network{Channels: 2, Blocks: []int{1, 2}, Classes: 3})
	for path, skipped := range map[string]int{path: 1,
		filepath.Join("..", "..", "testdata", "resenc_model.safetensors"): 0} {
		g := nn.NewGraph(nn.Eval, device.Float32)
		logits := u.Decoder(g, u.Encoder(g, g.Input("x", 1, 1, 8, 12, 16)))[0]
		params := nn.NewParams(dev, 1)
		program, err := nn.Compile(dev, g, params, nn.Options{Outputs: map[string]*nn.Node{"logits": logits}})
		if err != nil {
			t.Fatal(err)
		}
		loaded, err := checkpoint.LoadRenamed(path, params,
			func(name string) string { return backbone.Rename(u, name) })
		if err != nil || len(loaded.Loaded) != len(params.Names()) || len(loaded.Missing) > 0 ||
			len(loaded.Skipped) != skipped {
			t.Fatalf("%v, %v", loaded, err)
		}
		if err := program.Set("x", x); err != nil {
			t.Fatal(err)
		}
		if err := program.Forward(); err != nil {
			t.Fatal(err)
		}
		got := make([]float32, len(want))
		if err := program.Read("logits", got); err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if d := got[i] - want[i]; d > 1e-4 || d < -1e-4 {
				t.Fatalf("logit %d is %v, PyTorch's %v", i, got[i], want[i])
			}
		}
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	for want, c := range map[string]voxsaw.Network{
		"preset":                    {Preset: "paper"},
		"always has it":             {DeepSupervision: true},
		"norm":                      {Norm: "layer"},
		"activation":                {Activation: "prelu"},
		"0 levels":                  {Blocks: []int{2}},
		"7 levels":                  {Levels: 7},
		"400 channels":              {Channels: 400},
		"4 levels make 5 stages":    {Levels: 4, Blocks: []int{1, 2}},
		"1 to 64 a stage":           {Blocks: []int{1, 0}},
		"do not divide the 6 chann": {Norm: "group", Channels: 6, Groups: 4},
		"-1 groups":                 {Groups: -1},
		"dropout":                   {Dropout: 1},
		"classes":                   {Classes: -1},
	} {
		c.Kind = Kind
		if _, err := backbone.Of(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one about %q", c, err, want)
		}
	}
}

func TestSizesThatCannotBe(t *testing.T) {
	for want, size := range map[string][3]int{"multiples of 16": {16, 16, 40}, "instance normalisation": {16, 16, 16}} {
		g := nn.NewGraph(nn.Train, device.Float32)
		u := mustResolve(t, voxsaw.Network{})
		u.Decoder(g, u.Encoder(g, g.Input("x", 1, 1, size[0], size[1], size[2])))
		if err := g.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one about %q", size, err, want)
		}
	}
}
