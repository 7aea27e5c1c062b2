// Package atomicfile writes files that are there whole or not at all.
//
// Start at [Write]; [Hold] keeps other processes out of a folder that many files go into,
// and [Share] keeps them from writing there while it is read. Folders
// are not made here, and what is written is not looked at.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// Write makes the file through write: under a temporary name in the same folder, seen to the disk,
// then renamed. Whatever happens, the name holds the old content or the new one; after an error
// nothing else is left of it. Everybody may read the file. Errors name it. The temporary name
// begins with a dot and ends in .tmp: that is what a process that was killed leaves behind.
func Write(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if NoRoom(err) {
			err = fmt.Errorf("%w: make room, what was there before is untouched", err)
		}
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		err = f.Chmod(0o644)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), path); err != nil {
		return err
	}
	// The rename itself must reach the disk too. Not every system can sync a folder, and the file
	// is whole in any case.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		dir.Close()
	}
	return nil
}

// WriteBytes is [Write] for content that is there already.
func WriteBytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// NoRoom reports whether an error says that the disk is full, that the user's share of it is, or
// that a file would become larger than is allowed.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}
