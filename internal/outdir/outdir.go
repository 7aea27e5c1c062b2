// Package outdir keeps a command from writing over a user's own files, where it makes files of
// fixed names, such as report.html, in a folder that the user chose.
//
// Start at [Take]. A command takes the names before it writes the first file. They are listed in a
// file of the folder, so that the next run, after whatever ended this one, knows its own files from
// others of the same names. Nothing here locks a folder: that is package atomicfile's.
package outdir

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// File lists, in a folder, the names that were taken there.
const File = ".voxsaw"

const heading = "# What voxsaw has written into this folder and may write again. Other files of these names are left alone."

// A ForeignError says that a file would be written over that the command did not write.
type ForeignError struct{ Path, Owner string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s would be written over, and it is not of %s: choose another folder", e.Path, e.Owner)
}

// Take makes a folder, where there is none, and takes names in it for an owner ("voxsaw evaluate").
// Where a file of one of the names was there before and is not the owner's, it takes none: a
// [ForeignError].
func Take(dir, owner string, names ...string) error {
	if err := Check(dir, owner, names...); err != nil {
		return err
	}
	return Mark(dir, owner, names...)
}

// TakeOld is [Take] where the owner's files may be of a version of the program that took no names:
// they are the owner's where old finds such files below the folder (see [fs.Glob]).
func TakeOld(dir, old, owner string, names ...string) error {
	if _, err := os.Stat(filepath.Join(dir, File)); os.IsNotExist(err) {
		if found, err := fs.Glob(os.DirFS(dir), old); err == nil && len(found) > 0 {
			return Mark(dir, owner, names...)
		}
	}
	return Take(dir, owner, names...)
}

// Check is [Take] that takes nothing. The folder need not be there.
func Check(dir, owner string, names ...string) error {
	// Files first, the list after them: another process lists its files before it writes them.
	var there []string
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			there = append(there, name)
		}
	}
	if len(there) == 0 {
		return nil
	}
	owners, err := read(dir)
	if err != nil {
		return err
	}
	for _, name := range there {
		if owners[name] != owner {
			return &ForeignError{filepath.Join(dir, name), owner}
		}
	}
	return nil
}

// Mark is [Take] that does not look whose files are there.
func Mark(dir, owner string, names ...string) error {
	if err := atomicfile.MakeFolder(dir); err != nil {
		return err
	}
	owners, err := read(dir)
	if err != nil {
		return err
	}
	before := maps.Clone(owners)
	for _, name := range names {
		owners[name] = owner
	}
	if maps.Equal(before, owners) {
		return atomicfile.Seal(dir, File) // unless a process was killed, it is listed
	}
	lines := []string{heading}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		lines = append(lines, name+"\t"+owners[name])
	}
	if err := atomicfile.WriteBytes(filepath.Join(dir, File), []byte(strings.Join(lines, "\n")+"\n")); err != nil {
		return err
	}
	return atomicfile.Seal(dir, File)
}

// Names lists what was taken in a folder, in the order of names; the list itself is [File].
func Names(dir string) ([]string, error) {
	owners, err := read(dir)
	return slices.Sorted(maps.Keys(owners)), err
}

// read gives the owner of each name that is taken.
func read(dir string) (map[string]string, error) {
	owners := map[string]string{}
	text, err := smallfile.Read(filepath.Join(dir, File), smallfile.Record)
	if os.IsNotExist(err) {
		return owners, nil
	}
	for line := range strings.Lines(string(text)) {
		if name, owner, ok := strings.Cut(strings.TrimSpace(line), "\t"); ok {
			owners[name] = owner
		}
	}
	return owners, err
}
