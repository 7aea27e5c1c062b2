package puzzle

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// greedy is Noroozi and Favaro's method from its definition: of all permutations the one whose
// distances to those taken have the largest minimum, or the largest sum.
func greedy(r *rand.Rand, n, k int, criterion string) Selection {
	var all Selection
	var list func(rest, c []int)
	list = func(rest, c []int) {
		if len(rest) == 0 {
			all = append(all, slices.Clone(c))
		}
		for i, p := range rest {
			list(slices.Concat(rest[:i], rest[i+1:]), append(slices.Clone(c), p))
		}
	}
	list(Identity(n), nil)
	chosen := Selection{all[r.IntN(len(all))]}
	for len(chosen) < k {
		best, at := -1, 0
		for i, c := range all {
			least, sum := math.MaxInt, 0
			for _, d := range chosen {
				least, sum = min(least, c.Distance(d)), sum+c.Distance(d)
			}
			score := least
			if criterion == MeanDistance {
				score = sum
			}
			if least > 0 && score > best {
				best, at = score, i
			}
		}
		chosen = append(chosen, all[at])
	}
	return chosen
}

func TestSelectIsTheGreedyMethod(t *testing.T) {
	for _, criterion := range []string{MinDistance, MeanDistance} {
		for _, size := range []struct{ n, k int }{{2, 2}, {3, 6}, {4, 10}, {4, 24}, {5, 30}} {
			got, err := Select(t.Context(), rand.New(rand.NewPCG(1, 2)), size.n, size.k, criterion)
			if err != nil {
				t.Fatal(err)
			}
			want := greedy(rand.New(rand.NewPCG(1, 2)), size.n, size.k, criterion)
			if err := got.Check(size.n); err != nil {
				t.Error(err)
			}
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%d of %d! by %s: %v, want %v", size.k, size.n, criterion, got, want)
			}
		}
	}
}

// Nine permutations of nine can differ everywhere (a Latin square). A larger set cannot, but no two
// of it are close, where of a random one some are.
func TestSelectKeepsApart(t *testing.T) {
	s, err := Select(t.Context(), rand.New(rand.NewPCG(3, 4)), 9, 300, MinDistance)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Check(9); err != nil {
		t.Fatal(err)
	}
	random := Selection{}
	for range 300 {
		random = append(random, Random(rand.New(rand.NewPCG(5, uint64(len(random)))), 9))
	}
	least, mean := distances(s)
	if unlucky, _ := distances(random); least < 5 || least <= unlucky {
		t.Errorf("the nearest two of 300 are %d apart, of random ones %d", least, unlucky)
	}
	if mean < 7.5 || mean > 9 {
		t.Errorf("mean distance %v", mean)
	}
	many, err := Select(t.Context(), rand.New(rand.NewPCG(3, 4)), 27, 20, MinDistance)
	if err != nil {
		t.Fatal(err)
	}
	if least, _ := distances(many); least < 25 {
		t.Errorf("20 of 27!: nearest two %d apart", least)
	}
}

func TestSelectionChanceIsCounted(t *testing.T) {
	s, err := Select(t.Context(), rand.New(rand.NewPCG(1, 2)), 4, 17, MeanDistance)
	if err != nil {
		t.Fatal(err)
	}
	var score Score
	for _, truth := range s {
		for _, answer := range s {
			score.Add(answer, truth)
		}
	}
	wantCorrect, wantNear, wantPatches := score.Shares()
	correct, near, patches := s.Chance()
	for _, pair := range [][2]float64{{correct, wantCorrect}, {near, wantNear}, {patches, wantPatches}} {
		if math.Abs(pair[0]-pair[1]) > 1e-12 {
			t.Errorf("chance %v %v %v, counted %v %v %v", correct, near, patches, wantCorrect, wantNear, wantPatches)
		}
	}
}

func TestSelectRefuses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, bad := range []struct {
		n, k      int
		criterion string
	}{{9, 1, MinDistance}, {3, 7, MinDistance}, {1, 2, MinDistance}, {300, 2, MinDistance}, {9, 10, "max"}} {
		if s, err := Select(t.Context(), r, bad.n, bad.k, bad.criterion); err == nil {
			t.Errorf("%+v: %v", bad, s)
		}
	}
}

// numPy is a file as numpy.save writes it (NumPy 1.24: save(f, array([[1,0,2],[2,1,0]], dtype))).
func numPy(dtype, shape string, values string) string {
	header := "{'descr': '" + dtype + "', 'fortran_order': False, 'shape': " + shape + ", }"
	header += strings.Repeat(" ", 117-len(header)) + "\n"
	return "\x93NUMPY\x01\x00\x76\x00" + header + values
}

func TestReadSelection(t *testing.T) {
	want := Selection{{1, 0, 2}, {2, 1, 0}}
	contextFree := "\x02\x00\x00\x00\x03\x00\x00\x00" + "\x02\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00" +
		"\x03\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00"
	for name, file := range map[string]string{
		"context free, from 1": contextFree,
		"int8":                 numPy("|i1", "(2, 3)", "\x01\x00\x02\x02\x01\x00"),
		"int64": numPy("<i8", "(2, 3)",
			"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00"+
				"\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
	} {
		got, err := ReadSelection(strings.NewReader(file))
		if err != nil || !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
	for name, file := range map[string]string{
		"empty":          "",
		"cut off":        contextFree[:len(contextFree)-1],
		"huge":           "\xff\xff\xff\x7f\xff\xff\xff\x7f",
		"negative":       "\xff\xff\xff\xff\x03\x00\x00\x00",
		"not one":        strings.Replace(contextFree, "\x02\x00\x00\x00\x01", "\x01\x00\x00\x00\x01", 1),
		"floats":         numPy("<f4", "(2, 3)", strings.Repeat("\x00", 24)),
		"header cut off": "\x93NUMPY\x01\x00\xff\xff{}",
		"twice the same": numPy("|i1", "(2, 3)", "\x01\x00\x02\x01\x00\x02"),
		"one":            numPy("|i1", "(1, 3)", "\x01\x00\x02"),
	} {
		if got, err := ReadSelection(strings.NewReader(file)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func FuzzReadSelection(f *testing.F) {
	f.Add([]byte(numPy("|i1", "(2, 3)", "\x01\x00\x02\x02\x01\x00")))
	f.Add([]byte("\x02\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := ReadSelection(bytes.NewReader(data)); err == nil && s.Check(len(s[0])) != nil {
			t.Errorf("%v", s)
		}
	})
}

func BenchmarkSelect(b *testing.B) {
	for b.Loop() {
		if _, err := Select(b.Context(), rand.New(rand.NewPCG(3, 4)), 9, 1000, MinDistance); err != nil {
			b.Fatal(err)
		}
	}
}

// Thousands of configurations take minutes to choose: whoever asks for an end gets it at once.
func TestSelectEnds(t *testing.T) {
	for _, n := range []int{9, 27} {
		for _, criterion := range []string{MinDistance, MeanDistance} {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			began := time.Now()
			if _, err := Select(ctx, rand.New(rand.NewPCG(1, 2)), n, 10000, criterion); !errors.Is(err,
				context.DeadlineExceeded) {
				t.Errorf("%d patches by %s: %v", n, criterion, err)
			}
			cancel()
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("%d patches by %s: ended after %v", n, criterion, took)
			}
		}
	}
}

// distances are the smallest and the mean Hamming distance of two of the set.
func distances(s Selection) (smallest int, mean float64) {
	smallest = math.MaxInt
	sum, pairs := 0, 0
	for i, c := range s {
		for _, d := range s[:i] {
			distance := c.Distance(d)
			smallest, sum, pairs = min(smallest, distance), sum+distance, pairs+1
		}
	}
	return smallest, float64(sum) / float64(pairs)
}
