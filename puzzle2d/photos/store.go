package photos

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/edsrzf/mmap-go"

	"github.com/voxsaw/voxsaw/internal/localcopy"
	"github.com/voxsaw/voxsaw/internal/photo"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// ErrNotPrepared says that a folder holds no prepared photographs.
var ErrNotPrepared = errors.New("no prepared photographs here: run voxsaw 2d prepare first")

// Store is a folder of prepared photographs. Its methods may be called from any number of
// goroutines.
type Store struct {
	dir   string
	index index

	numbers func() map[string]int // of photographs by their names, made once
	// of JPEGs: what brings them to pixels, which is for one goroutine at a time
	resizers sync.Pool
	local    *localcopy.Copies // nil: shards are read where they lie

	mutex  sync.Mutex
	mapped []mmap.MMap // of each shard, once it is asked for
	closed bool
}

// Open opens photographs that [Prepare] has prepared in dir, and checks that all their pixels are
// there. The photographs that they were made of are not needed.
func Open(dir string) (*Store, error) {
	i, err := readIndex(dir)
	if err != nil {
		return nil, fmt.Errorf("opening prepared photographs in %s: %w", dir, err)
	}
	s := &Store{dir: dir, index: i, mapped: make([]mmap.MMap, len(i.Shards))}
	s.numbers = sync.OnceValue(s.numberByName)
	s.resizers.New = func() any { return photo.NewResizer(i.Size[0], i.Size[1], photo.Warp) }
	return s, nil
}

func readIndex(dir string) (i index, err error) {
	data, err := smallfile.Read(filepath.Join(dir, indexName), indexLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return i, ErrNotPrepared
	}
	if err != nil {
		return i, err
	}
	if err := json.Unmarshal(data, &i); err != nil {
		return i, fmt.Errorf("%s is damaged (%w): run voxsaw 2d prepare again", indexName, err)
	}
	if i.Version != formatVersion {
		return i, fmt.Errorf("prepared with format %d, this program reads format %d: run voxsaw 2d prepare again",
			i.Version, formatVersion)
	}
	if err := i.check(); err != nil {
		return i, fmt.Errorf("%s is damaged (%w): run voxsaw 2d prepare again", indexName, err)
	}
	for shard, s := range i.Shards {
		path := shardFile(dir, shard, ext(i.JPEG))
		want := i.stored(s)
		switch info, err := os.Stat(path); {
		case err != nil:
			return i, fmt.Errorf("%w: run voxsaw 2d prepare again", err)
		case info.Size() != want:
			return i, fmt.Errorf("%s has %d bytes, not %d: run voxsaw 2d prepare again", path, info.Size(), want)
		}
	}
	return i, nil
}

// bytes of a photograph.
func (i index) bytes() int { return 3 * i.Size[0] * i.Size[1] }

// stored is the bytes of a shard.
func (i index) stored(s shardInfo) int64 {
	if i.JPEG > 0 {
		return s.Bytes
	}
	return int64(s.Photos) * int64(i.bytes())
}

// check makes sure of everything that reading relies on.
func (i index) check() error {
	if err := (Options{Size: i.Size, Fit: i.Fit, JPEG: i.JPEG}).Check(); err != nil {
		return err
	}
	if len(i.Photos) == 0 {
		return errors.New("there are no photographs in it")
	}
	for _, r := range i.Photos {
		switch {
		case r.Shard < 0 || r.Shard >= len(i.Shards) || r.Place < 0 || r.Place >= i.Shards[r.Shard].Photos:
			return fmt.Errorf("%s is in no shard", r.Path)
		case i.JPEG > 0 && (r.Begin < 0 || r.Bytes < 1 || r.Begin > i.Shards[r.Shard].Bytes-int64(r.Bytes)):
			return fmt.Errorf("%s lies beyond its shard", r.Path)
		case r.Class < Unlabelled || r.Class >= len(i.Classes):
			return fmt.Errorf("%s has class %d of %d", r.Path, r.Class, len(i.Classes))
		case r.Split != Train && r.Split != Val && r.Split != Test:
			return fmt.Errorf("%s is on side %q", r.Path, r.Split)
		}
		for _, o := range r.Objects {
			if o.Class < 0 || o.Class >= len(i.Classes) {
				return fmt.Errorf("%s has an object of class %d of %d", r.Path, o.Class, len(i.Classes))
			}
		}
	}
	return nil
}

// Len is the number of photographs.
func (s *Store) Len() int { return len(s.index.Photos) }

// Size is that of each photograph, in pixels.
func (s *Store) Size() (width, height int) { return s.index.Size[0], s.index.Size[1] }

// Record is what is known of photograph n, from 0 to [Store.Len] - 1. They are ordered by path.
func (s *Store) Record(n int) Record {
	r := s.index.Photos[n]
	r.Objects = slices.Clone(r.Objects)
	return r
}

// Name is the path of photograph n, below the folder that it came from.
func (s *Store) Name(n int) string { return s.index.Photos[n].Path }

// Original is the width and height of photograph n before it was prepared, in pixels.
func (s *Store) Original(n int) (width, height int) {
	return s.index.Photos[n].Width, s.index.Photos[n].Height
}

// Label is the class of photograph n, or [Unlabelled].
func (s *Store) Label(n int) int { return s.index.Photos[n].Class }

// Split is the side that photograph n is on: [Train], [Val] or [Test].
func (s *Store) Split(n int) string { return s.index.Photos[n].Split }

// LeftOut are the paths of photographs that the data set has and the store has not: they could not
// be read, or are on another side of the split, too.
func (s *Store) LeftOut() []string {
	var paths []string
	for _, d := range s.index.LeftOut {
		paths = append(paths, d.Path)
	}
	for _, f := range s.index.Failed {
		paths = append(paths, f.Path)
	}
	return paths
}

// Classes are the names of all classes.
func (s *Store) Classes() []string { return slices.Clone(s.index.Classes) }

// Layout is that of the data set that the photographs came from.
func (s *Store) Layout() string { return s.index.Layout }

// Fit is how they came to their size: "warp" or "crop".
func (s *Store) Fit() string { return s.index.Fit }

// Mean is the mean red, green and blue of the training side, from 0 to 255.
func (s *Store) Mean() [3]float64 { return s.index.Mean }

// Fingerprint identifies the prepared photographs: it changes with any pixel, name, class, side or
// setting, and not with where they came from.
func (s *Store) Fingerprint() string { return s.index.Fingerprint }

// At gives the pixels of photograph n: height rows of width red, green and blue bytes. They lie in
// a file that is mapped into memory: they must not be written to, and are gone once the store is
// closed. Where JPEGs are kept, they are decoded each time.
func (s *Store) At(n int) ([]byte, error) {
	r := s.index.Photos[n]
	shard, err := s.shard(r.Shard)
	if err != nil {
		return nil, err
	}
	size := s.index.bytes()
	if s.index.JPEG > 0 {
		resizer := s.resizers.Get().(*photo.Resizer)
		defer s.resizers.Put(resizer)
		pixels := make([]byte, size)
		if err := decompress(resizer, pixels, shard[r.Begin:r.Begin+int64(r.Bytes)]); err != nil {
			return nil, fmt.Errorf("%s, photograph %s: %w: run voxsaw 2d prepare again",
				shardFile(s.dir, r.Shard, ext(s.index.JPEG)), r.Path, err)
		}
		return pixels, nil
	}
	return shard[r.Place*size : (r.Place+1)*size : (r.Place+1)*size], nil
}

// shard maps a shard into memory, once.
func (s *Store) shard(n int) (mmap.MMap, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.closed {
		return nil, fmt.Errorf("reading prepared photographs in %s: the store is closed", s.dir)
	}
	if s.mapped[n] != nil {
		return s.mapped[n], nil
	}
	f, err := s.open(n)
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its file's descriptor
	mapped, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("mapping %s into memory: %w", f.Name(), err)
	}
	if want := s.index.stored(s.index.Shards[n]); int64(len(mapped)) < want {
		return nil, errors.Join(fmt.Errorf("%s has become shorter: run voxsaw 2d prepare again", f.Name()),
			mapped.Unmap())
	}
	s.mapped[n] = mapped
	return mapped, nil
}

// Verify reads every shard and compares it with its digest.
func (s *Store) Verify() error {
	for n, info := range s.index.Shards {
		if err := verifyShard(s.dir, n, info, s.index); err != nil {
			return fmt.Errorf("%w: delete it and run voxsaw 2d prepare again", err)
		}
	}
	return nil
}

// Close unmaps all photographs. None may be in use.
func (s *Store) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.local != nil && !s.closed {
		s.local.Release()
	}
	s.closed = true
	var errs []error
	for n, mapped := range s.mapped {
		if mapped != nil {
			errs = append(errs, mapped.Unmap())
			s.mapped[n] = nil
		}
	}
	return errors.Join(errs...)
}
