// Package outdir owns the folders that commands write into: whose files lie there, and which
// process has the folder.
//
// Start at [Owner], a command with the names of its files. It takes them ([Owner.Take]) before it
// writes the first, so that the next run, after whatever ended this one, knows its own files from
// a user's of the same names; [Owner.Seal] keeps their digests at the end. [Hold] is for a folder
// that one process has at a time ([Owner.Hold] with names, [Owner.Reserve] before long work); locks
// and digests themselves are package atomicfile's.
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

const heading = "# What voxsaw has written into this folder and may write again. " +
	"Other files of these names are left alone."

// A ForeignError says that a file would be written over that the command did not write.
type ForeignError struct{ Path, Owner string }

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s would be written over, and it is not of %s: choose another folder", e.Path, e.Owner)
}

// An Owner is a command that makes files of fixed names in a folder that its user chose.
type Owner struct {
	Name  string   // as in "voxsaw evaluate"
	Files []string // and folders
	// Old finds files of a version of the program that took no names (see [fs.Glob]): where there
	// are such and no list, all files are the owner's. Empty: there was none.
	Old string
}

// Hold makes a folder where there is none, and takes it for this process, which then cleans up
// what killed ones have left. Who else has it is an [atomicfile.HeldError].
func Hold(dir string, clean func() error) (release func(), err error) {
	if err := atomicfile.MakeFolder(dir); err != nil {
		return nil, err
	}
	if release, err = atomicfile.Hold(dir); err != nil {
		return nil, err
	}
	if err := clean(); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// Hold is [Owner.Take] for a folder that one process has at a time, see [Hold].
func (o Owner) Hold(dir string) (release func(), err error) {
	if release, err = o.hold(dir); err != nil {
		return nil, err
	}
	if err := o.Take(dir); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// Reserve is [Owner.Hold] before work that may come to nothing: the names are looked at and not
// taken, and a folder that was made is removed again where it is empty at the end. Who writes calls
// [Owner.Take] first.
func (o Owner) Reserve(dir string) (release func(), err error) {
	_, missing := os.Lstat(dir)
	let, err := o.hold(dir)
	if err != nil {
		return nil, err
	}
	release = func() {
		let()
		if missing != nil {
			os.Remove(dir) // fails where something lies in it, as it should
		}
	}
	if err := o.Check(dir); err != nil {
		release()
		return nil, err
	}
	return release, nil
}

// hold holds a folder, and removes what killed processes have left of the owner's files.
func (o Owner) hold(dir string) (release func(), err error) {
	return Hold(dir, func() error { return atomicfile.Clean(dir, o.has) })
}

// has says whether a file is the owner's, or the list of those.
func (o Owner) has(name string) bool { return name == File || slices.Contains(o.Files, name) }

// Take makes a folder, where there is none, and takes the owner's names in it. Where a file of one
// of the names was there before and is not the owner's, it takes none: a [ForeignError].
func (o Owner) Take(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, File)); o.Old != "" && os.IsNotExist(err) {
		if found, err := fs.Glob(os.DirFS(dir), o.Old); err == nil && len(found) > 0 {
			return o.Mark(dir)
		}
	}
	if err := o.Check(dir); err != nil {
		return err
	}
	return o.Mark(dir)
}

// Check is [Owner.Take] that takes nothing. The folder need not be there.
func (o Owner) Check(dir string) error {
	// Files first, the list after them: another process lists its files before it writes them.
	var there []string
	for _, name := range o.Files {
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
		if owners[name] != o.Name {
			return &ForeignError{filepath.Join(dir, name), o.Name}
		}
	}
	return nil
}

// Mark is [Owner.Take] that does not look whose files are there.
func (o Owner) Mark(dir string) error {
	if err := atomicfile.MakeFolder(dir); err != nil {
		return err
	}
	owners, err := read(dir)
	if err != nil {
		return err
	}
	if !o.listed(owners) {
		// other processes may list theirs just now
		path := filepath.Join(dir, File)
		if err := atomicfile.Rewrite(path, func() error { return o.list(path) }); err != nil {
			return err
		}
	}
	return atomicfile.Seal(dir, File) // unless a process was killed, it is
}

// listed says whether the list has the owner's names as its own.
func (o Owner) listed(owners map[string]string) bool {
	return !slices.ContainsFunc(o.Files, func(name string) bool { return owners[name] != o.Name })
}

// list writes the owner's names into the list.
func (o Owner) list(path string) error {
	owners, err := read(filepath.Dir(path))
	if err != nil || o.listed(owners) {
		return err
	}
	for _, name := range o.Files {
		owners[name] = o.Name
	}
	lines := []string{heading}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		lines = append(lines, name+"\t"+owners[name])
	}
	return atomicfile.WriteBytes(path, []byte(strings.Join(lines, "\n")+"\n"))
}

// Seal keeps the digests of the owner's files, see [atomicfile.Seal].
func (o Owner) Seal(dir string) error { return atomicfile.Seal(dir, o.Files...) }

// Names lists what was taken in a folder, in the order of names; the list itself is [File].
func Names(dir string) ([]string, error) {
	owners, err := read(dir)
	return slices.Sorted(maps.Keys(owners)), err
}

// Listed lists what the owner has taken in a folder, in the order of names.
func (o Owner) Listed(dir string) ([]string, error) {
	owners, err := read(dir)
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(owners)),
		func(name string) bool { return owners[name] != o.Name })
	return names, err
}

// Remark is what an error adds about a folder that was given where something else is wanted:
// " (voxsaw prepare wrote this folder)". It is empty for a folder that no command has written into.
func Remark(dir string) string { return Owner{}.Remark(dir) }

// Remark is the function of that name, which leaves the owner itself out: its errors say what is
// amiss with what it wrote.
func (o Owner) Remark(dir string) string {
	owners, err := read(dir)
	if err != nil {
		return ""
	}
	names := slices.Compact(slices.Sorted(maps.Values(owners)))
	names = slices.DeleteFunc(names, func(name string) bool { return name == o.Name })
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf(" (%s wrote this folder)", strings.Join(names, " and "))
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
