package photos

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
)

// A Failure is a file that could not be read.
type Failure struct {
	Path string `json:"path"`
	Err  string `json:"error"` // what is wrong, and what to do
}

// A Duplicate is a photograph that was left out of its side of the split, because another side has
// one with the same prepared pixels.
type Duplicate struct {
	Path string `json:"path"`
	Of   string `json:"of"`
}

// A Summary says what became of the photographs of a set.
type Summary struct {
	Prepared, Kept int // decoded now, and taken over from an earlier run
	Failed         []Failure
	LeftOut        []Duplicate
	Repeated       int            // photographs that their own side of the split has already
	Sides          map[string]int // photographs of each side
	Fingerprint    string
}

// A Result is told of each photograph.
type Result struct {
	Path string
	Kept bool // an earlier run had decoded it
	Err  error
}

// maxBad is the share of files that may fail: more is no accident.
const maxBad = 0.05

// Prepare decodes the photographs of a set into dir. Shards that an earlier run has made with the
// same settings of the same files are kept. Each result is passed to progress (which may be nil),
// one at a time, in no particular order.
//
// A file that cannot be read is skipped and counted. The machine's faults ([Machine]) and more than
// 5 % of bad files stop it, and so does the end of ctx: then the shards that are finished stay for
// the next run, and [Open] finds nothing yet. The same set and options give the same bytes.
func Prepare(ctx context.Context, set *Set, dir string, o Options, progress func(Result)) (*Summary, error) {
	summary := &Summary{Sides: map[string]int{}}
	if err := o.Check(); err != nil {
		return summary, err
	}
	if same, err := sameFolder(set.Root, dir); err != nil || same {
		if same {
			err = fmt.Errorf("%s is the folder of the photographs themselves: choose another", dir)
		}
		return summary, err
	}
	need := int64(0)               // of the index
	for _, p := range set.Photos { // names are kept as JSON, which is UTF-8
		if !utf8.ValidString(p.Path) {
			return nil, fmt.Errorf("%s: its name is not UTF-8: rename it, or the folder that it lies in",
				safetext.Text(filepath.Join(set.Root, p.Path)))
		}
		need += int64(len(p.Path)) + indexLine
	}
	if need > indexLimit {
		return nil, fmt.Errorf("%s: %d photographs are more than one folder of prepared "+
			"photographs can list: prepare them in parts",
			set.Root, len(set.Photos))
	}
	release, err := outdir.Hold(dir, func() error { return clean(dir) })
	if err != nil {
		return summary, err
	}
	defer release()
	if before, err := readIndex(dir); err == nil && !o.Force {
		if what := before.unlike(set, o); what != "" {
			return summary, &ReplaceError{dir, what}
		}
	}
	var mutex sync.Mutex
	work := &shards{dir: dir, set: set, options: o, done: func(path string, kept bool, failed error) error {
		mutex.Lock()
		defer mutex.Unlock()
		switch {
		case failed != nil:
			summary.Failed = append(summary.Failed, Failure{path, failed.Error()})
		case kept:
			summary.Kept++
		default:
			summary.Prepared++
		}
		if progress != nil {
			progress(Result{path, kept, failed})
		}
		return summary.tooBad(set)
	}}
	records, err := work.all(ctx)
	slices.SortFunc(summary.Failed, func(a, b Failure) int { return strings.Compare(a.Path, b.Path) })
	if err != nil {
		return summary, err
	}
	i := newIndex(set, o, records, summary)
	if len(i.Photos) == 0 {
		return summary, fmt.Errorf("%s: no photograph could be read", set.Root)
	}
	if err := writeIndex(filepath.Join(dir, indexName), i); err != nil {
		return summary, err
	}
	summary.Fingerprint = i.Fingerprint
	if err := removeOthers(dir, len(records), o.JPEG); err != nil {
		return summary, err
	}
	var shards []string // their records, which have the digests of the pixels
	for shard := range records {
		shards = append(shards, filepath.Base(shardFile(dir, shard, "json")))
	}
	return summary, errors.Join(atomicfile.Seal(filepath.Join(dir, shardsFolder), shards...),
		atomicfile.Seal(dir, indexName))
}

// A ReplaceError says that a folder holds photographs that a preparation would replace.
type ReplaceError struct{ dir, what string }

func (e *ReplaceError) Error() string {
	return fmt.Sprintf("%s holds prepared photographs that would be replaced: %s", e.dir, e.what)
}

// unlike says in what a set that is to be prepared differs from what was prepared, so that nothing
// of it would be kept; "" where it goes on from it, grown or not.
func (i index) unlike(set *Set, o Options) string {
	switch {
	case i.Size != o.Size:
		return fmt.Sprintf("they have %dx%d pixels, and are to have %dx%d", i.Size[0], i.Size[1], o.Size[0], o.Size[1])
	case i.JPEG != o.JPEG:
		return fmt.Sprintf("they are kept as %s, and are to be kept as %s", keptAs(i.JPEG), keptAs(o.JPEG))
	case i.Fit != o.Fit:
		return fmt.Sprintf("their fit is %s, and is to be %s", i.Fit, o.Fit)
	}
	there := map[string]bool{}
	for _, f := range set.Photos {
		there[f.Path] = true
	}
	if slices.ContainsFunc(i.Photos, func(r Record) bool { return there[r.Path] }) {
		return ""
	}
	return fmt.Sprintf("none of them is in %s", set.Root)
}

func keptAs(quality int) string {
	if quality == 0 {
		return "pixels"
	}
	return fmt.Sprintf("JPEGs of quality %d", quality)
}

// sameFolder says whether both paths lead to one folder.
func sameFolder(a, b string) (bool, error) {
	first, err := os.Stat(a)
	if err != nil {
		return false, err
	}
	second, err := os.Stat(b)
	return err == nil && os.SameFile(first, second), nil
}

// tooBad is the error that stops a preparation.
func (s *Summary) tooBad(set *Set) error {
	if float64(len(s.Failed)) <= maxBad*float64(len(set.Photos)) {
		return nil
	}
	const most = 3
	var lines []string
	for _, f := range s.Failed[:min(len(s.Failed), most)] {
		lines = append(lines, f.Path+": "+f.Err)
	}
	if more := len(s.Failed) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("%s: more than %g %% of %d photographs cannot be read (%s): mend these files, or take them away",
		set.Root, 100*maxBad, len(set.Photos), strings.Join(lines, "; "))
}

// all prepares every shard.
func (s *shards) all(ctx context.Context) ([]shardRecord, error) {
	records := make([]shardRecord, s.count())
	// The index of an earlier run goes before the first shard that it describes changes.
	begin := sync.OnceValue(func() error { return atomicfile.Remove(filepath.Join(s.dir, indexName)) })
	group, inner := errgroup.WithContext(ctx)
	next := make(chan int)
	group.Go(func() error {
		defer close(next)
		for n := range records {
			select {
			case next <- n:
			case <-inner.Done():
				return inner.Err()
			}
		}
		return nil
	})
	for range min(s.options.workers(), len(records)) {
		group.Go(func() (err error) {
			w := s.worker()
			for n := range next {
				if records[n], err = s.prepare(inner, n, w, begin); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err := group.Wait()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return records, err
}
