//go:build unix

package cli

import (
	"os"
	"syscall"
)

// batchSignals are what batch systems can be told to send before a job's time is over, as Slurm is
// by --signal=USR1@120.
var batchSignals = []os.Signal{syscall.SIGUSR1}
