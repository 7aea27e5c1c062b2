package folders

import (
	"path/filepath"
	"strings"
)

// Within says whether a path, which need not be there yet, is a folder or lies below it, links
// followed.
func Within(path, folder string) bool {
	relative, err := filepath.Rel(actual(folder), actual(path))
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}

// actual is a path without links, as far as it is there.
func actual(path string) string {
	if full, err := filepath.Abs(path); err == nil {
		path = full
	}
	if there, err := filepath.EvalSymlinks(path); err == nil {
		return there
	}
	if parent := filepath.Dir(path); parent != path {
		return filepath.Join(actual(parent), filepath.Base(path))
	}
	return path
}
