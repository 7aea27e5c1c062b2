package puzzle2d

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/jigsaw"
	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// A Choice is a value that the paper does not state, and where ours comes from.
type Choice struct {
	Setting, Value, Source string
	// Keys are the settings that it tells of, unless it is called after its own.
	Keys []string
}

// PaperNames are the rows of the paper's Table 1 that [Paper] knows.
func PaperNames() []string { return []string{"U", "UM", "UBM", "UBM-2x2"} }

// Paper replaces the settings that the paper's Table 1 has for a row: U (unary terms), UM (patches
// mirrored), UBM (binary terms too), UBM-2x2 (four patches), and takes the paper's own ways where
// ours differ: the sum of equation 1, features without a ReLU, one look of the search, and its
// end of the rounds. The backbone stays. The choices are what the paper leaves open, with the
// source of our value.
func Paper(c Config, name string) (Config, []Choice, error) {
	if !slices.Contains(PaperNames(), name) {
		return c, nil, fmt.Errorf("the paper has no row %q: choose one of %s", name, strings.Join(PaperNames(), ", "))
	}
	c.Grid, c.Cell, c.Patch = [2]int{3, 3}, 85, 64
	if name == "UBM-2x2" {
		c.Grid = [2]int{2, 2}
	}
	c.Mirror, c.Binary = name != "U", strings.HasPrefix(name, "UBM")
	c.Head, c.Features, c.Rounds, c.Share, c.ColSum = HeadPaper, 1024, 20, 1, 0
	c.Input.Mean, c.Input.Gray = MeanDataset, 0
	c.Batch = 256
	c.Train.Optimizer, c.Train.Steps = "sgd", 350_000
	if c.Network.Backbone == "alexnet" {
		c.Train.Steps = 250_000
	}
	var open []Choice
	note := func(setting string, value any, source string, keys ...string) {
		open = append(open, Choice{setting, fmt.Sprint(value), source, keys})
	}
	c.BinaryWeight, c.SumLoss, c.LinearFeatures, c.SearchOnce, c.PaperRounds = 1, true, true, true, true
	c, open = PaperRates(c)
	c.Train.Momentum = 0.9
	c.Train.Schedule, c.Train.StepSize, c.Train.Gamma, c.Train.Warmup, c.Train.Clip = "step", 100_000, 0.1, 0, 0
	note("momentum", c.Train.Momentum, solver)
	note("schedule", fmt.Sprintf("x %v every %d steps", c.Train.Gamma, c.Train.StepSize),
		solver+" (which drops at 100k and 350k)", "step_size", "gamma")
	c.Distance = 3
	note("distance", c.Distance,
		"ours: the larger of the two that are quick; the paper says \"within a limited Hamming distance\"")
	note("loss of the rounds", "their mean", "the paper averages them; a puzzle counts while it is being solved")
	note("size of the cells", fmt.Sprintf("%d, photographs warped to %dx%d", c.Cell, c.Grid[1]*c.Cell,
		c.Grid[0]*c.Cell), "the paper's text; the Context Free Network crops 255 of 256", "cell", "grid", "grids")
	note("pixels", fmt.Sprintf("less the mean of the data set, divided by %.3g", float64(pixelScale)),
		"the mean is the paper's; the divisor is ours, as our first weights are (--pixel-divisor 1: none)",
		"mean", "pixel_divisor")
	note("colour", "RGB, none in gray", "the paper says nothing; VISSL shows 66 % in gray (--gray 0.66)", "gray")
	note("puzzles of a photograph", "one a step", "ours; the paper says nothing")
	switch c.Network.Backbone {
	case "alexnet":
		c.Network.Norm, c.Network.Dropout = "lrn", 0.5
		note("norm", c.Network.Norm,
			"the Context Free Network; batch norm learns faster and transfers worse "+
				"(bbrattoli/JigsawPuzzlePytorch, issue 7)")
		note("dropout", c.Network.Dropout, "the Context Free Network")
		note("stride of conv1", "2 for patches of 64, 4 for photographs of 227", "the Context Free Network", "patch")
	default:
		note("initial weights", "He et al. 2015, fan out", "torchvision", "checkpoint")
	}
	return c, open, c.Check()
}

const solver = "the Context Free Network's solver.prototxt"

// PaperTerms leaves out of the paper's own ways those that do nothing beside the other settings, or
// cannot be. The choices are what they are replaced by.
func PaperTerms(c Config) (Config, []Choice) {
	var open []Choice
	if c.Head == HeadKWay && c.SumLoss {
		c.SumLoss = false
		open = append(open, Choice{Setting: "sum_loss", Value: "false",
			Source: "head kway has one term, and no sum over patches"})
	}
	if !c.Binary || c.Head == HeadKWay {
		c.BinaryWeight, c.SearchOnce = 0, false
	}
	if c.Head == HeadKWay || c.Head == HeadSymmetric {
		c.PaperRounds = false
	}
	return c, open
}

// PaperRates replaces the learning rate and the weight decay by those of the paper's loss, or of
// its mean over the patches, whichever the settings have: the sum over n patches is n times their
// mean, and with SGD an n-th of the learning rate and n times the weight decay are the same steps.
func PaperRates(c Config) (Config, []Choice) {
	if !c.SumLoss {
		c.Train.LR, c.Train.WeightDecay = 0.01, 5e-4
		return c, []Choice{{Setting: "lr", Value: "0.01", Source: solver},
			{Setting: "weight_decay", Value: "0.0005", Source: solver}}
	}
	n := c.grid().Cells()
	if grids, err := jigsaw.ReadGrids(c.Grids, len(c.Grid)); err == nil && len(grids) > 0 {
		n = slices.MaxFunc(grids, func(a, b puzzle.Grid) int { return a.Cells() - b.Cells() }).Cells()
	}
	c.Train.LR, c.Train.WeightDecay = 0.01/float64(n), 5e-4*float64(n)
	return c, []Choice{
		{Setting: "lr", Value: fmt.Sprintf("%.4g, which is 0.01 / %d", c.Train.LR, n),
			Source: solver + ", for a mean; the loss is the sum over the patches"},
		{Setting: "weight_decay", Value: fmt.Sprintf("%.4g, which is 0.0005 x %d", c.Train.WeightDecay, n),
			Source: solver + ", likewise"},
	}
}
