package atomicfile

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// This file: how a change of what was written is noticed. A folder has a list of the digests of
// files in it, for [Compare]. [Seal] puts files into the list when nothing more is to be written
// into them. [Write] takes a file out of it before it replaces it, so that whatever ends a process,
// the list says nothing wrong: a file is as the list says, or not in it. A file that is not there
// has not been damaged: who deletes one means to.

// SumsFile is the list, in the folder whose files it is about. A line is a file's SHA-256, its size
// in bytes and its name, with a blank between them; the first line has the digest of those that
// follow.
const SumsFile = ".voxsaw.sums"

const sumsHeading = "# Digests of what voxsaw has written here, for voxsaw verify. This list: "

// sumsLock is locked while a list is read and written again: several processes may write into a
// folder. It is removed afterwards.
const sumsLock = SumsFile + ".lock"

// sealing is held while this process changes a list: where there are no locks of files, at least.
var sealing sync.Mutex

// changing keeps others from changing the list of a folder, and waits while they do: a minute at
// most.
func changing(dir string) (done func(), err error) {
	return alone(filepath.Join(dir, sumsLock), &sealing)
}

// rewriting is held in [Rewrite]: where there are no locks of files, at least.
var rewriting sync.Mutex

// Rewrite is for a file that is read and written again, by other processes, too: one after the
// other. A minute is waited at most. An empty file lies beside it meanwhile; its name begins with
// a dot.
func Rewrite(path string, rewrite func() error) error {
	dir, name := filepath.Split(path)
	done, err := alone(filepath.Join(dir, "."+name+turn), &rewriting)
	if err != nil {
		return err
	}
	defer done()
	return rewrite()
}

// turn is how the lock of a file ends that is rewritten.
const turn = ".turn"

// rewritten is the name of the file that a lock of [Rewrite] belongs to.
func rewritten(lock string) (name string, is bool) {
	name, is = strings.CutSuffix(lock, turn)
	return strings.TrimPrefix(name, "."), is && len(name) > 1 && name[0] == '.'
}

// cleanTurn removes a lock of [Rewrite] that a process has left which was killed meanwhile.
func cleanTurn(path string) error {
	if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() || info.Size() > 0 {
		return nil
	}
	done, err := alone(path, &rewriting)
	if err == nil {
		done()
	}
	return err
}

// alone has a lock, which is a file that is removed afterwards, and the same for this process.
func alone(path string, here *sync.Mutex) (done func(), err error) {
	here.Lock()
	if !locks {
		return here.Unlock, nil
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			here.Unlock()
			return nil, err
		}
		switch err := lock(f, true); {
		case errors.Is(err, errHeld) && time.Now().Before(deadline):
			f.Close()
			continue
		case errors.Is(err, errHeld):
			f.Close()
			here.Unlock()
			return nil, &HeldError{filepath.Dir(path), "%s is in use by another run, which does not let go of " +
				strings.ReplaceAll(path, "%", "%%")}
		case err != nil: // the file system has no locks
		case !isStill(path, f): // who had it has removed it
			f.Close()
			continue
		}
		return func() {
			os.Remove(path)
			f.Close()
			here.Unlock()
		}, nil
	}
}

// cleanLock removes the lock of a list that a process has left which was killed while it changed
// the list.
func cleanLock(dir string) error {
	if _, err := os.Lstat(filepath.Join(dir, sumsLock)); err != nil {
		return nil
	}
	done, err := changing(dir)
	if err == nil {
		done()
	}
	return err
}

// isStill says whether an open file still has its name.
func isStill(path string, f *os.File) bool {
	named, err := os.Stat(path)
	if err != nil {
		return false
	}
	opened, err := f.Stat()
	return err == nil && os.SameFile(named, opened)
}

// Seal lists files of a folder as they are now. A file that is listed stays as it was listed,
// whatever has become of it. Names that are not there, or are of folders, are passed over; so is a
// file that another process replaces meanwhile, which is that one's to list.
func Seal(dir string, names ...string) error {
	sums, err := readSums(dir)
	damaged := (*DamagedError)(nil) // nobody knows what it said
	if err != nil && !errors.As(err, &damaged) {
		return err
	}
	seen, found, gone := map[string]fs.FileInfo{}, map[string]string{}, false
	for _, name := range names { // before others have to wait: there may be much to read
		path := filepath.Join(dir, name)
		info, err := os.Stat(path)
		if sums[name] != "" {
			gone = gone || errors.Is(err, fs.ErrNotExist)
			continue
		}
		sum := ""
		if err == nil {
			sum, err = digest(path, "")
		}
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errFolder):
		case err != nil:
			return err
		default:
			seen[name], found[name] = info, sum
		}
	}
	if len(found) == 0 && !gone && damaged == nil {
		return nil
	}
	done, err := changing(dir)
	if err != nil {
		return err
	}
	defer done()
	if sums, err = readSums(dir); err != nil && !errors.As(err, &damaged) {
		return err
	} else if err != nil {
		sums = map[string]string{}
	}
	for _, name := range names {
		_, err := os.Stat(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			delete(sums, name)
		} else if found[name] != "" && sums[name] == "" {
			sums[name] = found[name]
		}
	}
	if err := writeSums(dir, sums); err != nil {
		return err
	}
	replaced := false
	for name, before := range seen {
		now, err := os.Stat(filepath.Join(dir, name))
		if sums[name] == found[name] && (err != nil || !isSame(before, now)) {
			delete(sums, name)
			replaced = true
		}
	}
	if !replaced {
		return nil
	}
	return writeSums(dir, sums)
}

func isSame(a, b fs.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
}

// Unseal takes files out of the list, before they are written into. A list that is damaged goes as
// a whole: it is of no use to anybody.
func Unseal(dir string, names ...string) error {
	if _, err := os.Lstat(filepath.Join(dir, SumsFile)); err != nil {
		return nil
	}
	listed := func(sums map[string]string) bool {
		return slices.ContainsFunc(names, func(name string) bool { return sums[name] != "" })
	}
	if sums, err := readSums(dir); err == nil && !listed(sums) {
		return nil // as nearly always, and nobody is waited for
	}
	done, err := changing(dir)
	if err != nil {
		return err
	}
	defer done()
	sums, err := readSums(dir)
	if err == nil && !listed(sums) {
		return nil
	}
	for _, name := range names {
		delete(sums, name)
	}
	return writeSums(dir, sums)
}

// A DamagedError says that a file is not what was written.
type DamagedError struct{ Path string }

func (e *DamagedError) Error() string {
	if filepath.Base(e.Path) == SumsFile {
		return e.Path +
			" is not what was written: copy it back; without it (delete it) the " +
			"files here cannot be compared with anything"
	}
	return fmt.Sprintf("%s is not what was written: copy it back, or delete it to have it made again; whoever "+
		"changed it on purpose deletes %s beside it",
		e.Path, SumsFile)
}

// Compare compares files of a folder with its list, all that are listed where no names are given.
// Each that differs is a [DamagedError] in the error. Listed are those that could be compared, and
// those that are not there any more.
func Compare(dir string, names ...string) (listed []string, err error) {
	sums, err := readSums(dir)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		names = slices.Sorted(maps.Keys(sums))
	}
	var errs []error
	for _, name := range names {
		want, known := sums[name]
		if !known {
			continue
		}
		listed = append(listed, name)
		got, err := digest(filepath.Join(dir, name), want)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && !errors.Is(err, errFolder):
			errs = append(errs, err)
		case got != want:
			errs = append(errs, &DamagedError{filepath.Join(dir, name)})
		}
	}
	return listed, errors.Join(errs...)
}

// CompareFiles is [Compare] of files by their paths.
func CompareFiles(paths ...string) error {
	names := map[string][]string{} // by folder
	for _, path := range paths {
		names[filepath.Dir(path)] = append(names[filepath.Dir(path)], filepath.Base(path))
	}
	var errs []error
	for _, dir := range slices.Sorted(maps.Keys(names)) {
		_, err := Compare(dir, names[dir]...)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// SealFile is [Seal] of a file by its path.
func SealFile(path string) error { return Seal(filepath.Dir(path), filepath.Base(path)) }

// A List has for each file of a folder what the list says of it.
type List map[string]string

// Sums reads the list of a folder. It is empty where there is none.
func Sums(dir string) (List, error) {
	sums, err := readSums(dir)
	return sums, err
}

// Differs says whether a file is listed, and data is not what was listed.
func (l List) Differs(name string, data []byte) bool {
	sum := sha256.Sum256(data)
	return l[name] != "" && l[name] != hex.EncodeToString(sum[:])+fmt.Sprint(" ", len(data))
}

var errFolder = errors.New("is a folder")

// digest is the SHA-256 and the size of a file, with a blank between them. One that has not the
// wanted size is not read: "".
func digest(path string, want string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if info.IsDir() {
		return "", errFolder
	}
	size := fmt.Sprint(" ", info.Size())
	if want != "" && !strings.HasSuffix(want, size) {
		return "", nil
	}
	if !info.Mode().IsRegular() {
		return "", &fs.PathError{Op: "open", Path: path, Err: errors.New("is not a file any more")}
	}
	sum, err := SHA256(path)
	if err != nil {
		return "", err
	}
	return sum + size, nil
}

// SHA256 is that of a file, which may hold gigabytes, in hexadecimal digits.
func SHA256(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func readSums(dir string) (map[string]string, error) {
	sums := map[string]string{}
	path := filepath.Join(dir, SumsFile)
	data, err := smallfile.Read(path, smallfile.Log)
	if errors.Is(err, fs.ErrNotExist) {
		return sums, nil
	}
	if err != nil {
		return nil, err
	}
	heading, lines, _ := strings.Cut(string(data), "\n")
	if heading != sumsHeading+textDigest(lines) {
		return nil, &DamagedError{path}
	}
	for line := range strings.Lines(lines) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(parts) != 3 {
			return nil, &DamagedError{path}
		}
		sums[safetext.Unquote(parts[2])] = parts[0] + " " + parts[1]
	}
	return sums, nil
}

func textDigest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// writeSums writes a list that says something else than the one that is there; an empty one is
// removed.
func writeSums(dir string, sums map[string]string) error {
	path := filepath.Join(dir, SumsFile)
	if len(sums) == 0 {
		return remove(dir, SumsFile)
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		lines.WriteString(sums[name] + " " + safetext.Quote(name) + "\n")
	}
	text := []byte(sumsHeading + textDigest(lines.String()) + "\n" + lines.String())
	if old, err := smallfile.Read(path, int64(len(text))); err == nil && slices.Equal(old, text) {
		return nil
	}
	staged, err := stage(path, func(w io.Writer) error {
		_, err := w.Write(text)
		return err
	})
	if err != nil {
		return err
	}
	defer os.Remove(staged) // fails after the rename, as it should
	return rename(staged, path)
}
