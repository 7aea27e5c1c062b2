package dataset

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// What a download or a clone left in place of a file is named for what it is, by who inspects and
// by who prepares.
func TestStandInsAreNamed(t *testing.T) {
	const page = "<!DOCTYPE html>\n<html><head><title>Sign in</title></head></html>\n"
	const pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 12345\n"
	const answer = `{"message": "Not Found", "status": "404"}`
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write([]byte(page)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	const meta = "NRRD0004\ntype: short\ndimension: 3\nsizes: 40 40 40\nencoding: raw\ndata file: p2.raw\n\n"
	for _, c := range []struct{ file, text, want string }{
		{"p2.nii.gz", pointer, "is a pointer of Git LFS"},
		{"p2.nii.gz", page, `is a web page ("Sign in")`},
		{"p2.nii.gz", packed.String(), `is a web page ("Sign in")`},
		{"p2.nii.gz", answer, "is JSON, such as a server's error message"},
		{"p2.nrrd", answer, "is JSON, such as a server's error message"},
		{"020.dcm", answer, "is JSON, such as a server's error message"},
		{"p2.nrrd", "", "is empty"},
		{"p2.nii", pointer, "is a pointer of Git LFS"},
		{"p2.nrrd", pointer, "is a pointer of Git LFS"},
		{"p2.mha", page, `is a web page ("Sign in")`},
		{"p2.raw", pointer, "is a pointer of Git LFS"},
		{"p1_seg.nii.gz", pointer, "is a pointer of Git LFS"},
		{"020.dcm", pointer, "is a pointer of Git LFS"},
		{"020.dcm", page, `is a web page ("Sign in")`},
		{"IM00020", page, `is a web page ("Sign in")`},
		{"dataset.json", page, `is a web page ("Sign in")`},
	} {
		root := tree(t, map[string]string{"p1.nii.gz": "", c.file: c.text})
		if c.file == "p2.raw" {
			if err := os.WriteFile(filepath.Join(root, "p2.nhdr"), []byte(meta), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		var told []string
		d, err := Detect(root, Options{})
		if err != nil {
			told = append(told, err.Error())
		} else {
			s, err := Prepare(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), PrepareOptions{}, nil)
			if err != nil {
				told = append(told, err.Error())
			}
			for _, f := range s.Failed {
				told = append(told, f.Err.Error())
			}
			told = slices.Concat(told, d.Notes, d.PassedOver, s.Notes)
		}
		if all := strings.Join(told, "\n"); !strings.Contains(all, c.want) || !strings.Contains(all, c.file) {
			t.Errorf("%s: prepare says %q, want %q", c.file, told, c.want)
		}
		entries, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			notes = append(notes, e.Problems...)
		}
		if !noted(notes, c.want) {
			t.Errorf("%s: inspect says %q, want %q", c.file, notes, c.want)
		}
	}
}

// Of scans and labels that git-annex has not fetched there are links that lead nowhere: they are
// named, in all layouts, and are not taken for cases without labels unsaid.
func TestLinksOfGitAnnexAreNamed(t *testing.T) {
	const key = "../.git/annex/objects/x1/k2/MD5E-s9--abc.nii.gz/MD5E-s9--abc.nii.gz"
	for _, c := range []struct{ scan, link string }{
		{"imagesTr/p1.nii.gz", "labelsTr/p1.nii.gz"},
		{"imagesTr/p1.nii.gz", "imagesTr/p2.nii.gz"},
		{"p1.nii.gz", "p2.nii.gz"},
		{"p1.nii.gz", "p1_seg.nii.gz"},
		{"p1.nii.gz", "020.dcm"},
	} {
		root := tree(t, map[string]string{c.scan: "", "dataset.json": "{}"})
		path := filepath.Join(root, filepath.FromSlash(c.link))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(key, path); err != nil {
			continue // a system without links
		}
		d, err := Detect(root, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if want := filepath.Base(path) + ": passed over: a link of git-annex"; !noted(d.PassedOver, want) {
			t.Errorf("%s: %q", c.link, d.PassedOver)
		}
	}
}
