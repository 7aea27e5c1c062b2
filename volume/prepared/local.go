package prepared

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
)

// This file: copies of cases on the machine's own disk. A copy is named by its checksum, so that
// several data sets and processes may use one folder. Beside the copies lies a folder "ledger",
// whose file says how many bytes they are together; whoever changes that holds the folder.

// Local is a folder on the machine's own disk that keeps copies of prepared cases: of a folder that
// many machines share, each then reads a case once.
type Local struct {
	Dir string
	// Bytes bounds all copies in the folder, those of other data included. 0: nine tenths of what
	// the disk has free, and what the copies that are there already take.
	Bytes int64
}

const (
	copySuffix   = ".vox"
	ledgerFolder = "ledger"
)

// copies are the local ones of a store's cases.
type copies struct {
	Local
	release func() // lets go of the folder
	own     func() map[string]bool
}

// KeepLocal makes the store read its cases from copies in a folder, which are made and compared
// with their checksums when a case is first read. Where there is no room, copies of other data give
// way, those used longest ago first; a case that finds none is read where it lies. It must be
// called before any case is opened, and once. fits says whether there is room for all cases.
func (s *Store) KeepLocal(l Local) (fits bool, err error) {
	c := &copies{Local: l}
	defer func() {
		if err != nil {
			err = fmt.Errorf("keeping copies of prepared cases in %s: %w", l.Dir, err)
		}
	}()
	if c.release, err = atomicfile.EnterWith(l.Dir, c.clean); err != nil {
		return false, err
	}
	defer func() {
		if err != nil {
			c.release()
		}
	}()
	if c.Bytes == 0 {
		if c.Bytes, err = c.room(); err != nil {
			return false, err
		}
	}
	var need int64
	for r := range s.records.all() {
		need += r.Bytes
	}
	c.own = sync.OnceValue(func() map[string]bool {
		own := map[string]bool{}
		for r := range s.records.all() {
			own[r.Checksum+copySuffix] = true
		}
		return own
	})
	s.local = c
	return need <= c.Bytes, nil
}

// room is what copies may take where nobody says it.
func (c *copies) room() (int64, error) {
	free, err := freeBytes(c.Dir)
	if err != nil {
		return 0, err
	}
	var all int64
	err = c.ledger(func(bytes int64) (int64, error) {
		all = bytes
		return bytes, nil
	})
	return all + free/10*9, err
}

// clean is for who is alone in the folder: it removes what killed processes have left, and counts
// the copies.
func (c *copies) clean() error {
	if err := atomicfile.Clean(c.Dir, nil); err != nil {
		return err
	}
	return c.ledger(func(int64) (int64, error) {
		all, err := c.list()
		var bytes int64
		for _, k := range all {
			bytes += k.size
		}
		return bytes, err
	})
}

// ledger changes the number of bytes of all copies, in one process at a time.
func (c *copies) ledger(change func(bytes int64) (int64, error)) error {
	folder := filepath.Join(c.Dir, ledgerFolder)
	if err := atomicfile.MakeFolder(folder); err != nil {
		return err
	}
	release, err := atomicfile.Hold(folder)
	var held *atomicfile.HeldError
	for deadline := time.Now().Add(time.Minute); errors.As(err, &held) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
		release, err = atomicfile.Hold(folder)
	}
	if err != nil {
		return err
	}
	defer release()
	path := filepath.Join(folder, "bytes")
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// 0 where there is none yet
	before, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	after, err := change(before)
	if err == nil && after != before {
		// clean counts again
		err = os.WriteFile(path, []byte(strconv.FormatInt(after, 10)+"\n"), 0o666)
	}
	return err
}

// A kept file is a copy.
type kept struct {
	name string
	size int64
	used time.Time
}

func (c *copies) list() ([]kept, error) {
	entries, err := os.ReadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	var all []kept
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || filepath.Ext(e.Name()) != copySuffix {
			continue // removed meanwhile, or no copy
		}
		all = append(all, kept{e.Name(), info.Size(), info.ModTime()})
	}
	return all, nil
}

// reserve takes room for a copy, from copies of other data if need be. It reports whether there is
// any.
func (c *copies) reserve(size int64) (ok bool, err error) {
	err = c.ledger(func(bytes int64) (int64, error) {
		if bytes+size > c.Bytes {
			all, err := c.list()
			if err != nil {
				return bytes, err
			}
			slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
			for _, k := range all {
				if bytes+size <= c.Bytes {
					break
				}
				if !c.own()[k.name] && os.Remove(filepath.Join(c.Dir, k.name)) == nil {
					bytes -= k.size
				}
			}
		}
		if ok = bytes+size <= c.Bytes; ok {
			bytes += size
		}
		return bytes, nil
	})
	return ok, err
}

// giveBack takes the room of a copy that is not there.
func (c *copies) giveBack(size int64) {
	// else the next who is alone counts again
	_ = c.ledger(func(bytes int64) (int64, error) { return bytes - size, nil })
}

// path is where the copy of a case lies; "" where there is none.
func (c *copies) path(r Record) string {
	path := filepath.Join(c.Dir, r.Checksum+copySuffix)
	if stat, err := os.Stat(path); err != nil || stat.Size() != r.Bytes {
		return ""
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // what was used longest ago gives way first
	return path
}

// fetch makes sure that a case's copy is what was prepared, if there is one, and makes one if there
// is room. What is wrong with the case itself is an error; without a copy, for whatever reason, the
// case is read where it lies, and was compared there.
func (c *copies) fetch(dir string, r Record) (kept bool, err error) {
	if path := c.path(r); path != "" {
		if sum, err := checksum(path, io.Discard); err == nil && sum == r.Checksum {
			return true, nil
		}
		if os.Remove(path) == nil {
			c.giveBack(r.Bytes)
		}
	}
	if err := checkVoxels(dir, r); err != nil {
		return false, fmt.Errorf("case %s: %w", r.ID, err)
	}
	if ok, err := c.reserve(r.Bytes); err != nil || !ok {
		return false, verifyVoxels(dir, r)
	}
	origin := voxelPath(dir, r.ID)
	var sum string
	var unread error
	err = atomicfile.Write(filepath.Join(c.Dir, r.Checksum+copySuffix), func(w io.Writer) error {
		if sum, unread = checksum(origin, w); unread == nil && sum != r.Checksum {
			unread = errors.New("it is another file")
		}
		return unread
	})
	if err == nil {
		return true, nil
	}
	c.giveBack(r.Bytes)
	return false, verifyVoxels(dir, r) // names what is wrong with the case, if it was that
}

// checksum reads a file and copies it.
func checksum(path string, to io.Writer) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err = io.CopyBuffer(io.MultiWriter(h, to), struct{ io.Reader }{f}, make([]byte, 1<<18)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
