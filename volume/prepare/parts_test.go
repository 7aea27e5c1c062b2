package prepare

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// files are the contents of all files below a folder.
func files(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		all[strings.TrimPrefix(path, dir)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// Parts that are prepared at once leave what a single run leaves, to the byte, a case that cannot
// be prepared included.
func TestPartsAtOnce(t *testing.T) {
	root, whole, dir := folderOf(t, "p1", "p2", "p3", "p4", "p5", "p6", "p7"), t.TempDir(), t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "imagesTr/p4.nii.gz"), []byte("no scan"), 0o666); err != nil {
		t.Fatal(err)
	}
	p := volume.DefaultPreparation()
	want, err := Run(t.Context(), detect(t, root), whole, p, Options{}, nil)
	if err == nil || want.Fingerprint == "" {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	var mutex sync.Mutex
	finished, fresh := 0, 0
	for number := range 3 {
		d := detect(t, root)
		wait.Go(func() {
			s, err := Run(t.Context(), d, dir, p, Options{Workers: 1, Part: fmt.Sprintf("%d/3", number+1)},
				nil)
			if err != nil && !strings.Contains(err.Error(), "could not be prepared") {
				t.Errorf("part %d: %v", number+1, err)
				return
			}
			mutex.Lock()
			defer mutex.Unlock()
			fresh += s.Prepared
			if s.Fingerprint != "" {
				finished++
				if s.Fingerprint != want.Fingerprint || len(s.Failed) != 1 {
					t.Errorf("fingerprint %s, %d failed, want %s and 1", s.Fingerprint, len(s.Failed), want.Fingerprint)
				}
			}
		})
	}
	wait.Wait()
	if finished != 1 || fresh != 6 {
		t.Errorf("%d parts wrote the manifest, and %d cases were prepared", finished, fresh)
	}
	if a, b := files(t, whole), files(t, dir); !reflect.DeepEqual(a, b) {
		t.Errorf("a single run leaves %d files, parts leave %d, or other ones", len(a), len(b))
	}
	if _, err := os.Stat(filepath.Join(dir, partsFolder)); err == nil {
		t.Error("the folder of the parts is left")
	}
}

// A part that was killed is run again; nobody takes the folder for a whole one meanwhile.
func TestPartsOneByOne(t *testing.T) {
	root, dir := folderOf(t, "p1", "p2", "p3", "p4"), t.TempDir()
	p := volume.DefaultPreparation()
	part := func(o Options) (*Summary, error) { return Run(t.Context(), detect(t, root), dir, p, o, nil) }
	s, err := part(Options{Part: "2/2"})
	if err != nil || s.Prepared != 2 || !reflect.DeepEqual(s.Waiting, []int{1}) || s.Fingerprint != "" {
		t.Fatalf("part 2 of 2: %+v, %v", s, err)
	}
	if _, err := part(Options{Merge: true}); err == nil ||
		!strings.Contains(err.Error(), "2 of 4 cases are not prepared with these settings, such as p1") {
		t.Errorf("merged without a part: %v", err)
	}
	if _, err := part(Options{Part: "1/2", Merge: true}); err == nil {
		t.Error("a part is prepared and merged")
	}
	if runtime.GOOS != "windows" { // which has no locks of folders
		own := filepath.Join(dir, partsFolder, "1-of-2")
		if err := atomicfile.MakeFolder(own); err != nil {
			t.Fatal(err)
		}
		release, err := atomicfile.Hold(own)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := part(Options{Part: "1/2"}); err == nil ||
			!strings.Contains(err.Error(), "1-of-2 is in use by another run") {
			t.Errorf("the same part twice at once: %v", err)
		}
		release()
	}
	// As if the last part was killed before it could write the manifest.
	record := fileOf(dataset.Part{Number: 2, Of: 2}, dir)
	hidden := record + ".hidden"
	if err := os.Rename(record, hidden); err != nil {
		t.Fatal(err)
	}
	if s, err = part(Options{Part: "1/2"}); err != nil || !reflect.DeepEqual(s.Waiting, []int{2}) {
		t.Fatalf("part 1 of 2: %+v, %v", s, err)
	}
	if err := os.Rename(hidden, record); err != nil {
		t.Fatal(err)
	}
	if s, err = part(Options{Merge: true}); err != nil || s.Kept != 4 || s.Fingerprint == "" {
		t.Errorf("merged: %+v, %v", s, err)
	}
	before := s.Fingerprint
	if s, err = part(Options{}); err != nil || s.Kept != 4 || s.Fingerprint != before {
		t.Errorf("a single run afterwards: %+v, %v", s, err)
	}
}
