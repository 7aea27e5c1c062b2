// Package folders walks over folders as people have them on disk: made of links, with rooms that
// are locked and pipes that nobody writes to. Start at [Walk].
package folders

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Walk visits what lies below root, or root alone where it is a file, in the order of names. It
// follows links to files and to folders, but enters no folder twice and none that holds the root:
// links cannot make it go round. What lies behind a link has the link's path; entry says what the
// link leads to.
//
// A file or folder that cannot be looked at (a broken link, a folder without permission) is visited
// with the error, and with a nil entry; the walk goes on if visit returns nil. Visit may return
// [fs.SkipDir] for a folder, or [fs.SkipAll]. A root that is not there is an error.
func Walk(root string, visit func(path string, entry fs.FileInfo, err error) error) error {
	info, err := os.Stat(root)
	if err != nil {
		return err
	}
	actual, err := filepath.EvalSymlinks(root)
	if err == nil {
		actual, err = filepath.Abs(actual)
	}
	if err != nil {
		return err
	}
	w := &walk{visit: visit, roots: []string{actual}}
	err = w.enter(filepath.Clean(root), info)
	if err == fs.SkipAll || err == fs.SkipDir {
		return nil
	}
	return err
}

type walk struct {
	visit func(string, fs.FileInfo, error) error
	// actual paths of the folders whose trees are walked: the root, and what links lead to
	roots []string
}

// enter visits what lies in a folder; a file is visited itself.
func (w *walk) enter(path string, info fs.FileInfo) error {
	if !info.IsDir() {
		return w.file(path, info)
	}
	entries, err := os.ReadDir(path)
	if err != nil {
		return w.visit(path, nil, err)
	}
	for _, e := range entries {
		if err := w.one(filepath.Join(path, e.Name()), e); err == fs.SkipDir {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

// file visits what is no folder.
func (w *walk) file(path string, info fs.FileInfo) error {
	if !info.Mode().IsRegular() {
		return w.visit(path, nil, notFile(path))
	}
	return w.visit(path, info, nil)
}

func (w *walk) one(path string, e fs.DirEntry) error {
	info, err := os.Stat(path)
	if err != nil {
		return w.visit(path, nil, err)
	}
	if !info.IsDir() {
		return w.file(path, info)
	}
	if e.Type()&fs.ModeSymlink != 0 {
		actual, err := filepath.EvalSymlinks(path)
		if err == nil {
			actual, err = filepath.Abs(actual)
		}
		if err != nil {
			return w.visit(path, nil, err)
		}
		for _, r := range w.roots {
			if within(actual, r) || within(r, actual) {
				return nil // it is visited, or was, on its own path
			}
		}
		w.roots = append(w.roots, actual)
	}
	if err := w.visit(path, info, nil); err != nil {
		if err == fs.SkipDir {
			return nil
		}
		return err
	}
	return w.enter(path, info)
}

// within says whether a path is a folder or lies in it.
func within(path, folder string) bool {
	return path == folder || strings.HasPrefix(path, strings.TrimSuffix(folder, string(filepath.Separator))+
		string(filepath.Separator))
}

// Open opens a file for reading as [os.Open] does, and nothing else: opening a pipe would wait for
// somebody who writes to it.
func Open(path string) (*os.File, error) {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
		return nil, notFile(path)
	}
	return os.Open(path)
}

// ErrNotFile says that something is a pipe, a socket or a device: none of them holds data that lies
// there.
var ErrNotFile = errors.New("neither a file nor a folder")

func notFile(path string) error { return &fs.PathError{Op: "open", Path: path, Err: ErrNotFile} }
