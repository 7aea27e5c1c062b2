// Package traintest is what tests of trainings share.
//
// Start at [Phantoms] and [CPU], made-up cases and a device to train on. [Ranks] are several ranks
// in one process, and [Equal] compares the checkpoints of runs.
package traintest

import (
	"math"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw/internal/safetensors"
	"github.com/voxsaw/voxsaw/internal/train"
)

// Ranks are n ranks in this process, for as many goroutines. Sums are formed in the order of the
// ranks, and so are the same bits on all.
func Ranks(n int) []train.Group {
	m := &meeting{parts: make([][]float32, n), left: n}
	m.all = sync.NewCond(&m.mutex)
	groups := make([]train.Group, n)
	for rank := range n {
		groups[rank] = train.Group{Rank: rank, Size: n, AllReduce: func(values []float32) error { m.reduce(rank, values); return nil }}
	}
	return groups
}

// meeting is where the ranks wait for each other.
type meeting struct {
	mutex sync.Mutex
	all   *sync.Cond
	parts [][]float32
	sum   []float32
	left  int // ranks that have not come yet
	round int
}

func (m *meeting) reduce(rank int, values []float32) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.parts[rank] = values
	if m.left--; m.left > 0 {
		for round := m.round; round == m.round; {
			m.all.Wait()
		}
	} else {
		m.sum = make([]float32, len(values))
		for _, part := range m.parts {
			for i, v := range part {
				m.sum[i] += v
			}
		}
		m.left = len(m.parts)
		m.round++
		m.all.Broadcast()
	}
	copy(values, m.sum)
}

// Equal compares all tensors of two checkpoints: the Euclidean norm of the differences of a tensor
// may be the tolerance times its own norm, or that of a tensor of its size whose elements are all
// 1e-3.
func Equal(t *testing.T, a, b string, tolerance float64) {
	t.Helper()
	x, y := open(t, a), open(t, b)
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

func open(t *testing.T, path string) map[string][]float32 {
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
