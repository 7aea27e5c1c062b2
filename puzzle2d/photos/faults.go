package photos

import (
	"errors"
	"syscall"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

// Machine says whether an error is the machine's and not a file's: a full disk, a disk that fails,
// too many open files. Other files would fail in the same way.
func Machine(err error) bool {
	if atomicfile.NoRoom(err) {
		return true
	}
	for _, fault := range []error{syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.EROFS,
		syscall.ESTALE, syscall.ENODEV, syscall.ENXIO, syscall.ETIMEDOUT} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}
