package photos

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/photo"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// The format on disk. A prepared folder is:
//
//	index.json         what is prepared, from what, and a digest of each shard; written last, so that
//	                   it only ever describes what is there
//	shards/00000.rgb   photographs one behind the other, each height rows of width red, green and blue
//	                   bytes: numpy.memmap(path, "u1").reshape(-1, height, width, 3)
//	shards/00000.jpegs instead, where they are kept as JPEGs: these, one behind the other
//	shards/00000.json  which files these were: what an interrupted preparation resumes from
const (
	indexName    = "index.json"
	shardsFolder = "shards"
	// formatVersion changes whenever a folder written before could be misread.
	formatVersion = 1
)

// indexLimit is the most that an index may hold, in bytes: tens of millions of photographs. It
// grows with the data set, as no other small file does. Tests make it smaller.
var indexLimit int64 = 8 << 30

// indexLine is about what a photograph takes in an index, besides its path.
const indexLine = 200

// shardBytes is about what a shard takes, on disk and in a worker's memory. Tests make it smaller.
var shardBytes = 64 << 20

var shardName = regexp.MustCompile(`^\d{5,}\.(rgb|jpegs|json)$`)

// shardRecord is the content of shards/NUMBER.json.
type shardRecord struct {
	Version int      `json:"version"`
	Size    [2]int   `json:"size"`
	Fit     string   `json:"fit"`
	JPEG    int      `json:"jpeg,omitempty"`
	Files   []source `json:"files"`
}

// source is a file of a shard, and what became of it.
type source struct {
	Path     string    `json:"path"`
	Bytes    int64     `json:"bytes"`
	Modified time.Time `json:"modified"`
	outcome
}

// outcome is what decoding a file gave.
type outcome struct {
	Width  int       `json:"width,omitempty"` // of the original
	Height int       `json:"height,omitempty"`
	Digest string    `json:"digest,omitempty"` // of the prepared pixels, or of their JPEG
	Stored int       `json:"stored,omitempty"` // bytes of that
	Sums   [3]uint64 `json:"sums,omitzero"`    // of red, green and blue
	Error  string    `json:"error,omitempty"`  // why it could not be read; then it takes no room
}

// shards prepares the photographs of a set, shard by shard.
type shards struct {
	dir     string
	set     *Set
	options Options
	// after each photograph, from any goroutine
	done func(path string, kept bool, err error) error
}

// length is the number of photographs in a shard that is full.
func (s *shards) length() int { return max(shardBytes/s.options.bytes(), 1) }

func (s *shards) count() int { return (len(s.set.Photos) + s.length() - 1) / s.length() }

// found are the photographs of a shard.
func (s *shards) found(shard int) []Found {
	return s.set.Photos[shard*s.length() : min((shard+1)*s.length(), len(s.set.Photos))]
}

func shardFile(dir string, shard int, ext string) string {
	return filepath.Join(dir, shardsFolder, fmt.Sprintf("%05d.%s", shard, ext))
}

// worker is what one goroutine takes from photograph to photograph and from shard to shard.
type worker struct {
	resizer *photo.Resizer
	decoded *photo.Resizer // of JPEGs, which have their size
	pixels  []byte         // of a shard
}

func (s *shards) worker() *worker {
	return &worker{resizer: photo.NewResizer(s.options.Size[0], s.options.Size[1], photo.Fit(s.options.Fit)),
		decoded: photo.NewResizer(s.options.Size[0], s.options.Size[1], photo.Warp)}
}

// prepare makes a shard, unless an earlier run has made the same from the same files.
func (s *shards) prepare(ctx context.Context, shard int, w *worker, begin func() error) (shardRecord, error) {
	record := shardRecord{Version: formatVersion, Size: s.options.Size, Fit: s.options.Fit, JPEG: s.options.JPEG}
	for _, f := range s.found(shard) {
		src := source{Path: f.Path}
		info, err := os.Stat(s.file(f))
		if Machine(err) {
			return record, err
		}
		if err == nil { // otherwise reading it says so
			src.Bytes, src.Modified = info.Size(), info.ModTime().UTC()
		}
		record.Files = append(record.Files, src)
	}
	if kept, ok := s.keep(shard, record, w); ok {
		for _, f := range kept.Files {
			if err := s.done(f.Path, f.Error == "", f.err()); err != nil {
				return kept, err
			}
		}
		return kept, nil
	}
	if need := len(record.Files) * s.options.bytes(); cap(w.pixels) < need {
		w.pixels = make([]byte, 0, need)
	}
	pixels, scratch := w.pixels[:0], make([]byte, s.options.bytes())
	for n, f := range s.found(shard) {
		if ctx.Err() != nil {
			return record, ctx.Err()
		}
		into := scratch
		if s.options.JPEG == 0 {
			into = pixels[len(pixels) : len(pixels)+s.options.bytes()]
		}
		result, stored, err := s.decode(f, w, into)
		if Machine(err) {
			return record, err
		}
		record.Files[n].outcome = result
		if result.Error == "" {
			pixels = append(pixels, stored...) // pixels lie there already
		}
		if err := s.done(f.Path, false, record.Files[n].err()); err != nil {
			return record, err
		}
	}
	return record, s.write(shard, record, pixels, begin)
}

func (s *shards) file(f Found) string {
	return filepath.Join(s.set.Root, filepath.FromSlash(f.Path))
}

// decode reads a photograph into its place, and gives what is stored of it: that, or its JPEG. What
// is wrong with the file is part of the outcome, and the error too, so that the machine's faults
// can be told.
func (s *shards) decode(f Found, w *worker, into []byte) (result outcome, stored []byte, err error) {
	p, err := photo.Read(s.file(f))
	if err != nil {
		return outcome{Error: reason(err)}, nil, err
	}
	w.resizer.Resize(into, p)
	result, stored = outcome{Width: p.Width, Height: p.Height}, into
	if s.options.JPEG > 0 {
		if stored, err = s.options.compress(w.decoded, into); err != nil {
			return outcome{Error: err.Error()}, nil, err
		}
		result.Stored = len(stored)
	}
	result.Digest, result.Sums = digest(stored), colourSums(into)
	return result, stored, nil
}

// reason is an error without the file's name, which stands beside it.
func reason(err error) string {
	var problem *photo.Problem
	var path *os.PathError
	switch {
	case errors.As(err, &problem):
		return problem.Error()
	case errors.Is(err, os.ErrPermission):
		return "it may not be read: change its permissions, or take it away"
	case errors.Is(err, os.ErrNotExist):
		return "it is no longer there"
	case errors.As(err, &path):
		return path.Err.Error()
	}
	return err.Error()
}

// err is what is wrong with the file; nil if nothing is.
func (s source) err() error {
	if s.Error == "" {
		return nil
	}
	return errors.New(s.Error)
}

// keep takes over a shard of an earlier run. What could not be read then is tried again.
func (s *shards) keep(shard int, now shardRecord, w *worker) (shardRecord, bool) {
	path := shardFile(s.dir, shard, "json")
	if atomicfile.CompareFiles(path) != nil {
		return now, false
	}
	data, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return now, false
	}
	var old shardRecord
	if json.Unmarshal(data, &old) != nil || old.Version != now.Version || old.Size != now.Size || old.Fit != now.Fit ||
		old.JPEG != now.JPEG || len(old.Files) != len(now.Files) {
		return now, false
	}
	stored := int64(0)
	for n, f := range old.Files {
		if f.Path != now.Files[n].Path || f.Bytes != now.Files[n].Bytes || !f.Modified.Equal(now.Files[n].Modified) {
			return now, false
		}
		if f.Error == "" {
			stored += int64(cmp.Or(f.Stored, s.options.bytes()))
		}
	}
	kept := shardFile(s.dir, shard, ext(s.options.JPEG))
	info, err := os.Stat(kept)
	if err != nil || info.Size() != stored {
		return now, false
	}
	if !old.holds(kept, s.options.bytes()) {
		return now, false
	}
	scratch := make([]byte, s.options.bytes())
	for n, f := range s.found(shard) {
		if old.Files[n].Error == "" {
			continue
		}
		if _, _, err := s.decode(f, w, scratch); err == nil || Machine(err) {
			return now, false
		}
	}
	return old, true
}

// write puts a shard into place: the pixels, then what they are. Begin is called when there is room
// for both.
func (s *shards) write(shard int, record shardRecord, pixels []byte, begin func() error) error {
	about, err := encodeJSON(record)
	if err != nil {
		return err
	}
	content := func(data []byte) func(io.Writer) error {
		return func(w io.Writer) error {
			_, err := w.Write(data)
			return err
		}
	}
	path := shardFile(s.dir, shard, "json")
	return atomicfile.WriteTogether(func() error {
		if err := begin(); err != nil {
			return err
		}
		return atomicfile.Remove(path)
	}, atomicfile.File{Path: shardFile(s.dir, shard, ext(s.options.JPEG)), Write: content(pixels)},
		atomicfile.File{Path: path, Write: content(about)})
}

// digest identifies prepared pixels.
func digest(pixels []byte) string {
	sum := sha256.Sum256(pixels)
	return hex.EncodeToString(sum[:16])
}

// shardDigest identifies a shard by its photographs.
func shardDigest(digests []string) string {
	h := sha256.New()
	for _, d := range digests {
		h.Write([]byte(d))
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// colourSums adds up red, green and blue. It takes 24 bytes, 8 pixels, at a time, in lanes of 16
// bits within words of 64.
func colourSums(pixels []byte) (sums [3]uint64) {
	const (
		even = 0x00ff00ff00ff00ff
		most = 256 // additions of a byte before a lane could overflow
	)
	for len(pixels) >= 24 {
		var lanes [6]uint64 // the even and the odd bytes of three words
		for n := 0; n < most && len(pixels) >= 24; n++ {
			for w := range 3 {
				v := binary.LittleEndian.Uint64(pixels[8*w:])
				lanes[2*w] += v & even
				lanes[2*w+1] += v >> 8 & even
			}
			pixels = pixels[24:]
		}
		for at := range 24 {
			lane := lanes[at/8*2+at%2] >> (16 * (at % 8 / 2)) & 0xffff
			sums[at%3] += lane
		}
	}
	for n, v := range pixels {
		sums[n%3] += uint64(v)
	}
	return sums
}

// clean removes what killed runs have left, makes the folder of shards, and refuses a folder of
// somebody else.
func clean(dir string) error {
	foreign := func(path string) error {
		return fmt.Errorf("%s is no part of prepared photographs, and would be lost: choose an empty folder", path)
	}
	index := filepath.Join(dir, indexName)
	if data, err := smallfile.Read(index, indexLimit); err == nil {
		var i struct {
			Version *int
			Shards  *json.RawMessage
		}
		if json.Unmarshal(data, &i); i.Version == nil || i.Shards == nil {
			return foreign(index)
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(dir, shardsFolder))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		if e.Name()[0] != '.' && !shardName.MatchString(e.Name()) {
			return foreign(filepath.Join(dir, shardsFolder, e.Name()))
		}
	}
	if err := atomicfile.MakeFolder(filepath.Join(dir, shardsFolder)); err != nil {
		return err
	}
	isIndex := func(name string) bool { return name == indexName }
	return errors.Join(atomicfile.Clean(dir, isIndex), atomicfile.Clean(filepath.Join(dir, shardsFolder), nil))
}

// removeOthers removes shards beyond the last, and those of the other kind.
func removeOthers(dir string, count, quality int) error {
	entries, err := os.ReadDir(filepath.Join(dir, shardsFolder))
	if err != nil {
		return err
	}
	current := make([]string, count)
	for n := range current {
		current[n] = fmt.Sprintf("%05d", n)
	}
	var others []string
	for _, e := range entries {
		name := e.Name()
		if !shardName.MatchString(name) {
			continue
		}
		kind := filepath.Ext(name)
		if number := name[:len(name)-len(kind)]; !slices.Contains(current, number) ||
			kind != ".json" && kind != "."+ext(quality) {
			others = append(others, name)
		}
	}
	return atomicfile.RemoveFrom(filepath.Join(dir, shardsFolder), others...)
}

// writeIndex leaves a file that says the same as it is.
func writeIndex(path string, i index) error {
	data, err := encodeJSON(i)
	if err != nil {
		return err
	}
	if old, err := smallfile.Read(path, indexLimit); err == nil && bytes.Equal(old, data) {
		return nil
	}
	return atomicfile.WriteBytes(path, data)
}

// encodeJSON puts a file or photograph on each line, for people and for tools that compare.
func encodeJSON(value any) ([]byte, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	data = append(bytes.ReplaceAll(data, []byte(`},{"path"`), []byte("},\n{\"path\"")), '\n')
	return safetext.JSON(data), nil
}
