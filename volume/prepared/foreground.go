package prepared

import (
	"slices"

	"github.com/voxsaw/voxsaw/volume"
)

// Foreground is what an earlier run has found of the labelled voxels of all cases, if it prepared
// the same labelled cases, from the same files, and otherwise with the same settings. The values
// are the absolute paths of the files of each case.
func Foreground(dir string, p volume.Preparation, labelled map[string][]string) (f [4]float64, found bool) {
	m, records, err := readManifest(dir)
	if err != nil {
		return f, false
	}
	f = m.Preparation.Foreground
	p.Foreground = f
	if m.Preparation != p || f == [4]float64{} {
		return f, false
	}
	seen := 0
	for r := range records.all() {
		if !r.HasLabels || r.Group != "" {
			continue
		}
		paths, known := labelled[r.ID]
		if !known || !unchanged(r.Sources, slices.Clone(paths)) {
			return f, false
		}
		seen++
	}
	return f, seen == len(labelled)
}

// ForegroundOfParts is that by which cases in a folder were prepared; zeros where none was.
func ForegroundOfParts(dir string) (f [4]float64) {
	w := &Writer{dir: dir}
	_ = w.eachFinished(func(r recordFile) bool { // without any, there is none
		f = r.Preparation.Foreground
		return false
	})
	return f
}
