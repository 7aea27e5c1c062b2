// Command scale reckons what a training over many ranks costs, from constants that were measured,
// and prints the tables of docs/scale.md: the model beside the runs that were made, and efficiency
// for up to 1024 ranks.
//
//	go run ./scripts/scale
//
// The model (model.go): a rank computes for so long as its arithmetic takes, at the rate that was
// measured. Gradients are summed in buckets, in the order in which the backward pass leaves them; a
// bucket waits until it is complete and the one before has been summed, and takes its messages'
// time and that of its bytes. What is left when the backward pass has ended is waited for.
//
// measured.json has the runs: docs/benchmarks.py scale makes it.
package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// A run is what a training step has taken on one machine, all ranks together, each of one thread.
type run struct {
	Task       string  `json:"task"`
	Ranks      int     `json:"ranks"`
	Batch      int     `json:"batch"` // of the whole step
	Accumulate int     `json:"accumulate"`
	CPU        float64 `json:"cpu_s"`
}

//go:embed measured.json
var measured []byte

// trained are the works that were measured, by their tasks.
var trained = map[string]work{
	"finetune": {"fine-tuning", "crops of 64^3", segmentation(64)},
	"pretrain": {"pretraining", "puzzles of 3^3 patches of 32^3", puzzles(32)},
}

// constants are what the model takes from runs.
type constants struct {
	item    map[string]float64 // seconds of a core for one item of a task
	weights map[string]float64 // for each byte of weights, of each pass
	update  float64            // for each byte of weights, of the optimiser's step
	sum     float64            // for each byte that a rank sends or receives
}

// sources are the runs that constants are taken from.
var sources = []run{
	{Task: "finetune", Ranks: 1, Batch: 1, Accumulate: 1}, {Task: "finetune", Ranks: 1, Batch: 2, Accumulate: 1},
	{Task: "finetune", Ranks: 1, Batch: 2, Accumulate: 2},
	{Task: "finetune", Ranks: 2, Batch: 2, Accumulate: 1}, {Task: "pretrain", Ranks: 1, Batch: 1, Accumulate: 1},
	{Task: "pretrain", Ranks: 1, Batch: 2, Accumulate: 1},
}

// takenFrom says whether a run is one that constants are taken from.
func takenFrom(r run) bool {
	r.CPU = 0
	return slices.Contains(sources, r)
}

// calibrate takes the constants from their runs.
func calibrate(runs []run) (c constants, err error) {
	var took []float64
	for _, s := range sources {
		at := slices.IndexFunc(runs, func(r run) bool { r.CPU = 0; return r == s })
		if at < 0 {
			return c, fmt.Errorf("measured.json has no run of %s with %d ranks, a batch of %d and %d micro-batches",
				s.Task, s.Ranks, s.Batch, s.Accumulate)
		}
		took = append(took, runs[at].CPU)
	}
	one, two, parts, ranks, puzzle, puzzles := took[0], took[1], took[2], took[3], took[4], took[5]
	c.item = map[string]float64{"finetune": two - one, "pretrain": puzzles - puzzle}
	bytes := trained["finetune"].bytes()
	// what is the same for any batch, all but the optimiser's step, is done in 8 passes of
	// micro-batches instead of in 3
	c.update = (8./3*one - parts) / (5. / 3) / bytes
	c.weights = map[string]float64{}
	for task, one := range map[string]float64{"finetune": one, "pretrain": puzzle} {
		w := trained[task]
		c.weights[task] = (one - c.item[task] - c.update*w.bytes()) / 3 / w.bytes()
	}
	c.sum = max(0, ranks-2*one) / (2 * moved(bytes, 2))
	return c, nil
}

// core is a core of the machine that was measured, at a task.
func (c constants) core(task string) machine {
	return machine{rate: 3 * trained[task].forward() / c.item[task], weights: c.weights[task], update: c.update,
		sum: c.sum, cores: 1}
}

// predict is the time that all cores together spend for a step of a run.
func (c constants) predict(r run) float64 {
	one := trained[r.Task].step(c.core(r.Task), link{rate: math.Inf(1)},
		options{ranks: r.Ranks, batch: r.Batch / r.Ranks, accumulate: r.Accumulate})
	return float64(r.Ranks) * (one.compute + one.cores)
}

func main() {
	var runs []run
	err := json.Unmarshal(measured, &runs)
	if err == nil {
		err = print(os.Stdout, runs)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func print(w io.Writer, runs []run) error {
	c, err := calibrate(runs)
	if err != nil {
		return err
	}
	fmt.Fprint(w,
		"| run | ranks | batch | `--accumulate` | measured, CPU s a step | model | "+
			"difference |\n|---|---|---|---|---|---|---|\n")
	for _, r := range runs {
		difference := "constants are from it"
		if !takenFrom(r) {
			difference = fmt.Sprintf("%+.0f %%", 100*(c.predict(r)/r.CPU-1))
		}
		fmt.Fprintf(w, "| %s | %d | %d | %d | %.2f | %.2f | %s |\n", trained[r.Task].name, r.Ranks, r.Batch,
			r.Accumulate, r.CPU, c.predict(r), difference)
	}
	a, b := c.core("finetune"), c.core("pretrain")
	fmt.Fprintf(w,
		"\nA core: %.0f and %.0f GFLOP/s of direct convolution in fine-tuning and pretraining. A GB of "+
			"weights takes %.2f s and %.2f s in each pass, %.2f s in the optimiser's step; a GB of "+
			"gradients that a rank sends takes %.2f s.\n",
		a.rate/1e9, b.rate/1e9, 1e9*a.weights, 1e9*b.weights, 1e9*c.update, 1e9*c.sum)
	for _, table := range tables(c) {
		table.print(w)
	}
	return nil
}
