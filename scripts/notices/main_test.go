package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	_ "github.com/voxsaw/voxsaw/cli" // what is built here: go test runs this again where it differs
	"github.com/voxsaw/voxsaw/internal/turns"
)

// The notices name each module that `go version -m` lists, and no other, and have its licence.
func TestNoticesNameWhatIsLinked(t *testing.T) {
	if !turns.Has(t, 1, 3) {
		return
	}
	if testing.Short() {
		t.Skip("builds the program")
	}
	t.Chdir(filepath.Join("..", ".."))
	binary := filepath.Join(t.TempDir(), "voxsaw")
	if out, err := exec.Command("go", "build", "-ldflags", "-s -w", "-o", binary,
		"./cmd/voxsaw").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var b strings.Builder
	if err := notices(&b, binary); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	listed, _, _ := strings.Cut(text, rule)
	out, err := exec.Command("go", "version", "-m", binary).Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := regexp.MustCompile(`(?m)^\tdep\t(\S+)\t(\S+)`).FindAllStringSubmatch(string(out), -1)
	if len(linked) < 30 {
		t.Fatalf("go version -m lists %d modules: is the search broken?", len(linked))
	}
	for _, m := range linked {
		name := m[1] + " " + m[2]
		if !strings.Contains(listed, "\n"+name+"\n") || !strings.Contains(text, rule+name+": ") {
			t.Errorf("no licence of %s", name)
		}
	}
	if n := strings.Count(listed, " v"); n != len(linked) {
		t.Errorf("%d modules are named, %d are linked", n, len(linked))
	}
	for _, want := range []string{"Copyright 2009 The Go Authors", "Independent JPEG Group", "NiiVue"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is not there", want)
		}
	}
	if err := notices(os.Stdout, "main.go"); err == nil {
		t.Error("a file that is no program was taken")
	}
}
