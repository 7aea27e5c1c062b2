package prepare

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: one folder that several processes prepare parts of a data set into. Each shares the
// folder with the others and holds a folder of its own part,
//
//	parts/3-of-16/          held while part 3 of 16 is prepared
//	parts/3-of-16.json      written when it is done: a partRecord
//
// and the last one writes the manifest. It has the folder alone then, and removes parts/.
const partsFolder = "parts"

// fileOf is the path of the part's record, and without its extension that of the folder that is
// held.
func fileOf(p dataset.Part, dir string) string {
	return filepath.Join(dir, partsFolder, fmt.Sprintf("%d-of-%d.json", p.Number, p.Of))
}

// partRecord says how a part ended: the cases that could not be prepared, and why.
type partRecord struct {
	Cases  int               `json:"cases"`
	Failed map[string]string `json:"failed"`
}

// preparePart prepares a part of the cases, and merges all parts if it is the last one.
func (j job) preparePart(ctx context.Context, part dataset.Part) (*Summary, error) {
	summary, err := j.onePart(ctx, part)
	if err != nil {
		return summary, fmt.Errorf("preparing part %s of %s: %w", part, j.set.Root, err)
	}
	summary.Part = part
	// Who has the folder alone is the last one: others have written their records before they let
	// go of it.
	release, err := atomicfile.Hold(j.dir)
	if _, held := errors.AsType[*atomicfile.HeldError](err); held {
		summary.Waiting = waiting(j.dir, part.Of)
		return summary, summary.failure(j)
	}
	if err != nil {
		return summary, err
	}
	defer release()
	if summary.Waiting = waiting(j.dir, part.Of); len(summary.Waiting) > 0 {
		return summary, summary.failure(j)
	}
	all, err := j.merge()
	if all != nil && all.Fingerprint != "" {
		all.Part, all.Prepared, all.Kept = part, summary.Prepared, all.Kept-summary.Prepared
		summary = all
	}
	return summary, err
}

// onePart prepares a part, and records that it is done.
func (j job) onePart(ctx context.Context, part dataset.Part) (*Summary, error) {
	own := strings.TrimSuffix(fileOf(part, j.dir), ".json")
	release, err := shareFolder(j.dir)
	if err != nil {
		return nil, err
	}
	defer release()
	w, err := prepared.NewSharedWriter(j.dir, j.preparation)
	if err != nil {
		return nil, err
	}
	var cases []dataset.Case
	for n, c := range j.set.Cases {
		if part.Has(n) {
			cases = append(cases, c)
		}
	}
	if !j.options.Force {
		// The cases of other parts, too: all parts become one folder, which has one preparation.
		if err := j.checkEarlier(w); err != nil {
			return nil, err
		}
	}
	let, err := outdir.Hold(own, func() error { return atomicfile.Remove(fileOf(part, j.dir)) })
	if err != nil {
		return nil, err
	}
	defer let()
	summary, err := newPreparer(j, w).run(ctx, cases)
	if err != nil {
		return summary, err
	}
	record := partRecord{Cases: len(cases), Failed: map[string]string{}}
	for _, r := range summary.Failed {
		record.Failed[r.Case.ID] = r.Err.Error()
	}
	data, err := json.MarshalIndent(record, "", "  ")
	if err != nil {
		return summary, err
	}
	return summary, atomicfile.WriteBytes(fileOf(part, j.dir), append(data, '\n'))
}

// shareFolder makes a folder and shares it with others who prepare parts. One of them may have it
// alone for a moment, to see whether all are done.
func shareFolder(dir string) (release func(), err error) {
	if err := atomicfile.MakeFolder(dir); err != nil {
		return nil, err
	}
	for range 100 {
		if release, err = atomicfile.Share(dir); err == nil {
			return release, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}

// waiting lists the parts that have not been prepared.
func waiting(dir string, of int) (numbers []int) {
	for n := range of {
		if _, err := os.Stat(fileOf(dataset.Part{Number: n + 1, Of: of}, dir)); err != nil {
			numbers = append(numbers, n+1)
		}
	}
	return numbers
}

// mergeParts writes the manifest of a folder whose parts were prepared.
func (j job) mergeParts() (*Summary, error) {
	release, err := atomicfile.Hold(j.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s is not there, and no part was prepared into it: "+
			"prepare the parts first, or name their folder", j.dir)
	}
	if err != nil {
		return nil, fmt.Errorf("merging the parts of %s: %w", j.set.Root, err)
	}
	defer release()
	return j.merge()
}

// merge writes the manifest. The folder is held.
func (j job) merge() (*Summary, error) {
	explain := func(err error) error { return fmt.Errorf("merging the parts of %s: %w", j.set.Root, err) }
	w, err := prepared.NewWriter(j.dir, j.preparation)
	if err != nil {
		return nil, explain(err)
	}
	if !j.options.Force {
		// two parts that began at once may have had different settings
		if err := cmp.Or(j.checkOthers(w), j.checkSettings(w)); err != nil {
			return nil, err
		}
	}
	failed, err := failedInParts(j.dir)
	if err != nil {
		return nil, explain(err)
	}
	summary := &Summary{}
	var missing []string
	for _, c := range j.set.Cases {
		in, paths, err := c.Input(j.preparation, j.options.Read, j.set.LabelNames)
		if err != nil {
			return nil, explain(err)
		}
		record, taken := w.Take(in, paths)
		switch text, known := failed[c.ID]; {
		case taken:
			summary.add(Result{Case: c, Kept: true, Record: record})
		case known:
			record, kept := w.Retain(c.ID, c.Group)
			summary.add(Result{Case: c, Err: errors.New(text), Kept: kept, Record: record})
		default:
			missing = append(missing, c.ID)
		}
	}
	if len(missing) > 0 {
		return summary,
			explain(fmt.Errorf("%d of %d cases are not prepared with these settings, such as %s: run their parts first",
				len(missing), len(j.set.Cases), missing[0]))
	}
	if summary.Kept > 0 {
		if err := summary.finish(j, w); err != nil {
			return summary, explain(err)
		}
	}
	if err := removeParts(j.dir); err != nil {
		return summary, explain(err)
	}
	return summary, summary.failure(j)
}

// nameOfPart is that of a part's record, and without .json that of the folder that is held.
var nameOfPart = regexp.MustCompile(`^[0-9]+-of-[0-9]+(\.json)?$`)

// removeParts removes what parts have left in a folder that is finished, and nothing else. The
// folder is held.
func removeParts(dir string) error {
	parts := filepath.Join(dir, partsFolder)
	entries, err := os.ReadDir(parts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = atomicfile.Clean(parts, nameOfPart.MatchString)
	}
	for _, e := range entries {
		if err == nil && nameOfPart.MatchString(e.Name()) {
			err = os.RemoveAll(filepath.Join(parts, e.Name()))
		}
	}
	_ = os.Remove(parts) // but for a user's own files
	return err
}

// failedInParts reads which cases the parts could not prepare, and why.
func failedInParts(dir string) (map[string]string, error) {
	failed := map[string]string{}
	entries, err := os.ReadDir(filepath.Join(dir, partsFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		path := filepath.Join(dir, partsFolder, e.Name())
		if filepath.Ext(path) != ".json" || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		data, err := smallfile.Read(path, smallfile.List)
		if err != nil {
			return nil, err
		}
		var record partRecord
		if err := json.Unmarshal(data, &record); err != nil {
			return nil, fmt.Errorf("%s is damaged (%w): prepare that part again", path, err)
		}
		maps.Copy(failed, record.Failed)
	}
	return failed, nil
}
