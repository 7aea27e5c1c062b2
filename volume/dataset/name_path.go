package dataset

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: paths, and what lies at them.

// walk visits files and folders in the order of their names, through links, and passes over hidden
// ones, among them the ._ files that macOS leaves in archives. What cannot be looked at is visited
// with the error.
func walk(root string, visit func(path string, entry fs.FileInfo, err error) error) error {
	return folders.Walk(root, func(path string, entry fs.FileInfo, err error) error {
		if path == filepath.Clean(root) {
			return err
		}
		if name := filepath.Base(path); strings.HasPrefix(name, ".") || name == "__MACOSX" {
			if entry != nil && entry.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return visit(path, entry, err)
	})
}

func isFile(path string) bool {
	stat, err := os.Stat(path)
	return err == nil && stat.Mode().IsRegular()
}

// baseName is the name of a folder, whatever path it is given by.
func baseName(folder string) string {
	if full, err := filepath.Abs(folder); err == nil {
		folder = full
	}
	return filepath.Base(folder)
}

func baseNames(paths []string) []string {
	names := make([]string, len(paths))
	for n, path := range paths {
		names[n] = filepath.Base(path)
	}
	return names
}

// absoluteOf is a path that can be compared.
func absoluteOf(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		return full
	}
	return path
}

func absolutesOf(paths []string) []string {
	full := make([]string, len(paths))
	for n, path := range paths {
		full[n] = absoluteOf(path)
	}
	return full
}

// slashed is a path with slashes, whatever system it was written on.
func slashed(path string) string { return strings.ReplaceAll(path, `\`, "/") }

// isBelow says whether a path, or a text that begins with one, lies in any of the folders.
func isBelow(text string, folders []string) bool {
	return slices.ContainsFunc(folders, func(folder string) bool {
		rest, inside := strings.CutPrefix(text, folder)
		return inside && (rest == "" || strings.HasPrefix(rest, string(filepath.Separator)) ||
			strings.HasPrefix(rest, ":"))
	})
}

// commonFolder is the deepest folder that holds all files.
func commonFolder(files []string) string {
	folder := filepath.Dir(files[0])
	for _, file := range files[1:] {
		for !strings.HasPrefix(file, folder+string(filepath.Separator)) && folder != filepath.Dir(folder) {
			folder = filepath.Dir(folder)
		}
	}
	return folder
}

// named puts the path before an error that does not have it.
func named(path string, err error) error {
	if strings.Contains(err.Error(), path) {
		return err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// withoutPath removes a path from a message, where a table shows it anyway.
func withoutPath(message, path string) string {
	for _, operation := range []string{"open ", "stat ", ""} { // of the file system
		message = strings.TrimPrefix(message, operation+path+": ")
	}
	return strings.ReplaceAll(message, path+string(filepath.Separator), "")
}

// filesIn lists the files of voxels in a folder; nil for a file.
func filesIn(folder string) (files []string, err error) {
	entries, err := os.ReadDir(folder)
	if stat, wrong := os.Stat(folder); wrong == nil && !stat.IsDir() {
		return nil, nil
	}
	for _, e := range entries {
		if path := filepath.Join(folder, e.Name()); format.IsName(path) {
			files = append(files, path)
		}
	}
	if err == nil && files == nil {
		err = fmt.Errorf("pairs: %s holds no masks", folder)
	}
	return files, err
}
