package jigsaw

import (
	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/train"
)

// A Companion is a Backbone that learns something else in each training step, too. Its part lies in
// the encoder's program and shares the encoder's parameters. So their gradient is that of the sum
// of both losses, however parameters are updated.
type Companion interface {
	Backbone
	// Beside adds its part to the graph of a step with so many puzzles, and its outputs to the
	// options of the program.
	Beside(g *nn.Graph, o *nn.Options, puzzles int)
}

// An Addition is what a batch brings for a [Companion].
type Addition interface {
	// Ahead sends the inputs of the companion's part to the device ahead, see [nn.Program.Ahead].
	Ahead(p *nn.Program) error
	// Set sets the inputs of the companion's part.
	Set(p *nn.Program) error
	// Compare gives its loss over the items of all ranks after a forward run, and leaves its
	// gradient to the backward run. Every rank calls it once a step.
	Compare(p *nn.Program, group train.Group) (loss float64, metrics []voxsaw.Metric, err error)
}

// beside adds a companion's part to a graph, if the backbone is one.
func beside(b Backbone, g *nn.Graph, o *nn.Options, puzzles int) {
	if companion, ok := b.(Companion); ok && g.Err() == nil {
		companion.Beside(g, o, puzzles)
	}
}
