package mpi

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// together is an MPI library for n goroutines of one process.
type together struct {
	mutex   sync.Mutex
	changed *sync.Cond
	n, left int
	round   int
	parts   []any
	result  []any
}

func newTogether(n int) *together {
	t := &together{n: n, left: n, parts: make([]any, n)}
	t.changed = sync.NewCond(&t.mutex)
	return t
}

// meet hands every rank's part to all.
func (t *together) meet(rank int, part any) []any {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.parts[rank] = part
	if t.left--; t.left == 0 {
		t.result, t.left = slices.Clone(t.parts), t.n
		t.round++
		t.changed.Broadcast()
		return t.result
	}
	for round := t.round; round == t.round; {
		t.changed.Wait()
	}
	return t.result
}

// member is one rank of it.
type member struct {
	*together
	rank int
}

func (m member) start() (int, int, error) { return m.rank, m.n, nil }
func (member) describe() string           { return "goroutines" }
func (member) stop() error                { return nil }

func (m member) sum(values []float32) error {
	all := m.meet(m.rank, slices.Clone(values))
	clear(values)
	for _, part := range all {
		for i, v := range part.([]float32) {
			values[i] += v
		}
	}
	return nil
}

func (m member) broadcast(data []byte) error {
	copy(data, m.meet(m.rank, slices.Clone(data))[0].([]byte))
	return nil
}

func (m member) exchange(mine, theirs []byte) error {
	n := len(mine) / m.n
	for rank, part := range m.meet(m.rank, slices.Clone(mine)) {
		copy(theirs[rank*n:], part.([]byte)[m.rank*n:][:n])
	}
	return nil
}

func (m member) gather(mine, all []byte) error {
	for rank, part := range m.meet(m.rank, slices.Clone(mine)) {
		copy(all[rank*len(mine):], part.([]byte))
	}
	return nil
}

// worlds joins n ranks.
func worlds(t *testing.T, n int) []*World {
	t.Helper()
	patience, err := patienceOf(os.Getenv(PatienceVariable))
	if err != nil {
		t.Fatal(err)
	}
	lib, all, errs := newTogether(n), make([]*World, n), make([]error, n)
	each(n, func(rank int) {
		all[rank], errs[rank] = join(Launch{Ranks: n, By: "a test"}, member{lib, rank}, patience)
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return all
}

func each(n int, f func(rank int)) {
	var wait sync.WaitGroup
	for rank := range n {
		wait.Go(func() { f(rank) })
	}
	wait.Wait()
}

func TestCollectives(t *testing.T) {
	all := worlds(t, 3)
	each(3, func(rank int) {
		w := all[rank]
		values := []float32{float32(rank), 1}
		data := []byte(fmt.Sprintf("of %d", rank))
		mine, theirs := []byte{byte(10 * rank), byte(10*rank + 1), byte(10*rank + 2)}, make([]byte, 3)
		err := errors.Join(w.Sum(values), w.Broadcast(data), w.Exchange(mine, theirs))
		if want := []byte{byte(rank), byte(10 + rank), byte(20 + rank)}; !slices.Equal(theirs, want) {
			t.Errorf("rank %d was given %v, want %v", rank, theirs, want)
		}
		if w.Exchange(mine[:2], theirs[:2]) == nil {
			t.Error("two bytes were divided over three ranks")
		}
		gathered, errGather := w.Gather([]byte(strings.Repeat("x", rank)))
		if err := errors.Join(err, errGather); err != nil {
			t.Error(err)
		}
		if !slices.Equal(values, []float32{3, 3}) || string(data) != "of 0" {
			t.Errorf("rank %d: sum %v, broadcast %q", rank, values, data)
		}
		for other, text := range gathered {
			if string(text) != strings.Repeat("x", other) {
				t.Errorf("rank %d has gathered %q of rank %d", rank, text, other)
			}
		}
		place, err := w.Place()
		if err != nil || place.OnHost != 3 || place.Cores < 1 {
			t.Errorf("rank %d: %+v, %v", rank, place, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A library of another launcher starts, and sees a single rank.
func TestTheLaunchersCountMustBeTheLibrarys(t *testing.T) {
	_, err := join(Launch{Ranks: 4, By: "PMI_SIZE=4"}, member{newTogether(1), 0}, time.Second)
	if err == nil || !strings.Contains(err.Error(), "started 4 ranks (PMI_SIZE=4)") ||
		!strings.Contains(err.Error(), "sees 1") {
		t.Errorf("%v", err)
	}
}

// said is what the ranks print, and with which codes they end.
type said struct {
	sync.Mutex
	lines []string
	codes map[int]int
}

func (s *said) print(w *World) func(int, Failure) {
	return func(rank int, f Failure) {
		s.Lock()
		defer s.Unlock()
		if f.Message != "" {
			s.lines = append(s.lines, fmt.Sprintf("rank %d prints of rank %d: %s", w.Rank(), rank, f.Message))
		}
	}
}

func (s *said) exit(w *World, ended chan<- struct{}) func(int) {
	return func(code int) {
		s.Lock()
		defer s.Unlock()
		if _, before := s.codes[w.Rank()]; !before { // a process ends once
			s.codes[w.Rank()] = code
			ended <- struct{}{}
		}
	}
}

// watched lets three ranks watch each other while one or more of them does something.
func watched(t *testing.T, ends int, work func(rank int, w *World, s *said)) *said {
	t.Helper()
	t.Setenv(PatienceVariable, "2s")
	all, s := worlds(t, 3), &said{codes: map[int]int{}}
	ended := make(chan struct{}, 3)
	for _, w := range all {
		w.Watch(s.print(w), s.exit(w, ended))
	}
	each(3, func(rank int) { work(rank, all[rank], s) })
	for range ends {
		select {
		case <-ended:
		case <-time.After(20 * time.Second):
			t.Fatalf("the ranks have not ended: %v", s.codes)
		}
	}
	s.Lock()
	defer s.Unlock()
	return s
}

func TestOneRankFails(t *testing.T) {
	s := watched(t, 2, func(rank int, w *World, s *said) {
		if rank == 2 {
			if code := w.Fail(Failure{Message: "no such case", Code: 7}, s.print(w)); code != 7 {
				t.Errorf("rank 2 ends with %d", code)
			}
		}
	})
	if len(s.lines) != 1 || s.lines[0] != "rank 0 prints of rank 2: no such case" || s.codes[0] != 7 ||
		s.codes[1] != 7 {
		t.Errorf("%q, codes %v", s.lines, s.codes)
	}
}

// What all ranks find out, rank 0 says.
func TestAllRanksFail(t *testing.T) {
	s := watched(t, 0, func(rank int, w *World, s *said) {
		if code := w.Fail(Failure{Message: "a mistake", Code: 2}, s.print(w)); code != 2 {
			t.Errorf("rank %d ends with %d", rank, code)
		}
	})
	if len(s.lines) != 1 || s.lines[0] != "rank 0 prints of rank 0: a mistake" {
		t.Errorf("%q", s.lines)
	}
}

// A rank whose process ends, and one that is only silent.
func TestARankIsGone(t *testing.T) {
	for name, leave := range map[string]func(*line){
		"its process has ended":            func(l *line) { l.Close() },
		"nothing was heard of it for 2s: ": func(l *line) { l.writing.Lock() }, // it says no more
	} {
		t.Run(name, func(t *testing.T) {
			s := watched(t, 1, func(rank int, w *World, _ *said) {
				if rank > 0 { // it would end, too
					w.watch.mutex.Lock()
					w.watch.leaving = true
					w.watch.mutex.Unlock()
				}
				if rank == 1 {
					leave(w.watch.lines[0])
				}
			})
			if len(s.lines) != 1 || !strings.Contains(s.lines[0], "rank 0 prints of rank 1: the job ends: "+name) ||
				s.codes[0] != 1 {
				t.Errorf("%q, codes %v", s.lines, s.codes)
			}
		})
	}
}

// Ranks 0 and 1 are gone together, as with their host: rank 2 says so, and of rank 0.
func TestTwoRanksAreGone(t *testing.T) {
	s := watched(t, 1, func(rank int, w *World, _ *said) {
		if rank < 2 {
			w.watch.mutex.Lock()
			w.watch.leaving = true
			w.watch.mutex.Unlock()
		}
		if rank == 0 {
			w.watch.lines[2].writing.Lock() // it says no more
		}
	})
	if len(s.lines) != 1 || !strings.Contains(s.lines[0],
		"rank 2 prints of rank 0: the job ends: nothing was heard of it for 2s") || s.codes[2] != 1 {
		t.Errorf("%q, codes %v", s.lines, s.codes)
	}
}

// A rank that was stopped and is woken finds that the others have left. It does not blame them.
func TestAStoppedRankKnowsIt(t *testing.T) {
	var left sync.WaitGroup
	left.Add(2)
	s := watched(t, 1, func(rank int, w *World, _ *said) {
		w.watch.mutex.Lock()
		if w.watch.leaving = rank > 0; !w.watch.leaving {
			w.watch.pulse = time.Now().Add(-5 * time.Second)
		}
		w.watch.mutex.Unlock()
		if rank > 0 {
			left.Done()
			return
		}
		left.Wait()
		w.watch.lines[1].Close()
	})
	if len(s.lines) != 1 ||
		s.lines[0] != "rank 0 prints of rank 0: the job ends: the process of rank 0 did not "+
			"run for 5s: it was stopped, or its host was" || s.codes[0] != 1 {
		t.Errorf("%q, codes %v", s.lines, s.codes)
	}
}

// A rank that was late because its machine is busy, or was stopped once, long before, blames the
// rank that is gone.
func TestALateRankBlamesTheOther(t *testing.T) {
	for name, before := range map[string]func(v *watch){
		"late":         func(v *watch) { v.pulse = time.Now().Add(-v.patience * 3 / 5) },
		"stopped once": func(v *watch) { v.stopped, v.woken = 5*time.Second, time.Now().Add(-2*v.patience) },
	} {
		t.Run(name, func(t *testing.T) {
			var left sync.WaitGroup
			left.Add(2)
			s := watched(t, 1, func(rank int, w *World, _ *said) {
				w.watch.mutex.Lock()
				if w.watch.leaving = rank > 0; !w.watch.leaving {
					before(w.watch)
				}
				w.watch.mutex.Unlock()
				if rank > 0 {
					left.Done()
					return
				}
				left.Wait()
				w.watch.lines[1].Close()
			})
			if len(s.lines) != 1 || !strings.Contains(s.lines[0], "rank 0 prints of rank 1: the job ends: ") {
				t.Errorf("%q, codes %v", s.lines, s.codes)
			}
		})
	}
}

func TestLaunchers(t *testing.T) {
	for name, c := range map[string]struct {
		env        map[string]string
		ranks      int
		candidates string
		fails      bool
	}{
		"none": {ranks: 1, candidates: "libmpi_abi.so.1 libmpich.so.12 libmpi.so.12 libmpi.so.40"},
		"Open MPI": {env: map[string]string{"OMPI_COMM_WORLD_SIZE": "4"}, ranks: 4,
			candidates: "libmpi.so.40"},
		"Hydra": {env: map[string]string{"PMI_SIZE": "2", "PMI_RANK": "1"}, ranks: 2,
			candidates: "libmpi_abi.so.1 libmpich.so.12 libmpi.so.12"},
		"mpirun in a Slurm step": {env: map[string]string{"OMPI_COMM_WORLD_SIZE": "4", "SLURM_STEP_NUM_TASKS": "2"},
			ranks: 4, candidates: "libmpi.so.40"},
		"srun with PMIx": {env: map[string]string{"SLURM_STEP_NUM_TASKS": "3", "PMIX_NAMESPACE": "x"}, ranks: 3,
			candidates: "libmpi.so.40"},
		"a library by name": {env: map[string]string{"PMI_SIZE": "2", "VOXSAW_MPI": "/x/libmpi.so"}, ranks: 2,
			candidates: "/x/libmpi.so"},
		"each on its own": {env: map[string]string{"PMI_SIZE": "2", "VOXSAW_MPI": "none"}, ranks: 1,
			candidates: "libmpi_abi.so.1 libmpich.so.12 libmpi.so.12 libmpi.so.40"},
		"no number": {env: map[string]string{"PMI_SIZE": "two"}, fails: true},
	} {
		l, err := Launched(func(v string) string { return c.env[v] })
		if (err != nil) != c.fails {
			t.Errorf("%s: %v", name, err)
		}
		if err == nil && (l.Ranks != c.ranks || strings.Join(l.candidates(), " ") != c.candidates) {
			t.Errorf("%s: %d ranks, %v", name, l.Ranks, l.candidates())
		}
		if refused := Need(l) != nil; refused != (!Compiled && c.ranks > 1) {
			t.Errorf("%s: refused: %v", name, refused)
		}
	}
}

// Each core is divided among the ranks that are bound to it, also where they are bound to others.
func TestCoresOfARank(t *testing.T) {
	for _, c := range []struct {
		onHost []string
		want   []int
	}{
		{[]string{"0, 1, 2, 3"}, []int{4}},
		{[]string{"0, 1", "2, 3"}, []int{2, 2}},
		{[]string{"0, 1, 2, 3", "0, 1, 2, 3"}, []int{2, 2}},
		{[]string{"0", "0", "0"}, []int{1, 1, 1}},
		{[]string{"0, 1, 2, 3", "2, 3, 4, 5"}, []int{3, 3}},            // two whole and two halves
		{[]string{"0, 1, 2, 3, 4, 5", "4, 5", "4, 5"}, []int{4, 1, 1}}, // four whole and two thirds
		{[]string{"0, 1, 2", "0, 1, 2", "0, 1, 2"}, []int{1, 1, 1}},    // three thirds are one
	} {
		for rank, want := range c.want {
			if got := coresOf(rank, c.onHost); got != want {
				t.Errorf("rank %d of %q has %d cores, want %d", rank, c.onHost, got, want)
			}
		}
	}
}
