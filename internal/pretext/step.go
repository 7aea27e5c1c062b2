package pretext

import "github.com/voxsaw/voxsaw/internal/nn"

// An Input is the values of one input of a program.
type Input struct {
	Name   string
	Values []float32
}

// Forward runs the forward part of a training program at a step, with these inputs. Random
// operators such as dropout depend on the seed, the step and the item in the whole batch.
// [Workbench.Loss] gives the loss.
func (w Workbench) Forward(p *nn.Program, seed uint64, step int, inputs ...Input) error {
	if err := p.SetMicroBatch(seed, uint64(step), w.Group.MicroBatch()); err != nil {
		return err
	}
	for _, in := range inputs {
		if err := p.Set(in.Name, in.Values); err != nil {
			return err
		}
	}
	return p.Forward()
}

// Loss is the loss of the last forward run over the items of all ranks: the program's output
// "loss", which is a loss of the graph or the sum of several. Every rank calls it once a step,
// before the backward part, which is [train.Group.Backward]'s.
func (w Workbench) Loss(p *nn.Program) (float64, error) {
	if w.Group.Alone() {
		var loss [1]float32
		err := p.Read("loss", loss[:])
		return float64(loss[0]), err
	}
	losses, err := p.Reduce(w.Group.AllReduce)
	sum := 0.0
	for _, l := range losses {
		sum += l
	}
	return sum, err
}

// Share is part / whole over all ranks, such as the share of items that are right. Every rank calls
// it with its own counts.
func (w Workbench) Share(part, whole int) (float64, error) {
	sums := []float32{float32(part), float32(whole)}
	if !w.Group.Alone() {
		if err := w.Group.AllReduce(sums); err != nil {
			return 0, err
		}
	}
	return float64(sums[0]) / float64(sums[1]), nil
}
