package outdir

import (
	"errors"
	"os"
	"path/filepath"
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
