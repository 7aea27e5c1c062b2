package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestSeal(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := WriteBytes(filepath.Join(dir, name), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	check := func(want []string, damaged ...string) {
		t.Helper()
		listed, err := Compare(dir)
		if !slices.Equal(listed, want) {
			t.Errorf("listed are %q, not %q", listed, want)
		}
		if err == nil != (len(damaged) == 0) {
			t.Errorf("damaged are %q: %v", damaged, err)
		}
		for _, name := range damaged {
			if !strings.Contains(err.Error(), filepath.Join(dir, name)+" is not what was written") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	check(nil)
	write("a", "one")
	write("Gr\xf6sse\n", "two")
	if err := Seal(dir, "a", "Gr\xf6sse\n", "none"); err != nil {
		t.Fatal(err)
	}
	check([]string{"Gr\xf6sse\n", "a"})
	// printf one | sha256sum
	const one = "\n7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed 3 a\n"
	if text, err := os.ReadFile(filepath.Join(dir, SumsFile)); err != nil || !strings.Contains(string(text), one) {
		t.Errorf("%s, %v", text, err)
	}

	// written again by the program: it is in no list until it is sealed
	write("a", "three")
	check([]string{"Gr\xf6sse\n"})
	if err := Seal(dir, "a"); err != nil {
		t.Fatal(err)
	}
	check([]string{"Gr\xf6sse\n", "a"})

	// changed by something else
	path := filepath.Join(dir, "a")
	if err := os.WriteFile(path, []byte("thref"), 0o666); err != nil {
		t.Fatal(err)
	}
	check([]string{"Gr\xf6sse\n", "a"}, "a")
	var damaged *DamagedError
	if err := CompareFiles(path); !errors.As(err, &damaged) || damaged.Path != path {
		t.Error(err)
	}
	if err := CompareFiles(filepath.Join(dir, "b")); err != nil {
		t.Error(err)
	}

	// deleted on purpose
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	check([]string{"Gr\xf6sse\n", "a"})
	if err := Unseal(dir, "a", "Gr\xf6sse\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, SumsFile)); !errors.Is(err, os.ErrNotExist) {
		t.Error("an empty list stays")
	}
}

// Any bit of the list itself.
func TestFlipsInTheList(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b c"} {
		if err := WriteBytes(filepath.Join(dir, name), []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := Seal(dir, "a", "b c"); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, SumsFile)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := range 8 * len(whole) {
		text := slices.Clone(whole)
		text[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		var damaged *DamagedError
		if _, err := Compare(dir); !errors.As(err, &damaged) {
			t.Fatalf("bit %d: %v", bit, err)
		}
	}
	// it keeps nobody from writing, nor from a new list
	if err := errors.Join(WriteBytes(filepath.Join(dir, "a"), []byte("new")), Seal(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if listed, err := Compare(dir); err != nil || !slices.Equal(listed, []string{"a"}) {
		t.Errorf("listed are %q, %v", listed, err)
	}
}
