package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

// interruptible gives a context that ends when the process is asked to stop: by Ctrl-C, by SIGTERM
// or SIGUSR1 as batch systems send them, or by SIGHUP when a terminal is closed. Signals that were
// ignored when the process started stay ignored: nohup does that to SIGHUP.
//
// A second Ctrl-C ends the process at once. A second SIGHUP or SIGTERM does not: a terminal that is
// closed may send SIGHUP twice, once from the shell and once from the system.
//
// Nobody may be left who reads what is written: in "voxsaw ... 2>&1 | tee log", Ctrl-C ends tee
// first. A line of progress that cannot be written must not end the run before it is saved, so
// SIGPIPE is taken, too. The write then fails with EPIPE.
//
// Of several ranks the silent ones stop without a word. What a second Ctrl-C costs is said of a
// command that saves what it is at when it is asked to stop.
func interruptible(parent context.Context, stderr io.Writer, j *job) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(parent)
	asked := append([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, batchSignals...)
	asked = slices.DeleteFunc(asked, signal.Ignored)
	signals, pipe := make(chan os.Signal, 1), make(chan os.Signal, 1)
	if len(asked) > 0 {
		signal.Notify(signals, asked...)
	}
	signal.Notify(pipe, syscall.SIGPIPE) // nobody receives: the signal is dropped
	done := make(chan struct{})
	go func() {
		select {
		case <-signals:
			cancel()
			signal.Reset(os.Interrupt)
			if j.silent() {
				return
			}
			text := "stopping; Ctrl-C again ends at once"
			if j.saves.Load() {
				text += ", without saving"
			}
			fmt.Fprintln(stderr, text)
		case <-done:
		}
	}()
	return ctx, func() {
		cancel()
		close(done)
		signal.Stop(signals)
		signal.Stop(pipe)
	}
}
