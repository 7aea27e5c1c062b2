package prepared

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw/internal/localcopy"
	"github.com/voxsaw/voxsaw/volume"
)

const small = 4 * 3 * 2 // voxels of a case of casesOf

// localStore is a store of casesOf whose cases are read from copies.
func localStore(t *testing.T, dir string, l Local) (s *Store, fits bool) {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if fits, err = s.KeepLocal(l); err != nil {
		t.Fatal(err)
	}
	return s, fits
}

// folder writes n cases, the first of which has voxels of value 0.
func folder(t *testing.T, n int) string {
	t.Helper()
	s, _ := casesOf(t, n, &mappings{most: 10, mostBytes: 1 << 30})
	return s.dir
}

// readAll reads each case, whose voxels are its number.
func readAll(s *Store) error {
	how := s.Preparation().Intensities(nil)
	scale, shift := how.Scale, how.Shift
	for n := range s.Len() {
		c, err := s.Open(fmt.Sprintf("case%03d", n))
		if err != nil {
			return err
		}
		dst := make([]float32, small)
		if err := c.Crop(dst, [3]int{}, [3]int{4, 3, 2}); err != nil {
			return err
		}
		for _, v := range dst {
			if v != scale*float32(n)+shift {
				return fmt.Errorf("case %d has a voxel of %g", n, v)
			}
		}
	}
	return nil
}

// copiesIn lists the copies in a folder, and how many bytes the ledger says they are.
func copiesIn(t *testing.T, dir string) (names []string, bytes int64, ledger string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.vox"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		stat, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		names, bytes = append(names, filepath.Base(path)), bytes+stat.Size()
	}
	text, err := os.ReadFile(filepath.Join(dir, localcopy.LedgerFolder, "bytes"))
	if err != nil {
		t.Fatal(err)
	}
	return names, bytes, strings.TrimSpace(string(text))
}

func size(t *testing.T, dir string) int64 {
	t.Helper()
	stat, err := os.Stat(voxelPath(dir, "case000"))
	if err != nil {
		t.Fatal(err)
	}
	return stat.Size()
}

func closed(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestLocalCopiesAreRead(t *testing.T) {
	dir, local := folder(t, 3), filepath.Join(t.TempDir(), "local")
	s, fits := localStore(t, dir, Local{Dir: local})
	if err := readAll(s); err != nil || !fits {
		t.Fatal(fits, err)
	}
	closed(t, s)
	names, bytes, ledger := copiesIn(t, local)
	if len(names) != 3 || ledger != fmt.Sprint(bytes) {
		t.Fatalf("%d copies of %d bytes, %s in the ledger", len(names), bytes, ledger)
	}

	// Now the folder can be read no more, but the copies can.
	for n := range 3 {
		damage(t, dir, fmt.Sprintf("case%03d", n))
	}
	s, _ = localStore(t, dir, Local{Dir: local})
	if err := readAll(s); err != nil {
		t.Errorf("with copies: %v", err)
	}
	closed(t, s)

	// A copy that was damaged is not taken for the case; what is wrong with the case is noted.
	if err := os.WriteFile(filepath.Join(local, names[0]), make([]byte, size(t, dir)), 0o666); err != nil {
		t.Fatal(err)
	}
	s, _ = localStore(t, dir, Local{Dir: local})
	if err := readAll(s); err == nil || !strings.Contains(err.Error(), "is not what was prepared") {
		t.Errorf("a damaged copy of a damaged case: %v", err)
	}
	closed(t, s)
	if names, bytes, ledger = copiesIn(t, local); len(names) != 2 || ledger != fmt.Sprint(bytes) {
		t.Errorf("%d copies of %d bytes are left, %s in the ledger", len(names), bytes, ledger)
	}
}

func TestDamagedLocalCopyIsMadeAgain(t *testing.T) {
	dir, local := folder(t, 2), t.TempDir()
	for range 2 {
		s, _ := localStore(t, dir, Local{Dir: local})
		if err := readAll(s); err != nil {
			t.Fatal(err)
		}
		closed(t, s)
		names, _, _ := copiesIn(t, local)
		if len(names) != 2 {
			t.Fatalf("%d copies", len(names))
		}
		if err := os.WriteFile(filepath.Join(local, names[1]), make([]byte, size(t, dir)), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// Copies never take more than they may; cases without one are read where they lie, and copies of
// other data give way.
func TestLocalCopiesAreBounded(t *testing.T) {
	first, local := folder(t, 3), t.TempDir()
	most := 2 * size(t, first)
	s, fits := localStore(t, first, Local{Dir: local, Bytes: most})
	if err := readAll(s); err != nil || fits {
		t.Fatal(fits, err)
	}
	before, bytes, _ := copiesIn(t, local)
	if len(before) != 2 || bytes > most {
		t.Fatalf("%d copies of %d bytes", len(before), bytes)
	}
	image, _ := oblong(t, [3]int{4, 3, 2})
	second := writeStore(t, t.TempDir(), volume.DefaultPreparation(), Input{ID: "a", Image: image})
	if _, err := second.KeepLocal(Local{Dir: local, Bytes: most}); err != nil {
		t.Fatal(err)
	}
	c, err := second.Open("a")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Crop(make([]float32, small), [3]int{}, [3]int{4, 3, 2}); err != nil {
		t.Fatal(err)
	}
	after, bytes, ledger := copiesIn(t, local)
	if len(after) != 2 || bytes > most || ledger != fmt.Sprint(bytes) ||
		after[0] == before[0] && after[1] == before[1] {
		t.Errorf("copies %v of %d bytes, %s in the ledger; before %v", after, bytes, ledger, before)
	}
	if err := readAll(s); err != nil { // whose copies have given way
		t.Error(err)
	}
	closed(t, s)
}

// What a killed process has left is removed, and the ledger is right again.
func TestLocalFolderAfterAKill(t *testing.T) {
	dir, local := folder(t, 1), t.TempDir()
	s, _ := localStore(t, dir, Local{Dir: local})
	if err := readAll(s); err != nil {
		t.Fatal(err)
	}
	closed(t, s)
	names, _, _ := copiesIn(t, local)
	other := strings.Repeat("ab", 32)
	left := []string{"." + names[0] + ".123.tmp", "." + other + ".vox.0.tmp"}
	foreign := []string{".half.vox.123.tmp", "half.vox", other[1:] + ".vox", other[1:] + "x.vox"}
	for _, name := range slices.Concat(left, foreign) {
		if err := os.WriteFile(filepath.Join(local, name), make([]byte, 100), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(local, localcopy.LedgerFolder, "bytes"), []byte("999999999999\n"),
		0o666); err != nil {
		t.Fatal(err)
	}
	s, _ = localStore(t, dir, Local{Dir: local, Bytes: 10 * size(t, dir)})
	closed(t, s)
	for _, name := range left {
		if _, err := os.Stat(filepath.Join(local, name)); err == nil {
			t.Errorf("the temporary file %s is left", name)
		}
	}
	for _, name := range foreign {
		if err := os.Remove(filepath.Join(local, name)); err != nil {
			t.Errorf("a file that is no copy is gone: %v", err)
		}
	}
	if _, bytes, ledger := copiesIn(t, local); ledger != fmt.Sprint(bytes) {
		t.Errorf("%d bytes, %s in the ledger", bytes, ledger)
	}
}

// Prepared cases are no copies, whatever they are called: a folder that they lie in is refused, and
// other files never give way.
func TestLocalFolderOfOtherFiles(t *testing.T) {
	dir, victim := folder(t, 2), folder(t, 3)
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer closed(t, s)
	for _, folder := range []string{dir, victim, filepath.Join(victim, casesFolder)} {
		if _, err := s.KeepLocal(Local{Dir: folder, Bytes: 1}); err == nil ||
			!strings.Contains(err.Error(),
				"is of prepared cases, which copies must not lie among: choose another folder") {
			t.Errorf("%s: %v", folder, err)
		}
		if _, err := os.Stat(filepath.Join(folder, localcopy.LedgerFolder)); err == nil {
			t.Errorf("%s was refused, and has a ledger", folder)
		}
	}
	// of a preparation that has not come to its end
	if err := os.Remove(filepath.Join(victim, manifestName)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.KeepLocal(Local{Dir: victim, Bytes: 1}); err == nil {
		t.Error("cases without a manifest are taken for copies")
	}

	local := t.TempDir()
	mine := filepath.Join(local, "mine.vox")
	if err := os.WriteFile(mine, make([]byte, 1000), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := s.KeepLocal(Local{Dir: local, Bytes: 2 * size(t, dir)}); err != nil {
		t.Fatal(err)
	}
	if err := readAll(s); err != nil {
		t.Error(err)
	}
	if err := os.Remove(mine); err != nil {
		t.Errorf("a file that is no copy gave way: %v", err)
	}
	if names, bytes, ledger := copiesIn(t, local); len(names) != 2 || ledger != fmt.Sprint(bytes) {
		t.Errorf("%d copies of %d bytes, %s in the ledger", len(names), bytes, ledger)
	}
}

// Several stores, as of several processes, read and copy at once without going over the bound.
func TestLocalCopiesOfManyReaders(t *testing.T) {
	dir, local := folder(t, 8), t.TempDir()
	most := 5 * size(t, dir)
	var all sync.WaitGroup
	for reader := range 4 {
		s, _ := localStore(t, dir, Local{Dir: local, Bytes: most})
		all.Go(func() {
			defer closed(t, s)
			r := rand.New(rand.NewPCG(1, uint64(reader)))
			for n := range 20 {
				next := n // all begin with the same cases
				if n >= 4 {
					next = r.IntN(8)
				}
				c, err := s.Open(fmt.Sprintf("case%03d", next))
				if err == nil {
					err = c.Crop(make([]float32, small), [3]int{}, [3]int{4, 3, 2})
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	// a store that has found a copy on its way reads the case where it lies
	if names, bytes, ledger := copiesIn(t, local); bytes > most || len(names) == 0 || ledger != fmt.Sprint(bytes) {
		t.Errorf("%d copies of %d bytes, at most %d, and %s in the ledger", len(names), bytes, most, ledger)
	}
}
