package voxsaw

// Puzzle is the settings of a game of puzzles (Wei et al., Iterative Reorganization with Weak
// Spatial Constraints, CVPR 2019), whatever is cut: scans (package puzzle3d) or photographs
// (package puzzle2d), which say what the heads are.
type Puzzle struct {
	// puzzles in a step; auto: as many as fit into memory
	Batch int `yaml:"batch" words:"auto=0" most:"4096"`

	// paper, symmetric (learns fastest on scans), both, attention (over the patches as tokens), or
	// kway (one choice among as many orders as classes says)
	Head string `yaml:"head" oneof:"paper symmetric both attention kway"`
	// width of a patch's feature
	Features int `yaml:"features" range:"[1,)"`
	// hidden width of the symmetric and of the K-way head, width of a token of the attention head
	Hidden int `yaml:"hidden" range:"[1,)"`
	// times that a puzzle is solved, re-arranged and looked at again; the symmetric and the K-way
	// head have one
	Rounds int `yaml:"rounds" range:"[1,)"`
	// binary terms: the relation between each two patches is learnt too
	Binary bool `yaml:"binary"`
	// hamming distance of the search with binary terms, 2 or 3
	Distance int `yaml:"distance" range:"[2,3]"`
	// weight of the column-sum loss; 0: none
	ColSum float64 `yaml:"column_sum"`
	// share of all configurations that training uses, up to 1
	Share float64 `yaml:"share" range:"(0,1]"`

	// weight of a binary term beside a unary one, in the loss and in solving; 1: equation 1 of the
	// paper; 0: the loss adds the mean over pairs to the mean over patches, and solving weighs both
	// alike
	//
	// BinaryWeight is what a binary term weighs beside a unary one: 1 is equation 1, whose sum the
	// loss is then, divided by the number of patches. It and the four below are the paper's own
	// ways where ours differ; zero is ours.
	BinaryWeight float64 `yaml:"binary_weight,omitempty" range:"[0,1000000]"`
	// the loss is the sum over a puzzle's patches, and with binary_weight over their pairs, as
	// equation 1 has it, not that divided by the patches: as many times as large, so that it wants
	// a smaller lr
	//
	// SumLoss does not divide the loss of a puzzle by its patches.
	SumLoss bool `yaml:"sum_loss,omitempty"`
	// no ReLU after the linear layer that makes a patch's feature, as the paper has it
	//
	// LinearFeatures leaves out the ReLU after the linear layer that makes a patch's feature.
	LinearFeatures bool `yaml:"linear_features,omitempty"`
	// the search with binary terms takes the best within the distance of the assignment, as the
	// paper has it, and does not go on from there
	SearchOnce bool `yaml:"search_once,omitempty"`
	// rounds end as the paper has it: a puzzle that is solved is not shown again in its right
	// order, and one that goes in circles is played on
	PaperRounds bool `yaml:"paper_rounds,omitempty"`

	// head attention: layers of the transformer; 0: 2
	//
	// Layers and AttentionHeads are zero where the head is another.
	Layers int `yaml:"layers,omitempty" range:"[0,)"`
	// head attention: attention heads of each layer, which divide hidden; 0: 4
	AttentionHeads int `yaml:"attention_heads,omitempty" range:"[0,)"`

	// share of the patches of a puzzle that are left out; what is left may go to any place
	Missing float64 `yaml:"missing,omitempty" range:"[0,1)"`
	// patches that are the same value for value, such as air, are one class in the loss: any of
	// their places is right
	//
	// Identical changes the loss alone: scores still want each patch in its own place.
	Identical bool `yaml:"identical,omitempty"`

	// head kway: orders to choose among
	Classes int `yaml:"classes" range:"[2,)" most:"10000"`
	// head kway: orders are far from each other by their smallest (min) or mean distance
	Criterion string `yaml:"criterion" oneof:"min mean"`
}

// PlayOptions say how puzzles are solved. Zeros stand for what the network was trained with.
type PlayOptions struct {
	Rounds   int // at most
	Shuffles int // puzzles that are made of each case, or photograph
	// Only is a number of orders: puzzles are shuffled by these alone, and the cheapest of them is
	// the answer, as a K-way puzzle has it; 0: all n!. They are those of a K-way head with the same
	// seed.
	Only int
	// Unary leaves the binary terms out, of a network that was trained with them.
	Unary  bool
	Memory int64 // limit in bytes of the network; 0: none
}

// PuzzleMetrics are shares of puzzles, and of patches.
type PuzzleMetrics struct {
	Correct float64 `json:"correct"` // puzzles wholly solved
	// puzzles within Hamming distance 2 of the truth: at most two patches misplaced
	Near    float64 `json:"near"`
	Patches float64 `json:"patches"` // patches in their place, of those that are there
}

// PuzzleEvaluation is how well some puzzles were solved.
type PuzzleEvaluation struct {
	Grid    string  `json:"grid,omitempty"` // one of several, such as 3x3x3
	Items   int     `json:"-"`              // cases or photographs
	Puzzles int     `json:"puzzles"`
	Loss    float64 `json:"loss"` // mean over items of the loss in the first round
	// after each round; a puzzle that has come to rest keeps its answer
	Rounds []PuzzleMetrics `json:"rounds"`
	Mean   float64         `json:"mean_rounds"` // rounds played, on average
	Chance PuzzleMetrics   `json:"chance"`      // what blind guessing scores
	// Ceiling is what a solver scores, on average, that fails at nothing but patches that are the
	// same everywhere and equal each other, such as air. Of photographs nobody asks.
	Ceiling PuzzleMetrics `json:"ceiling,omitzero"`
	// Grids is each of several grids; the metrics above are the means over them then.
	Grids []PuzzleEvaluation `json:"grids,omitempty"`
}

// Final are the metrics after the last round.
func (e PuzzleEvaluation) Final() PuzzleMetrics { return e.Rounds[len(e.Rounds)-1] }
