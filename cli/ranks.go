package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/mpi"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file: the program as one rank of an MPI job. A verb that several ranks can carry out
// together is annotated so; another refuses to start under a launcher, because as many processes
// would do the same work and write over each other.

// Annotations of verbs.
const (
	asRanks = "ranks" // several ranks carry it out together
	// processes share the work out among themselves, without MPI; with --ranks they carry it out
	// together
	asClaimed = "independent"
	asSaved   = "saved" // it trains, and saves that when it is stopped
)

// saves says whether a command saves what it is at when it is asked to stop: it trains.
func saves(cmd *cobra.Command) bool {
	return cmd.Flags().Lookup("resume") != nil || cmd.Annotations[asClaimed] != "" || cmd.Annotations[asSaved] != ""
}

// independent says whether as many processes of a command may run at once.
func independent(cmd *cobra.Command) bool {
	return cmd.Annotations[asClaimed] != "" && !trialsOfRanks(cmd) || cmd.Flags().Changed("part")
}

// A job is what this process is part of.
type job struct {
	launch  mpi.Launch
	unclear error      // about the launch
	world   *mpi.World // nil: this process works alone
	place   mpi.Place
	stderr  io.Writer
	saves   atomic.Bool // the command, when it is asked to stop
	ended   sync.Once
	exit    func(code int)
}

func newJob(stderr io.Writer) *job {
	j := &job{stderr: stderr, exit: os.Exit}
	j.launch, j.unclear = mpi.Launched(os.Getenv)
	return j
}

type jobKey struct{}

// jobOf is the job of a command.
func jobOf(ctx context.Context) *job {
	if j, ok := ctx.Value(jobKey{}).(*job); ok {
		return j
	}
	return &job{}
}

// ranks are those that train together, for the options of a run; nil: this process alone.
func (j *job) ranks() voxsaw.Ranks {
	if j.world == nil {
		return nil
	}
	return j.world
}

// size is how many ranks there are.
func (j *job) size() int {
	if j.world == nil {
		return 1
	}
	return j.world.Size()
}

// silent says whether another rank speaks for all.
func (j *job) silent() bool { return j.world != nil && j.world.Rank() > 0 }

// ownError is one that the other ranks may not have: of this machine, or of this program.
type ownError struct{ error }

func (e *ownError) Unwrap() error { return e.error }

// join makes the process a rank if a launcher has started several, or refuses.
func (j *job) join(cmd *cobra.Command) (err error) {
	if j.unclear != nil {
		return &usageError{j.unclear}
	}
	if !j.launch.Joins() || independent(cmd) {
		return nil
	}
	if cmd.Annotations[asRanks] == "" {
		if j.launch.Ranks < 2 {
			return nil
		}
		return withHint(usagef("%d ranks were started (%s), and %s is not divided "+
			"over ranks: each of them would do all of it", j.launch.Ranks, j.launch.By, cmd.CommandPath()),
			"start one process; or, where each is to work on its own, set %s=none", mpi.Variable)
	}
	if err := mpi.Need(j.launch); err != nil {
		return withHint(&ownError{&usageError{err}},
			"take a build with the tag mpi, as the release for linux on amd64 is; or, where each "+
				"process is to work on its own, set %s=none", mpi.Variable)
	}
	if err := mpi.CheckPatience(); err != nil {
		return &usageError{err}
	}
	if j.world, err = mpi.Start(cmd.Context(), j.launch); err != nil {
		return &ownError{err}
	}
	j.world.Watch(j.print, j.exit)
	if j.place, err = j.world.Place(); err != nil {
		return err
	}
	runtime.GOMAXPROCS(min(j.place.Cores, ownProcs(runtime.GOMAXPROCS(0), runtime.NumCPU(), j.place.OnHost)))
	memorySharers = j.place.OnHost
	gpuProcess = j.place.Number
	if j.silent() {
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
	}
	say(cmd.ErrOrStderr(), "%s", lines(j.describe()))
	return nil
}

// ownProcs is how many threads may run at once in this process, of ranks that share a host: as many
// as the user has set, or else an equal part of the container's quota, where that is less than the
// cores.
func ownProcs(procs, cores, onHost int) int {
	if os.Getenv("GOMAXPROCS") == "" && procs < cores {
		procs = max(1, procs/onHost)
	}
	return procs
}

// describe says who takes part: what a launcher tells of a process that was killed is its number.
func (j *job) describe() string {
	text := fmt.Sprintf("%s, %s", numbers.Count(j.world.Size(), "rank"), j.world.Library())
	if len(j.place.Others) <= 16 {
		for rank, r := range j.place.Others {
			text += fmt.Sprintf("; %d: process %d on %s", rank, r.PID, r.Host)
		}
		return text
	}
	var hosts []string
	processes := map[string][]string{}
	for rank, r := range j.place.Others {
		if processes[r.Host] == nil {
			hosts = append(hosts, r.Host)
		}
		processes[r.Host] = append(processes[r.Host], fmt.Sprintf("%d: %d", rank, r.PID))
	}
	text += fmt.Sprintf(", on %s; their processes:", numbers.Count(len(hosts), "host"))
	for _, host := range hosts {
		text += "\n" + host + "  " + strings.Join(processes[host], ", ")
	}
	return text
}

// print tells of a failure. That of another rank is told with its name.
func (j *job) print(rank int, f mpi.Failure) {
	if f.Message == "" {
		return
	}
	j.ended.Do(func() {
		if rank != j.world.Rank() {
			f.Message = j.world.Name(rank) + ": " + f.Message
		}
		complain(j.stderr, f.Message, f.Hint)
	})
}

// end tells of the error that a command has ended with, if any, makes sure that all ranks end, and
// gives the exit code. Once ctx is done, nobody waits.
func (j *job) end(ctx context.Context, err error) int {
	code := exitCode(err)
	message, hint := complaint(err)
	if j.world == nil {
		if j.launch.Rank > 0 {
			if code == exitUsage && !errors.As(err, new(*ownError)) {
				return code // rank 0 has the same command line, and says it
			}
			// Where all ranks have the same to say, the launcher may end this one before it does.
			select {
			case <-ctx.Done():
				return code
			case <-time.After(time.Second):
			}
			if message != "" {
				message = fmt.Sprintf("rank %d: %s", j.launch.Rank, message)
			}
		}
		complain(j.stderr, message, hint)
		return code
	}
	var stopped *voxsaw.InterruptedError
	if err == nil || errors.As(err, &stopped) { // as all ranks have
		if !j.silent() {
			complain(j.stderr, message, hint)
		}
		if err := j.world.Close(); err != nil {
			complain(j.stderr, fmt.Sprintf("%s: leaving the job: %v", j.world.Name(j.world.Rank()), err), "")
			return max(code, exitFailure)
		}
		return code
	}
	f := mpi.Failure{Message: message, Hint: hint, Code: code}
	if errors.As(err, new(train.ElsewhereError)) {
		f.Message, f.Hint = "", ""
	}
	return j.world.Fail(f, j.print)
}
