package outdir

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// A file that was there before is foreign until its owner has taken its name.
func TestTake(t *testing.T) {
	dir := t.TempDir()
	write := func(name string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	foreign := func(name, owner string, names ...string) {
		t.Helper()
		var refused *ForeignError
		err := Owner{Name: owner, Files: names}.Take(dir)
		if !errors.As(err, &refused) || refused.Path != filepath.Join(dir, name) {
			t.Errorf("%s takes %q: %v, want that %s is foreign", owner, names, err, name)
		}
	}
	take := func(owner string, names ...string) {
		t.Helper()
		if err := (Owner{Name: owner, Files: names}).Take(dir); err != nil {
			t.Errorf("%s takes %q: %v", owner, names, err)
		}
	}
	write("scores.csv")
	foreign("scores.csv", "evaluate", "scores.md", "scores.csv")
	if _, err := os.Stat(filepath.Join(dir, File)); err == nil {
		t.Error("a name was taken beside a foreign one")
	}
	take("report", "report.html")
	write("report.html")
	take("report", "report.html", "report.md")
	write("report.md") // killed, and begun once more
	take("report", "report.html", "report.md")
	foreign("report.md", "crossval", "report.md")
	if err := (Owner{Name: "crossval", Files: []string{"report.md"}}).Mark(dir); err != nil {
		t.Fatal(err)
	}
	take("crossval", "report.md")
	take("report", "report.html")
	if err := (Owner{Name: "report", Files: []string{"report.html"}}).Check(filepath.Join(dir, "nowhere")); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

// A folder that is given where another is wanted is told by who wrote it, but not by its owner.
func TestRemark(t *testing.T) {
	dir := t.TempDir()
	prepare := Owner{Name: "voxsaw prepare", Files: []string{"cases"}}
	study := Owner{Name: "voxsaw crossval", Files: []string{"trials"}}
	for _, o := range []Owner{prepare, study} {
		if got := o.Remark(dir) + Remark(dir); got != "" && o.Name == prepare.Name {
			t.Errorf("an empty folder: %q", got)
		}
		if err := o.Take(dir); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := Remark(dir), " (voxsaw crossval and voxsaw prepare wrote this folder)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := prepare.Remark(dir), " (voxsaw crossval wrote this folder)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// Commands that list their names in one folder at the same time lose none of each other's, in one
// process or in several, and leave nothing else there.
func TestMarksTogether(t *testing.T) {
	const owners = 16
	mark := func(dir string, n int) error {
		return Owner{Name: fmt.Sprint("owner ", n), Files: []string{fmt.Sprint("file ", n)}}.Mark(dir)
	}
	if dir := os.Getenv("VOXSAW_TEST_MARK"); dir != "" {
		for n := range owners / 2 {
			if err := mark(dir, n); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	dir := t.TempDir()
	another := exec.Command(os.Args[0], "-test.run=^TestMarksTogether$")
	another.Env = append(os.Environ(), "VOXSAW_TEST_MARK="+dir)
	if err := another.Start(); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for n := owners / 2; n < owners; n++ {
		all.Go(func() {
			if err := mark(dir, n); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if err := another.Wait(); err != nil {
		t.Fatal(err)
	}
	if names, err := Names(dir); err != nil || len(names) != owners {
		t.Errorf("%d of %d owners are listed, %v: %q", len(names), owners, err, names)
	}
	if there, err := os.ReadDir(dir); err != nil || len(there) != 2 { // the list, and its digest
		t.Errorf("the folder holds %v, %v", there, err)
	}
}
