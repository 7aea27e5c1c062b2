package restoration

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/pretext"
)

// A loss compares what the network tells with what it shall tell.
type loss interface {
	// forward runs the network on a batch, whose inputs are set but for the targets, and gives the
	// loss over the items of all ranks and its parts.
	forward(w pretext.Workbench, seed uint64, step int, b *batch) (loss float64, parts []float64, err error)
	// names of the parts
	names() []string
	// backward runs the backward part.
	backward() error
}

// classLoss is Dice and cross-entropy of the classes of voxels.
type classLoss struct {
	program *nn.Program
	levels  *backbone.Supervision
}

func newClassLoss(t task, of teller, w pretext.Workbench, g *nn.Graph, logits []*nn.Node, n int) (loss, *nn.Program, error) {
	l := &classLoss{levels: backbone.Supervise(g, logits, n, t.Crop, of.loss())}
	var err error
	l.program, err = nn.Compile(w.Device, g, w.Params, nn.Options{
		Loss: l.levels.Loss, Outputs: map[string]*nn.Node{"statistics": l.levels.Statistics}, Update: w.Optimizer.Updater(), MemoryLimit: w.Memory,
	})
	return l, l.program, err
}

func (l *classLoss) names() []string { return []string{"ce", "dice_loss"} }

func (l *classLoss) forward(w pretext.Workbench, seed uint64, step int, b *batch) (loss float64, parts []float64, err error) {
	if err := l.levels.Set(l.program, b.targets); err != nil {
		return 0, nil, err
	}
	if err := w.Forward(l.program, seed, step, pretext.Input{Name: "image", Values: b.images}); err != nil {
		return 0, nil, err
	}
	if w.Group.Alone() {
		loss, err = w.Loss(l.program)
	} else {
		var losses []float64
		losses, err = l.program.Reduce(w.Group.AllReduce)
		loss = l.levels.Sum(losses)
	}
	if err != nil {
		return 0, nil, err
	}
	statistics := make([]float32, l.program.Shape("statistics").Elements())
	err = l.program.Read("statistics", statistics)
	return loss, []float64{float64(statistics[0]), float64(statistics[1])}, err
}

func (l *classLoss) backward() error { return l.program.Backward() }

// squaredError is the mean squared error of the voxels that count:
//
//	sum c (y - t)^2 / sum c
//
// over all items of the batch, weighted over the resolutions of a network with deep supervision. It
// is computed on the host, whatever the device: an image of one channel goes there, its gradient
// comes back.
type squaredError struct {
	program *nn.Program
	weights []float32 // of the resolutions, the whole one first
	n       int       // crops
	size    [3]int
}

func newSquaredError(t task, w pretext.Workbench, g *nn.Graph, restored []*nn.Node, n int) (loss, *nn.Program, error) {
	l := &squaredError{weights: backbone.LevelWeights(len(restored)), n: n, size: t.Crop}
	o := nn.Options{Outputs: map[string]*nn.Node{}, OutputGrad: map[string]string{}, Update: w.Optimizer.Updater(), MemoryLimit: w.Memory}
	for level, y := range restored {
		if g.Err() != nil {
			break
		}
		o.Outputs[restoredName(level)] = y
		o.OutputGrad[restoredName(level)] = gradientName(level)
		g.Input(gradientName(level), y.Shape()...)
	}
	var err error
	l.program, err = nn.Compile(w.Device, g, w.Params, o)
	return l, l.program, err
}

func restoredName(level int) string { return fmt.Sprintf("restored/%d", 1<<level) }
func gradientName(level int) string { return fmt.Sprintf("gradient/%d", 1<<level) }

func (l *squaredError) names() []string { return []string{"mse"} }

func (l *squaredError) forward(w pretext.Workbench, seed uint64, step int, b *batch) (loss float64, parts []float64, err error) {
	if err := w.Forward(l.program, seed, step, pretext.Input{Name: "image", Values: b.images}); err != nil {
		return 0, nil, err
	}
	gradients := make([][]float32, len(l.weights))
	sums := make([]float32, 2*len(l.weights)) // of each resolution the squares, and the voxels
	targets, counts, size := b.targets, b.counts, l.size
	for level := range l.weights {
		if level > 0 {
			targets, _ = backbone.Half(targets, l.n, size)
			counts, size = backbone.Half(counts, l.n, size)
		}
		gradients[level] = make([]float32, len(targets))
		if err := l.program.Read(restoredName(level), gradients[level]); err != nil {
			return 0, nil, err
		}
		squares, voxels := differences(gradients[level], targets, counts)
		sums[2*level], sums[2*level+1] = float32(squares), float32(voxels)
	}
	if !w.Group.Alone() {
		if err := w.Group.AllReduce(sums); err != nil {
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
		if err := l.program.Set(gradientName(level), gradients[level]); err != nil {
			return 0, nil, err
		}
	}
	return loss, []float64{float64(sums[0]) / float64(max(sums[1], 1))}, nil
}

func (l *squaredError) backward() error { return l.program.Backward() }

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
