package solver

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
)

// uniform is the formula of testdata/solver.py.
func uniform(seed uint64, n int) []float64 {
	u := make([]float64, n*n)
	for k := range u {
		z := (seed<<32 + uint64(k)) * 0x9e3779b97f4a7c15
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		u[k] = float64((z^z>>31)>>11) * 0x1p-53
	}
	return u
}

func matrix(kind string, seed uint64, n int) []float64 {
	c := uniform(seed, n)
	for k, u := range c {
		i, j := k/n, k%n
		switch kind {
		case "ties":
			c[k] = math.Floor(u * 5)
		case "product":
			c[k] = float64(i+1) * float64(j+1)
		case "likely":
			c[k] = 8 * u
			if (7*i+3)%n == j {
				c[k] -= 9
			}
		case "negative":
			c[k] = 1000*u - 2000
		case "forbidden":
			if u > 0.3 && i != j {
				c[k] = math.Inf(1)
			}
		}
	}
	return c
}

// bruteForce is the least cost over all n! assignments.
func bruteForce(cost []float64, n int) float64 {
	best := math.Inf(1)
	used := make([]bool, n)
	var place func(i int, sum float64)
	place = func(i int, sum float64) {
		if i == n {
			best = min(best, sum)
			return
		}
		for j := range n {
			if !used[j] {
				used[j] = true
				place(i+1, sum+cost[i*n+j])
				used[j] = false
			}
		}
	}
	place(0, 0)
	return best
}

func checkPermutation(t *testing.T, answer []int) {
	t.Helper()
	sorted := slices.Sorted(slices.Values(answer))
	for i, j := range sorted {
		if i != j {
			t.Fatalf("%v is not a permutation", answer)
		}
	}
}

func TestAssignEqualsBruteForce(t *testing.T) {
	var s Solver
	for n := 1; n <= 8; n++ {
		repeats := 200
		if n > 6 {
			repeats = 12
		}
		for _, kind := range []string{"uniform", "ties", "product", "likely", "negative", "forbidden"} {
			for seed := range uint64(repeats) {
				cost, answer := matrix(kind, seed, n), make([]int, n)
				got, err := s.Assign(answer, cost)
				if err != nil {
					t.Fatal(err)
				}
				checkPermutation(t, answer)
				// Sums of eight numbers below 2000 in another order: a few units in the last place.
				if want := bruteForce(cost, n); math.Abs(got-want) > 1e-11*max(1, math.Abs(want)) {
					t.Fatalf("n = %d, %s, seed %d: cost %v, brute force finds %v", n, kind, seed, got, want)
				}
			}
		}
	}
}

func TestAssignEqualsSciPy(t *testing.T) {
	data, err := os.ReadFile("../../testdata/solver.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden []struct {
		Kind string
		Seed uint64
		N    int
		Cost float64
	}
	if err := json.Unmarshal(data, &golden); err != nil || len(golden) == 0 {
		t.Fatalf("%d golden costs: %v", len(golden), err)
	}
	var s Solver
	for _, g := range golden {
		answer := make([]int, g.N)
		got, err := s.Assign(answer, matrix(g.Kind, g.Seed, g.N))
		if err != nil {
			t.Fatal(err)
		}
		checkPermutation(t, answer)
		// Up to 1000 numbers are added in different orders, so rounding may differ in the last
		// places.
		if math.Abs(got-g.Cost) > 1e-12*max(1, math.Abs(g.Cost)) {
			t.Errorf("n = %d, %s, seed %d: cost %.17g, scipy finds %.17g", g.N, g.Kind, g.Seed, got, g.Cost)
		}
	}
}

func TestAssignRefusesWhatIsNoCost(t *testing.T) {
	var s Solver
	inf := math.Inf(1)
	for name, cost := range map[string][]float64{
		"NaN":           {0, 1, math.NaN(), 3},
		"-Inf":          {0, 1, 2, -inf},
		"too large":     {0, 1, 0x1p512, 3},
		"NaN and +Inf":  {0, inf, math.NaN(), 3},
		"large negated": {0, -0x1p600, 2, 3},
	} {
		var wrong *CostError
		if _, err := s.Assign(make([]int, 2), cost); !errors.As(err, &wrong) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	for name, cost := range map[string][]float64{
		"all":        {inf, inf, inf, inf},
		"one row":    {inf, inf, 1, 2},
		"one column": {inf, 1, inf, 2},
		"hidden":     {1, inf, inf, 2, inf, inf, 3, 4, 5},
	} {
		n := int(math.Sqrt(float64(len(cost))))
		if _, err := s.Assign(make([]int, n), cost); !errors.Is(err, ErrInfeasible) {
			t.Errorf("%s forbidden: error %v", name, err)
		}
	}
	if _, err := s.Assign(make([]int, 2), make([]float64, 5)); err == nil {
		t.Error("five costs passed for two rows")
	}
	if cost, err := s.Assign(nil, nil); cost != 0 || err != nil {
		t.Error("the empty problem is not free")
	}
	// Large but legal: the second best is dearer by less than the costs' rounding would hide.
	answer := make([]int, 2)
	if cost, err := s.Assign(answer, []float64{0x1p511, inf, 0x1p511, 0x1p511}); err != nil || cost != 0x1p512 {
		t.Errorf("large costs: %v, %v", cost, err)
	}
}

// Costs that are equal up to rounding made early implementations of augmenting row reduction run
// for ever.
func TestAssignEndsOnNearTies(t *testing.T) {
	var s Solver
	r := rand.New(rand.NewPCG(5, 5))
	for range 300 {
		n := 2 + r.IntN(40)
		cost := make([]float64, n*n)
		for i := range cost {
			cost[i] = 1e6 + float64(r.IntN(3))*1e-10 + r.Float64()*1e-13
		}
		answer := make([]int, n)
		if _, err := s.Assign(answer, cost); err != nil {
			t.Fatal(err)
		}
		checkPermutation(t, answer)
	}
}

func TestAssignDependsOnlyOnTheCosts(t *testing.T) {
	var used Solver
	for seed := range uint64(100) {
		n := 1 + int(seed)%30
		cost := matrix("ties", seed, n)
		a, b := make([]int, n), make([]int, n)
		if _, err := used.Assign(a, cost); err != nil {
			t.Fatal(err)
		}
		if _, err := new(Solver).Assign(b, cost); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(a, b) {
			t.Fatalf("a used solver answers %v, a new one %v", a, b)
		}
	}
}

func FuzzAssign(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 250, 6, 7, 8, 9})
	f.Add([]byte{255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		n := min(6, int(math.Sqrt(float64(len(data)))))
		cost := make([]float64, n*n)
		for i := range cost {
			switch b := data[i]; {
			case b == 255:
				cost[i] = math.Inf(1)
			case b == 254:
				cost[i] = math.NaN()
			default:
				cost[i] = float64(int(b)-100) / 3
			}
		}
		answer := make([]int, n)
		got, err := new(Solver).Assign(answer, cost)
		var wrong *CostError
		want := bruteForce(cost, n)
		switch {
		case slices.ContainsFunc(cost, math.IsNaN):
			if !errors.As(err, &wrong) {
				t.Fatalf("NaN: error %v", err)
			}
		case math.IsInf(want, 1):
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("infeasible: error %v", err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			checkPermutation(t, answer)
			if math.Abs(got-want) > 1e-9 {
				t.Fatalf("cost %v, brute force finds %v", got, want)
			}
		}
	})
}

func TestSolvingDoesNotAllocate(t *testing.T) {
	var s Solver
	cost, answer := matrix("uniform", 1, 27), make([]int, 27)
	if n := testing.AllocsPerRun(20, func() { s.Assign(answer, cost) }); n != 0 {
		t.Errorf("%v allocations a solve", n)
	}
}

func BenchmarkAssign(b *testing.B) {
	for _, kind := range []string{"uniform", "likely"} {
		for _, n := range []int{8, 27, 64, 216, 1000} {
			b.Run(fmt.Sprintf("%s/n=%d", kind, n), func(b *testing.B) {
				const different = 16
				var costs [different][]float64
				for i := range costs {
					costs[i] = matrix(kind, uint64(i), n)
				}
				var s Solver
				answer := make([]int, n)
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					if _, err := s.Assign(answer, costs[i%different]); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
