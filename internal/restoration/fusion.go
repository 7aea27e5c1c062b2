package restoration

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
)

// Fusion is how Volume Fusion mixes two crops, with the numbers of nnssl's VolumeFusionTrainer
// (github.com/MIC-DKFZ/nnssl): boxes, of which later ones cover earlier ones, each with a share of
// the first crop, from 0 to 1 in equal steps; outside all boxes there is none of it. The number of
// the share is the class of a voxel.
type Fusion struct {
	Coefficients int     `yaml:"coefficients" help:"number of fusion coefficients, the first crop's shares, from 0 to 1 in equal steps: a class each"`
	FewestBoxes  int     `yaml:"fewest_boxes" help:"boxes that a crop has at least"`
	MostBoxes    int     `yaml:"most_boxes" help:"boxes that a crop has at most"`
	SmallestBox  int     `yaml:"smallest_box" help:"side of a box at least, in voxels"`
	LargestBox   float64 `yaml:"largest_box" help:"side of a box at most, as a share of the crop's"`
	BatchDice    bool    `yaml:"batch_dice" help:"the Dice of the loss is that of the whole batch, as in fine-tuning, instead of the mean over the crops, as in nnssl"`
}

func init() {
	register(pretext.Task{
		Name: "fusion", Short: "tell each voxel's share of two mixed crops (Volume Fusion); trains the decoder, too",
		Title: "Mixed crops of unseen cases", Score: "mean Dice of the shares in held-out crops",
	}, func() (pretext.Settings, Fusion) {
		s := pretext.DefaultSettings(64, 2)
		s.Train.LR = 0.05 // as in fine-tuning, whose loss it is
		return s, Fusion{Coefficients: 5, FewestBoxes: 10, MostBoxes: 39, SmallestBox: 8, LargestBox: 0.625}
	})
}

func (f Fusion) check(crop [3]int) error {
	err := cmp.Or(
		pretext.CheckRange("coefficients", f.Coefficients, 2, 100), pretext.CheckRange("most_boxes", f.MostBoxes, 1,
			1<<16), pretext.CheckRange("fewest_boxes", f.FewestBoxes, 1, f.MostBoxes),
		pretext.CheckRange("smallest_box", f.SmallestBox, 1, 1<<16), pretext.CheckShare("largest_box", f.LargestBox))
	if err != nil {
		return err
	}
	for axis, most := range f.most(crop) {
		if most < f.SmallestBox {
			return fmt.Errorf("crop is %dx%dx%d: a box has at most %d of %d voxels along a side (largest_box %v), "+
				"and smallest_box is %d: make the crop larger or smallest_box smaller",
				crop[0], crop[1], crop[2], most, crop[axis], f.LargestBox, f.SmallestBox)
		}
	}
	return nil
}

// most is the largest size of a box.
func (f Fusion) most(crop [3]int) (most [3]int) {
	for axis, side := range crop {
		most[axis] = int(f.LargestBox * float64(side))
	}
	return most
}

func (f Fusion) outputs() int { return f.Coefficients }
func (f Fusion) crops() int   { return 2 }

// loss is Dice and cross-entropy, as in nnssl. There is no background: a coefficient of 0 is a
// class like others.
func (f Fusion) loss() nn.LossOptions {
	return nn.LossOptions{CE: 1, Dice: 1, Background: true, PerImage: !f.BatchDice}
}

func (f Fusion) corrupt(r *rand.Rand, crops [][]float32, e example) {
	boxes := make([]classBox, between(r, f.FewestBoxes, f.MostBoxes))
	least := [3]int{f.SmallestBox, f.SmallestBox, f.SmallestBox}
	for n := range boxes {
		boxes[n] = classBox{drawBox(r, e.size, least, f.most(e.size)), r.IntN(f.Coefficients)}
	}
	f.mix(boxes, crops, e)
}

// A classBox is a box with the class of its voxels.
type classBox struct {
	box
	class int
}

// mix makes the example of given boxes.
func (f Fusion) mix(boxes []classBox, crops [][]float32, e example) {
	for _, b := range boxes {
		b.rows(e.size, func(first, n int) {
			for i := range n {
				e.target[first+i] = float32(b.class)
			}
		})
	}
	for i, class := range e.target {
		share := class / float32(f.Coefficients-1)
		for at := i; at < len(e.input); at += len(e.target) { // each channel
			e.input[at] = share*crops[0][at] + (1-share)*crops[1][at]
		}
	}
}
