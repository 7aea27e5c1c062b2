package photos

import (
	"fmt"
	"io"
	"os"

	"github.com/voxsaw/voxsaw/internal/localcopy"
	"github.com/voxsaw/voxsaw/sample"
)

// KeepLocal makes the store read its shards from copies in a folder, which are made and compared
// with their digests when a photograph of a shard is first read. Where there is no room, copies of
// other data give way, those used longest ago first; a shard that finds none is read where it lies.
// It must be called before any photograph is read, and once. fits says whether there is room for
// all shards.
func (s *Store) KeepLocal(l sample.Local) (fits bool, err error) {
	if IsPrepared(l.Dir) {
		return false, fmt.Errorf("%s is of prepared photographs, which copies "+
			"must not lie among: choose another folder",
			l.Dir)
	}
	s.local, fits, err = localcopy.Keep(l, func(yield func(localcopy.Item) bool) {
		for n := range s.index.Shards {
			if !yield(s.item(n)) {
				return
			}
		}
	})
	if err != nil {
		err = fmt.Errorf("keeping copies of prepared photographs in %s: %w", l.Dir, err)
	}
	return fits, err
}

// item is a shard, of which copies are made. Its digest is of those of its photographs.
func (s *Store) item(n int) localcopy.Item {
	info := s.index.Shards[n]
	return localcopy.Item{Digest: info.Digest, Bytes: s.index.stored(info), Origin: s.shardFile(n),
		Sum:    func(from io.Reader) (string, error) { return sumShard(from, s.dir, n, s.index) },
		Check:  func() error { return nil }, // Open has looked
		Verify: func() error { return verifyShard(s.dir, n, info, s.index) }}
}

func (s *Store) shardFile(n int) string { return shardFile(s.dir, n, ext(s.index.JPEG)) }

// open opens a shard: its local copy, if there is one.
func (s *Store) open(n int) (*os.File, error) {
	if s.local != nil {
		kept, err := s.local.Fetch(s.item(n))
		if err != nil {
			return nil, err
		}
		if path := s.local.Path(s.item(n)); kept && path != "" {
			if f, err := os.Open(path); err == nil {
				return f, nil
			}
		}
	}
	return os.Open(s.shardFile(n))
}
