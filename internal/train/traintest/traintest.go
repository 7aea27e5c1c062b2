// Package traintest is what tests of trainings share.
//
// Start at [Phantoms] and [CPU], made-up cases and a device to train on. [Ranks] are several ranks
// in one process, and [Equal] compares the checkpoints of runs.
package traintest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/safetensors"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Ranks are n ranks in this process, for as many goroutines. Sums are formed in the order of the
// ranks, and so are the same bits on all.
func Ranks(n int) []train.Group {
	var groups []train.Group
	for _, r := range Of(n) {
		groups = append(groups, train.GroupOf(voxsaw.RunOptions{Ranks: r}))
	}
	return groups
}

// Both does a part of a training on each of two ranks of this process, at the same time.
func Both(t testing.TB, part func(rank int, group train.Group) error) {
	t.Helper()
	errs := make([]error, 2)
	var all sync.WaitGroup
	for rank, group := range Ranks(2) {
		all.Go(func() { errs[rank] = part(rank, group) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// Of is the same ranks as the options of a run name them.
func Of(n int) []voxsaw.Ranks {
	m := &meeting{parts: make([]any, n), left: n}
	m.all = sync.NewCond(&m.mutex)
	var ranks []voxsaw.Ranks
	for number := range n {
		ranks = append(ranks, rank{m, number})
	}
	return ranks
}

// Alike is rank 0 of n, all of which do what it does: for what it finds wrong by itself.
func Alike(n int) train.Group { return train.GroupOf(voxsaw.RunOptions{Ranks: alike(n)}) }

type alike int

func (n alike) Rank() int { return 0 }

func (n alike) Size() int { return int(n) }

func (n alike) Name(rank int) string { return fmt.Sprintf("rank %d", rank) }

func (n alike) Sum(values []float32) error {
	for i := range values {
		values[i] *= float32(n)
	}
	return nil
}

func (n alike) Broadcast([]byte) error { return nil }

func (n alike) Exchange(mine, theirs []byte) error {
	copy(theirs, bytes.Repeat(mine[:len(mine)/int(n)], int(n)))
	return nil
}

func (n alike) Gather(mine []byte) ([][]byte, error) {
	return slices.Repeat([][]byte{mine}, int(n)), nil
}

// meeting is where the ranks wait for each other.
type meeting struct {
	mutex  sync.Mutex
	all    *sync.Cond
	parts  []any // of those that have come
	result []any // of the last time that all had
	left   int   // ranks that have not come yet
	round  int
}

// meet gives every rank the parts of all.
func (m *meeting) meet(rank int, part any) []any {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.parts[rank] = part
	if m.left--; m.left > 0 {
		for round := m.round; round == m.round; {
			m.all.Wait()
		}
		return m.result
	}
	m.result, m.left = slices.Clone(m.parts), len(m.parts)
	m.round++
	m.all.Broadcast()
	return m.result
}

// rank is one rank; it implements [voxsaw.Ranks].
type rank struct {
	*meeting
	number int
}

func (r rank) Rank() int { return r.number }

func (r rank) Size() int { return len(r.parts) }

func (r rank) Name(n int) string { return fmt.Sprintf("rank %d (here)", n) }

func (r rank) Sum(values []float32) error {
	all := r.meet(r.number, slices.Clone(values))
	clear(values)
	for _, part := range all {
		for i, v := range part.([]float32) {
			values[i] += v
		}
	}
	return nil
}

func (r rank) Broadcast(data []byte) error {
	copy(data, r.meet(r.number, slices.Clone(data))[0].([]byte))
	return nil
}

func (r rank) Exchange(mine, theirs []byte) error {
	n := len(mine) / r.Size()
	for from, part := range r.meet(r.number, slices.Clone(mine)) {
		copy(theirs[from*n:], part.([]byte)[r.number*n:][:n])
	}
	return nil
}

func (r rank) Gather(mine []byte) (all [][]byte, err error) {
	for _, part := range r.meet(r.number, slices.Clone(mine)) {
		all = append(all, part.([]byte))
	}
	return all, nil
}

// SameFiles wants the same bytes of some files in two folders.
func SameFiles(t testing.TB, a, b string, names ...string) {
	t.Helper()
	for _, name := range names {
		first, err := os.ReadFile(filepath.Join(a, name))
		if err != nil {
			t.Fatal(err)
		}
		second, err := os.ReadFile(filepath.Join(b, name))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(first, second) {
			t.Errorf("%s is not the same in %s and %s", name, a, b)
		}
	}
}

// Equal compares all tensors of two checkpoints: the Euclidean norm of the differences of a tensor
// may be the tolerance times its own norm, or that of a tensor of its size whose elements are all
// 1e-3.
func Equal(t *testing.T, a, b string, tolerance float64) {
	t.Helper()
	x, y := Tensors(t, a), Tensors(t, b)
	if len(x) != len(y) || len(x) == 0 {
		t.Errorf("%d tensors in %s, %d in %s", len(x), a, len(y), b)
	}
	worst, where := 0.0, ""
	for name, v := range x {
		w := y[name]
		if len(v) != len(w) {
			t.Errorf("%s: %d elements and %d", name, len(v), len(w))
			continue
		}
		difference, size := 0.0, 1e-6*float64(len(v))
		for i := range v {
			d := float64(v[i]) - float64(w[i])
			difference += d * d
			size += float64(v[i]) * float64(v[i])
		}
		if d := math.Sqrt(difference / size); !(d <= worst) {
			worst, where = d, name
		}
	}
	t.Logf("relative difference of %.1g at most, of %s", worst, where)
	if !(worst <= tolerance) {
		t.Errorf("%s differs by %.2g, relative to its norm; %.2g is allowed", where, worst, tolerance)
	}
}

// Close compares the weights of two checkpoints as a whole: the Euclidean norm of their difference
// may be the tolerance times their own norm. What only resumed runs need is passed over.
func Close(t *testing.T, a, b string, tolerance float64) {
	t.Helper()
	x, y := Tensors(t, a), Tensors(t, b)
	difference, size := 0.0, 0.0
	for name, v := range x {
		w := y[name]
		if len(v) != len(w) {
			t.Errorf("%s: %d elements and %d", name, len(v), len(w))
			continue
		}
		if strings.HasPrefix(name, checkpoint.StatePrefix) {
			continue
		}
		for i := range v {
			d := float64(v[i]) - float64(w[i])
			difference += d * d
			size += float64(v[i]) * float64(v[i])
		}
	}
	d := math.Sqrt(difference / size)
	t.Logf("difference of the weights relative to their norm: %.2g", d)
	if !(d <= tolerance) {
		t.Errorf("the weights differ by %.2g, relative to their norm; %.2g is allowed", d, tolerance)
	}
}

// Tensors reads a checkpoint, or another file of tensors, whole.
func Tensors(t testing.TB, path string) map[string][]float32 {
	t.Helper()
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string][]float32{}
	for _, name := range f.Names() {
		if all[name], err = f.Read(name); err != nil {
			t.Fatal(err)
		}
	}
	return all
}
