// Package mpi makes this process one rank of an MPI job: processes on one or more machines, started
// together by mpirun or srun, that train one network.
//
// Start at [Launched], which asks the environment whether a launcher has started several ranks, and
// at [Start], which joins them. A [World] sums numbers and hands bytes round. Beside MPI each rank
// keeps a TCP connection to rank 0 ([watch]): MPI itself waits for ever for a rank that has
// stopped, and has no way to hand over an error.
//
// The MPI library is opened when the program runs, without cgo, in builds under the tag mpi. Other
// builds know only whether they were started by a launcher. What is left out: point-to-point
// messages, and communicators other than the world. GPUs sum between themselves by NCCL, see
// device.Peers: MPI hands its id round.
package mpi

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/internal/numbers"
)

// A library is an open MPI library. One thread makes all calls.
type library interface {
	// start is MPI_Init_thread.
	start() (rank, size int, err error)
	// describe is the library's name and version.
	describe() string
	// sum replaces values by their sums over the ranks.
	sum(values []float32) error
	// broadcast replaces data by rank 0's, of the same length everywhere.
	broadcast(data []byte) error
	// exchange gives each rank its part of mine, of equal lengths, and fills theirs with what every
	// rank has given to this one.
	exchange(mine, theirs []byte) error
	// gather fills all with every rank's bytes, as many from each.
	gather(mine, all []byte) error
	// stop is MPI_Finalize.
	stop() error
}

// A World is the ranks of a job. Its methods are called in the same order on every rank. Those of
// one rank may come from any goroutine: a single thread passes them on to MPI.
type World struct {
	rank, size int
	library    string
	calls      chan func()
	lib        library
	hosts      []string // of each rank
	watch      *watch
}

// Start joins the ranks that the launcher has started. Where one of them cannot, the others find
// that out by nothing but the time: MPI waits for it.
func Start(ctx context.Context, launch Launch) (*World, error) {
	patience, err := patienceOf(os.Getenv(PatienceVariable))
	if err != nil {
		return nil, err
	}
	type outcome struct {
		world *World
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		// the text of an error that opening a library ends with is kept for the thread
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		lib, err := open(launch)
		if err != nil {
			done <- outcome{err: err}
			return
		}
		w, err := join(launch, lib, patience)
		done <- outcome{w, err}
	}()
	joining := joiningTimes * patience
	select {
	case o := <-done:
		return o.world, o.err
	case <-ctx.Done():
		return nil, fmt.Errorf("waiting for the other ranks: %w", context.Cause(ctx))
	case <-time.After(joining):
		return nil,
			fmt.Errorf("the ranks have not found each other in %v: one of %d (%s) may have ended before it joined, "+
				"and told why. %s sets a quarter of this time", joining, launch.Ranks, launch.By, PatienceVariable)
	}
}

// joiningTimes is how many times the patience with a silent rank the start of a job may take: ranks
// are not all started at the same moment.
const joiningTimes = 4

func join(launch Launch, lib library, patience time.Duration) (*World, error) {
	w := &World{lib: lib, calls: make(chan func())}
	go func() {
		runtime.LockOSThread() // MPI is to be called by the thread that began it
		for call := range w.calls {
			call()
		}
	}()
	err := w.call(func() (err error) {
		w.rank, w.size, err = lib.start()
		w.library = lib.describe()
		return err
	})
	if err != nil {
		return nil, err
	}
	if launch.Told() && launch.Ranks != w.size {
		return nil, fmt.Errorf("the launcher started %d ranks (%s), but %s sees %d: that library "+
			"belongs to another launcher. Name the right one, VOXSAW_MPI=FILE, or give srun "+
			"the plug-in that fits, such as --mpi=pmi2",
			launch.Ranks, launch.By, w.library, w.size)
	}
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	hosts, err := w.Gather([]byte(host))
	if err != nil {
		return nil, err
	}
	for _, h := range hosts {
		w.hosts = append(w.hosts, string(h))
	}
	if w.watch, err = w.newWatch(patience); err != nil {
		return nil, err
	}
	return w, nil
}

// call lets MPI's thread do something, and waits for it.
func (w *World) call(f func() error) (err error) {
	done := make(chan struct{})
	w.calls <- func() { err = f(); close(done) }
	<-done
	return err
}

// Rank is the number of this rank, from 0.
func (w *World) Rank() int { return w.rank }

// Size is how many ranks there are.
func (w *World) Size() int { return w.size }

// Library is the name and version of the MPI library.
func (w *World) Library() string { return w.library }

// Hosts are the names of the ranks' machines.
func (w *World) Hosts() []string { return w.hosts }

// Name tells a person which rank is meant, and where it runs.
func (w *World) Name(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, w.hosts[rank]) }

// longest is how many elements a single call may have: MPI counts with 32 bits.
const longest = 1 << 30

// Sum replaces values by their sums over the ranks: the same bits on every rank.
func (w *World) Sum(values []float32) error {
	return w.call(func() error { return inPieces(values, w.lib.sum) })
}

// Broadcast replaces data by rank 0's, of the same length on every rank.
func (w *World) Broadcast(data []byte) error {
	return w.call(func() error { return inPieces(data, w.lib.broadcast) })
}

func inPieces[T any](values []T, f func([]T) error) error {
	for piece := range slices.Chunk(values, longest) {
		if err := f(piece); err != nil {
			return err
		}
	}
	return nil
}

// Exchange implements [voxsaw.Ranks].
func (w *World) Exchange(mine, theirs []byte) error {
	if len(mine) != len(theirs) || len(mine)%w.size != 0 || len(mine) >= longest {
		return fmt.Errorf("%d and %d bytes cannot be exchanged by %d ranks", len(mine), len(theirs), w.size)
	}
	return w.call(func() error { return w.lib.exchange(mine, theirs) })
}

// Gather gives every rank the bytes of all, of any length.
func (w *World) Gather(mine []byte) (all [][]byte, err error) {
	err = w.call(func() error {
		all, err = gatherAny(w.lib, w.size, mine)
		return err
	})
	return all, err
}

// gatherAny gathers the lengths first, and then as many bytes from each as the longest has.
func gatherAny(lib library, size int, mine []byte) ([][]byte, error) {
	if len(mine) >= longest/size {
		return nil, fmt.Errorf("%d bytes from each of %d ranks are too many to gather", len(mine), size)
	}
	var length [4]byte
	for i := range length {
		length[i] = byte(len(mine) >> (8 * i))
	}
	told := make([]byte, 4*size)
	if err := lib.gather(length[:], told); err != nil {
		return nil, err
	}
	lengths, most := make([]int, size), 1
	for rank := range size {
		for i := range length {
			lengths[rank] |= int(told[4*rank+i]) << (8 * i)
		}
		most = max(most, lengths[rank])
	}
	if most >= longest/size {
		return nil, fmt.Errorf("%d bytes from each of %d ranks are too many to gather", most, size)
	}
	packed, flat := make([]byte, most), make([]byte, most*size)
	copy(packed, mine)
	if err := lib.gather(packed, flat); err != nil {
		return nil, err
	}
	all := make([][]byte, size)
	for rank := range size {
		all[rank] = flat[most*rank:][:lengths[rank]]
	}
	return all, nil
}

// Close leaves the job. Every rank calls it, once nothing can go wrong any more.
func (w *World) Close() error {
	w.watch.close()
	err := w.call(w.lib.stop)
	close(w.calls)
	return err
}

// A Failure is how a rank has ended.
type Failure struct {
	Message string `json:"message"` // for a person; "": nothing that others do not say
	Hint    string `json:"hint"`
	Code    int    `json:"code"` // exit code of the whole job
}

// Fail ends the whole job because this rank has failed, and gives the exit code. It does not return
// before all ranks know. It is rank 0 alone that prints: its own failure, if it has one, or else
// the first that it is told of. A failure without a message waits for that of another rank.
func (w *World) Fail(f Failure, print func(rank int, f Failure)) (code int) {
	return w.watch.fail(f, print)
}

// Watch waits for failures of other ranks, on goroutines of its own. print tells a person of one; a
// message that is empty is told elsewhere. Then exit ends the process.
func (w *World) Watch(print func(rank int, f Failure), exit func(code int)) {
	w.watch.start(print, exit)
}

// Need says why a program that was started by a launcher cannot go on in this build; nil if it can.
func Need(launch Launch) error {
	if Compiled || launch.Ranks < 2 {
		return nil
	}
	return fmt.Errorf("%d ranks were started (%s), and this build has no MPI: they "+
		"would be %d runs that write over each other", launch.Ranks, launch.By, launch.Ranks)
}

// A Place says which part of its host a rank may use, and where the other ranks are.
type Place struct {
	Cores  int // for this rank
	OnHost int // ranks that share the host's memory and GPUs
	Number int // of this rank among these, from 0
	Others []Resident
}

// A Resident is a rank's process.
type Resident struct {
	Host string
	PID  int
}

// Place divides each core among the ranks that are bound to it.
func (w *World) Place() (Place, error) {
	all, err := w.Gather(fmt.Appendf(nil, "%d\n%s", os.Getpid(), numbers.List(affinity())))
	if err != nil {
		return Place{}, err
	}
	p := Place{}
	var onHost []string // the cores of each rank of this host
	for rank, text := range all {
		pid, cores, _ := strings.Cut(string(text), "\n")
		n, err := strconv.Atoi(pid)
		if err != nil {
			return p, err
		}
		p.Others = append(p.Others, Resident{w.hosts[rank], n})
		if w.hosts[rank] != w.hosts[w.rank] {
			continue
		}
		if rank == w.rank {
			p.Number = len(onHost)
		}
		onHost = append(onHost, cores)
	}
	p.OnHost, p.Cores = len(onHost), coresOf(p.Number, onHost)
	return p, nil
}

// coresOf is how many cores a rank has for itself: ranks of a host that are bound to the same core
// share it equally. A list of cores is that of numbers.List.
func coresOf(rank int, onHost []string) int {
	sharers := map[string]int{}
	for _, cores := range onHost {
		for core := range strings.SplitSeq(cores, ", ") {
			sharers[core]++
		}
	}
	share := 0.0
	for core := range strings.SplitSeq(onHost[rank], ", ") {
		share += 1 / float64(sharers[core])
	}
	return max(1, int(share+1e-6))
}

// allCores lists as many cores as the system says that there are.
func allCores() []int {
	cores := make([]int, runtime.NumCPU())
	for n := range cores {
		cores[n] = n
	}
	return cores
}
