package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// The committed list is whole: every repository has readings, every word and pattern of it is for
// some file, and every file that nobody reads has words.
func TestListIsWhole(t *testing.T) {
	repositories, err := readList(".")
	if err != nil {
		t.Fatal(err)
	}
	if len(repositories) < 30 {
		t.Fatalf("%d repositories", len(repositories))
	}
	for _, r := range repositories {
		if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(r.Commit) {
			t.Errorf("%s: commit %q", r.Repository, r.Commit)
		}
		if len(r.expected) == 0 {
			t.Errorf("%s: nothing is expected of it", r.Repository)
		}
		for words, patterns := range r.Refused {
			for _, p := range patterns {
				if !slices.ContainsFunc(r.expected, func(e expectation) bool { return fits(p, e.Path) }) {
					t.Errorf("%s: no file fits %q, which must be refused with %q", r.Repository, p, words)
				}
			}
		}
		for _, e := range r.expected {
			for _, fact := range e.Is {
				if facts[fact] == "" {
					t.Errorf("%s %s: no words for %q", r.Repository, e.Path, fact)
				}
			}
			if len(e.Volumes)+len(e.Is)+e.Segments == 0 && len(r.words(e.Path)) == 0 {
				t.Errorf("%s %s: nobody reads it (%s), and no words are listed", r.Repository, e.Path, e.Error)
			}
		}
	}
}

// Files of a clone are right, refused, wrong and missing as they should be.
func TestVerdicts(t *testing.T) {
	clones, list := t.TempDir(), t.TempDir()
	work := filepath.Join(clones, "some", "body")
	v := &volume.Volume{Grid: volume.Grid{Shape: [3]int{2, 3, 4}, Affine: volume.Scaling([3]float64{1, 2, 3})},
		Int16: make([]int16, 24)}
	v.Int16[23] = 24
	if err := os.MkdirAll(work, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := nifti.Write(filepath.Join(work, "a scan.nii"), v); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "cut.nii"), make([]byte, 100), 0o644); err != nil {
		t.Fatal(err)
	}
	commit := commitAll(t, work)

	const figures = `"shape": [2, 3, 4], "spacing": [1, 2, 3], "first": [0, 0, 0], "last": [1, 4, 9], "min": 0, "max": 24, "mean": %d, "centre": [1, 2, %g]`
	line := func(path, rest string) string {
		return fmt.Sprintf(`{"repository": "some/body", "path": %q, %s}`, path, rest)
	}
	read := func(mean int, centre float64) string {
		return `"volumes": [{` + fmt.Sprintf(figures, mean, centre) + `}]`
	}
	for _, test := range []struct {
		name, line, rules, want string
	}{
		{"the same", line("a scan.nii", read(1, 3)), "", right},
		{"another mean", line("a scan.nii", read(2, 3)), "", wrong},
		{"values in other places", line("a scan.nii", read(1, 0)), "", wrong},
		{"read, but it must not be", line("a scan.nii", `"is": ["colours"]`), "", wrong},
		{"refused with other words", line("cut.nii", `"is": ["colours"]`), "", wrong},
		{"refused", line("cut.nii", `"error": "too short"`), "  refused: {\"is not a NIfTI file\": [\"c*.nii\"]}\n",
			refused},
		{"refused, which nobody asked for", line("cut.nii", read(1, 3)), "", wrong},
		{"not in the clone", line("other.nii", read(1, 3)), "", missing},
	} {
		t.Run(test.name, func(t *testing.T) {
			write(t, filepath.Join(list, "list.yaml"), "- repository: some/body\n  commit: "+commit+
				"\n  files: [\"*\"]\n"+test.rules)
			write(t, filepath.Join(list, "expected.jsonl"), test.line+"\n")
			var out bytes.Buffer
			bad, err := run(&out, clones, list, "")
			if err != nil {
				t.Fatal(err)
			}
			if verdict, _, _ := strings.Cut(out.String(), " "); verdict != test.want {
				t.Errorf("got %s", out.String())
			}
			if want := test.want == wrong || test.want == missing; (bad > 0) != want {
				t.Errorf("%d bad files", bad)
			}
		})
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// commitAll makes a repository of a folder, and returns its only commit.
func commitAll(t *testing.T, folder string) string {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Skip("no git")
	}
	var out []byte
	for _, arguments := range [][]string{
		{"init", "--quiet"},
		{"add", "."},
		{"-c", "user.name=test", "-c", "user.email=test@example.com", "-c", "commit.gpgsign=false", "commit", "--quiet",
			"--message", "files"},
		{"rev-parse", "HEAD"},
	} {
		var err error
		if out, err = exec.Command("git",
			append([]string{"-C", folder}, arguments...)...).CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", arguments, err, out)
		}
	}
	return strings.TrimSpace(string(out))
}
