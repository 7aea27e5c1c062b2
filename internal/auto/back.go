package auto

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/hint"
)

// This file goes on with a job from another folder than that in which it was begun.

// Before is what a job's folder says of how the job was begun.
type Before struct {
	Scans []string // as they were named then; empty: no job has begun
	Hours float64
	// From is the folder in which the job was begun, Out how its own folder was named there. Paths
	// in the job's files and commands are from there.
	From, Out string
}

// Begun is of the job in a folder, and empty where none has begun.
func Begun(out string) (Before, error) {
	s, err := readState(out)
	if errors.Is(err, fs.ErrNotExist) {
		return Before{}, nil
	}
	return Before{s.Scans, s.Hours, s.From, s.Out}, err
}

// Return makes the folder in which the job was begun the current one, and tells whether it was
// another one. out is how the job's folder is named now. Where a job's folder was moved since, or a
// folder above it, it is an error.
func (b Before) Return(out string) (moved bool, err error) {
	if b.From == "" {
		return false, nil
	}
	then := b.Out
	if !filepath.IsAbs(then) {
		then = filepath.Join(b.From, then)
	}
	if !sameFolder(out, then) {
		if b.movedWhole(out) {
			return false, nil
		}
		advice := "it goes on where it was begun"
		if _, err := os.Lstat(then); errors.Is(err, fs.ErrNotExist) {
			advice = fmt.Sprintf("move it back, to %s", hint.Word(then))
		}
		return false, hint.Addf(fmt.Errorf("%s was begun as %s, and what it has written names that folder", out, then),
			"%s", advice)
	}
	here, err := os.Getwd()
	if err != nil || sameFolder(here, b.From) {
		return false, err
	}
	return true, os.Chdir(b.From)
}

// movedWhole tells whether the folder in which the job was begun was moved, or copied, with the
// scans and the job in it: paths hold from the current folder then.
func (b Before) movedWhole(out string) bool {
	return !filepath.IsAbs(b.Out) && filepath.Clean(out) == filepath.Clean(b.Out) &&
		!slices.ContainsFunc(b.Scans, func(path string) bool { return filepath.IsAbs(path) || !there(path) })
}

func there(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Has tells whether these scans, as they are named here, are the job's.
func (b Before) Has(scans []string) bool {
	return slices.EqualFunc(scans, b.Scans, func(now, scan string) bool {
		then := scan
		if !filepath.IsAbs(then) {
			then = filepath.Join(b.From, then)
		}
		return filepath.Clean(now) == filepath.Clean(then) || sameFolder(now, then) ||
			now == scan && !there(then) // the whole folder was moved
	})
}

// sameFolder tells whether two paths lead to the same folder or file.
func sameFolder(a, b string) bool {
	x, err := os.Stat(a)
	if err != nil {
		return false
	}
	y, err := os.Stat(b)
	return err == nil && os.SameFile(x, y)
}
