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
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file: copies of cases on the machine's own disk. A copy is named by its checksum, so that
// several data sets and processes may use one folder; files of other names are left alone. Beside
// the copies lies a folder "ledger", whose file says how many bytes they are together, with those
// that are being made; whoever changes that holds the folder. An empty temporary file stands for a
// copy that is being made.

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

// isCopy says whether a file has a name that copies are given.
func isCopy(name string) bool {
	sum, ok := strings.CutSuffix(name, copySuffix)
	digits, err := hex.DecodeString(sum)
	return ok && err == nil && len(digits) == sha256.Size
}

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
	if err := noStore(l.Dir); err != nil {
		return false, err
	}
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

// noStore refuses a folder that prepared cases lie in, or their records: a case may be called as a
// copy is.
func noStore(dir string) error {
	refuse := func(path string) error {
		return fmt.Errorf("%s is of prepared cases, which copies must not lie among: choose another folder", path)
	}
	path := filepath.Join(dir, manifestName)
	if data, err := smallfile.Read(path, smallfile.List); err == nil &&
		strings.Contains(string(data), `"preparation"`) {
		return refuse(path)
	}
	for _, folder := range []string{dir, filepath.Join(dir, casesFolder)} {
		entries, _ := os.ReadDir(folder) // who enters the folder says what is wrong with it
		names := map[string]bool{}
		for _, e := range entries {
			names[e.Name()] = true
		}
		for _, e := range entries {
			if id, isRecord := strings.CutSuffix(e.Name(), ".json"); isRecord && names[id+copySuffix] {
				return refuse(filepath.Join(folder, e.Name()))
			}
		}
	}
	return nil
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
	if err := atomicfile.Clean(c.Dir, isCopy); err != nil {
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
	release, err := atomicfile.Await(folder)
	if err != nil {
		return err
	}
	defer release()
	path := filepath.Join(folder, "bytes")
	text, err := smallfile.Read(path, smallfile.Settings)
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
		if err != nil || !info.Mode().IsRegular() || !isCopy(e.Name()) {
			continue // removed meanwhile, or no copy
		}
		all = append(all, kept{e.Name(), info.Size(), info.ModTime()})
	}
	return all, nil
}

// file is where the copy of a case lies, if there is one.
func (c *copies) file(r Record) string { return filepath.Join(c.Dir, r.Checksum+copySuffix) }

// coming is a file that is there while a process makes the copy of a case. It has the name of a
// temporary file, which a process that is killed leaves and the next one that is alone removes.
func (c *copies) coming(r Record) string {
	return filepath.Join(c.Dir, "."+r.Checksum+copySuffix+".0.tmp")
}

// reserve takes room for the copy of a case, from copies of other data if need be. It reports
// whether this process is to make it: there is room, and no other process makes it or has made it.
// [copies.settle] must follow.
func (c *copies) reserve(r Record) (ok bool, err error) {
	err = c.ledger(func(bytes int64) (int64, error) {
		for _, path := range []string{c.file(r), c.coming(r)} {
			if _, err := os.Lstat(path); err == nil {
				return bytes, nil
			}
		}
		if bytes+r.Bytes > c.Bytes {
			all, err := c.list()
			if err != nil {
				return bytes, err
			}
			slices.SortFunc(all, func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
			for _, k := range all {
				if bytes+r.Bytes <= c.Bytes {
					break
				}
				if !c.own()[k.name] && os.Remove(filepath.Join(c.Dir, k.name)) == nil {
					bytes -= k.size
				}
			}
		}
		if bytes+r.Bytes > c.Bytes {
			return bytes, nil
		}
		if err := os.WriteFile(c.coming(r), nil, 0o666); err != nil {
			return bytes, err
		}
		ok = true
		return bytes + r.Bytes, nil
	})
	return ok, err
}

// settle is for who has reserved room: the copy is made, or its room is given back.
func (c *copies) settle(r Record, made bool) {
	// else the next who is alone counts again
	_ = c.ledger(func(bytes int64) (int64, error) {
		if !made {
			bytes -= r.Bytes
		}
		_ = os.Remove(c.coming(r))
		return bytes, nil
	})
}

// whole says whether the copy of a case is there and is what was prepared. Another one is removed.
func (c *copies) whole(r Record) bool {
	found, err := os.Stat(c.file(r))
	if err != nil {
		return false
	}
	if path := c.path(r); path != "" {
		if sum, err := checksum(path, io.Discard); err == nil && sum == r.Checksum {
			return true
		}
	}
	// else the next who is alone counts again
	_ = c.ledger(func(bytes int64) (int64, error) {
		now, err := os.Stat(c.file(r))
		if err == nil && os.SameFile(found, now) && os.Remove(c.file(r)) == nil {
			bytes -= now.Size()
		}
		return bytes, nil
	})
	return false
}

// path is where the copy of a case lies; "" where there is none.
func (c *copies) path(r Record) string {
	path := c.file(r)
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
	if c.whole(r) {
		return true, nil
	}
	if err := checkVoxels(dir, r); err != nil {
		return false, fmt.Errorf("case %s: %w", r.ID, err)
	}
	if ok, err := c.reserve(r); err != nil || !ok {
		if c.whole(r) { // another process has made it meanwhile
			return true, nil
		}
		return false, verifyVoxels(dir, r)
	}
	origin := voxelPath(dir, r.ID)
	var sum string
	var unread error
	err = atomicfile.Write(c.file(r), func(w io.Writer) error {
		if sum, unread = checksum(origin, w); unread == nil && sum != r.Checksum {
			unread = errors.New("it is another file")
		}
		return unread
	})
	c.settle(r, err == nil)
	if err == nil {
		return true, nil
	}
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
	if err := copyAll(io.MultiWriter(h, to), f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
