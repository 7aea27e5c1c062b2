package prepared

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/localcopy"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume"
)

// The format on disk. A store is a folder:
//
//	manifest.json  how the cases were prepared and one record a case; written last, so that it only
//	               ever describes what is there. Of many cases it names a table of the records
//	               (manifest.go, table.go)
//	cases/ID.json  the same record, written when the case is done: what an interrupted preparation
//	               resumes from
//	cases/ID.vox   the voxels, little endian, i fastest: the image as int16 (windowed HU, or steps of
//	               what a network sees: volume.Intensities), channel after channel, then labels (where
//	               there are any) as uint8 or uint16, then the index of index.go, then the labels on
//	               the scan's own voxels where those were resampled (original.go)
//
// The image can be looked at without Voxsaw: numpy.memmap(path, "<i2", shape=shape, order="F").
const (
	manifestName = "manifest.json"
	casesFolder  = "cases"
	// formatVersion changes whenever a store written before could be misread.
	formatVersion = 1
	// maxCaseVoxels bounds a prepared case, so that every voxel's number fits the uint32 of the
	// index.
	maxCaseVoxels = math.MaxUint32
)

// ErrNotPrepared says that a folder holds no finished store.
var ErrNotPrepared = errors.New("no prepared cases here: run voxsaw prepare first")

// ErrInterrupted says of a folder that is [ErrNotPrepared] that some of its cases are.
var ErrInterrupted = errors.New("interrupted")

// ErrStale says that a scan changed on disk after it was prepared.
var ErrStale = errors.New("changed since it was prepared: run voxsaw prepare again")

// Store is a folder of prepared cases. Its methods may be called from any number of goroutines.
type Store struct {
	dir      string
	manifest manifest // without its cases
	records  *table

	names   func() map[uint16]string // of labels, worked out once
	release func()                   // lets go of the folder

	maps  *mappings
	local *localcopy.Copies // nil: cases are read where they lie

	mutex sync.Mutex
	open  map[string]*Case
}

// Open opens the cases prepared in dir. It checks that the voxels are all there, and that the
// scans they came from, where those can still be found, are the ones that were prepared; otherwise
// the error wraps [ErrNotPrepared] or [ErrStale] and names the case. Until the store is closed, no
// other process can prepare cases into the folder.
func Open(dir string) (_ *Store, err error) {
	release, err := atomicfile.Share(dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = ErrNotPrepared
	}
	if err != nil {
		return nil, fmt.Errorf("opening prepared cases in %s: %w", dir, err)
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	m, records, err := readManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("opening prepared cases in %s%s: %w", dir, owner.Remark(dir), err)
	}
	if err := checkFiles(dir, records); err != nil {
		return nil, fmt.Errorf("opening prepared cases in %s: %w", dir, err)
	}
	s := &Store{dir: dir, manifest: m, records: records, release: release, maps: shared(), open: map[string]*Case{}}
	s.names = sync.OnceValue(s.labelNames)
	return s, nil
}

// checkFiles looks whether the voxels of all cases are there, and their sources as they were: on
// all cores, since a look at a file takes longer than all else that is done to open many cases. The
// error is that of the first case.
func checkFiles(dir string, records *table) error {
	const block = 64 // cases
	blocks := (records.len() + block - 1) / block
	errs := make([]error, blocks)
	var next atomic.Int64
	var failed atomic.Bool // all blocks before are taken, and are looked at to their end
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), blocks) {
		group.Go(func() {
			for !failed.Load() {
				n := int(next.Add(1)) - 1
				if n >= blocks {
					return
				}
				for at := n * block; at < min((n+1)*block, records.len()) && errs[n] == nil; at++ {
					errs[n] = checkCase(dir, records.record(at))
				}
				if errs[n] != nil {
					failed.Store(true)
				}
			}
		})
	}
	group.Wait()
	return cmp.Or(errs...)
}

func checkCase(dir string, r Record) error {
	if err := checkVoxels(dir, r); err != nil {
		return fmt.Errorf("case %s: %w", r.ID, err)
	}
	for _, source := range r.Sources {
		switch changed, err := source.Changed(); {
		case errors.Is(err, fs.ErrNotExist):
			// Prepared cases stand on their own: the scans may have been moved or left on another
			// machine.
		case err != nil:
			return fmt.Errorf("case %s: %w", r.ID, err)
		case changed:
			return fmt.Errorf("case %s: %s %w", r.ID, source.Path, ErrStale)
		}
	}
	return nil
}

func checkVoxels(dir string, r Record) error {
	path := voxelPath(dir, r.ID)
	switch stat, err := os.Stat(path); {
	case err != nil:
		return fmt.Errorf("%w: run voxsaw prepare again", err)
	case stat.Size() != r.Bytes:
		return fmt.Errorf("%s has %d bytes, not %d: run voxsaw prepare again", path, stat.Size(), r.Bytes)
	}
	return nil
}

// Len returns the number of prepared cases.
func (s *Store) Len() int { return s.records.len() }

// Records goes through what is known of the prepared cases, ordered by ID.
func (s *Store) Records() iter.Seq[Record] { return s.records.all() }

// ForTraining lists the cases that may be trained on: not those that the data set itself holds back
// for testing.
func (s *Store) ForTraining() (labelled, unlabelled []string) {
	for c := range s.Records() {
		switch {
		case c.Group != "":
		case c.HasLabels:
			labelled = append(labelled, c.ID)
		default:
			unlabelled = append(unlabelled, c.ID)
		}
	}
	return labelled, unlabelled
}

// Predicted lists the cases whose labels are what a network predicted.
func (s *Store) Predicted() (ids []string) {
	for c := range s.Records() {
		if c.Predicted {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

// Series are the words by which the DICOM series of the cases were chosen of each study, such as
// description~portal; "" where nobody chose.
func (s *Store) Series() string { return s.manifest.Series }

// Spacings is the range of the voxel sizes of some cases, where each kept its scan's own along any
// axis; the zero value where all were prepared to one.
func (s *Store) Spacings(ids []string) volume.Range {
	if !slices.Contains(s.manifest.Preparation.Spacing[:], 0) {
		return volume.Range{}
	}
	return volume.RangeOf(func(yield func([3]float64) bool) {
		for _, id := range ids {
			if r, found := s.Record(id); found && !yield(r.Spacing) {
				return
			}
		}
	})
}

// Voxels are the digests of the scans of some cases, see [Record].
func (s *Store) Voxels(ids []string) []string {
	digests := make([]string, len(ids))
	for n, id := range ids {
		r, _ := s.Record(id)
		digests[n] = r.Scan
	}
	return digests
}

// Record returns what is known of the case called id, and whether there is one.
func (s *Store) Record(id string) (Record, bool) {
	n, found := s.records.find(id)
	if !found {
		return Record{}, false
	}
	return s.records.record(n), true
}

// Preparation is how the cases were prepared: scans to predict on need the same.
func (s *Store) Preparation() volume.Preparation { return s.manifest.Preparation }

// Fingerprint identifies the prepared voxels: it changes with any voxel, label, grid, case name or
// setting, and not with where the scans lie.
func (s *Store) Fingerprint() string { return s.manifest.Fingerprint }

// LabelNames gives the names of all labels that occur in any case; "" where none is known.
func (s *Store) LabelNames() map[uint16]string { return maps.Clone(s.names()) }

func (s *Store) labelNames() map[uint16]string {
	names := map[uint16]string{}
	for r := range s.records.all() {
		for label := range r.LabelCounts {
			if names[label] == "" {
				names[label] = r.LabelNames[label]
			}
		}
	}
	return names
}

// VerifyRecords works out the fingerprint of the records and compares it with the one that was
// written with them. [Open] compares the digest of the records' file, where they have one.
func (s *Store) VerifyRecords() error {
	if err := s.manifest.checkFingerprint(s.records.all()); err != nil {
		return fmt.Errorf("%s: %w: run voxsaw prepare again", s.dir, err)
	}
	return nil
}

// Verify reads every case and compares it with its checksum. The error names every case that is
// damaged.
func (s *Store) Verify() error {
	errs := []error{s.VerifyRecords()}
	for r := range s.records.all() {
		if err := s.VerifyCase(r.ID); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// VerifyCase reads a case and compares it with its checksum.
func (s *Store) VerifyCase(id string) error {
	r, found := s.Record(id)
	if !found {
		return s.unknown(id)
	}
	return verifyVoxels(s.dir, r)
}

// verifyVoxels compares a case's file with its checksum.
func verifyVoxels(dir string, r Record) error {
	if err := checkVoxels(dir, r); err != nil {
		return fmt.Errorf("case %s: %w", r.ID, err)
	}
	path := voxelPath(dir, r.ID)
	sum, err := checksum(path)
	if err != nil {
		return fmt.Errorf("case %s: %w", r.ID, err)
	}
	if sum != r.Checksum {
		return fmt.Errorf("case %s: %s is not what was prepared (checksum %.12s, not %.12s): run voxsaw prepare again",
			r.ID, path, sum, r.Checksum)
	}
	return nil
}

func (s *Store) unknown(id string) error {
	return fmt.Errorf("no case %q among the %d prepared in %s", id, s.Len(), s.dir)
}

// Open gives a case. Opening it again returns the same Case; it stays valid until the store is
// closed. Its file is mapped into memory when it is read, and compared with its checksum the first
// time. Of many cases only those that were read last stay mapped.
func (s *Store) Open(id string) (*Case, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if opened := s.open[id]; opened != nil {
		return opened, nil
	}
	n, found := s.records.find(id)
	if !found {
		return nil, s.unknown(id)
	}
	r := s.records.without(n)
	if err := r.checkChannels(s.manifest.Preparation); err != nil {
		return nil, fmt.Errorf("case %s: %w: run voxsaw prepare again", id, err)
	}
	opened := &Case{Record: r, dir: s.dir, preparation: &s.manifest.Preparation, maps: s.maps, local: s.local}
	s.open[id] = opened
	return opened, nil
}

// Sample implements [sample.Store]: it is [Store.Open].
func (s *Store) Sample(id string) (sample.Sample, error) {
	c, err := s.Open(id)
	if err != nil {
		return nil, err
	}
	return c, nil
}

// Close unmaps all cases, and lets go of the folder. None may be in use.
func (s *Store) Close() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	var errs []error
	for _, opened := range s.open {
		errs = append(errs, s.maps.drop(opened))
	}
	clear(s.open)
	s.release()
	if s.local != nil {
		s.local.Release()
	}
	return errors.Join(errs...)
}

// BytesOf is what the voxels of a case in a folder take that an earlier run has prepared; 0 where
// there are none.
func BytesOf(dir, id string) int64 {
	info, err := os.Stat(voxelPath(dir, id))
	if err != nil {
		return 0
	}
	return info.Size()
}

func voxelPath(dir, id string) string { return filepath.Join(dir, casesFolder, id+".vox") }

func recordPath(dir, id string) string { return filepath.Join(dir, casesFolder, id+".json") }
