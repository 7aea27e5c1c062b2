package train_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/internal/train/traintest"
)

// onRanks does something on each of n ranks at once.
func onRanks(n int, f func(g train.Group)) {
	var all sync.WaitGroup
	for _, g := range traintest.Ranks(n) {
		all.Go(func() { f(g) })
	}
	all.Wait()
}

func TestDivideGivesAllRanksAllResults(t *testing.T) {
	for _, ranks := range []int{1, 2, 3} {
		worked := make([]int, 5)
		var mutex sync.Mutex
		onRanks(ranks, func(g train.Group) {
			all, err := train.Divide(t.Context(), g, len(worked), func(_ context.Context, i int) (string, error) {
				mutex.Lock()
				defer mutex.Unlock()
				worked[i]++
				return fmt.Sprint("case ", i), nil
			})
			if want := []string{"case 0", "case 1", "case 2", "case 3", "case 4"}; err != nil ||
				!slices.Equal(all, want) {
				t.Errorf("%d ranks: %q, %v", ranks, all, err)
			}
		})
		if !slices.Equal(worked, []int{1, 1, 1, 1, 1}) {
			t.Errorf("%d ranks: each case was done so often: %v", ranks, worked)
		}
	}
}

// What fails on one rank is an error of all: of that one its own, of the others that it was
// elsewhere.
func TestDivideFailsEverywhere(t *testing.T) {
	broken := errors.New("broken")
	onRanks(3, func(g train.Group) {
		_, err := train.Divide(t.Context(), g, 6, func(_ context.Context, i int) (int, error) {
			if i == 4 { // rank 1's
				return 0, broken
			}
			return i, nil
		})
		if here := g.Rank == 1; errors.Is(err, broken) != here || errors.As(err, new(train.ElsewhereError)) == here {
			t.Errorf("rank %d: %v", g.Rank, err)
		}
	})
}

// What rank 0 finds out alone, all ranks know: that another process has the run, and goes on, or
// that it has failed.
func TestAgree(t *testing.T) {
	folder, broken := t.TempDir(), errors.New("broken")
	release, err := atomicfile.Hold(folder)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	_, held := atomicfile.Hold(folder)
	onRanks(3, func(g train.Group) {
		for _, outcome := range []error{nil, held, broken} {
			var own error
			if g.Rank == 0 {
				own = outcome
			}
			err := g.Agree(own)
			switch {
			case (err == nil) != (outcome == nil) || train.Occupied(err) != train.Occupied(outcome):
				t.Errorf("rank %d: %v, rank 0 has %v", g.Rank, err, outcome)
			case err != nil && errors.As(err, new(train.ElsewhereError)) != (g.Rank > 0 && outcome == broken):
				t.Errorf("rank %d: %v", g.Rank, err)
			}
		}
	})
}

func TestShareNamesSizesThatDivide(t *testing.T) {
	onRanks(4, func(g train.Group) {
		if first, n, err := g.Share(8); first != 2*g.Rank || n != 2 || err != nil {
			t.Errorf("rank %d: %d items from %d on, %v", g.Rank, n, first, err)
		}
		if _, _, err := g.Share(6); err == nil || !strings.Contains(err.Error(), "such as 4 or 8") {
			t.Errorf("%v", err)
		}
		if _, _, err := g.Share(3); err == nil || !strings.HasSuffix(err.Error(), "such as 4") {
			t.Errorf("%v", err)
		}
	})
}

// A sum in bfloat16 is the same bits on all ranks, and as near to the sum as the rounding of each
// value and of the sum leaves it: 2^-8 of the values' sizes, and 2^-8 of the sum.
func TestSumInBF16(t *testing.T) {
	const ranks, n = 3, 1000 // which 3 does not divide
	values, sums, want, size := make([][]float32, ranks), make([][]float32, ranks), make([]float64, n),
		make([]float64, n)
	for rank := range ranks {
		r := seed.Rand(1, "gradient", uint64(rank))
		for i := range n {
			v := float32(r.NormFloat64())
			values[rank] = append(values[rank], v)
			want[i] += float64(v)
			size[i] += math.Abs(float64(v))
		}
	}
	onRanks(ranks, func(g train.Group) {
		sums[g.Rank] = slices.Clone(values[g.Rank])
		if err := g.SumInBF16(sums[g.Rank]); err != nil {
			t.Error(err)
		}
	})
	exact := 0
	for i := range n {
		for _, other := range sums[1:] {
			if other[i] != sums[0][i] {
				t.Fatalf("value %d: %v on one rank, %v on another", i, sums[0][i], other[i])
			}
		}
		off := math.Abs(float64(sums[0][i]) - want[i])
		if limit := math.Ldexp(size[i]+math.Abs(want[i])+math.Ldexp(size[i], -8), -8) + 1e-6; off > limit {
			t.Errorf("value %d: %v, want %v to %.2g", i, sums[0][i], want[i], limit)
		}
		if off == 0 {
			exact++
		}
	}
	if exact > n/2 {
		t.Errorf("%d of %d sums are exact: nothing was rounded", exact, n)
	}
}

// broken is parameters of which a rank cannot read, or write, the second one.
type broken struct {
	*nn.Params
	reads, writes bool
}

var errBroken = errors.New("the device is gone")

func (b broken) ReadInto(name string, into []float32) ([]float32, error) {
	if b.reads && name == b.Names()[1] {
		return nil, errBroken
	}
	return b.Params.ReadInto(name, into)
}

func (b broken) Write(name string, values []float32) error {
	if b.writes && name == b.Names()[1] {
		return errBroken
	}
	return b.Params.Write(name, values)
}

// A device that fails while weights are handed on, or compared, fails on all ranks: none waits.
func TestDeviceFailsWhileWeightsAreSpread(t *testing.T) {
	for name, c := range map[string]struct {
		rank          int
		reads, writes bool
		do            func(train.Params, train.Group) error
	}{
		"reading on rank 0":   {0, true, false, train.SpreadState},
		"writing on rank 0":   {0, false, true, train.SpreadState},
		"writing on rank 1":   {1, false, true, train.SpreadState},
		"nowhere":             {-1, true, true, train.SpreadState},
		"comparing on rank 1": {1, true, false, train.SameWeights},
	} {
		params := []*nn.Params{layers(t), layers(t)}
		errs := make([]error, 2)
		ended := make(chan bool)
		go func() {
			onRanks(2, func(g train.Group) {
				mine := train.Params(params[g.Rank])
				if g.Rank == c.rank {
					mine = broken{params[g.Rank], c.reads, c.writes}
				}
				errs[g.Rank] = c.do(mine, g)
			})
			close(ended)
		}()
		select {
		case <-ended:
		case <-time.After(time.Minute):
			t.Fatalf("%s: a rank waits for ever", name)
		}
		for rank, err := range errs {
			switch elsewhere := new(train.ElsewhereError); {
			case c.rank < 0 && err != nil, rank == c.rank && !errors.Is(err, errBroken),
				c.rank >= 0 && rank != c.rank && !errors.As(err, elsewhere):
				t.Errorf("%s: rank %d has error %v", name, rank, err)
			}
		}
	}
}
