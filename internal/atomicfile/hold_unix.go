//go:build unix && !solaris && !aix

package atomicfile

import (
	"os"
	"syscall"
)

// lock takes the advisory lock of an open folder, which ends when the folder is closed.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return errHeld
	}
	return err
}
