package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/train"
)

// checkpointOf is the checkpoint that a user means: the file that is named, or of a run's folder
// the best one, or the last where nothing was validated. Which one it is, is noted.
func checkpointOf(stderr io.Writer, path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return path, nil // whoever reads it says what is wrong
	case nnunet.IsOfVersion1(path):
		return "", withHint(usagef("%s is a model of nnU-Net 1, which is not read", path),
			"models of nnU-Net 2 are: they have a plans.json, and checkpoint_final.pth in fold_0")
	case nnunet.IsModel(path) && info.IsDir():
		return "", withHint(usagef("%s is a model of nnU-Net, no checkpoint of voxsaw", path),
			"voxsaw predict takes such models, and so does --init of finetune")
	case nnunet.IsModel(path):
		return "", withHint(usagef("%s is a checkpoint of PyTorch, none of voxsaw", path),
			"voxsaw predict takes models of nnU-Net; other weights are read from .safetensors files")
	case !info.IsDir():
		return path, nil
	}
	switch file, err := train.CheckpointOf(path); {
	case err == nil:
		say(stderr, "%s: taking %s", path, file)
		return file, nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if near := nnunet.Near(path); len(near) > 0 {
		return "", withHint(usagef("%s is not the folder of a model of nnU-Net", path), "that holds plans.json: %s",
			safetext.List(near))
	}
	return "", withHint(usagef("%s is a folder without a checkpoint%s", path, outdir.Remark(path)), "%s",
		hintOfRuns(path, "name a run's folder or a .safetensors file, as voxsaw pretrain and finetune make them"))
}

// checkpointsOf are the checkpoints that a user means who may name several: of each path the one of
// [checkpointOf], or all in a folder of networks that predict together.
func checkpointsOf(stderr io.Writer, paths []string) (all []string, err error) {
	for _, path := range paths {
		if _, err := train.CheckpointOf(path); errors.Is(err, fs.ErrNotExist) && !nnunet.IsModel(path) {
			together, err := train.Ensemble(path)
			if err != nil {
				return nil, err
			}
			if len(together) > 0 {
				say(stderr, "%s: taking %s: %s", path, numbers.Count(len(together), "network"), safetext.List(together))
				all = append(all, together...)
				continue
			}
		}
		one, err := checkpointOf(stderr, path)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// hintOfRuns names the runs below a folder that is not a run itself; where there are none, it is
// the other text.
func hintOfRuns(folder, none string) string {
	runs := runsBelow(folder)
	switch len(runs) {
	case 0:
		return none
	case 1:
		return runs[0] + " is a run"
	}
	return fmt.Sprintf("in it, these are runs: %s", safetext.List(runs))
}

// runsBelow lists the folders of runs below a folder. A folder that cannot be read has none; after
// many files nobody waits for more.
func runsBelow(folder string) (runs []string) {
	const most = 20000
	looked := 0
	filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		looked++
		switch {
		case looked > most:
			return fs.SkipAll
		case err != nil && d != nil && d.IsDir():
			return fs.SkipDir
		case err != nil:
			return nil
		case d.IsDir() && train.Begun(path):
			runs = append(runs, path)
			return fs.SkipDir
		}
		return nil
	})
	return runs
}

// startFrom is the file of weights that a run starts from, of the one or the folder that is named;
// empty where none is. It must not be one that --force would delete.
func startFrom(stderr io.Writer, path string, run runFlags) (string, error) {
	if path == "" {
		return "", nil
	}
	path, err := checkpointOf(stderr, path)
	if err == nil && run.force && within(path, run.out) {
		err = withHint(usagef("--force would delete %s, which the run is to start from", path),
			"choose another --out, or copy the checkpoint elsewhere first")
	}
	return path, err
}

// within says whether a file lies in a folder, whatever the two are called.
func within(file, folder string) bool { return isSame(filepath.Dir(file), folder) }

// isSame says whether two paths are of one file, or of one folder, that is there.
func isSame(a, b string) bool {
	x, errX := os.Stat(a)
	y, errY := os.Stat(b)
	return errX == nil && errY == nil && os.SameFile(x, y)
}
