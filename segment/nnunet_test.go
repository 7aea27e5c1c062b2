package segment

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/seed"
)

// What each transform makes of an image with given parameters is what batchgeneratorsv2 makes of
// it, and each is applied as often as by nnU-Net's trainer.
func TestNNUNetTransforms(t *testing.T) {
	data, err := os.ReadFile("../testdata/nnunet_augmentation.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		Shares [][3]any
		Cases  []struct {
			Size    [3]int
			Image   []float32
			Results []struct {
				Transform  string
				Parameters []float64
				Values     []float32
			}
		}
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	done := map[string]bool{}
	for _, c := range golden.Cases {
		for _, want := range c.Results {
			x, p := slices.Clone(c.Image), want.Parameters
			switch done[want.Transform] = true; want.Transform {
			case "blur":
				for axis := range 3 {
					blur(x, c.Size, axis, p[axis])
				}
			case "brightness":
				brighten(x, p[0])
			case "contrast":
				changeContrast(x, p[0])
			case "low_resolution":
				lowerResolution(x, c.Size, [3]float64(p))
			default:
				changeGamma(x, p[0], want.Transform == "inverted_gamma")
			}
			for i, v := range x {
				if math.Abs(float64(v-want.Values[i])) > 1e-5 {
					t.Errorf("%s %v of %v: voxel %d is %v, want %v", want.Transform, p, c.Size, i, v, want.Values[i])
					break
				}
			}
		}
	}
	usual, byKey := reflect.ValueOf(DefaultNNUNetAugmentation()), map[string]float64{}
	for n := range usual.NumField() {
		byKey[usual.Type().Field(n).Tag.Get("yaml")] = usual.Field(n).Float()
	}
	for _, want := range golden.Shares {
		if key, share := want[0].(string), want[1].(float64); byKey[key] != share {
			t.Errorf("%s: share %v, want %v", key, byKey[key], share)
		}
	}
	if len(done) != 6 || len(golden.Shares) != len(byKey) {
		t.Errorf("%d transforms and %d shares were compared", len(done), len(golden.Shares))
	}
}

// A transform is applied to its share of crops, to half of the channels of these or to all, each
// with parameters of its own; with none the image stays as it is.
func TestNNUNetShares(t *testing.T) {
	size := [3]int{16, 16, 16}
	const n, crops = 4096, 400
	of := func(channels int) []float32 {
		image := make([]float32, channels*n)
		for i := range image {
			image[i] = float32(i%n%37)/20 - 1
		}
		return image
	}
	fields := reflect.TypeFor[NNUNetAugmentation]()
	for field := range fields.NumField() {
		name := fields.Field(field).Name
		if name == "Rotation" || name == "Scale" {
			continue
		}
		var a NNUNetAugmentation
		reflect.ValueOf(&a).Elem().Field(field).SetFloat(0.5)
		touched, changed, alike := 0, 0, 0
		for item := range uint64(crops) {
			image := of(2)
			a.intensities(image, size, seed.Rand(1, name, item))
			var varied [2]bool
			for channel := range 2 {
				varied[channel] = !slices.Equal(image[channel*n:(channel+1)*n], of(1))
				if varied[channel] {
					changed++
				}
			}
			if varied[0] || varied[1] {
				touched++
			}
			if varied[0] && varied[1] && slices.Equal(image[:n], image[n:]) {
				alike++
			}
		}
		if alike > touched/4 { // voxels are whole numbers, so that some low resolutions are
			t.Errorf("%s: in %d of %d crops both channels were varied alike", name, alike, touched)
		}
		share, channels := 0.5, 1.0
		if name == "Blur" || name == "LowResolution" {
			share, channels = 0.375, 0.5 // three in four crops have a channel that is varied
		}
		// four standard deviations are 0.1
		if got := float64(touched) / crops; math.Abs(got-share) > 0.1 {
			t.Errorf("%s: %.2f of the crops were varied, want %.2f", name, got, share)
		}
		if got := float64(changed) / (2 * crops); math.Abs(got-0.5*channels) > 0.1 {
			t.Errorf("%s: %.2f of the channels were varied, want %.2f", name, got, 0.5*channels)
		}
	}
	image := of(2)
	if (NNUNetAugmentation{}).intensities(image, size, seed.Rand(1, "none")); !slices.Equal(image, of(2)) {
		t.Error("without transforms the image has changed")
	}
}

// Flat crops stay in their plane; others are turned about all axes.
func TestNNUNetWarp(t *testing.T) {
	a := NNUNetAugmentation{Rotation: 1, Scale: 1}
	for item := range uint64(20) {
		r := seed.Rand(1, "warp", item)
		m := a.warp([3]float64{1, 1, 4}, [3]int{48, 48, 12}, r).matrix
		if (m[2] != [3]float64{0, 0, 1}) || m[0][2] != 0 || m[1][2] != 0 {
			t.Errorf("a flat crop is warped by %v", m)
		}
		zoom := math.Sqrt(m[0][0]*m[1][1] - m[0][1]*m[1][0])
		if zoom < 0.7 || zoom > 1.4 {
			t.Errorf("a flat crop shows %v times its extent", zoom)
		}
		if m = a.warp([3]float64{1, 1, 1}, [3]int{36, 36, 12}, r).matrix; m[0][2] == 0 || m[1][2] == 0 {
			t.Errorf("a crop is warped by %v", m)
		}
	}
	if w := (NNUNetAugmentation{}).warp([3]float64{1, 1, 1}, [3]int{8, 8, 8}, seed.Rand(1, "warp")); w != nil {
		t.Error("without rotation and scaling there is a warp")
	}
}

// Crops of the preset are deformed and varied; a crop without variation is that of the scan.
func TestNNUNetPreset(t *testing.T) {
	c, size := openCase(t), [3]int{16, 12, 8}
	n := 16 * 12 * 8
	read := func(a Augmentation) (image, labels []float32) {
		image, labels = make([]float32, n), make([]float32, n)
		if err := a.sample(image, labels, c, [3]int{8, 8, 8}, size, seed.Rand(1, "test")); err != nil {
			t.Fatal(err)
		}
		return image, labels
	}
	plain, marks := read(Augmentation{})
	off := DefaultAugmentation()
	off.Preset, off.NNUNet = PresetNNUNet, NNUNetAugmentation{}
	if image, labels := read(off); !slices.Equal(image, plain) || !slices.Equal(labels, marks) {
		t.Error("without transforms the crop is another one")
	}
	all := NNUNetAugmentation{1, 1, 1, 1, 1, 1, 1, 1, 1}
	if image, labels := read(Augmentation{Preset: PresetNNUNet, NNUNet: all}); slices.Equal(image, plain) ||
		slices.Equal(labels, marks) || slices.ContainsFunc(image, func(v float32) bool { return v != v }) {
		t.Error("with all transforms the crop is as before, or not of numbers")
	}
	for _, keep := range []string{"gamma", "contrast", "blur"} { // of a crop of air
		air := make([]float32, n)
		all.intensities(air, size, seed.Rand(1, keep))
		if slices.ContainsFunc(air, func(v float32) bool { return !(math.Abs(float64(v)) < 1) }) {
			t.Error("a crop of one value is not of numbers")
		}
	}
}

// One key chooses the preset, others change it; keys that the choice leaves without use are
// refused, and are not written down.
func TestAugmentationPreset(t *testing.T) {
	for text, want := range map[string]string{
		"{}":                                      "",
		"{mirror: ij}":                            "",
		"{preset: nnunet}":                        "",
		"{preset: nnunet, mirror: ijk}":           "",
		"{preset: nnunet, nnunet: {blur: 0}}":     "",
		"{preset: nnunet, gain: 0}":               "augment: with preset nnunet, gain,",
		"{nnunet: {blur: 0.5}}":                   "augment.nnunet does nothing without",
		"{preset: nnunet, nnunet: {blur: 1.5}}":   "nnunet.blur: want 0 or more and at most 1",
		"{preset: nnunet, nnunet: {sharpen: .5}}": `unknown key "augment.nnunet.sharpen"`,
		"{preset: monai}":                         `augment.preset: unknown value "monai"`,
	} {
		c := DefaultConfig()
		err := config.Parse("file", []byte("augment: "+text+"\n"), &c)
		if err == nil {
			err = c.Augment.check()
		}
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if err != nil {
			continue
		}
		written, err := config.Marshal(&c)
		if err != nil {
			t.Fatal(err)
		}
		preset := strings.Contains(text, "preset")
		if strings.Contains(string(written), "low_resolution") != preset ||
			strings.Contains(string(written), "  gain:") == preset {
			t.Errorf("%s is written as\n%s", text, written)
		}
		again := DefaultConfig()
		if err := config.Parse("file", written, &again); err != nil || again.Augment != c.Augment {
			t.Errorf("%s: read again it is %+v, %v", text, again.Augment, err)
		}
	}
	for _, a := range []Augmentation{{Preset: "monai"}, {Preset: PresetNNUNet}} {
		if a.check() == nil {
			t.Errorf("%+v passed", a)
		}
	}
}

func BenchmarkNNUNetAugmentation(b *testing.B) {
	size := [3]int{64, 64, 64}
	image := make([]float32, 64*64*64)
	for i := range image {
		image[i] = float32(i%997)/500 - 1
	}
	run := func(name string, vary func(i int)) {
		b.Run(name, func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				vary(i)
			}
		})
	}
	run("blur", func(int) {
		for axis := range 3 {
			blur(image, size, axis, 1)
		}
	})
	run("low resolution", func(int) { lowerResolution(image, size, [3]float64{0.6, 0.6, 0.6}) })
	run("contrast", func(int) { changeContrast(image, 1.1) })
	run("gamma", func(int) { changeGamma(image, 1.1, true) })
	c, err := phantoms(b, 1, [3]int{80, 80, 80}).Open("case00")
	if err != nil {
		b.Fatal(err)
	}
	labels := make([]float32, len(image))
	for name, a := range map[string]Augmentation{"default": DefaultAugmentation(),
		"nnunet": {Preset: PresetNNUNet, NNUNet: DefaultNNUNetAugmentation()}} {
		run("crop "+name, func(i int) {
			r := seed.Rand(1, "augment", uint64(i))
			if err := a.sample(image, labels, c, [3]int{8, 8, 8}, size, r); err != nil {
				b.Fatal(err)
			}
		})
	}
}
