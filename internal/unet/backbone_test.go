package unet

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/device/cpu/cputest"
	"github.com/voxsaw/voxsaw/internal/nn"
)

func thick() Settings {
	return Settings{Residual: true, Features: []int{4, 6, 8}, Kernels: [][3]int{{1, 3, 3}, {3, 3, 3}, {3, 3, 3}},
		Strides: [][3]int{{1, 1, 1}, {1, 2, 2}, {2, 2, 1}}, Blocks: []int{1, 2, 1}, DecoderConvs: []int{1, 2},
		Bias: true, Epsilon: 1e-5, Slope: 0.01}
}

// flat is the same network of two dimensions.
func flat(s Settings) Settings {
	s.Flat, s.Kernels, s.Strides = true, slices.Clone(s.Kernels), slices.Clone(s.Strides)
	for stage := range s.Features {
		s.Kernels[stage][0], s.Strides[stage][0] = 1, 1
	}
	return s
}

// What is written as the section of plans.json is read as the same network.
func TestArchitecture(t *testing.T) {
	for _, residual := range []bool{true, false} {
		for _, slope := range []float64{0.01, 0.2} {
			s := thick()
			s.Residual, s.Slope, s.Epsilon = residual, slope, slope/10
			got, err := Parse(s.Architecture())
			if err != nil || !reflect.DeepEqual(got, s) {
				t.Errorf("%v, %v\n%s", got, err, s.Architecture())
			}
			s = flat(s)
			if got, err = Parse(s.Architecture()); err != nil || !reflect.DeepEqual(got, s) {
				t.Errorf("%v, %v\n%s", got, err, s.Architecture())
			}
		}
	}
}

// What would make another network of the same parameters, or nobody knows what, is refused by its
// name; what says what is so anyway is not.
func TestStrictArchitecture(t *testing.T) {
	text := string(thick().Architecture())
	for _, c := range []struct{ from, to, want string }{
		{`"conv_bias":true`, `"conv_bias":true,"nonlin_first":true`, `what "nonlin_first" does is not known`},
		{`"conv_bias":true`, `"conv_bias":true,"stem_channels":8`, "stem_channels"},
		{`"affine":true`, `"affine":true,"track_running_stats":true`, "track_running_stats"},
		{`,"affine":true`, ``, "its norms have no weights"},
		{`"torch.nn.LeakyReLU"`, `null`, `its activation (nonlin) is ""`},
		{`"torch.nn.LeakyReLU"`, `"torch.nn.ReLU"`, `its activation (nonlin) is "torch.nn.ReLU"`},
		{`"torch.nn.LeakyReLU"`, `"mylab.LeakyReLU"`, "mylab.LeakyReLU"},
		{classes + "ResidualEncoderUNet", "mylab.nets.ResidualEncoderUNet", "nets.ResidualEncoderUNet is not known"},
		{"torch.nn.modules.conv.", "mylab.", "its convolutions are mylab.Conv3d"},
		{"torch.nn.modules.instancenorm.", "mylab.", `its norm is "mylab.InstanceNorm3d"`},

		{`"conv_bias":true`, `"conv_bias":true,"nonlin_first":false,"stem_channels":null,"deep_supervision":true`, ""},
		{`"torch.nn.LeakyReLU"`, `"torch.nn.modules.activation.LeakyReLU"`, ""},
		{classes, "dynamic_network_architectures.architectures.residual_unet.", ""},
	} {
		changed := strings.Replace(text, c.from, c.to, 1)
		if changed == text {
			t.Fatalf("%s has no %s", text, c.from)
		}
		s, err := Parse([]byte(changed))
		if c.want == "" && (err != nil || !reflect.DeepEqual(s, thick())) {
			t.Errorf("%s: %+v, %v", c.to, s, err)
		}
		if c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", c.to, err, c.want)
		}
	}
}

// Settings that are written out make the same network, and nothing but the plans says what it is.
func TestBackbone(t *testing.T) {
	n := thick().Network()
	n.Classes, n.Inputs = 3, 2
	b, err := backbone.Of(n)
	if err != nil {
		t.Fatal(err)
	}
	again, err := backbone.Of(b.Settings())
	if err != nil || !again.Settings().Equal(b.Settings()) {
		t.Errorf("%v, %v", again, err)
	}
	if m := b.Multiple(); m != [3]int{2, 4, 2} {
		t.Errorf("multiples of %v along (i, j, k)", m)
	}
	for _, other := range []func(*voxsaw.Network){
		func(n *voxsaw.Network) { n.Architecture = "" },
		func(n *voxsaw.Network) { n.Architecture = `{"network_class_name": "Primus"}` },
		func(n *voxsaw.Network) { n.Channels = 5 },
		func(n *voxsaw.Network) { n.Norm = "batch" },
		func(n *voxsaw.Network) { n.Dropout = 0.5 },
		// of two dimensions: predicts, no more
		func(n *voxsaw.Network) { n.Architecture = string(flat(thick()).Architecture()) },
	} {
		wrong := b.Settings()
		other(&wrong)
		if _, err := backbone.Of(wrong); err == nil {
			t.Errorf("no error for %+v", wrong)
		}
	}
}

// Strides that differ by axis make resolutions that do, and the classes of voxels follow them.
func TestSupervision(t *testing.T) {
	n := thick().Network()
	n.Classes = 3
	b, err := backbone.Of(n)
	if err != nil {
		t.Fatal(err)
	}
	dev := cputest.New(t, cpu.Options{})
	g := nn.NewGraph(nn.Train, dev.Activations())
	size := [3]int{8, 8, 4}
	logits := b.Decoder(g, b.Encoder(g, backbone.Input(g, "image", b, 1, size)))
	if g.Err() != nil {
		t.Fatal(g.Err())
	}
	if len(logits) != 1 {
		t.Fatalf("%d resolutions of a decoder of two stages, whose coarsest has none", len(logits))
	}
	names := strings.Join(backbone.Kinds(), " ")
	if !strings.Contains(names, Kind) {
		t.Errorf("kinds %s", names)
	}
}

// Coarser targets are the voxels that nnU-Net's DownsampleSegForDSTransform (batchgeneratorsv2
// 0.3.6) takes of arange(256) of shape (4, 8, 8), at the scales that the sizes say.
func TestThin(t *testing.T) {
	values := make([]float32, 8*8*4)
	for i := range values {
		values[i] = float32(i)
	}
	size := [3]int{8, 8, 4}
	for _, c := range []struct {
		to   [3]int
		want []float32 // its first voxels
	}{
		{[3]int{4, 8, 2}, []float32{65, 67, 69, 71, 73, 75, 77, 79, 81, 83}},
		{[3]int{4, 2, 1}, []float32{145, 147, 149, 151, 177, 179, 181, 183}},
		{[3]int{4, 4, 2}, []float32{73, 75, 77, 79, 89, 91, 93, 95, 105, 107, 109}},
	} {
		thin := backbone.Thin(values, 1, size, c.to)
		if len(thin) != c.to[0]*c.to[1]*c.to[2] || !slices.Equal(thin[:len(c.want)], c.want) {
			t.Errorf("%v: %v, want %v", c.to, thin, c.want)
		}
	}
}

// The names that PyTorch has twice are those of one parameter here, in both directions.
func TestRename(t *testing.T) {
	for name, want := range map[string]string{
		"module.decoder.encoder.stem.convs.0.all_modules.0.weight": "encoder.stem.convs.0.conv.weight",
		"encoder.stages.0.blocks.0.conv1.all_modules.1.bias":       "encoder.stages.0.blocks.0.conv1.norm.bias",
		"decoder.transpconvs.0.weight":                             "decoder.transpconvs.0.weight",
	} {
		if got := Canonical(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
