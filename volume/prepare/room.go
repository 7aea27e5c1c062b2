package prepare

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// Room is what preparing a part of a data set by p, with nothing left to choose, may write into dir
// beside what lies there already, and what its file system has free, in bytes. Need is an upper
// bound by the headers of the scans: where a crop is cut off they take less. It is 0 where no
// header says anything; free is -1 where this system does not tell.
func Room(d *dataset.Dataset, dir string, p volume.Preparation, part dataset.Part) (need, free int64, err error) {
	for n, c := range d.Cases {
		if part.Has(n) {
			need += c.PreparedBytes(p)
		}
	}
	err = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err == nil {
			need -= info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, 0, err
	}
	for free, err = atomicfile.Free(dir); errors.Is(err, fs.ErrNotExist); free, err = atomicfile.Free(dir) {
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above // which Run makes the folder in
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return max(need, 0), -1, nil
	}
	return max(need, 0), free, err
}
