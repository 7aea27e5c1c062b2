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

	"github.com/voxsaw/voxsaw/internal/plain"
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

// sealing is held while a list is read and written again by this process.
var sealing sync.Mutex

// Seal lists files of a folder as they are now. A file that is listed stays as it was listed,
// whatever has become of it. Names that are not there, or are of folders, are passed over.
func Seal(dir string, names ...string) error {
	sealing.Lock()
	defer sealing.Unlock()
	sums, err := readSums(dir)
	if damaged := (*DamagedError)(nil); errors.As(err, &damaged) {
		sums = map[string]string{} // nobody knows what it said
	} else if err != nil {
		return err
	}
	for _, name := range names {
		path := filepath.Join(dir, name)
		if sums[name] != "" {
			if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
				delete(sums, name)
			}
			continue
		}
		switch sum, err := digest(path, ""); {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, errFolder):
		case err != nil:
			return err
		default:
			sums[name] = sum
		}
	}
	return writeSums(dir, sums)
}

// Unseal takes files out of the list, before they are written into.
func Unseal(dir string, names ...string) error {
	sealing.Lock()
	defer sealing.Unlock()
	return unseal(dir, names)
}

func unseal(dir string, names []string) error {
	if _, err := os.Lstat(filepath.Join(dir, SumsFile)); err != nil {
		return nil
	}
	sums, err := readSums(dir)
	if err != nil { // it is of no use to anybody
		sums = nil
	}
	before := len(sums)
	for _, name := range names {
		delete(sums, name)
	}
	if err == nil && len(sums) == before {
		return nil
	}
	return writeSums(dir, sums)
}

// A DamagedError says that a file is not what was written.
type DamagedError struct{ Path string }

func (e *DamagedError) Error() string {
	if filepath.Base(e.Path) == SumsFile {
		return e.Path + " is not what was written: copy it back; without it (delete it) the files here cannot be compared with anything"
	}
	return fmt.Sprintf("%s is not what was written: copy it back, or delete it to have it made again; whoever changed it on purpose deletes %s beside it",
		e.Path, SumsFile)
}

// Compare compares files of a folder with its list, all that are listed where no names are given.
// Each that differs is a [DamagedError] in the error. Listed are those that could be compared.
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
		case err != nil:
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
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)) + size, nil
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
		sums[plain.Unquote(parts[2])] = parts[0] + " " + parts[1]
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
		return Remove(path)
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(sums)) {
		lines.WriteString(sums[name] + " " + plain.Quote(name) + "\n")
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
