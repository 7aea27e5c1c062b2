package train

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

// lookingFor is how long a rank looks for a file that rank 0 has just written: file systems of
// networks may tell of it late.
const lookingFor = 3 * time.Second

// Shares makes sure that a folder is the same one on all ranks, before anything is done for what is
// to be written there. Rank 0 writes an empty file for the others to find. It removes the file
// again, and the folder, too, if it was not there before. Another job that begins in the folder may
// have removed the file as one that was left there: then there is another one.
func (g Group) Shares(folder string) error {
	if g.single() {
		return nil
	}
	for range 5 {
		found, removed, err := g.find(folder)
		if err != nil || found {
			return err
		}
		if !removed {
			break
		}
	}
	return fmt.Errorf("%s is not the same folder on all ranks: it must be one that they share", folder)
}

// find says whether all ranks find a file that rank 0 writes into a folder, and if not, whether
// somebody has removed it.
func (g Group) find(folder string) (found, removed bool, err error) {
	var name string
	leave := func() error { return nil }
	if err := g.AtRoot(func() (err error) {
		name, leave, err = mark(folder)
		return err
	}); err != nil {
		return false, false, err
	}
	if err := g.FromRoot(&name); err != nil {
		return false, false, err
	}
	missed, err := g.Any(g.Rank > 0 && !comes(filepath.Join(folder, name)))
	if err == nil && missed[0] { // only now, when all have looked
		_, gone := os.Lstat(filepath.Join(folder, name))
		var lost []bool
		if lost, err = g.Any(g.Rank == 0 && errors.Is(gone, fs.ErrNotExist)); err == nil {
			removed = lost[0]
		}
	}
	return err == nil && !missed[0], removed, errors.Join(err, g.Agree(leave()))
}

// comes says whether a file is there, or comes soon.
func comes(path string) bool {
	for until := time.Now().Add(lookingFor); ; time.Sleep(100 * time.Millisecond) {
		if _, err := os.Lstat(path); err == nil {
			return true
		}
		if time.Now().After(until) {
			return false
		}
	}
}

// mark writes an empty file into a folder, which is made if need be. leave takes away what was
// made. A temporary file's name lets the next run clean it up where this one is killed.
func mark(folder string) (name string, leave func() error, err error) {
	var made []string
	for dir := filepath.Clean(folder); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		made = append(made, dir)
	}
	if err := atomicfile.MakeFolder(folder); err != nil {
		return "", nil, err
	}
	name = fmt.Sprintf(".shared.%d.tmp", rand.Uint32())
	f, err := os.OpenFile(filepath.Join(folder, name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return "", nil, err
	}
	return name, func() error {
		err := os.Remove(f.Name())
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
		for _, dir := range made {
			os.Remove(dir) // stays if somebody else has put something there
		}
		return err
	}, f.Close()
}
