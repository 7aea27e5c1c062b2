package folders

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// build writes files with nothing in them, and links, below a new folder.
func build(t *testing.T, files []string, links map[string]string) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "root")
	for _, name := range files {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, nil, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(root, name)); err != nil {
			t.Skip("no links here: ", err)
		}
	}
	return root
}

// visited lists files and folders below the root; what cannot be looked at has a ! behind it.
func visited(t *testing.T, root string) (names []string) {
	t.Helper()
	err := Walk(root, func(path string, entry fs.FileInfo, err error) error {
		name, relErr := filepath.Rel(root, path)
		if relErr != nil {
			return relErr
		}
		if name = filepath.ToSlash(name); err != nil {
			name += "!"
		} else if entry.IsDir() {
			name += "/"
		}
		names = append(names, name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func TestWalkFollowsLinks(t *testing.T) {
	outside := build(t, []string{"p1/a", "p2/b"}, nil)
	root := build(t, []string{"c/d", "e"}, map[string]string{
		// one folder, two links
		"first": filepath.Join(outside, "p1"), "again": filepath.Join(outside, "p1"),
		"file": filepath.Join(outside, "p2", "b"), "round": ".", "up": "..", "c/up": "../..", "inside": "c",
		"broken": "nowhere",
	})
	want := []string{"again/", "again/a", "broken!", "c/", "c/d", "e", "file"}
	if got := visited(t, root); !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	if got, want := visited(t, link), []string{"p1/", "p1/a", "p2/", "p2/b"}; !slices.Equal(got, want) {
		t.Errorf("behind a link: %q, want %q", got, want)
	}
}

// Links to each other's folder would be walked for ever.
func TestWalkEnds(t *testing.T) {
	other := build(t, []string{"x"}, nil)
	root := build(t, []string{"y"}, map[string]string{"other": other})
	if err := os.Symlink(root, filepath.Join(other, "back")); err != nil {
		t.Fatal(err)
	}
	if got, want := visited(t, root), []string{"other/", "other/x", "y"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
}

func TestWalkGoesOnBehindALockedFolder(t *testing.T) {
	if os.Getuid() == 0 {
		t.Skip("nothing is locked for root")
	}
	root := build(t, []string{"a/x", "b/y"}, nil)
	if err := os.Chmod(filepath.Join(root, "a"), 0); err != nil {
		t.Fatal(err)
	}
	defer os.Chmod(filepath.Join(root, "a"), 0o777)
	if got, want := visited(t, root), []string{"a/", "a!", "b/", "b/y"}; !slices.Equal(got, want) {
		t.Errorf("visited %q, want %q", got, want)
	}
}

func TestWalkSkips(t *testing.T) {
	root := build(t, []string{"a/x", "b/y", "c"}, nil)
	var names []string
	err := Walk(root, func(path string, entry fs.FileInfo, err error) error {
		names = append(names, filepath.Base(path))
		switch filepath.Base(path) {
		case "a":
			return fs.SkipDir
		case "y":
			return fs.SkipAll
		}
		return err
	})
	if want := []string{"a", "b", "y"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("visited %q, %v, want %q", names, err, want)
	}
	if err := Walk(filepath.Join(root, "nothing"), nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a root that is not there: %v", err)
	}
	if got := visited(t, filepath.Join(root, "c")); !slices.Equal(got, []string{"."}) {
		t.Errorf("a file: %q", got)
	}
}
