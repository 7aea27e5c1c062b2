package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestAbsolute(t *testing.T) {
	page := "See [how](docs/benchmarks.md#steps) and [the log](./CHANGELOG.md).\n" +
		"![A puzzle](docs/images/puzzle.png)\n" +
		"[Site](https://example.org/a.md), [below](#cite), [mail](mailto:a@example.org).\n" +
		"```\n[x](in/code.md)\n```\n[after](LICENSE)\n"
	const at = "https://github.com/voxsaw/voxsaw/"
	want := "See [how](" + at + "blob/v1.2.3/docs/benchmarks.md#steps) " +
		"and [the log](" + at + "blob/v1.2.3/CHANGELOG.md).\n" +
		"![A puzzle](" + at + "raw/v1.2.3/docs/images/puzzle.png)\n" +
		"[Site](https://example.org/a.md), [below](#cite), [mail](mailto:a@example.org).\n" +
		"```\n[x](in/code.md)\n```\n[after](" + at + "blob/v1.2.3/LICENSE)\n"
	if got := absolute(page, "v1.2.3"); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

// The README of the repository has no relative link left, however it writes its links, and each
// absolute one names a file that is there.
func TestRepository(t *testing.T) {
	root := filepath.Join("..", "..")
	page, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	got := absolute(string(page), "v1.2.3")
	for _, of := range regexp.MustCompile(`\]\(([^)]*)\)|\b(?:src|href)="([^"]*)"|(?m)^\[[^\]]+\]:\s*(\S+)`).
		FindAllStringSubmatch(got, -1) {
		if to := of[1] + of[2] + of[3]; !remote.MatchString(to) {
			t.Errorf("%s: this link leads nowhere outside the repository", to)
		}
	}
	ours := regexp.MustCompile(regexp.QuoteMeta(repository)+`/(?:blob|raw)/v1\.2\.3/([^)#]+)`).
		FindAllStringSubmatch(got, -1)
	if len(ours) < 10 {
		t.Fatalf("%d links to files of the repository, want at least 10", len(ours))
	}
	for _, of := range ours {
		if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(of[1]))); err != nil {
			t.Error(err)
		}
	}
	if strings.Contains(got, "/raw/v1.2.3/docs/results") {
		t.Error("a page is linked as bytes")
	}
}
