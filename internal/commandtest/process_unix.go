//go:build unix

package commandtest

import (
	"syscall"
	"time"
)

func init() {
	processorTime = func() time.Duration {
		var used syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
			panic(err)
		}
		return time.Duration(used.Utime.Nano() + used.Stime.Nano())
	}
}
