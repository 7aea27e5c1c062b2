package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The committed list of volumes is whole: every volume has a licence and the file that states it, a
// commit, a digest that no other has, 100 mm or more each way, and slices of 5 mm or less. What the
// licences allow, docs/datasets.md says.
func TestVolumesAreWhole(t *testing.T) {
	sources, err := readSources("../publicct/list.yaml")
	if err != nil {
		t.Fatal(err)
	}
	licences := []string{"Apache-2.0", "CC BY 3.0", "CC BY 4.0", "CC BY-NC 3.0"}
	regions := []string{"abdomen", "arm", "chest", "leg", "pelvis"}
	digests := map[string]string{}
	for _, s := range sources {
		if !regexp.MustCompile(`^[\w.-]+/[\w.-]+$`).MatchString(s.Repository) ||
			!regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(s.Commit) || !slices.Contains(licences, s.Licence) ||
			s.Stated == "" {
			t.Errorf("%+v", s)
		}
		for _, v := range s.Volumes {
			name := s.Repository + "/" + v.Path
			if other := digests[v.SHA256]; other != "" {
				t.Errorf("%s is %s", name, other)
			}
			digests[v.SHA256] = name
			if !regexp.MustCompile(`^[0-9a-f]{64}$`).MatchString(v.SHA256) || !slices.Contains(regions, v.Region) {
				t.Errorf("%s: %+v", name, v)
			}
			if strings.HasSuffix(v.Path, "/") && v.Files < v.Size[2] {
				t.Errorf("%s: %d slices in %d files", name, v.Size[2], v.Files)
			}
			for axis, spacing := range v.Spacing {
				if length := float64(v.Size[axis]) * spacing; length < 100 || spacing > 5.001 {
					t.Errorf("%s: %g mm along axis %d, in steps of %g mm", name, length, axis, spacing)
				}
			}
		}
	}
	if len(digests) < 50 {
		t.Errorf("%d volumes", len(digests))
	}
}

// A folder is made from a clone, kept when it is whole, and told when it is not. The digests are
// those of sha256sum.
func TestGather(t *testing.T) {
	clones, list := t.TempDir(), filepath.Join(t.TempDir(), "list.yaml")
	work := filepath.Join(clones, "some", "body")
	if err := os.MkdirAll(filepath.Join(work, "ct", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"ct/b.dcm": "two", "ct/Z.dcm": "one", "ct/deep/a.dcm": "three",
		"ct/a b.dcm": "four", "scan.nii": "five"} {
		write(t, filepath.Join(work, name), text)
	}
	commit := commitAll(t, work)
	const (
		// cd ct
		// find . -type f -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum | sha256sum
		ofFolder = "0fe2f27a7f6ab426b60c000942ea0886dced3767b7f9029eecaa5cb9b95c2f73"
		// sha256sum scan.nii
		ofFile = "222b0bd51fcef7e65c2e62db2ed65457013bab56be6fafeb19ee11d453153c80"
	)
	volumes := func(path, digest string, files int) string {
		return fmt.Sprintf("- repository: some/body\n  commit: %s\n  licence: CC0\n  stated: README\n  volumes:\n"+
			"    - path: %s\n      files: %d\n      sha256: %s\n", commit, path, files, digest)
	}
	folder := filepath.Join(t.TempDir(), "scans")
	for _, test := range []struct {
		name, list, clones, want, words string
		before                          func()
	}{
		{"not there, and no clones", volumes("ct/", ofFolder, 4), "", missing, "not in", nil},
		{"no clone of it", volumes("ct/", ofFolder, 4), t.TempDir(), missing, "git ls-tree", nil},
		{"not in the clone", volumes("mr/", ofFolder, 4), clones, missing, "does not hold it", nil},
		{"another digest", volumes("ct/", ofFile, 4), clones, wrong, ofFolder, nil},
		{"a file short", volumes("ct/", ofFolder, 5), clones, wrong, "4 files, the list has 5", nil},
		{"a folder", volumes("ct/", ofFolder, 4), clones, written, "", nil},
		{"a file", volumes("scan.nii", ofFile, 1), clones, written, "", nil},
		{"once more, without clones", volumes("ct/", ofFolder, 4), "", present, "", nil},
		{"changed since", volumes("scan.nii", ofFile, 1), clones, wrong, "remove ", func() {
			write(t, filepath.Join(folder, "some", "body", "scan.nii"), "fivE")
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.before != nil {
				test.before()
			}
			write(t, list, test.list)
			var out bytes.Buffer
			bad, err := gather(&out, test.clones, list, folder, "")
			if err != nil {
				t.Fatal(err)
			}
			if verdict, _, _ := strings.Cut(out.String(), " "); verdict != test.want ||
				!strings.Contains(out.String(), test.words) {
				t.Errorf("got %s", out.String())
			}
			if want := test.want == wrong || test.want == missing; (bad > 0) != want {
				t.Errorf("%d bad volumes", bad)
			}
			left, err := filepath.Glob(filepath.Join(folder, ".corpus-*"))
			if err != nil || len(left) > 0 {
				t.Errorf("left behind: %v, %v", left, err)
			}
		})
	}
}
