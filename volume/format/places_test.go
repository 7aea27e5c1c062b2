package format

import (
	"path/filepath"
	"slices"
	"testing"
)

// A relative path is of a folder like any other, and the root is not looked through for a file in
// a folder of it.
func TestPlacesBesideAFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.VolumeName(here) + string(filepath.Separator)
	for path, want := range map[string][]string{
		"set.dcm":                             {here, filepath.Dir(here)},
		filepath.Join("rs", "set.dcm"):        {filepath.Join(here, "rs"), here},
		filepath.Join(root, "data", "rs.dcm"): {filepath.Join(root, "data")},
	} {
		if got, err := places(path); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %v, want %q", path, got, err, want)
		}
	}
	t.Chdir(root) // for Windows, which removes no folder that a process is in
}
