package prepare

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
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
		d, err := dataset.Detect(root, dataset.Options{})
		if err != nil {
			told = append(told, err.Error())
		} else {
			s, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), Options{}, nil)
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
		entries, notes, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			notes = append(notes, e.Problems...)
		}
		if !datasettest.Noted(notes, c.want) {
			t.Errorf("%s: inspect says %q, want %q", c.file, notes, c.want)
		}
	}
}
