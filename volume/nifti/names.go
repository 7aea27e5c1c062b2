package nifti

import (
	"path/filepath"
	"strings"
)

// Stem removes the extension of a NIfTI file's name or path: .nii, .nii.gz, .hdr or .hdr.gz, in
// small or capital letters. Of a pair, the header stands for both. It returns false for other
// names, and for those of hidden files, such as the ._ files that macOS leaves in archives.
func Stem(path string) (stem string, ok bool) {
	if strings.HasPrefix(filepath.Base(path), ".") {
		return "", false
	}
	lower := strings.ToLower(path)
	for _, ext := range []string{".nii.gz", ".nii", ".hdr.gz", ".hdr"} {
		if strings.HasSuffix(lower, ext) && len(path) > len(ext) {
			return path[:len(path)-len(ext)], true
		}
	}
	return "", false
}

// IsName reports whether a file has the name of a NIfTI file; see [Stem].
func IsName(path string) bool {
	_, ok := Stem(path)
	return ok
}
