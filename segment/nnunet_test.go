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

// nnunetAugmentation is what nnU-Net's trainer and batchgeneratorsv2 themselves say.
type nnunetAugmentation struct {
	Transforms []struct {
		Key             string
		Share, Channels float64
		Strength        [2]float64
		Alike           bool
	}
	Turning []struct {
		Size    [3]int
		Degrees float64
		Flat    bool
	}
	Cases []struct {
		Size    [3]int
		Image   []float32
		Results []struct {
			Transform  string
			Parameters []float64
			Values     []float32
		}
	}
}

func goldenAugmentation(t *testing.T) (golden nnunetAugmentation) {
	data, err := os.ReadFile("../testdata/nnunet_augmentation.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &golden); err != nil {
		t.Fatal(err)
	}
	return golden
}

// What each transform makes of an image with given parameters is what batchgeneratorsv2 makes of
// it, and each is applied as often and as strongly as by nnU-Net's trainer.
func TestNNUNetTransforms(t *testing.T) {
	golden := goldenAugmentation(t)
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
	strengths := map[string][2]float64{"scale": zooms, "noise": noises, "blur": blurs, "brightness": gains,
		"contrast": contrasts, "low_resolution": shrinks, "inverted_gamma": gammas, "gamma": gammas}
	for _, want := range golden.Transforms {
		if share, of := byKey[want.Key], strengths[want.Key]; share != want.Share || of != want.Strength {
			t.Errorf("%s: share %v of %v, want %v of %v", want.Key, share, of, want.Share, want.Strength)
		}
	}
	if len(done) != 6 || len(golden.Transforms) != len(byKey) {
		t.Errorf("%d transforms and %d shares were compared", len(done), len(golden.Transforms))
	}
}

// Factors are below 1 as often as above, however long the range is on either side.
func TestNNUNetFactors(t *testing.T) {
	below, low, high := 0, 1.0, 1.0
	for item := range uint64(1000) {
		f := factor(seed.Rand(1, "factor", item), gammas)
		if low, high = min(low, f), max(high, f); f < 1 {
			below++
		}
	}
	if below < 440 || below > 560 || low < 0.7 || low > 0.71 || high < 1.49 || high > 1.5 {
		t.Errorf("%d of 1000 factors are below 1; they are from %v to %v", below, low, high)
	}
}

// A transform is applied to its share of crops, and to nnU-Net's share of the channels of these,
// each with parameters of its own or all with the same; with none the image stays as it is.
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
	for _, want := range goldenAugmentation(t).Transforms {
		if want.Channels == 0 { // of shape, which all channels have in common
			continue
		}
		name := want.Key
		var a NNUNetAugmentation
		for field := range fields.NumField() {
			if fields.Field(field).Tag.Get("yaml") == want.Key {
				reflect.ValueOf(&a).Elem().Field(field).SetFloat(0.5)
			}
		}
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
			if varied[0] && varied[1] &&
				(slices.Equal(image[:n], image[n:]) || want.Alike && sameNoise(image, of(2))) {
				alike++
			}
		}
		// voxels are whole numbers, so that some low resolutions are alike
		if want.Alike && alike != touched || !want.Alike && alike > touched/4 {
			t.Errorf("%s: in %d of %d crops both channels were varied alike", name, alike, touched)
		}
		share, channels := 0.5*(1-math.Pow(1-want.Channels, 2)), want.Channels
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

// sameNoise says whether what was added to two channels has the same standard deviation, within six
// of its own errors.
func sameNoise(image, before []float32) bool {
	for i := range image {
		image[i] -= before[i]
	}
	_, _, _, a := spread(image[:len(image)/2])
	_, _, _, b := spread(image[len(image)/2:])
	return math.Abs(a/b-1) < 0.1
}

// Crops that nnU-Net deforms in the plane of their slices alone stay in it, others are turned about
// all axes, by as much as nnU-Net turns them.
func TestNNUNetWarp(t *testing.T) {
	a := NNUNetAugmentation{Rotation: 1, Scale: 1}
	for _, c := range goldenAugmentation(t).Turning {
		low, high, along, most := 9.0, 0.0, 1.0, [3]float64{}
		for item := range uint64(300) {
			m := a.warp([3]float64{1, 1, 1}, c.Size, seed.Rand(1, "warp", item)).matrix
			zoom := math.Hypot(math.Hypot(m[0][0], m[1][0]), m[2][0])
			low, high = min(low, zoom), max(high, zoom)
			along = max(along, math.Hypot(math.Hypot(m[0][2], m[1][2]), m[2][2]))
			for axis, angle := range [3]float64{math.Atan2(m[2][1], m[2][2]), math.Asin(m[2][0] / zoom),
				math.Atan2(m[1][0], m[0][0])} {
				most[axis] = max(most[axis], math.Abs(angle)*180/math.Pi)
			}
		}
		if low < 0.7 || low > 0.72 || high < 1.38 || high > 1.4 || (along == 1) != c.Flat {
			t.Errorf("%v shows %v to %v times its extent, along k up to %v", c.Size, low, high, along)
		}
		for axis, got := range most {
			want := c.Degrees
			if c.Flat && axis != 2 {
				want = 0
			}
			if got > want+1e-9 || got < 0.9*want {
				t.Errorf("%v is turned by up to %v degrees about axis %d, want %v", c.Size, got, axis, want)
			}
		}
	}
	if w := (NNUNetAugmentation{}).warp([3]float64{1, 1, 1}, [3]int{8, 8, 8}, seed.Rand(1, "warp")); w != nil {
		t.Error("without rotation and scaling there is a warp")
	}
}

// Such crops keep their slices in low resolution, too.
func TestNNUNetLowResolutionOfSlices(t *testing.T) {
	for _, c := range goldenAugmentation(t).Turning {
		before := make([]float32, c.Size[0]*c.Size[1]*c.Size[2])
		for i := range before {
			before[i] = float32(i / (c.Size[0] * c.Size[1]) % 3)
		}
		kept := true
		for item := range uint64(8) {
			image := slices.Clone(before)
			NNUNetAugmentation{LowResolution: 1}.intensities(image, c.Size, seed.Rand(1, "low", item))
			for i, v := range image {
				kept = kept && math.Abs(float64(v-before[i])) < 1e-5
			}
		}
		if kept != c.Flat {
			t.Errorf("%v: slices are as before: %v", c.Size, kept)
		}
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
	idle := DefaultAugmentation() // what is advised where nothing is to vary
	idle.Gain, idle.Shift, idle.Gamma, idle.Noise, idle.Spatial = 0, 0, 0, 0, 0
	if image, labels := read(idle); !slices.Equal(image, plain) || !slices.Equal(labels, marks) {
		t.Error("with gain, shift, gamma, noise and spatial of 0 the crop is another one")
	}
	if image, labels := read(off); !slices.Equal(image, plain) || !slices.Equal(labels, marks) {
		t.Error("without transforms the crop is another one")
	}
	all := NNUNetAugmentation{1, 1, 1, 1, 1, 1, 1, 1, 1}
	if image, labels := read(Augmentation{Preset: PresetNNUNet, NNUNet: all}); slices.Equal(image, plain) ||
		slices.Equal(labels, marks) || slices.ContainsFunc(image, func(v float32) bool { return v != v }) {
		t.Error("with all transforms the crop is as before, or not of numbers")
	}
	for _, only := range []NNUNetAugmentation{{Contrast: 1}, {Gamma: 1}, {InvertedGamma: 1}} {
		air := slices.Repeat([]float32{-0.75}, n) // a crop of one value stays as it is
		only.intensities(air, size, seed.Rand(1, "air"))
		if slices.ContainsFunc(air, func(v float32) bool { return !(math.Abs(float64(v)+0.75) < 1e-6) }) {
			t.Errorf("%+v: a crop of -0.75 has become %v", only, air[0])
		}
	}
}

// One key chooses the preset, others change it; keys that the choice leaves without use are
// refused, and are not written down.
func TestAugmentationPreset(t *testing.T) {
	none := "{preset: nnunet, nnunet: {rotation: 0, scale: 0, noise: 0, blur: 0, brightness: 0, contrast: 0, " +
		"low_resolution: 0, inverted_gamma: 0, gamma: 0}}"
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
		none:                                      "leave preset and nnunet out, and set gain, shift, gamma",
		"{gain: 0, shift: 0, gamma: 0, noise: 0, spatial: 0}": "",
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
