package backbone

import (
	"fmt"
	"slices"

	"github.com/voxsaw/voxsaw/internal/nn"
)

// A Supervision is the losses of a network's logits, which may be there at coarser resolutions,
// such as a half and a quarter, too: then each level's loss counts half as much as the one before,
// and the weights sum to 1 (deep supervision as nnU-Net has it, Isensee et al. 2021).
type Supervision struct {
	Loss *nn.Node
	// Statistics are those of the loss of the whole resolution: see [nn.Graph.Loss].
	Statistics *nn.Node

	weights []float32
	n       int
	sizes   [][3]int // of each resolution, along (i, j, k)
}

// Supervise adds the losses to the graph of a network on n crops of a size along (i, j, k), and the
// inputs that [Supervision.Set] sets.
func Supervise(g *nn.Graph, logits []*nn.Node, n int, size [3]int, o nn.LossOptions) *Supervision {
	s := &Supervision{n: n, weights: LevelWeights(len(logits)), sizes: Sizes(g, logits, size)}
	for level, y := range logits {
		size := s.sizes[level]
		target := g.Input(targetName(level), n, size[2], size[1], size[0])
		loss, statistics := g.Loss(y, target, o)
		if len(logits) > 1 {
			loss = g.Scale(loss, s.weights[level])
		}
		if level == 0 {
			s.Loss, s.Statistics = loss, statistics
		} else {
			s.Loss = g.Add(s.Loss, loss)
		}
	}
	return s
}

// LevelWeights are what the losses of so many levels count for, the whole resolution first: each
// half as much as the one before, 1 in all.
func LevelWeights(levels int) []float32 {
	weights, sum := make([]float32, levels), float32(0)
	for level := range weights {
		weights[level] = 1 / float32(int(1)<<level)
		sum += weights[level]
	}
	for level := range weights {
		weights[level] /= sum
	}
	return weights
}

func targetName(level int) string {
	if level == 0 {
		return "target"
	}
	return fmt.Sprintf("target/%d", 1<<level)
}

// Set sets the class of each voxel, (n, D, H, W), at every resolution.
func (s *Supervision) Set(p *nn.Program, targets []float32) error {
	for level := range s.weights {
		if err := p.Set(targetName(level), Thin(targets, s.n, s.sizes[0], s.sizes[level])); err != nil {
			return err
		}
	}
	return nil
}

// Input is the name of the input with the classes at the whole resolution, which [Supervision.Set]
// sets to the values that it is given.
func (s *Supervision) Input() string { return targetName(0) }

// Sum is the loss, given the loss of each level.
func (s *Supervision) Sum(losses []float64) (sum float64) {
	for level, l := range losses {
		sum += float64(s.weights[level]) * l
	}
	return sum
}

// Sizes are those of logits, along (i, j, k), the first of them of the given size.
func Sizes(g *nn.Graph, logits []*nn.Node, size [3]int) [][3]int {
	sizes := slices.Repeat([][3]int{size}, len(logits))
	for level := 1; level < len(logits) && g.Err() == nil; level++ {
		s := logits[level].Shape()
		sizes[level] = [3]int{s[4], s[3], s[2]}
	}
	return sizes
}

// Thin takes of n crops of a size the voxels that are left of it at a coarser one, of whose extents
// it is a multiple: of each group the one in its middle, of two in the middle the second, as
// nnU-Net does (PyTorch's interpolation nearest-exact). All levels are made of the whole
// resolution: the voxel of a level of a level is another one. Of the same size it is the values
// themselves.
func Thin(values []float32, n int, size, to [3]int) []float32 {
	if size == to {
		return values
	}
	out := make([]float32, 0, n*to[0]*to[1]*to[2])
	step := [3]int{size[0] / to[0], size[1] / to[1], size[2] / to[2]}
	for item := range n {
		crop := values[item*size[0]*size[1]*size[2]:]
		for k := step[2] / 2; k < size[2]; k += step[2] {
			for j := step[1] / 2; j < size[1]; j += step[1] {
				row := crop[size[0]*(j+size[1]*k):][:size[0]]
				for i := step[0] / 2; i < size[0]; i += step[0] {
					out = append(out, row[i])
				}
			}
		}
	}
	return out
}
