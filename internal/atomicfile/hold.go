package atomicfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// errHeld is what a platform's lock answers when another process has the folder.
var errHeld = errors.New("held")

// A HeldError says that another process has a folder.
type HeldError struct {
	Dir     string // as the message calls it
	message string // of %s
}

func (e *HeldError) Error() string { return fmt.Sprintf(e.message, e.Dir) }

// lockName is the file that is locked instead of its folder where several machines may have it. It
// stays there, empty.
const lockName = ".voxsaw.lock"

// Hold takes a folder for this process, so that two runs cannot write over each other's files, and
// gives the function that lets go of it. A process that ends, or is killed, lets go of what it
// holds; nothing is left in the folder, but for a lock file on the file system of a network. Where
// the system or the file system has no such locks, Hold succeeds without one. Where another process
// has the folder, the error is a [HeldError].
func Hold(dir string) (release func(), err error) {
	return hold(dir, true, "%s is in use by another run: wait for it to end, or choose another folder")
}

// Await is [Hold] that waits while another process has the folder: a minute at most. It is for what
// takes a process less than a second.
func Await(dir string) (release func(), err error) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		var held *HeldError
		if release, err = Hold(dir); !errors.As(err, &held) || time.Now().After(deadline) {
			return release, err
		}
	}
}

// Share is [Hold] for readers: many may share a folder; no writer can hold it meanwhile.
func Share(dir string) (release func(), err error) {
	return hold(dir, false, "%s is being written by another run: wait for it to end")
}

// Held reports whether a process has the folder to itself just now. It asks by having it for an
// instant, in which another one that wants it is refused.
func Held(dir string) bool {
	release, err := Share(dir)
	if err == nil {
		release()
	}
	var held *HeldError
	return errors.As(err, &held)
}

// Enter is for a folder that several processes may write into. It makes the folder where there is
// none. The folder is held together with others until release is called. Who is alone there removes
// what killed processes have left of the files that wanted names (see [Clean]).
func Enter(dir string, wanted func(name string) bool) (release func(), err error) {
	return EnterWith(dir, func() error { return Clean(dir, wanted) })
}

// EnterAll is [Enter] that cleans all folders below, too.
func EnterAll(dir string) (release func(), err error) {
	return EnterWith(dir, func() error { return CleanAll(dir) })
}

// EnterWith is [Enter] with what a process does that is alone in the folder.
func EnterWith(dir string, alone func() error) (release func(), err error) {
	if err := MakeFolder(dir); err != nil {
		return nil, err
	}
	if release, err = Hold(dir); err == nil {
		err = alone()
		release()
		if err != nil {
			return nil, err
		}
	}
	for range 100 { // another one may be cleaning up just now
		if release, err = Share(dir); err == nil {
			return release, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	// a training's folder, say: it is held, and other files may go there all the same
	return func() {}, nil
}

// hold takes a lock that is exclusive or shared. The message says that another process has it.
func hold(dir string, exclusive bool, message string) (release func(), err error) {
	f, err := toLock(dir, exclusive)
	if err != nil {
		return nil, err
	}
	switch err := lock(f, exclusive); {
	case errors.Is(err, errHeld):
		f.Close()
		return nil, &HeldError{dir, message}
	case err != nil:
		f.Close()
		return func() {}, nil
	}
	return func() { f.Close() }, nil
}

// networked is [ofNetwork], but in tests.
var networked = ofNetwork

// toLock opens what is locked for a folder: itself, or a file in it where other machines would not
// see the folder's lock. Who may not write there locks the folder for this machine alone, unless
// the file is there to be read and that is enough.
func toLock(dir string, exclusive bool) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil || !networked(folder) {
		return folder, err
	}
	path := filepath.Join(dir, lockName)
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil && !exclusive {
		file, err = os.Open(path)
	}
	if err != nil {
		return folder, nil
	}
	folder.Close()
	return file, nil
}
