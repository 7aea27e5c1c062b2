//go:build unix && !solaris && !aix

package atomicfile

import (
	"os"
	"syscall"
)

// locks says whether there are any.
const locks = true

// lock takes the advisory lock of an open folder, which ends when the folder is closed.
func lock(f *os.File, exclusive bool) error {
	how := syscall.LOCK_SH
	if exclusive {
		how = syscall.LOCK_EX
	}
	err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
	if err == syscall.EWOULDBLOCK {
		return errHeld
	}
	return err
}
