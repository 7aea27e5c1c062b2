package cli

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file finds the files that a resumed run reads, where it is resumed from another working
// directory than it was started in.

// inputFlags name files and folders that a run still reads when it is resumed.
var inputFlags = []string{"data", "splits", "proposals", "tuning", "targets", "init"}

// foundFlag is the annotation of a flag that [findAgain] has set.
const foundFlag = "voxsaw_found"

// findAgain replaces relative paths in the configuration of the run in a folder that are not there
// from here: by those from where the run was started. Data that are in neither place are an error.
func findAgain(cmd *cobra.Command, folder string) error {
	for _, name := range inputFlags {
		f := cmd.Flags().Lookup(name)
		if f == nil || givenNow(cmd, f) || f.Value.String() == "" || isThere(f.Value.String()) {
			continue
		}
		if path := fromStart(folder, f.Value.String()); path != "" {
			if err := errors.Join(cmd.Flags().Set(name, path), cmd.Flags().SetAnnotation(name, foundFlag,
				[]string{path})); err != nil {
				return &usageError{err}
			}
			continue
		}
		if name == "data" {
			return withHint(usagef("the run's data are not at %s, where %s says", f.Value, train.ConfigOf(folder)),
				"say where they lie now: --data FOLDER")
		}
	}
	return nil
}

// givenNow says whether the command line, or its --config, gives a flag's value.
func givenNow(cmd *cobra.Command, f *pflag.Flag) bool {
	file := cmd.Flags().Lookup(config.FileFlag)
	return f.Changed || file.Changed && config.Gives(file.Value.String(), section(cmd), config.Key(f))
}

// foundAgain lists the settings that [findAgain] has replaced: they name the same files as before.
func (r *runFlags) foundAgain() (keys []string) {
	r.cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Annotations[foundFlag] != nil {
			keys = append(keys, config.Key(f))
		}
	})
	return keys
}

// fromStart is where a relative path leads from the folder that the run was started in; "" where
// nothing is there.
func fromStart(folder, path string) string {
	s, err := train.ReadStatus(folder)
	if err != nil || s.RelativeTo == "" || filepath.IsAbs(path) {
		return ""
	}
	if path = filepath.Join(s.RelativeTo, path); !isThere(path) {
		return ""
	}
	return path
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
