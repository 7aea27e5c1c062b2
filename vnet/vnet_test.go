package vnet

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/backbone/backbonetest"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/device/devicetest"
	"github.com/voxsaw/voxsaw/internal/exec"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// mustResolve is the network of settings that are not wrong.
func mustResolve(t testing.TB, settings voxsaw.Network) *network {
	t.Helper()
	n, err := resolve(settings)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// The encoder alone has the names and the shapes that it has within the whole network, and the same
// first values.
func TestParts(t *testing.T) {
	for preset := range presets {
		backbonetest.Parts(t, devicetest.NewReference(),
			mustResolve(t, voxsaw.Network{Preset: preset, Channels: 2, Levels: 2}))
		backbonetest.Parts(t, devicetest.NewReference(),
			mustResolve(t, voxsaw.Network{Preset: preset, Channels: 2, Levels: 3, DeepSupervision: true}))
	}
}

// Numbers of parameters at the original width: 16 channels, 2 classes.
func TestParameterCount(t *testing.T) {
	for preset, want := range map[string]int{"paper": 65175314, "caffe": 61982682, "monai": 45597898} {
		c := mustResolve(t, voxsaw.Network{Preset: preset})
		g := nn.NewGraph(nn.Train, device.Float32)
		c.Decoder(g, c.Encoder(g, g.Input("x", 1, 1, 32, 32, 32)))
		p := nn.NewParams(devicetest.NewReference(), 1)
		if err := p.Declare(g); err != nil {
			t.Fatal(err)
		}
		if p.Count() != want {
			t.Errorf("%s: %d parameters, want %d", preset, p.Count(), want)
		}
	}
}

// A crop of one voxel at the deepest level is refused with a larger one, which can be.
func TestCropOfOneVoxel(t *testing.T) {
	n := mustResolve(t, voxsaw.Network{Channels: 2, Levels: 3, Norm: "instance"})
	err := backbone.Fits(n, [3]int{8, 8, 8})
	if err == nil || !strings.HasSuffix(err.Error(), "take a larger one, such as 16x16x16, or fewer levels") {
		t.Error(err)
	}
	if err := backbone.Fits(n, [3]int{16, 16, 16}); err != nil {
		t.Error(err)
	}
}

func TestSettingsThatCannotBe(t *testing.T) {
	for want, c := range map[string]voxsaw.Network{
		"preset":     {Preset: "unet"},
		"blocks":     {Blocks: []int{1, 2}},
		"norm":       {Norm: "layer"},
		"activation": {Activation: "gelu"},
		"levels":     {Levels: 5},
		"want 3":     {Levels: 2, DeepSupervision: true},
		"channels":   {Channels: -1},
		"groups":     {Norm: "group", Channels: 6, Groups: 4},
		"dropout":    {Dropout: 1},
		"classes":    {Classes: -1},
	} {
		if _, err := backbone.Of(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want one about %q", c, err, want)
		}
	}
}

// Only one preset drops channels: of the others a rate is told, and old checkpoints keep it.
func TestDropoutThatDoesNothing(t *testing.T) {
	for preset, idle := range map[string]bool{"": true, "paper": true, "caffe": true, "monai": false} {
		for _, rate := range []float64{-1, 0, 0.3} {
			n := voxsaw.Network{Preset: preset, Dropout: rate}
			err := backbone.Idle(n)
			if told := err != nil && strings.Contains(err.Error(), "dropout is 0.3"); told != (idle && rate > 0) {
				t.Errorf("preset %q, dropout %v: %v", preset, rate, err)
			}
			if mustResolve(t, n).preset.drops == idle {
				t.Errorf("preset %q has dropout", preset)
			}
		}
	}
}

func TestSizesThatCannotBe(t *testing.T) {
	for want, c := range map[string]struct {
		settings voxsaw.Network
		size     [3]int // D, H, W
	}{
		"multiples of 16":        {voxsaw.Network{}, [3]int{16, 16, 40}},
		"instance normalisation": {voxsaw.Network{Norm: "instance", Levels: 4}, [3]int{16, 16, 16}},
	} {
		g := nn.NewGraph(nn.Train, device.Float32)
		mustResolve(t, c.settings).Encoder(g, g.Input("x", 1, 1, c.size[0], c.size[1], c.size[2]))
		if err := g.Err(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: error %v, want one about %q", c.size, err, want)
		}
	}
}

// A network that cannot fit says so before it takes memory.
func TestMemoryLimit(t *testing.T) {
	dev := cputest.New(t, cpu.Options{Threads: 1})
	g := nn.NewGraph(nn.Eval, device.Float32)
	c := mustResolve(t, voxsaw.Network{Channels: 2})
	logits := c.Decoder(g, c.Encoder(g, g.Input("x", 4, 1, 512, 512, 512)))[0]
	_, err := nn.Compile(dev, g, nn.NewParams(dev, 1), nn.Options{Outputs: map[string]*nn.Node{"y": logits},
		MemoryLimit: 8 << 30})
	var tooLarge *exec.MemoryError
	if !errors.As(err, &tooLarge) {
		t.Errorf("got %v", err)
	}
}

// The heads of deep supervision are in the arithmetic of training: at a half and a quarter of the
// size a product for each class and channel of each voxel; and in none of prediction.
func TestDeepSupervisionIsCounted(t *testing.T) {
	dev := cputest.New(t, cpu.Options{})
	flops := func(mode nn.Mode, deep bool) float64 {
		n := mustResolve(t, voxsaw.Network{Channels: 2, Norm: "instance", Classes: 3, DeepSupervision: deep})
		g := nn.NewGraph(mode, device.Float32)
		logits := n.Decoder(g, n.Encoder(g, g.Input("x", 1, 1, 32, 32, 32)))
		o := nn.Options{Outputs: map[string]*nn.Node{}}
		for level, y := range logits {
			o.Outputs[fmt.Sprint(level)] = y
		}
		params := nn.NewParams(dev, 1)
		defer params.Close()
		program, err := nn.Compile(dev, g, params, o)
		if err != nil {
			t.Fatal(err)
		}
		defer program.Close()
		return program.ForwardFLOPs()
	}
	if got, want := flops(nn.Train, true)-flops(nn.Train, false), float64(2*3*(8*16*16*16+16*8*8*8)); got != want {
		t.Errorf("the heads take %v FLOP, want %v", got, want)
	}
	if flops(nn.Eval, true) != flops(nn.Eval, false) {
		t.Error("there are heads in prediction")
	}
}

// BenchmarkStep is what bench/peer_vnet.py measures, less the puzzle's head and the optimiser.
func BenchmarkStep(b *testing.B) {
	dev := cputest.New(b, cpu.Options{})
	whole := func(mode nn.Mode, settings voxsaw.Network) func() (*nn.Program, error) {
		return func() (*nn.Program, error) {
			n := mustResolve(b, settings)
			g := nn.NewGraph(mode, device.Float32)
			logits := n.Decoder(g, n.Encoder(g, g.Input("x", 1, 1, 64, 64, 64)))[0]
			o := nn.Options{Outputs: map[string]*nn.Node{"logits": logits}}
			if mode == nn.Train {
				o.Loss, _ = g.Loss(logits, g.Input("target", 1, 64, 64, 64), nn.LossOptions{CE: 1, Dice: 1})
			}
			return nn.Compile(dev, g, nn.NewParams(dev, 1), o)
		}
	}
	for _, bench := range []struct {
		name     string
		backward bool
		build    func() (*nn.Program, error)
	}{
		{"segment paper 64", true, whole(nn.Train, voxsaw.Network{})},
		{"segment paper instance 64", true, whole(nn.Train, voxsaw.Network{Norm: "instance"})},
		{"segment monai 64", true, whole(nn.Train, voxsaw.Network{Preset: "monai"})},
		{"infer paper 64", false, whole(nn.Eval, voxsaw.Network{})},
		{"encoder 27 of 32", true, func() (*nn.Program, error) {
			g := nn.NewGraph(nn.Train, device.Float32)
			f := g.Flatten(mustResolve(b, voxsaw.Network{}).Encoder(g, g.Input("x", 27, 1, 32, 32, 32))[4])
			g.Input("df", f.Shape()...)
			return nn.Compile(dev, g, nn.NewParams(dev, 1), nn.Options{Outputs: map[string]*nn.Node{"f": f},
				OutputGrad: map[string]string{"f": "df"}})
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			prog, err := bench.build()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := prog.Forward(); err != nil {
					b.Fatal(err)
				}
				if !bench.backward {
					continue
				}
				if err := prog.Backward(); err != nil {
					b.Fatal(err)
				}
			}
			s := prog.Summary()
			b.Log(s)
			b.ReportMetric(s.FLOPs*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
			b.ReportMetric(float64(s.Bytes)/(1<<20), "MiB")
		})
	}
}

// The arithmetic of a training step, and of its forward part, is what PyTorch counts.
func TestFLOPs(t *testing.T) {
	dev := cputest.New(t, cpu.Options{})
	n := mustResolve(t, voxsaw.Network{Channels: 8, Norm: "instance", Classes: 6})
	g := nn.NewGraph(nn.Train, device.Float32)
	logits := n.Decoder(g, n.Encoder(g, g.Input("x", 1, 1, 64, 64, 64)))[0]
	loss, _ := g.Loss(logits, g.Input("target", 1, 64, 64, 64), nn.LossOptions{CE: 1, Dice: 1})
	params := nn.NewParams(dev, 1)
	defer params.Close()
	program, err := nn.Compile(dev, g, params, nn.Options{Loss: loss})
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	forward, step := traintest.FLOPs(t, "..", "vnet")
	if program.ForwardFLOPs() != forward || program.Summary().FLOPs != step {
		t.Errorf("%.0f FLOP forward, %.0f in all; PyTorch counts %.0f and %.0f", program.ForwardFLOPs(),
			program.Summary().FLOPs, forward, step)
	}
}
