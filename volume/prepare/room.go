package prepare

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Room is what preparing a part of a data set by p, with nothing left to choose, may write into dir
// beside what lies there already, and what its file system has free, in bytes. Need is an upper
// bound by the headers of the scans: where a crop is cut off they take less. It is 0 where no
// header says anything; free is -1 where this system does not tell.
func Room(d *dataset.Dataset, dir string, p volume.Preparation, part dataset.Part) (need, free int64, err error) {
	for n, c := range d.Cases {
		if part.Has(n) {
			need += max(c.PreparedBytes(p)-prepared.BytesOf(dir, c.ID), 0)
		}
	}
	free, err = Free(dir)
	return need, free, err
}

// Free is what the file system of a folder, which need not be there yet, has free, in bytes; -1
// where this system does not tell.
func Free(dir string) (free int64, err error) {
	for free, err = atomicfile.Free(dir); errors.Is(err, fs.ErrNotExist); free, err = atomicfile.Free(dir) {
		above := filepath.Dir(dir)
		if above == dir {
			break
		}
		dir = above // which Run makes the folder in
	}
	if errors.Is(err, errors.ErrUnsupported) {
		return -1, nil
	}
	return free, err
}
