package prepared

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
)

// Others lists the cases in the folder that a run on the given ones would lose: finished cases of
// other names, and those of the same name that were read from other files which are still there.
// The values are the absolute paths of the files of each case; what is returned are the files that
// the others were read from, by their names.
func (w *Writer) Others(cases map[string][]string) (map[string][]string, error) {
	others := map[string][]string{}
	err := w.eachFinished(func(r recordFile) bool {
		if paths, known := cases[r.Case.ID]; !known || readElsewhere(r.Case.Sources, paths) {
			others[r.Case.ID] = sourcePaths(r.Case.Sources)
		}
		return true
	})
	return others, err
}

// Unlike lists the finished cases among the given ones that were prepared with other settings than
// the writer's, in the order of their names, and the settings of the first of them.
func (w *Writer) Unlike(cases map[string][]string) (ids []string, first volume.Preparation, err error) {
	var other error // it is not known whether such a case can be prepared again
	err = w.eachFinished(func(r recordFile) bool {
		_, known := cases[r.Case.ID]
		if why := r.Case.check(); known && errors.Is(why, errOtherVersion) {
			other = fmt.Errorf("%s: %w", recordPath(w.dir, r.Case.ID), why)
			return false
		}
		if known && len(w.preparation.Differences(r.Preparation)) > 0 {
			if len(ids) == 0 {
				first = r.Preparation
			}
			ids = append(ids, r.Case.ID)
		}
		return true
	})
	return ids, first, cmp.Or(err, other)
}

// Earlier is how the cases in a folder were prepared: the first of those that are finished, by
// name. found is false where there are none, or where the folder is none of prepared cases.
func Earlier(dir string) (p volume.Preparation, found bool, err error) {
	w := &Writer{dir: dir}
	if _, err := os.Stat(filepath.Join(dir, casesFolder)); err != nil {
		return p, false, nil // who writes there says what is wrong
	}
	err = w.eachFinished(func(r recordFile) bool {
		p, found = r.Preparation, true
		return false
	})
	return p, found, err
}

// Earlier calls visit for the record of every case in the folder that an earlier run has finished.
func (w *Writer) Earlier(visit func(Record)) error {
	return w.eachFinished(func(r recordFile) bool {
		visit(r.Case)
		return true
	})
}

// eachFinished calls visit for the cases in the folder that an earlier run has finished, by name,
// as long as it returns true.
func (w *Writer) eachFinished(visit func(recordFile) bool) error {
	entries, err := os.ReadDir(filepath.Join(w.dir, casesFolder))
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord || e.Name()[0] == '.' {
			continue
		}
		data, err := smallfile.Read(filepath.Join(w.dir, casesFolder, e.Name()), smallfile.Record)
		if err != nil {
			return err
		}
		var r recordFile
		if json.Unmarshal(data, &r) != nil || r.Case.ID != id || checkVoxels(w.dir, r.Case) != nil {
			continue // what a crash has left is no case
		}
		if !visit(r) {
			break
		}
	}
	return nil
}

func sourcePaths(sources []Source) []string {
	paths := make([]string, len(sources))
	for n, s := range sources {
		paths[n] = s.Path
	}
	return paths
}

// readElsewhere reports whether none of the sources is among the paths, though one is still there:
// a data set that was moved is the same one.
func readElsewhere(sources []Source, paths []string) bool {
	there := false
	for _, s := range sources {
		if s.Among(paths) {
			return false
		}
		if _, err := os.Stat(s.Path); err == nil {
			there = true
		}
	}
	return there
}
