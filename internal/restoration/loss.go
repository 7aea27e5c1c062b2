package restoration

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A loss compares what the network tells with what it shall tell. Before a forward run of the
// program it is set, after it the batch is compared.
type loss interface {
	// set sets the inputs that only the loss has.
	set(p *nn.Program, b *batch) error
	// compare gives the loss over the items of all ranks and its parts, and leaves what the
	// backward run needs.
	compare(p *nn.Program, group train.Group, b *batch) (loss float64, parts []float64, err error)
	// names of the parts
	names() []string
}

// classLoss is Dice and cross-entropy of the classes of voxels.
type classLoss struct{ levels *backbone.Supervision }

// newClassLoss adds the loss of n crops to a graph. parts is how many parts a whole batch has.
func newClassLoss(t task, of teller, g *nn.Graph, logits []*nn.Node, n, parts int, o *nn.Options) loss {
	how := of.loss()
	if how.PerImage {
		how.Parts = parts
	}
	l := classLoss{backbone.Supervise(g, logits, n, t.Crop, how)}
	o.Loss, o.Outputs = l.levels.Loss, map[string]*nn.Node{"statistics": l.levels.Statistics}
	return l
}

func (classLoss) names() []string { return []string{"ce", "dice_loss"} }

func (l classLoss) set(p *nn.Program, b *batch) error { return l.levels.Set(p, b.targets) }

func (l classLoss) compare(p *nn.Program, group train.Group, _ *batch) (loss float64, parts []float64, err error) {
	if group.Alone() {
		var whole [1]float32
		err = p.Read("loss", whole[:])
		loss = float64(whole[0])
	} else {
		var losses []float64
		losses, err = p.Reduce(group.AllReduce)
		loss = l.levels.Sum(losses)
	}
	if err != nil {
		return 0, nil, err
	}
	statistics := make([]float32, p.Shape("statistics").Elements())
	err = p.Read("statistics", statistics)
	return loss, []float64{float64(statistics[0]), float64(statistics[1])}, err
}

// squaredError is the mean squared error of the voxels that count:
//
//	sum c (y - t)^2 / sum c
//
// over all items of the batch, weighted over the resolutions of a network with deep supervision. It
// is computed on the host, whatever the device: an image goes there, its gradient comes back.
type squaredError struct {
	weights []float32 // of the resolutions, the whole one first
	n       int       // channels of all crops
	sizes   [][3]int
}

// newSquaredError adds what was restored to the outputs of a program, and the inputs of its
// gradient to the graph. weight is that of the loss in a step.
func newSquaredError(t task, g *nn.Graph, restored []*nn.Node, n int, weight float32, o *nn.Options) *squaredError {
	l := &squaredError{weights: backbone.LevelWeights(len(restored)), n: n * t.Network.InputChannels(),
		sizes: backbone.Sizes(g, restored, t.Crop)}
	if o.Outputs == nil {
		o.Outputs = map[string]*nn.Node{}
	}
	if o.OutputGrad == nil {
		o.OutputGrad = map[string]string{}
	}
	for level, y := range restored {
		if g.Err() != nil {
			break
		}
		l.weights[level] *= weight
		o.Outputs[restoredName(level)] = y
		o.OutputGrad[restoredName(level)] = gradientName(level)
		g.Input(gradientName(level), y.Shape()...)
	}
	return l
}

func restoredName(level int) string { return fmt.Sprintf("restored/%d", 1<<level) }
func gradientName(level int) string { return fmt.Sprintf("gradient/%d", 1<<level) }

func (*squaredError) names() []string { return []string{"mse"} }

func (*squaredError) set(*nn.Program, *batch) error { return nil }

func (l *squaredError) compare(p *nn.Program, group train.Group, b *batch) (loss float64, parts []float64, err error) {
	gradients := make([][]float32, len(l.weights))
	sums := make([]float32, 2*len(l.weights)) // of each resolution the squares, and the voxels
	for level := range l.weights {
		targets := backbone.Thin(b.targets, l.n, l.sizes[0], l.sizes[level])
		counts := backbone.Thin(b.counts, l.n, l.sizes[0], l.sizes[level])
		gradients[level] = make([]float32, len(targets))
		if err := p.Read(restoredName(level), gradients[level]); err != nil {
			return 0, nil, err
		}
		squares, voxels := differences(gradients[level], targets, counts)
		sums[2*level], sums[2*level+1] = float32(squares), float32(voxels)
	}
	if !group.Alone() {
		if err := group.AllReduce(sums); err != nil {
			return 0, nil, err
		}
	}
	for level, weight := range l.weights {
		voxels := max(sums[2*level+1], 1)
		loss += float64(weight) * float64(sums[2*level]) / float64(voxels)
		scale := 2 * weight / voxels
		for i := range gradients[level] {
			gradients[level][i] *= scale
		}
		if err := p.Set(gradientName(level), gradients[level]); err != nil {
			return 0, nil, err
		}
	}
	return loss, []float64{float64(sums[0]) / float64(max(sums[1], 1))}, nil
}

// differences replaces what was restored by its difference from the target, 0 where a voxel does
// not count, and gives the sum of the squares and the number of voxels that count.
func differences(restored, target, counts []float32) (squares, voxels float64) {
	for i, y := range restored {
		if counts[i] == 0 {
			restored[i] = 0
			continue
		}
		d := y - target[i]
		restored[i] = d
		squares += float64(d) * float64(d)
		voxels++
	}
	return squares, voxels
}
