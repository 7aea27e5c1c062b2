package train

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
)

// writeAtomic writes a file under a temporary name in the same folder, sees it to the disk and renames it: whatever happens, the name
// holds the old content or the new one, whole.
func writeAtomic(path string, write func(io.Writer) error) (err error) {
	defer func() {
		if errors.Is(err, syscall.ENOSPC) {
			err = fmt.Errorf("%w: make room, what was there before is untouched", err)
		}
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), ".tmp-"+filepath.Base(path)+"-*")
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
	// The rename itself must reach the disk too. Not every system can sync a folder, and the file is whole in any case.
	if dir, err := os.Open(filepath.Dir(path)); err == nil {
		_ = dir.Sync()
		dir.Close()
	}
	return nil
}
