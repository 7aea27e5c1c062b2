package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

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
		if want := filepath.Base(path) + ": passed over: a link of git-annex"; !datasettest.Noted(d.PassedOver, want) {
			t.Errorf("%s: %q", c.link, d.PassedOver)
		}
	}
}
