package main

import (
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/voxsaw/voxsaw/internal/train"
)

// checkpointOf is the checkpoint that a user means: the file that is named, or of a run's folder
// the best one, or the last where nothing was validated. Which one it is, is said.
func checkpointOf(stderr io.Writer, path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // whoever reads it says what is wrong
	}
	for _, file := range []string{train.Best(path), train.Last(path)} {
		if _, err := os.Stat(file); err == nil {
			say(stderr, "%s: taking %s", path, file)
			return file, nil
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
	}
	return "", withHint(usagef("%s is a folder without a checkpoint", path), "name a run's folder or a .safetensors file, as voxsaw pretrain and finetune make them")
}
