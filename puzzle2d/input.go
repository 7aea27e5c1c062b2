package puzzle2d

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// What is subtracted from the pixels.
const (
	// the mean of each colour over the photographs that are trained on, as the paper says
	MeanDataset  = "dataset"
	MeanPatch    = "patch"     // the mean of each colour over the patch itself
	MeanPatchStd = "patch-std" // that too, and the patch is divided by its standard deviation
)

// Input says how pixels become numbers.
type Input struct {
	// what is subtracted from each colour: its mean over the dataset, or over each patch (patch),
	// which is then divided by its standard deviation too (patch-std)
	Mean string `yaml:"mean" oneof:"dataset patch patch-std"`
	// share of the photographs that are shown in gray during training
	Gray float64 `yaml:"gray" range:"[0,1]"`
	// what pixels, less their mean, are divided by; 0: 57.63, which is 0.226 of 255; 1: nothing, as
	// the paper has it, for which our initial weights are too large
	Divisor float64 `yaml:"pixel_divisor,omitempty" range:"[0,255]"`
	// mean of red, green and blue over the photographs that are trained on, from the data
	//
	// PixelMean is the mean of red, green and blue, from 0 to 255, over the photographs that are
	// trained on: from the data.
	PixelMean [3]float64 `yaml:"pixel_mean,flow" flag:"-"`
}

// pixelScale is what pixels are divided by once their mean is gone: the mean of the standard
// deviations of ImageNet's colours (0.229, 0.224 and 0.225 of 255). The paper divides by nothing,
// which asks for first weights that begin so many times smaller.
const pixelScale = 0.226 * 255

// plain leaves the pixels as they are.
var plain = Input{Mean: MeanDataset, Divisor: 1}

func (in Input) check() error {
	if in.Mean != MeanDataset && in.Mean != MeanPatch && in.Mean != MeanPatchStd {
		return fmt.Errorf("mean %q: want %s, %s or %s", in.Mean, MeanDataset, MeanPatch, MeanPatchStd)
	}
	if !(in.Gray >= 0 && in.Gray <= 1) {
		return fmt.Errorf("gray is %v, must be a share from 0 to 1", in.Gray)
	}
	if !(in.Divisor >= 0 && in.Divisor <= 255) {
		return fmt.Errorf("pixel_divisor is %v, must be from 0 to 255", in.Divisor)
	}
	if in.Divisor != 0 && in.Mean == MeanPatchStd {
		return fmt.Errorf("mean %s divides by each patch's own deviation: leave pixel_divisor 0", MeanPatchStd)
	}
	for _, m := range in.PixelMean {
		if !(m >= 0 && m <= 255) {
			return fmt.Errorf("pixel_mean is %v, must be from 0 to 255", numbers.List(in.PixelMean[:]))
		}
	}
	return nil
}

// Of takes the mean of the colours from the photographs, and says what is wrong with the settings.
func (in Input) Of(store *photos.Store) (Input, error) {
	if len(Split(store).Train) == 0 {
		return in, errors.New("there are no photographs to train on")
	}
	in.PixelMean = store.Mean()
	return in, in.check()
}

// A view is a rectangle of a photograph on its way to a network.
type view struct {
	of            sample.Sample
	top, left     int
	height, width int
	mirrored      bool // left and right change places
	gray          bool
}

// write writes the view as numbers: (3, height, width).
func (in Input) write(dst []float32, v view) error {
	if err := v.of.Crop(dst, [3]int{v.left, v.top, 0}, [3]int{v.width, v.height, 1}); err != nil {
		return err
	}
	n := v.height * v.width
	if v.mirrored {
		for row := range slices.Chunk(dst, v.width) {
			slices.Reverse(row)
		}
	}
	if v.gray {
		for i, r := range dst[:n] {
			gray := 0.299*r + 0.587*dst[n+i] + 0.114*dst[2*n+i] // ITU-R BT.601, as PIL's mode L
			dst[i], dst[n+i], dst[2*n+i] = gray, gray, gray
		}
	}
	for c := range 3 {
		in.normalise(dst[c*n:(c+1)*n], float32(in.PixelMean[c]))
	}
	return nil
}

// normalise subtracts the mean of a colour and divides.
func (in Input) normalise(values []float32, mean float32) {
	scale := float32(1 / cmp.Or(in.Divisor, pixelScale))
	if in.Mean != MeanDataset {
		var sum, squares float64
		for _, v := range values {
			sum += float64(v)
			squares += float64(v) * float64(v)
		}
		n := float64(len(values))
		mean = float32(sum / n)
		if in.Mean == MeanPatchStd {
			// as bbrattoli/JigsawPuzzlePytorch: no patch is stretched beyond recognition
			scale = float32(1 / max(math.Sqrt(max(squares/n-sum/n*sum/n, 0)), 1))
		}
	}
	for i, v := range values {
		values[i] = (v - mean) * scale
	}
}

// grayed draws whether a photograph is shown in gray; without a generator none is.
func (in Input) grayed(r *rand.Rand) bool { return r != nil && in.Gray > 0 && r.Float64() < in.Gray }
