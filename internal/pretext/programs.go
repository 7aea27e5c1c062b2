package pretext

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Programs are what a task whose step is one program compiles, for a [train.Learner] to embed.
type Programs struct {
	Bench Workbench
	First int // the number in the batch of this rank's first item
	N     int // items that this rank has
	Pass  int // of these, how many go through the network at once
	// Training is the program of a step. Validation lies in its memory; nil where nothing is held
	// out.
	Training, Validation *nn.Program
}

// NewPrograms divides the batch over the ranks. The programs, for Pass items, are for the caller to
// compile.
func NewPrograms(w Workbench, batch int) (p Programs, err error) {
	p.Bench = w
	p.First, p.N, err = w.Group.Share(batch)
	p.Pass = w.Group.PerPass(p.N)
	return p, err
}

// Params implements [train.Task].
func (p *Programs) Params() train.Params { return p.Bench.Params }

// Notes implements [train.Learner].
func (p *Programs) Notes() []string {
	return []string{fmt.Sprintf("a training step: %v", p.Training.Summary())}
}

// FLOPs implements [train.Learner].
func (p *Programs) FLOPs() (forward, both float64) { return p.Training.FLOPs() }

// Close implements [train.Learner].
func (p *Programs) Close() {
	if p.Validation != nil {
		p.Validation.Close()
	}
	p.Training.Close()
}
