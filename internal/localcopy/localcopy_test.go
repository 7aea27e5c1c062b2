package localcopy

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/sample"
)

// item is a file of n bytes.
func item(t *testing.T, content byte, n int) Item {
	t.Helper()
	path := filepath.Join(t.TempDir(), "origin")
	data := bytes.Repeat([]byte{content}, n)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	sum := func(r io.Reader) (string, error) {
		all, err := io.ReadAll(r)
		digest := sha256.Sum256(all)
		return hex.EncodeToString(digest[:]), err
	}
	digest, _ := sum(bytes.NewReader(data))
	return Item{Digest: digest, Bytes: int64(n), Origin: path, Sum: sum, Check: func() error { return nil },
		Verify: func() error {
			now, err := os.ReadFile(path)
			if err == nil && !bytes.Equal(now, data) {
				err = errors.New("not what was prepared")
			}
			return err
		}}
}

// copiesIn lists the copies in a folder, and how many bytes the ledger says they are.
func copiesIn(t *testing.T, dir string) (names []string, all int64, ledger string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		stat, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		names, all = append(names, filepath.Base(path)), all+stat.Size()
	}
	text, err := os.ReadFile(filepath.Join(dir, LedgerFolder, "bytes"))
	if err != nil {
		t.Fatal(err)
	}
	return names, all, strings.TrimSpace(string(text))
}

// A copy that is there, or that another process makes, takes no room again, so that no copy of
// other data gives way for it. One that was cut short takes none once it is made again.
func TestCopyIsCountedOnce(t *testing.T) {
	const size = 1000
	local, first, second := t.TempDir(), item(t, 1, size), item(t, 2, size)
	keep := func() *Copies {
		t.Helper()
		c, fits, err := Keep(sample.Local{Dir: local, Bytes: 3 * size}, slices.Values([]Item{first, second}))
		if err != nil || !fits {
			t.Fatal(fits, err)
		}
		return c
	}
	other := filepath.Join(local, strings.Repeat("ab", 32)+suffix)
	if err := os.WriteFile(other, make([]byte, size), 0o666); err != nil {
		t.Fatal(err)
	}
	c := keep()
	if ok, err := c.reserve(first); !ok || err != nil {
		t.Fatal(ok, err)
	}
	for range 3 { // as of other processes, while the copy is made
		if kept, err := c.Fetch(first); kept || err != nil {
			t.Error(kept, err)
		}
	}
	c.settle(first, false)
	if kept, err := c.Fetch(first); !kept || err != nil {
		t.Error(kept, err)
	}
	if ok, err := c.reserve(first); ok || err != nil {
		t.Errorf("a copy that is there is to be made: %v", err)
	}
	if names, all, ledger := copiesIn(t, local); len(names) != 2 || all != 2*size || ledger != fmt.Sprint(all) {
		t.Errorf("copies %v of %d bytes, %s in the ledger", names, all, ledger)
	}
	c.Release()

	if err := os.Truncate(filepath.Join(local, first.Digest+suffix), size-7); err != nil {
		t.Fatal(err)
	}
	c = keep()
	defer c.Release()
	for _, of := range []Item{first, second} {
		if kept, err := c.Fetch(of); !kept || err != nil {
			t.Error(kept, err)
		}
		if read, err := os.ReadFile(c.Path(of)); err != nil || int64(len(read)) != of.Bytes {
			t.Errorf("%d bytes of %d: %v", len(read), of.Bytes, err)
		}
	}
	if names, all, ledger := copiesIn(t, local); len(names) != 3 || all != 3*size || ledger != fmt.Sprint(all) {
		t.Errorf("copies %v of %d bytes, %s in the ledger", names, all, ledger)
	}
}

// A file that is not what was prepared is named, and never copied.
func TestDamagedFileIsNotCopied(t *testing.T) {
	local, of := t.TempDir(), item(t, 1, 100)
	c, _, err := Keep(sample.Local{Dir: local, Bytes: 1000}, slices.Values([]Item{of}))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Release()
	if err := os.WriteFile(of.Origin, make([]byte, 100), 0o666); err != nil {
		t.Fatal(err)
	}
	if kept, err := c.Fetch(of); kept || err == nil || err.Error() != "not what was prepared" {
		t.Error(kept, err)
	}
	if names, _, ledger := copiesIn(t, local); len(names) > 0 || ledger != "0" {
		t.Errorf("copies %v, %s bytes in the ledger", names, ledger)
	}
}
