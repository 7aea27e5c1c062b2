package solver

import (
	"math"
	"runtime"
	"sync"
)

// Costs writes -ln softmax of every row of logits (len/classes rows) to dst: the cost of each
// class. A row with a NaN or an infinity becomes NaN, which the solver refuses.
func Costs(dst []float64, logits []float32, classes int) {
	for i := 0; i+classes <= len(logits); i += classes {
		row, out := logits[i:i+classes], dst[i:i+classes]
		high := math.Inf(-1)
		for _, x := range row {
			high = max(high, float64(x)) // NaN wins
		}
		sum := 0.0
		for _, x := range row {
			sum += math.Exp(float64(x) - high)
		}
		log := high + math.Log(sum)
		for k, x := range row {
			out[k] = log - float64(x)
		}
	}
}

// AssignBatch solves many assignments of n rows at once, on up to GOMAXPROCS goroutines: answers
// (batch, n) <- costs (batch, n, n). The error is that of the first problem that has one.
func AssignBatch(answers []int, costs []float64, n int) error {
	batch := len(answers) / max(n, 1)
	// a goroutine is not worth less than some ten microseconds
	workers := min(runtime.GOMAXPROCS(0), (batch*n*n+1<<14)/(1<<14))
	errs := make([]error, batch)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			var s Solver
			for b := w * batch / workers; b < (w+1)*batch/workers; b++ {
				_, errs[b] = s.Assign(answers[b*n:(b+1)*n], costs[b*n*n:(b+1)*n*n])
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
