// Package localcopy keeps copies of prepared data on the machine's own disk: of a folder that many
// machines share, each then reads a file once.
//
// Start at [Keep] and [Copies.Fetch]. A copy is named by its digest, so that several data sets and
// processes may use one folder; files of other names are left alone. Beside the copies lies a
// folder "ledger", whose file says how many bytes they are together, with those that are being
// made; whoever changes that holds the folder. An empty temporary file stands for a copy that is
// being made.
package localcopy

import (
	"cmp"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/sample"
)

const (
	suffix = ".vox"
	// LedgerFolder is the folder beside the copies.
	LedgerFolder = "ledger"
)

// An Item is a file that copies are made of.
type Item struct {
	Digest string // 32 or 64 hexadecimal digits
	Bytes  int64
	Origin string // where it lies
	// Sum reads the file, or a copy, to its end and gives the digest.
	Sum func(io.Reader) (string, error)
	// Check is an error where the file at Origin is not there, or has another size; Verify where it
	// has another digest.
	Check, Verify func() error
}

// isCopy says whether a file has a name that copies are given.
func isCopy(name string) bool {
	sum, ok := strings.CutSuffix(name, suffix)
	digits, err := hex.DecodeString(sum)
	return ok && err == nil && (len(digits) == 32 || len(digits) == 16)
}

// Copies are the local ones of a store's files.
type Copies struct {
	sample.Local
	Release func() // lets go of the folder
	own     func() map[string]bool
}

// Keep takes a folder for copies of these items. Where there is no room, copies of other data give
// way, those used longest ago first. fits says whether there is room for all.
func Keep(l sample.Local, items iter.Seq[Item]) (c *Copies, fits bool, err error) {
	c = &Copies{Local: l}
	if c.Release, err = atomicfile.EnterWith(l.Dir, c.clean); err != nil {
		return nil, false, err
	}
	if c.Bytes == 0 {
		if c.Bytes, err = c.room(); err != nil {
			c.Release()
			return nil, false, err
		}
	}
	var need int64
	for r := range items {
		need += r.Bytes
	}
	c.own = sync.OnceValue(func() map[string]bool {
		own := map[string]bool{}
		for r := range items {
			own[r.Digest+suffix] = true
		}
		return own
	})
	return c, need <= c.Bytes, nil
}

// room is what copies may take where nobody says it.
func (c *Copies) room() (int64, error) {
	free, err := atomicfile.Free(c.Dir)
	if errors.Is(err, errors.ErrUnsupported) {
		return 0, errors.New("how much room the disk has is not known on this system: say how much copies may take, " +
			"with --local-size")
	}
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
func (c *Copies) clean() error {
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
func (c *Copies) ledger(change func(bytes int64) (int64, error)) error {
	folder := filepath.Join(c.Dir, LedgerFolder)
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

func (c *Copies) list() ([]kept, error) {
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

// file is where the copy of a file lies, if there is one.
func (c *Copies) file(r Item) string { return filepath.Join(c.Dir, r.Digest+suffix) }

// coming is a file that is there while a process makes a copy. Its name is that of a temporary
// file: a killed process leaves it, and the next process that is alone removes it.
func (c *Copies) coming(r Item) string { return filepath.Join(c.Dir, "."+r.Digest+suffix+".0.tmp") }

// reserve takes room for a copy, from copies of other data if need be. It reports
// whether this process is to make it: there is room, and no other process makes it or has made it.
// [Copies.settle] must follow.
func (c *Copies) reserve(r Item) (ok bool, err error) {
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
			slices.SortFunc(all,
				func(a, b kept) int { return cmp.Or(a.used.Compare(b.used), strings.Compare(a.name, b.name)) })
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
func (c *Copies) settle(r Item, made bool) {
	// else the next who is alone counts again
	_ = c.ledger(func(bytes int64) (int64, error) {
		if !made {
			bytes -= r.Bytes
		}
		_ = os.Remove(c.coming(r))
		return bytes, nil
	})
}

// whole says whether a copy is there and is what was prepared. Another one is removed.
func (c *Copies) whole(r Item) bool {
	found, err := os.Stat(c.file(r))
	if err != nil {
		return false
	}
	if path := c.Path(r); path != "" {
		if sum, err := r.sum(path, io.Discard); err == nil && sum == r.Digest {
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

// Path is where a copy lies; "" where there is none.
func (c *Copies) Path(r Item) string {
	path := c.file(r)
	if stat, err := os.Stat(path); err != nil || stat.Size() != r.Bytes {
		return ""
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // what was used longest ago gives way first
	return path
}

// Fetch makes sure that the copy of a file is what was prepared, if there is one, and makes one if
// there is room. What is wrong with the file itself is an error; without a copy, for whatever
// reason, it is read where it lies, and was compared there.
func (c *Copies) Fetch(r Item) (kept bool, err error) {
	if c.whole(r) {
		return true, nil
	}
	if err := r.Check(); err != nil {
		return false, err
	}
	if ok, err := c.reserve(r); err != nil || !ok {
		if c.whole(r) { // another process has made it meanwhile
			return true, nil
		}
		return false, r.Verify()
	}
	err = atomicfile.Write(c.file(r), func(w io.Writer) error {
		sum, err := r.sum(r.Origin, w)
		if err == nil && sum != r.Digest {
			err = errors.New("it is another file")
		}
		return err
	})
	c.settle(r, err == nil)
	if err == nil {
		return true, nil
	}
	return false, r.Verify() // names what is wrong with the file, if it was that
}

// sum is the digest of a file, which is copied on the way.
func (r Item) sum(path string, to io.Writer) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return r.Sum(io.TeeReader(f, to))
}
