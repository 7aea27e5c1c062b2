package prepare

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// sourcesOf are the names of the files that each case is read from.
func sourcesOf(t *testing.T, d *dataset.Dataset) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, c := range d.Cases {
		paths, err := c.Sources()
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range paths {
			all[c.ID] = append(all[c.ID], filepath.Base(path))
		}
	}
	return all
}

// The series of a flat folder have names of their own, whatever else lies there, and are read from
// their own files: one that comes or goes changes nothing about the others.
func TestFlatFolderOfSeries(t *testing.T) {
	root := t.TempDir()
	flat := filepath.Join(root, "drop2")
	nameOf := func(uid string) string { // SHA-256 of the UID, as any program works it out
		return "drop2_s1_" + fmt.Sprintf("%x", sha256.Sum256([]byte(uid)))[:10]
	}
	uids := []string{"1.2.5", "1.2.6", "1.2.7"}
	for n, uid := range uids {
		v, _ := datasettest.Axial(t, uint64(n+1))
		datasettest.WriteSeries(t, flat, uid, v, false)
	}
	d := detect(t, root)
	before := sourcesOf(t, d)
	for _, uid := range uids {
		if n := len(before[nameOf(uid)]); n != 30 || len(before) != 3 {
			t.Fatalf("%s has %d files: %v", nameOf(uid), n, list(d))
		}
	}
	dir := t.TempDir()
	s, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil)
	if err != nil || s.Prepared != 3 {
		t.Fatal(s, err)
	}

	// The first patient leaves, another comes, and so does somebody's note.
	for _, file := range before[nameOf("1.2.5")] {
		if err := os.Remove(filepath.Join(flat, file)); err != nil {
			t.Fatal(err)
		}
	}
	v, _ := datasettest.Axial(t, 4)
	datasettest.WriteSeries(t, flat, "1.2.4", v, false)
	if err := os.WriteFile(filepath.Join(flat, "list.txt"), []byte("text"), 0o666); err != nil {
		t.Fatal(err)
	}
	d = detect(t, root)
	after := sourcesOf(t, d)
	for _, uid := range uids[1:] {
		if !slices.Equal(after[nameOf(uid)], before[nameOf(uid)]) {
			t.Errorf("%s: %v, before %v", nameOf(uid), after[nameOf(uid)], before[nameOf(uid)])
		}
	}
	if len(after) != 3 || after[nameOf("1.2.4")] == nil || after[nameOf("1.2.5")] != nil {
		t.Errorf("%v", list(d))
	}
	s, err = Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{Force: true}, nil)
	if err != nil || s.Prepared != 1 || s.Kept != 2 || !slices.Equal(s.Removed, []string{nameOf("1.2.5")}) {
		t.Errorf("%+v, %v", s, err)
	}
}

// Of a series that something lies beside, what was prepared as its folder is the same case as its
// files are.
func TestFileBesideSeries(t *testing.T) {
	root, dir := t.TempDir(), t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	datasettest.WriteSeries(t, filepath.Join(root, "pat"), "1.2.5", v, false)
	for _, beside := range []bool{false, true} {
		if beside {
			if err := os.WriteFile(filepath.Join(root, "pat", "notes.txt"), []byte("text"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		d := detect(t, root)
		if n := len(sourcesOf(t, d)["pat"]); beside != (n == 30) || beside == (n == 1) {
			t.Errorf("beside %v: %d sources", beside, n)
		}
		s, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil)
		if err != nil || s.Prepared != 1 {
			t.Errorf("beside %v: %+v, %v", beside, s, err)
		}
	}
}

// Studies of which no series can be chosen, side by side, are named by their UIDs, too.
func TestRefusedStudiesSideBySide(t *testing.T) {
	root := t.TempDir()
	v, _ := datasettest.Axial(t, 1)
	v, err := v.Orient("RSP") // no axial CT to choose
	if err != nil {
		t.Fatal(err)
	}
	write := func(study string) {
		for n := range 2 {
			uid := fmt.Sprintf("%s.%d", study, n+1)
			datasettest.WriteStudy(t, filepath.Join(root, "mr"), uid, study, n+1, "MR", v, nil)
		}
	}
	names := func() (found []string) {
		for _, c := range detect(t, root).Cases {
			found = append(found, c.ID)
		}
		return found
	}
	write("1.2.8")
	write("1.2.9")
	both := names()
	write("1.2.3")
	if three := names(); len(both) != 2 || len(three) != 3 || !slices.Contains(three, both[0]) ||
		!slices.Contains(three, both[1]) || !strings.HasPrefix(both[0], "mr_study_") {
		t.Errorf("%v, then %v", both, three)
	}
}
