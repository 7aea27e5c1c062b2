package prepared

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Others lists the cases in the folder that a run on the given ones would lose: finished cases of
// other names, and those of the same name that were read from other files which are still there.
// The values are the absolute paths of the files of each case; what is returned are the files that
// the others were read from, by their names.
func (w *Writer) Others(cases map[string][]string) (map[string][]string, error) {
	entries, err := os.ReadDir(filepath.Join(w.dir, casesFolder))
	if err != nil {
		return nil, err
	}
	others := map[string][]string{}
	for _, e := range entries {
		id, isRecord := strings.CutSuffix(e.Name(), ".json")
		if !isRecord || e.Name()[0] == '.' {
			continue
		}
		data, err := os.ReadFile(filepath.Join(w.dir, casesFolder, e.Name()))
		if err != nil {
			return nil, err
		}
		var r recordFile
		if json.Unmarshal(data, &r) != nil || r.Case.ID != id || checkVoxels(w.dir, r.Case) != nil {
			continue // what a crash has left is no case
		}
		if paths, known := cases[id]; !known || readElsewhere(r.Case.Sources, paths) {
			others[id] = sourcePaths(r.Case.Sources)
		}
	}
	return others, nil
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
		if slices.Contains(paths, s.Path) {
			return false
		}
		if _, err := os.Stat(s.Path); err == nil {
			there = true
		}
	}
	return there
}
