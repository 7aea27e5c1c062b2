// Package formattest is a test that every format of scans passes: it does what finding, inspecting
// and preparing rely on. Start at [Conform], which a format's own test calls with a few files. It
// leaves out whether values are right: another program's reading of the same files must tell.
package formattest

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/format"
)

// Files are some of a format, each in a folder of its own.
type Files struct {
	// one volume, with negative values or fractions: a file, or the folder whose files are the
	// scan; "" where the format holds labels alone
	Scan    string
	Labels  string // one volume of labels
	Several string // two volumes or more; "" where the format holds one alone
}

// Conform fails the test where the registered format of that name does not do what the program
// relies on.
func Conform(t *testing.T, name string, files Files) {
	t.Helper()
	one := cmp.Or(files.Scan, files.Labels)
	if h, err := format.ReadHeader(one); err != nil {
		t.Fatal(err)
	} else if h.Format() != name {
		t.Fatalf("%s is read as %q: is the format registered?", one, h.Format())
	}
	if format.IsName(one) { // others are known by what is in them
		t.Run("names", func(t *testing.T) { names(t, one) })
	}
	if files.Scan != "" {
		t.Run("scan", func(t *testing.T) { scan(t, files.Scan) })
	}
	t.Run("labels", func(t *testing.T) { labels(t, files.Scan, files.Labels) })
	if files.Several != "" { // a format may hold one volume alone
		t.Run("several", func(t *testing.T) { several(t, files.Several) })
	}
	t.Run("damage", func(t *testing.T) { damage(t, oneFile(t, one)) })
}

// names: an extension is taken off, in capital letters, too; hidden files and others have none.
func names(t *testing.T, path string) {
	stem, ok := format.Stem(path)
	if !ok || stem == "" || !strings.HasPrefix(path, stem+".") {
		t.Fatalf("the stem of %s is %q", path, stem)
	}
	extension := strings.TrimPrefix(path, stem)
	if got, ok := format.Stem("A.b" + strings.ToUpper(extension)); !ok || got != "A.b" {
		t.Errorf("in capital letters: %q, %v", got, ok)
	}
	for _, other := range []string{"." + extension, "._a" + extension, extension, "a" + extension + ".txt", "a.dcm",
		"a"} {
		if format.IsName(other) {
			t.Errorf("%s is taken for a file of scans", other)
		}
	}
	if all := format.Files(path); len(all) == 0 || all[0] != path || slices.ContainsFunc(all, missing) {
		t.Errorf("the files of %s are %q", path, all)
	}
}

func missing(path string) bool {
	_, err := os.Stat(path)
	return err != nil
}

// scan: the header tells the grid, the memory and the type of what is read, and reading it twice
// gives the same.
func scan(t *testing.T, path string) {
	h, err := format.ReadHeader(path)
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.Read(format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	bytes := 4
	if v.Int16 != nil {
		bytes = 2
	}
	voxels := 1
	for _, n := range h.Dims {
		voxels *= n
	}
	if h.Grid != v.Grid || h.Volumes != 1 || h.VoxelBytes < bytes || voxels != v.Len() {
		t.Errorf("the header says %v, %d volumes of %v, %d bytes a voxel; read: %v, %d bytes", h.Grid, h.Volumes,
			h.Dims, h.VoxelBytes, v.Grid, bytes)
	}
	if h.Kind == "" || h.Datatype == "" || h.Path != path {
		t.Errorf("kind %q, type %q, path %q", h.Kind, h.Datatype, h.Path)
	}
	again, err := format.Read(path, format.Options{Volume: 1})
	if err != nil || again.Grid != v.Grid || !slices.Equal(again.Int16, v.Int16) ||
		!slices.Equal(again.Float32, v.Float32) {
		t.Errorf("read again: %v, other voxels", err)
	}
	if _, err := format.Read(path, format.Options{Volume: 2}); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a volume that is not there: %v", err)
	}
	if all, err := format.ReadAll(path, format.Options{}); err != nil || len(all) != 1 || all[0].Grid != v.Grid {
		t.Errorf("all volumes: %d, %v", len(all), err)
	}
	if low := v.Statistics().Min; low >= 0 {
		t.Fatalf("the scan has nothing below 0, but %g: give another", low)
	}
}

// labels: they are whole numbers on the grid of their header; a scan is none.
func labels(t *testing.T, scan, path string) {
	h, err := format.ReadHeader(path)
	if err != nil {
		t.Fatal(err)
	}
	l, err := format.ReadLabels(path, format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	v, err := h.Read(format.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if l.Grid != h.Grid || len(l.Counts()) < 2 {
		t.Errorf("labels %v on %v, their header has %v", l.Counts(), l.Grid, h.Grid)
	}
	for n, label := range l.Labels {
		if x := v.At(n%v.Shape[0], n/v.Shape[0]%v.Shape[1], n/v.Shape[0]/v.Shape[1]); x != float32(label) {
			t.Fatalf("voxel %d is %d as a label and %g as a value", n, label, x)
		}
	}
	may := map[string]bool{path: true}
	if scan != "" {
		may[scan] = false
		if _, err := format.ReadLabels(scan, format.Options{}); err == nil || !strings.Contains(err.Error(), scan) {
			t.Errorf("a scan read as labels: %v", err)
		}
	}
	for path, want := range may {
		if may, err := format.MayBeLabels(path, format.Options{}); may != want || err != nil {
			t.Errorf("%s may be labels: %v, %v", path, may, err)
		}
	}
}

// several: none of several volumes is taken unasked; each can be chosen, and all be read.
func several(t *testing.T, path string) {
	h, err := format.ReadHeader(path)
	if err != nil || h.Volumes < 2 {
		t.Fatal(err, "one volume")
	}
	if _, err := h.Read(format.Options{}); err == nil || !strings.Contains(err.Error(), "--volume") {
		t.Errorf("no volume is chosen: %v", err)
	}
	all, err := h.ReadAll(format.Options{})
	if err != nil || len(all) != h.Volumes {
		t.Fatalf("%d volumes of %d: %v", len(all), h.Volumes, err)
	}
	for n, v := range all {
		one, err := format.Read(path, format.Options{Volume: n + 1})
		if err != nil || one.Grid != v.Grid || one.Grid != h.Grid {
			t.Fatalf("volume %d: %v, another grid", n+1, err)
		}
		for i := range one.Len() {
			at := [3]int{i % v.Shape[0], i / v.Shape[0] % v.Shape[1], i / v.Shape[0] / v.Shape[1]}
			if one.At(at[0], at[1], at[2]) != v.At(at[0], at[1], at[2]) {
				t.Fatalf("volume %d differs, read alone, at %v", n+1, at)
			}
		}
	}
}

// oneFile is a file of a folder, or the file itself.
func oneFile(t *testing.T, path string) (file string) {
	err := filepath.WalkDir(path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			file = path
		}
		return err
	})
	if err != nil || file == "" {
		t.Fatalf("%s holds no file: %v", path, err)
	}
	return file
}

// damage: what is missing, empty or cut short is refused in one line that names the file.
func damage(t *testing.T, path string) {
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for what, bytes := range map[string][]byte{"missing": nil, "empty": {}, "cut short": data[:len(data)*2/3],
		"other": []byte(strings.Repeat("x", len(data)))} {
		bad := filepath.Join(t.TempDir(), filepath.Base(path))
		if what != "missing" {
			if err := os.WriteFile(bad, bytes, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		_, err := format.Read(bad, format.Options{})
		if err == nil || !strings.Contains(err.Error(), bad) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", what, err)
		}
		if what == "missing" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v is no fs.ErrNotExist", what, err)
		}
		if _, err := format.ReadLabels(bad, format.Options{}); err == nil {
			t.Errorf("%s, as labels: no error", what)
		}
		if _, err := format.MayBeLabels(bad, format.Options{}); err == nil && what != "cut short" {
			t.Errorf("%s, as what may be labels: no error", what)
		}
	}
}
