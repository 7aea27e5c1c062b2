// Package atomicfile writes files that are there whole or not at all.
//
// Start at [Write]; [MakeFolder] makes the folder that files go into, and [Remove] removes one.
// What these have done is on the disk when they return: no power cut takes it back. [Hold] keeps
// other processes out of a folder, [Share] keeps them from writing there while it is read, and
// [Enter] is for folders that several may write into. [Seal] keeps digests of what was written, and
// [Compare] compares.
package atomicfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"syscall"

	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// Write makes the file through write: under a temporary name in the same folder, seen to the disk,
// then renamed. Whatever happens, the name holds the old content or the new one; after an error
// nothing else is left of it. The file has the mode that the umask gives new files. Errors name it.
// What write is given is an [os.File]. A process that is killed leaves the temporary file
// behind: see [Clean].
func Write(path string, write func(io.Writer) error) error {
	name, err := stage(path, write)
	if err != nil {
		return err
	}
	defer os.Remove(name) // fails after the rename, as it should
	return place(name, path)
}

// A File is one of several files that belong together: its path, and what writes it.
type File struct {
	Path  string
	Write func(io.Writer) error
}

// WriteTogether is [Write] for files that belong together. When all are on the disk, and before
// they have their names, ready is called: it may remove what is replaced. Then one after the other
// gets its name. So a disk without room for all costs nothing of what was there.
func WriteTogether(ready func() error, files ...File) error {
	staged := make([]string, len(files))
	for n, file := range files {
		var err error
		if staged[n], err = stage(file.Path, file.Write); err != nil {
			return err
		}
		defer os.Remove(staged[n])
	}
	if err := ready(); err != nil {
		return err
	}
	for n, file := range files {
		if err := place(staged[n], file.Path); err != nil {
			return err
		}
	}
	return nil
}

// stage writes a file under a temporary name beside the path and sees it to the disk. After an
// error nothing is left of it.
func stage(path string, write func(io.Writer) error) (name string, err error) {
	defer func() {
		if NoRoom(err) {
			err = fmt.Errorf("%w: make room, this file is as it was before", err)
		}
		if err != nil {
			err = fmt.Errorf("writing %s: %w", path, err)
		}
	}()
	f, err := create(path)
	if err != nil {
		return "", err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		os.Remove(f.Name())
		return "", err
	}
	return f.Name(), nil
}

// place gives a temporary file its name, which is in no list of digests from now on.
func place(name, path string) error {
	unseal := func() error {
		if err := Unseal(filepath.Dir(path), filepath.Base(path)); err != nil {
			return fmt.Errorf("writing %s: %w", path, err)
		}
		return nil
	}
	if err := unseal(); err != nil {
		return err
	}
	if err := rename(name, path); err != nil {
		return err
	}
	return unseal() // another process may have listed what was there before
}

// rename is [os.Rename] that reaches the disk.
func rename(name, path string) error {
	err := os.Rename(name, path)
	if err == nil {
		err = syncFolder(filepath.Dir(path))
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}

// create makes a temporary file for one that is to have the path.
func create(path string) (*os.File, error) {
	for {
		name := filepath.Join(filepath.Dir(path), fmt.Sprintf(".%s.%d.tmp", filepath.Base(path), rand.Uint32()))
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			// nobody has heard of the temporary name
			failed.Path = filepath.Dir(path)
		}
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// MakeFolder makes a folder, and those that it lies in, where they are not there. Where that fails,
// the error says what is in the way.
func MakeFolder(path string) error {
	var parents []string
	for dir := filepath.Clean(path); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		parents = append(parents, filepath.Dir(dir))
	}
	if err := os.MkdirAll(path, 0o777); err != nil {
		if blocked := CanMake(path); blocked != nil {
			return blocked
		}
		return &blockedError{path, err}
	}
	for _, dir := range parents {
		if err := syncFolder(dir); err != nil {
			return fmt.Errorf("making %s: %w", path, err)
		}
	}
	return nil
}

// ErrFile says that a file is where a folder is wanted.
var ErrFile = errors.New("is a file, not a folder")

// A blockedError is a folder that cannot be made.
type blockedError struct {
	path string
	err  error
}

func (e *blockedError) Unwrap() error { return e.err }

func (e *blockedError) Error() string {
	text, path := e.err.Error(), e.path
	if failed, ok := errors.AsType[*fs.PathError](e.err); ok {
		if text = failed.Err.Error(); filepath.Clean(failed.Path) != filepath.Clean(path) {
			text = failed.Path + ": " + text
		}
	}
	return fmt.Sprintf("%s cannot be made: %s", path, text)
}

// CanMake says why nothing can be made at a path where nothing is: what it would lie in is a file,
// or a folder that this process may not write into. It makes nothing; nil promises nothing.
func CanMake(path string) error {
	path = filepath.Clean(path)
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return &blockedError{path, &fs.PathError{Op: "mkdir", Path: dir, Err: ErrFile}}
		case err == nil:
			if err := writable(dir); err != nil {
				return &blockedError{path, &fs.PathError{Op: "mkdir", Path: dir, Err: err}}
			}
			return nil
		case dir == filepath.Dir(dir):
			return nil
		}
	}
}

// Remove removes a file, if there is one.
func Remove(path string) error { return RemoveFrom(filepath.Dir(path), filepath.Base(path)) }

// RemoveFrom removes files from a folder, those that are there, and from its list of digests.
func RemoveFrom(dir string, names ...string) error {
	if err := Unseal(dir, names...); err != nil {
		return fmt.Errorf("removing %s: %w", filepath.Join(dir, names[0]), err)
	}
	return remove(dir, names...)
}

func remove(dir string, names ...string) error {
	removed := false
	for _, name := range names {
		err := os.Remove(filepath.Join(dir, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		removed = removed || err == nil
	}
	if !removed {
		return nil
	}
	if err := syncFolder(dir); err != nil {
		return fmt.Errorf("removing %s: %w", filepath.Join(dir, names[0]), err)
	}
	return nil
}

// syncFolder sees the names in a folder to the disk. Not every system can do that for a folder.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) { // one may write into a folder that one may not list
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

// Clean removes temporary files and locks that processes have left in a folder which were killed
// while they wrote. Only whoever holds the folder may do so, as a temporary file may be another
// process's work. Those of other files than wanted says are kept; nil: all are removed.
func Clean(dir string, wanted func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if name, is := rewritten(e.Name()); is && (wanted == nil || wanted(name)) {
			if err := cleanTurn(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
		m := temporary.FindStringSubmatch(e.Name())
		if m == nil || !e.Type().IsRegular() || wanted != nil && !wanted(m[1]) {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return cleanLock(dir)
}

// CleanAll is [Clean] for a folder and all below it, of all files.
func CleanAll(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return Clean(path, nil)
	})
}

// temporary is the name of a temporary file.
var temporary = regexp.MustCompile(`^\.(.+)\.[0-9]+\.tmp$`)

// WriteBytes is [Write] for content that is there already.
func WriteBytes(path string, data []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// Keep is [WriteBytes] for a small file that other processes may write at the same time, or that
// may lie where nothing can be written: one that says the same stays as it is.
func Keep(path string, data []byte) error {
	if old, err := smallfile.Read(path, smallfile.List); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return WriteBytes(path, data)
}

// NoRoom reports whether an error says that the disk is full, that the user's share of it is, or
// that a file would become larger than is allowed.
func NoRoom(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG)
}

// OfMachine reports whether an error is the machine's: there is no room, the disk cannot be read or
// written, or the process has too many open files or too little memory. The file that was worked on
// has no part in it, and the next one will fare no better.
func OfMachine(err error) bool {
	return NoRoom(err) || slices.ContainsFunc([]error{syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM,
		syscall.EROFS}, func(e error) bool { return errors.Is(err, e) })
}
