package train

import (
	"os"

	"github.com/voxsaw/voxsaw"
)

// Of most parameters the gradient is never exactly 0 while a network learns: sums over voxels and
// items do not cancel to the last bit. It is where every unit of a layer is a ReLU that is 0 for
// every input, since nothing passes back through these; they stay so, and from then on what lies
// behind them is trained alone: biases that learn how frequent the classes are.
const (
	listenEvery = 20  // steps
	listenFor   = 100 // steps of silence that end a run
)

// silence is how long most parameters have had no gradient.
type silence struct {
	since int // the step at which that was first seen
	seen  bool
}

// listen is the error of a step after which there has been no gradient for most parameters for too
// long. The step is not counted yet.
func (l *loop) listen(r Result, norm float64) error {
	step := l.now.Step
	if step%listenEvery != 0 {
		return nil
	}
	share, err := l.optimizer.Silent()
	if err != nil {
		return err
	}
	if share <= 0.5 {
		l.silence = silence{}
		return nil
	}
	if !l.silence.seen {
		l.silence = silence{since: step, seen: true}
	}
	if step-l.silence.since < listenFor {
		return nil
	}
	e := &voxsaw.VanishedError{Step: step, Since: l.silence.since, Share: share, Loss: r.Loss, GradNorm: norm,
		Rate: l.options.LR}
	if l.folder != nil {
		if _, err := os.Stat(l.folder.Last()); err == nil {
			e.Path = l.folder.Last()
		}
	}
	return e
}
