package prepared

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/localcopy"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/sample"
)

// Local is a folder on the machine's own disk that keeps copies of prepared cases.
type Local = sample.Local

const copySuffix = ".vox"

// KeepLocal makes the store read its cases from copies in a folder, which are made and compared
// with their checksums when a case is first read. Where there is no room, copies of other data give
// way, those used longest ago first; a case that finds none is read where it lies. It must be
// called before any case is opened, and once. fits says whether there is room for all cases.
func (s *Store) KeepLocal(l Local) (fits bool, err error) {
	if err = noStore(l.Dir); err == nil {
		s.local, fits, err = localcopy.Keep(l, func(yield func(localcopy.Item) bool) {
			for r := range s.records.all() {
				if !yield(itemOf(s.dir, r)) {
					return
				}
			}
		})
	}
	if err != nil {
		err = fmt.Errorf("keeping copies of prepared cases in %s: %w", l.Dir, err)
	}
	return fits, err
}

// itemOf is a case's file, of which copies are made.
func itemOf(dir string, r Record) localcopy.Item {
	return localcopy.Item{Digest: r.Checksum, Bytes: r.Bytes, Origin: voxelPath(dir, r.ID), Sum: sumOf,
		Verify: func() error { return verifyVoxels(dir, r) },
		Check: func() error {
			if err := checkVoxels(dir, r); err != nil {
				return fmt.Errorf("case %s: %w", r.ID, err)
			}
			return nil
		}}
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

// checksum reads a file.
func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return sumOf(f)
}

func sumOf(from io.Reader) (string, error) {
	h := sha256.New()
	if err := copyAll(h, from); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
