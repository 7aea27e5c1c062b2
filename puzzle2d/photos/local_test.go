package photos

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/sample"
)

// Photographs are read from copies, as pixels and as JPEGs; a shard that is not what was prepared
// is refused, and a copy that is damaged is made again.
func TestLocalCopies(t *testing.T) {
	before := shardBytes
	shardBytes = 7 * 3 * 255 * 255 // several shards
	defer func() { shardBytes = before }()
	for _, quality := range []int{0, 90} {
		dir, local := real(t, quality), t.TempDir()
		plain := open(t, dir)
		readAll := func() (copies []string, err error) {
			t.Helper()
			s, err := Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if fits, err := s.KeepLocal(sample.Local{Dir: local, Bytes: 1 << 30}); err != nil || !fits {
				t.Fatal(fits, err)
			}
			for n := range s.Len() {
				got, err := s.At(n)
				if err != nil {
					return nil, err
				}
				if want, err := plain.At(n); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("photograph %d is another from its copy: %v", n, err)
				}
			}
			copies, err = filepath.Glob(filepath.Join(local, "*.vox"))
			return copies, err
		}
		copies, err := readAll()
		if err != nil || len(copies) != len(plain.index.Shards) || len(copies) < 2 {
			t.Fatalf("%v, %v", copies, err)
		}
		damage := func(path string) {
			t.Helper()
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			data[len(data)/2] ^= 0xff
			if err := os.WriteFile(path, data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		damage(copies[0])
		if _, err := readAll(); err != nil {
			t.Errorf("a damaged copy was not made again: %v", err)
		}
		if err := plain.Close(); err != nil { // it maps the shards
			t.Fatal(err)
		}
		for n := range plain.index.Shards {
			damage(plain.shardFile(n))
		}
		for _, path := range copies {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		if copies, err := readAll(); err == nil {
			t.Errorf("shards that are damaged are read, and copied: %v", copies)
		}
	}
}
