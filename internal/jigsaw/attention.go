package jigsaw

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/nn"
)

// attention adds the attention head to a graph: f (boards x patches, Features) are the features of
// the patches that are there. The result is a score of each position for each of them, (boards x
// patches, cells).
//
// It is a transformer encoder (Vaswani et al. 2017, normalised before each part as Xiong et al.
// 2020 have it) over the patches of a puzzle. As in MP3 (Zhai et al., Position Prediction as an
// Effective Pretraining Strategy, 2022) and Jigsaw-ViT, tokens do not say where they belong, and
// their order means nothing: permuting them permutes the result. What a token knows beside its
// patch is the slot in which that lies at present, by a vector for each slot that starts at zero.
func (c Config) attention(g *nn.Graph, f *nn.Node, boards int) *nn.Node {
	all, _ := c.positions()
	slots := g.Input("slots", boards*c.present(), all)
	x := g.Add(g.Linear("puzzle.token", f, c.Hidden, true), g.LinearFrom("puzzle.slot", slots, c.Hidden, false,
		nn.Constant(0), nil))
	for layer := range c.Layers {
		name := fmt.Sprintf("puzzle.layer%d.", layer)
		y := g.LayerNorm(name+"norm1", x)
		q, k, v := g.Linear(name+"query", y, c.Hidden, true), g.Linear(name+"key", y, c.Hidden, true),
			g.Linear(name+"value", y, c.Hidden, true)
		x = g.Add(x, g.Linear(name+"out", g.Attention(q, k, v, boards, c.AttentionHeads), c.Hidden, true))
		y = g.ReLU(g.Linear(name+"wide", g.LayerNorm(name+"norm2", x), 4*c.Hidden, true))
		x = g.Add(x, g.Linear(name+"narrow", y, c.Hidden, true))
	}
	return c.position(g, g.LayerNorm("puzzle.norm", x))
}
