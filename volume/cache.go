package volume

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/edsrzf/mmap-go"
)

// A cache is a folder:
//
//	manifest.json      how the cases were prepared and one record a case; written last, so that it only ever describes what is there
//	cases/ID.json      the same record, written when the case is done: what an interrupted preparation resumes from
//	cases/ID.vox       the voxels, little endian, i fastest: windowed HU as int16, then labels (where there are any) as uint8 or
//	                   uint16, then the index of cache_index.go
//
// The image can be looked at without Voxsaw: numpy.memmap(path, "<i2", shape=shape, order="F").

const (
	manifestName = "manifest.json"
	casesFolder  = "cases"
	// cacheVersion changes whenever a cache written before could be misread.
	cacheVersion = 1
	// maxCaseVoxels bounds a prepared case, so that every voxel's number fits the uint32 of the
	// index.
	maxCaseVoxels = math.MaxUint32
)

// ErrNotPrepared says that a folder holds no finished cache.
var ErrNotPrepared = errors.New("no prepared cases here: run voxsaw prepare first")

// ErrStale says that a scan changed on disk after it was prepared.
var ErrStale = errors.New("changed since it was prepared: run voxsaw prepare again")

// Cache is a folder of prepared cases. Its methods may be called from any number of goroutines.
type Cache struct {
	dir      string
	manifest manifest

	mutex sync.Mutex
	open  map[string]*Case
}

// CaseInfo describes a prepared case. Grid is the prepared image's; Original the grid of the scan
// it came from.
type CaseInfo struct {
	ID string `json:"id"`
	// "test" for cases that the data set itself holds back, such as MSD's imagesTs
	Group string `json:"group,omitempty"`
	// what the cases of one patient have in common; "" where there is one, or nobody knows
	Patient string `json:"patient,omitempty"`
	Grid
	Spacing   [3]float64 `json:"spacing"`
	Original  Grid       `json:"original"`
	HasLabels bool       `json:"has_labels"`
	// voxels of each label but 0, on the prepared grid
	LabelCounts map[uint16]int    `json:"label_counts,omitempty"`
	LabelNames  map[uint16]string `json:"label_names,omitempty"`
	Air         float64           `json:"air"` // share of the voxels that are air
	Notes       []string          `json:"notes,omitempty"`
	Sources     []Source          `json:"sources,omitempty"`
	Origin      string            `json:"origin,omitempty"`
	Checksum    string            `json:"checksum"` // SHA-256 of the case's .vox file
	Bytes       int64             `json:"bytes"`
}

type manifest struct {
	Version     int         `json:"version"`
	Preparation Preparation `json:"preparation"`
	Fingerprint string      `json:"fingerprint"`
	Cases       []CaseInfo  `json:"cases"`
}

// OpenCache opens the cases prepared in dir. It checks that the voxels are all there, and that the
// scans they came from, where those can still be found, are the ones that were prepared; otherwise
// the error wraps [ErrNotPrepared] or [ErrStale] and names the case.
func OpenCache(dir string) (*Cache, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, fmt.Errorf("opening prepared cases in %s: %w", dir, err)
	}
	for _, info := range m.Cases {
		if err := checkVoxels(dir, info); err != nil {
			return nil, fmt.Errorf("opening prepared cases in %s: case %s: %w", dir, info.ID, err)
		}
		for _, s := range info.Sources {
			switch changed, err := s.Changed(); {
			case errors.Is(err, fs.ErrNotExist):
				// Prepared cases stand on their own: the scans may have been moved or left on
				// another machine.
			case err != nil:
				return nil, fmt.Errorf("opening prepared cases in %s: case %s: %w", dir, info.ID, err)
			case changed:
				return nil, fmt.Errorf("opening prepared cases in %s: case %s: %s %w", dir, info.ID, s.Path, ErrStale)
			}
		}
	}
	return &Cache{dir: dir, manifest: m, open: map[string]*Case{}}, nil
}

func readManifest(dir string) (manifest, error) {
	var m manifest
	data, err := os.ReadFile(filepath.Join(dir, manifestName))
	if errors.Is(err, fs.ErrNotExist) {
		return m, ErrNotPrepared
	}
	if err != nil {
		return m, err
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return m, fmt.Errorf("%s is damaged (%w): run voxsaw prepare again", manifestName, err)
	}
	if m.Version != cacheVersion {
		return m, fmt.Errorf("prepared with format %d, this program reads format %d: run voxsaw prepare again", m.Version, cacheVersion)
	}
	for _, info := range m.Cases {
		if err := info.check(); err != nil {
			return m, fmt.Errorf("%s is damaged (case %q: %w): run voxsaw prepare again", manifestName, info.ID, err)
		}
	}
	return m, nil
}

// check refuses a record that could send a reader outside its file or outside the cache.
func (c CaseInfo) check() error {
	if err := checkID(c.ID); err != nil {
		return err
	}
	if err := c.Grid.Check(); err != nil {
		return err
	}
	if int64(c.Len()) > maxCaseVoxels {
		return fmt.Errorf("shape %v is more than %d voxels", c.Shape, int64(maxCaseVoxels))
	}
	for label, n := range c.LabelCounts {
		if label == 0 || n < 1 || n > c.Len() {
			return fmt.Errorf("%d voxels of label %d", n, label)
		}
	}
	if c.Bytes != newCaseLayout(c).end {
		return fmt.Errorf("%d bytes where %d are needed", c.Bytes, newCaseLayout(c).end)
	}
	return nil
}

func checkVoxels(dir string, info CaseInfo) error {
	path := voxelPath(dir, info.ID)
	switch stat, err := os.Stat(path); {
	case err != nil:
		return fmt.Errorf("%w: run voxsaw prepare again", err)
	case stat.Size() != info.Bytes:
		return fmt.Errorf("%s has %d bytes, not %d: run voxsaw prepare again", path, stat.Size(), info.Bytes)
	}
	return nil
}

// Cases lists the prepared cases by ID.
func (c *Cache) Cases() []CaseInfo { return slices.Clone(c.manifest.Cases) }

// Preparation is how the cases were prepared: scans to predict on need the same.
func (c *Cache) Preparation() Preparation { return c.manifest.Preparation }

// Fingerprint identifies the prepared voxels: it changes with any voxel, label, grid, case name or
// setting, and not with where the scans lie.
func (c *Cache) Fingerprint() string { return c.manifest.Fingerprint }

// LabelNames gives the names of all labels that occur in any case; "" where none is known.
func (c *Cache) LabelNames() map[uint16]string {
	names := map[uint16]string{}
	for _, info := range c.manifest.Cases {
		for label := range info.LabelCounts {
			if names[label] == "" {
				names[label] = info.LabelNames[label]
			}
		}
	}
	return names
}

// SmallerThan lists the cases that a crop of the given size does not fit into, so that a run can
// say once that they will be padded with air.
func (c *Cache) SmallerThan(size [3]int) []string {
	var ids []string
	for _, info := range c.manifest.Cases {
		if info.smallerThan(size) {
			ids = append(ids, info.ID)
		}
	}
	return ids
}

func (c CaseInfo) smallerThan(size [3]int) bool {
	return size[0] > c.Shape[0] || size[1] > c.Shape[1] || size[2] > c.Shape[2]
}

// Verify reads every case and compares it with its checksum.
func (c *Cache) Verify() error {
	for _, info := range c.manifest.Cases {
		f, err := os.Open(voxelPath(c.dir, info.ID))
		if err != nil {
			return err
		}
		h := sha256.New()
		_, err = io.Copy(h, f)
		f.Close()
		if err != nil {
			return err
		}
		if sum := hex.EncodeToString(h.Sum(nil)); sum != info.Checksum {
			return fmt.Errorf("case %s: the voxels in %s are damaged (checksum %.12s, not %.12s): run voxsaw prepare again", info.ID, c.dir, sum, info.Checksum)
		}
	}
	return nil
}

// Open maps a case into memory. Opening it again returns the same Case; it stays valid until the
// cache is closed.
func (c *Cache) Open(id string) (*Case, error) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if opened := c.open[id]; opened != nil {
		return opened, nil
	}
	at, found := slices.BinarySearchFunc(c.manifest.Cases, id, compareID)
	if !found {
		return nil, fmt.Errorf("no case %q among the %d prepared in %s", id, len(c.manifest.Cases), c.dir)
	}
	opened, err := openCase(c.dir, c.manifest.Cases[at], c.manifest.Preparation)
	if err != nil {
		return nil, fmt.Errorf("opening prepared case %s: %w", id, err)
	}
	c.open[id] = opened
	return opened, nil
}

// Close unmaps all cases. None may be in use.
func (c *Cache) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	var errs []error
	for _, opened := range c.open {
		errs = append(errs, opened.mapped.Unmap())
	}
	clear(c.open)
	return errors.Join(errs...)
}

// A Case is a prepared case whose crops can be read without loading the rest. Its methods may be
// called from any number of goroutines.
type Case struct {
	CaseInfo
	preparation Preparation
	mapped      mmap.MMap
	layout      caseLayout
	present     []uint16 // labels with at least one voxel, ascending
}

func openCase(dir string, info CaseInfo, p Preparation) (*Case, error) {
	if err := checkVoxels(dir, info); err != nil {
		return nil, err
	}
	f, err := os.Open(voxelPath(dir, info.ID))
	if err != nil {
		return nil, err
	}
	defer f.Close() // a mapping outlives its file's descriptor
	mapped, err := mmap.Map(f, mmap.RDONLY, 0)
	if err != nil {
		return nil, fmt.Errorf("mapping %s into memory: %w", f.Name(), err)
	}
	return &Case{CaseInfo: info, preparation: p, mapped: mapped, layout: newCaseLayout(info), present: slices.Sorted(maps.Keys(info.LabelCounts))}, nil
}

// Image reads the crop of size voxels whose first voxel is origin, normalised as the network sees
// it, i fastest: (D, H, W) with D = size[2]. What lies outside the scan is air.
func (c *Case) Image(dst []float32, origin, size [3]int) error {
	if err := checkCrop(len(dst), size); err != nil {
		return fmt.Errorf("case %s: %w", c.ID, err)
	}
	hu := c.mapped[:c.layout.labels]
	scale, shift := c.preparation.scale()
	air := scale*float32(c.preparation.air()) + shift
	rows(c.Shape, origin, size, func(to, length, from, left, n int) {
		row := dst[to : to+length]
		fill(row[:left], air)
		values, bytes := row[left:left+n], hu[2*from:2*(from+n)]
		for i := range values {
			values[i] = scale*float32(int16(binary.LittleEndian.Uint16(bytes[2*i:]))) + shift
		}
		fill(row[left+n:], air)
	})
	return nil
}

// Labels reads the labels of a crop, as numbers, in the order of [Case.Image]; outside the scan is
// background.
func (c *Case) Labels(dst []float32, origin, size [3]int) error {
	if err := checkCrop(len(dst), size); err != nil {
		return fmt.Errorf("case %s: %w", c.ID, err)
	}
	if !c.HasLabels {
		return fmt.Errorf("case %s has no labels", c.ID)
	}
	labels, width := c.mapped[c.layout.labels:c.layout.blocks], c.layout.labelBytes
	rows(c.Shape, origin, size, func(to, length, from, left, n int) {
		row := dst[to : to+length]
		fill(row[:left], 0)
		values, bytes := row[left:left+n], labels[width*from:width*(from+n)]
		if width == 1 {
			for i, b := range bytes {
				values[i] = float32(b)
			}
		} else {
			for i := range values {
				values[i] = float32(binary.LittleEndian.Uint16(bytes[2*i:]))
			}
		}
		fill(row[left+n:], 0)
	})
	return nil
}

// Padded reports whether a crop of this size is larger than the scan along any axis, so that air is
// added wherever it is taken.
func (c *Case) Padded(size [3]int) bool { return c.smallerThan(size) }

// RandomOrigin draws where to take a crop of the given size, wholly inside the scan; along an axis
// where the scan is smaller than the crop, the scan is centred in it. Crops with at most the share
// maxAir of air are preferred: it draws up to eight times and otherwise takes the one with the
// least. maxAir 1 takes the first.
func (c *Case) RandomOrigin(r *rand.Rand, size [3]int, maxAir float64) [3]int {
	const attempts = 8
	var best [3]int
	least := math.Inf(1)
	for range attempts {
		var origin [3]int
		for axis := range origin {
			if room := c.Shape[axis] - size[axis]; room >= 0 {
				origin[axis] = r.IntN(room + 1)
			} else {
				origin[axis] = -(-room / 2)
			}
		}
		if maxAir >= 1 {
			return origin
		}
		if air := c.AirFraction(origin, size); air < least {
			best, least = origin, air
		}
		if least <= maxAir {
			break
		}
	}
	return best
}

// OriginAround gives the origin of a crop with the voxel at its centre, moved as little as needed
// for the crop to lie inside the scan.
func (c *Case) OriginAround(voxel, size [3]int) [3]int {
	var origin [3]int
	for axis := range origin {
		room := c.Shape[axis] - size[axis]
		if room < 0 {
			origin[axis] = -(-room / 2)
			continue
		}
		origin[axis] = min(max(voxel[axis]-size[axis]/2, 0), room)
	}
	return origin
}

// Volume reads the whole prepared image: windowed HU.
func (c *Case) Volume() *Volume {
	v := &Volume{Grid: c.Grid, Int16: make([]int16, c.Len())}
	for i := range v.Int16 {
		v.Int16[i] = int16(binary.LittleEndian.Uint16(c.mapped[2*i:]))
	}
	return v
}

// LabelMap reads all labels on the prepared grid; nil where the case has none.
func (c *Case) LabelMap() *LabelMap {
	if !c.HasLabels {
		return nil
	}
	l := &LabelMap{Grid: c.Grid, Labels: make([]uint16, c.Len()), Names: maps.Clone(c.LabelNames)}
	bytes := c.mapped[c.layout.labels:c.layout.blocks]
	for i := range l.Labels {
		if c.layout.labelBytes == 1 {
			l.Labels[i] = uint16(bytes[i])
		} else {
			l.Labels[i] = binary.LittleEndian.Uint16(bytes[2*i:])
		}
	}
	return l
}

// rows calls row for each line of a crop along i: the line is length elements at to of the crop, of
// which n, after the first left, are the scan's, at from. A line beside the scan has n = 0.
func rows(shape, origin, size [3]int, row func(to, length, from, left, n int)) {
	left := min(max(-origin[0], 0), size[0])
	n := max(min(origin[0]+size[0], shape[0])-max(origin[0], 0), 0)
	if n == 0 {
		left = size[0]
	}
	to := 0
	for k := origin[2]; k < origin[2]+size[2]; k++ {
		for j := origin[1]; j < origin[1]+size[1]; j++ {
			if n == 0 || j < 0 || j >= shape[1] || k < 0 || k >= shape[2] {
				row(to, size[0], 0, size[0], 0)
			} else {
				row(to, size[0], origin[0]+left+shape[0]*(j+shape[1]*k), left, n)
			}
			to += size[0]
		}
	}
}

func fill(row []float32, value float32) {
	for i := range row {
		row[i] = value
	}
}

func checkCrop(length int, size [3]int) error {
	if size[0] < 1 || size[1] < 1 || size[2] < 1 || length != size[0]*size[1]*size[2] {
		return fmt.Errorf("a crop of %v voxels does not go into %d values", size, length)
	}
	return nil
}

func compareID(info CaseInfo, id string) int {
	switch {
	case info.ID < id:
		return -1
	case info.ID > id:
		return 1
	}
	return 0
}

func voxelPath(dir, id string) string { return filepath.Join(dir, casesFolder, id+".vox") }

func recordPath(dir, id string) string { return filepath.Join(dir, casesFolder, id+".json") }
