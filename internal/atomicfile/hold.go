package atomicfile

import (
	"errors"
	"fmt"
	"os"
)

// errHeld is what a platform's lock answers when another process has the folder.
var errHeld = errors.New("held")

// Hold takes a folder for this process, so that two runs cannot write over each other's files, and
// gives the function that lets go of it. A process that ends, or is killed, lets go of what it
// holds; nothing is left in the folder. Where the system or the file system has no such locks, Hold
// succeeds without one.
func Hold(dir string) (release func(), err error) {
	return hold(dir, true, "%s is in use by another run: wait for it to end, or choose another folder")
}

// Share is [Hold] for readers: many may share a folder; no writer can hold it meanwhile.
func Share(dir string) (release func(), err error) {
	return hold(dir, false, "%s is being written by another run: wait for it to end")
}

// hold takes a lock that is exclusive or shared. The message says that another process has it.
func hold(dir string, exclusive bool, message string) (release func(), err error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	switch err := lock(f, exclusive); {
	case errors.Is(err, errHeld):
		f.Close()
		return nil, fmt.Errorf(message, dir)
	case err != nil:
		f.Close()
		return func() {}, nil
	}
	return func() { f.Close() }, nil
}
