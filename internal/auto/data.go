package auto

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file notices that the data of a job are others than when it was begun: its networks are of
// one set of cases, divided into folds once.

// sameCases refuses to go on with other prepared cases than the job was begun with.
func (j *Job) sameCases(data string, store *prepared.Store) error {
	now := store.Fingerprint()
	switch {
	case j.state.Data == now:
		return nil
	case j.state.Data == "" && j.state.Folds == nil:
		j.state.Data = now
		return j.save()
	}
	return hint.Addf(fmt.Errorf("the cases in %s have changed: their fingerprint is %.12s, and the job in %s was "+
		"begun with %.12s: its folds, networks and scores are of the cases as they were then", data, now, j.Out,
		j.state.Data), "begin a job on the cases as they are now, with another --out; or bring the earlier ones back")
}

// tellChanges says which scans have come or gone since the job prepared them: it goes on with what
// is prepared. Cases whose scans hold other data cannot be opened.
func (j *Job) tellChanges(store *prepared.Store) {
	var gone, what []string
	for r := range store.Records() {
		for _, source := range r.Sources {
			if _, err := os.Stat(source.Path); errors.Is(err, fs.ErrNotExist) {
				gone = append(gone, source.Path)
			}
		}
	}
	if len(gone) > 0 {
		what = append(what, "no longer there: "+safetext.List(gone))
	}
	if files := j.files(); j.state.Files > 0 && files != j.state.Files {
		what = append(what, fmt.Sprintf("%s where there were %d", numbers.Count(files, "file"), j.state.Files))
	}
	if len(what) > 0 {
		j.Say("WARNING: the scans are not as they were prepared (%s): networks and scores of this job are of the "+
			"scans as they were then; voxsaw auto SCANS with another --out begins a job on them as they are now",
			strings.Join(what, "; "))
	}
}

// files counts what lies below the scans' paths, but for what the job itself makes.
func (j *Job) files() (n int) {
	own, err := filepath.Abs(j.Out)
	if err != nil {
		return 0
	}
	for _, path := range j.Scans {
		// what cannot be looked at now could not be prepared either
		folders.Walk(path, func(file string, entry fs.FileInfo, err error) error {
			switch at, failed := filepath.Abs(file); {
			case err != nil || failed != nil:
			case at == own && entry.IsDir():
				return fs.SkipDir
			case entry.Mode().IsRegular():
				n++
			}
			return nil
		})
	}
	return n
}
