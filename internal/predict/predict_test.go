//go:build unix && !solaris && !aix

package predict

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Processes that write label maps into one folder do not clean away each other's work.
func TestOnlyWhoIsAloneCleans(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "labels")
	hidden := func() (names []string) {
		t.Helper()
		entries, err := os.ReadDir(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		return names
	}
	first, err := enter(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".a.nii.gz.1.tmp", ".b.dcm.2.tmp", ".notes.3.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second, err := enter(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := hidden(); len(got) != 3 {
		t.Errorf("a second process left %q of the first one's", got)
	}
	first()
	second()
	third, err := enter(dir)
	if err != nil {
		t.Fatal(err)
	}
	third()
	if got := hidden(); !slices.Equal(got, []string{".notes.3.tmp"}) {
		t.Errorf("who is alone left %q", got)
	}
}
