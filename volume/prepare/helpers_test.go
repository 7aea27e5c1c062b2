package prepare

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// isLabels says whether a file of a tree is one of labels, by its name.
var isLabels = regexp.MustCompile(`labelsTr|labelsTs|segmentations|masks|seg\.|_seg|label`)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	return datasettest.Tree(t, files, func(name string) (number int, labels bool) {
		number, _ = dataset.Number(strings.TrimSuffix(name, "_0000.nii.gz"))
		return number, isLabels.MatchString(name)
	})
}

// list shows cases as ID [group] image [labels], with paths below the root.
func list(d *dataset.Dataset) []string {
	var lines []string
	for _, c := range d.Cases {
		line := c.ID
		for _, s := range []string{c.Group, c.Image, c.Labels} {
			if s != "" {
				if relative, err := filepath.Rel(d.Root, s); err == nil {
					s = filepath.ToSlash(relative)
				}
				line += " " + s
			}
		}
		lines = append(lines, line)
	}
	return lines
}

func detect(t *testing.T, root string) *dataset.Dataset {
	t.Helper()
	d, err := dataset.Detect(root, dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func folderOf(t *testing.T, cases ...string) string {
	t.Helper()
	files := map[string]string{}
	for _, id := range cases {
		files["imagesTr/"+id+".nii.gz"], files["labelsTr/"+id+".nii.gz"] = "", ""
	}
	return tree(t, files)
}
