package restoration

import (
	"fmt"
	"math/rand/v2"

	"github.com/voxsaw/voxsaw/internal/pretext"
)

// Masked is how a masked autoencoder hides blocks of a crop, with the numbers of nnssl's
// BaseMAETrainer (github.com/MIC-DKFZ/nnssl): a masked voxel is 0, here the middle of the window of
// intensities, and masked voxels alone count for the loss.
type Masked struct {
	MaskShare float64 `yaml:"mask_share" help:"share of the blocks that are masked"`
	MaskBlock int     `yaml:"mask_block" help:"side of a block, in voxels"`
}

func init() {
	register(pretext.Task{
		Name: "mae", Short: "restore the masked blocks of a crop (masked autoencoder); trains the decoder, too",
		Title: "Restored blocks of unseen cases", Score: "variance of masked voxels of held-out crops that is restored",
	}, func() (pretext.Settings, Masked) {
		return pretext.DefaultSettings(64, 2), Masked{MaskShare: 0.75, MaskBlock: 16}
	})
}

func (m Masked) check(crop [3]int) error {
	if err := pretext.CheckShare("mask_share", m.MaskShare); err != nil {
		return err
	}
	if m.MaskBlock < 1 {
		return fmt.Errorf("mask_block is %d, must be at least 1", m.MaskBlock)
	}
	for _, side := range crop {
		if side%m.MaskBlock != 0 {
			return fmt.Errorf("crop is %dx%dx%d: its sides must be multiples of mask_block, which is %d", crop[0],
				crop[1], crop[2], m.MaskBlock)
		}
	}
	if all := m.blocks(crop); m.masked(all) < 1 || m.masked(all) == all {
		return fmt.Errorf("mask_share is %v: that masks %d of the %d blocks of a crop, must be some and not all",
			m.MaskShare, m.masked(all), all)
	}
	return nil
}

// blocks of a crop.
func (m Masked) blocks(crop [3]int) int {
	return crop[0] / m.MaskBlock * (crop[1] / m.MaskBlock) * (crop[2] / m.MaskBlock)
}

// masked is how many of so many blocks are masked.
func (m Masked) masked(blocks int) int { return int(m.MaskShare * float64(blocks)) }

func (m Masked) outputs() int { return 1 }
func (m Masked) crops() int   { return 1 }

func (m Masked) corrupt(r *rand.Rand, crops [][]float32, e example) {
	order := r.Perm(m.blocks(e.size))
	m.hide(order[:m.masked(len(order))], crops[0], e)
}

// hide makes the example of given blocks, numbered with i fastest.
func (m Masked) hide(blocks []int, crop []float32, e example) {
	copy(e.target, crop)
	copy(e.input, crop)
	clear(e.counts)
	inputs, counts := e.channels(e.input), e.channels(e.counts)
	ni, nj := e.size[0]/m.MaskBlock, e.size[1]/m.MaskBlock
	for _, n := range blocks {
		b := box{
			origin: [3]int{m.MaskBlock * (n % ni), m.MaskBlock * (n / ni % nj), m.MaskBlock * (n / (ni * nj))},
			size:   [3]int{m.MaskBlock, m.MaskBlock, m.MaskBlock},
		}
		b.rows(e.size, func(first, n int) {
			for c, input := range inputs {
				for i := first; i < first+n; i++ {
					input[i], counts[c][i] = 0, 1
				}
			}
		})
	}
}
