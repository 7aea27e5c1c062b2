package folders

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWithin(t *testing.T) {
	dir := t.TempDir()
	scans, other := filepath.Join(dir, "scans"), filepath.Join(dir, "scans-2")
	for _, folder := range []string{scans, other} {
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(other, "link")
	if err := os.Symlink(scans, link); err != nil {
		t.Fatal(err)
	}
	t.Chdir(scans)
	for _, c := range []struct {
		path, folder string
		want         bool
	}{
		{scans, scans, true},
		{filepath.Join(scans, "new", "labels"), scans, true},
		{"labels", scans, true},
		{"labels", ".", true},
		{filepath.Join("..", "labels"), ".", false},
		{other, scans, false},
		{dir, scans, false},
		{filepath.Join(scans, "..hidden"), scans, true},
		{filepath.Join(link, "labels"), scans, true},
		{scans, link, true},
		{link, other, false}, // it leads elsewhere
	} {
		if got := Within(c.path, c.folder); got != c.want {
			t.Errorf("%s within %s: %v", c.path, c.folder, got)
		}
	}
}
