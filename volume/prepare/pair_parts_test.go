package prepare

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// NRRD and MetaImage files are scans and labels like others; Slicer's segmentations name theirs.
func TestFormatsOfITK(t *testing.T) {
	var cases []struct {
		Name  string            `json:"name"`
		Files map[string][]byte `json:"files"`
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "itk_files.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, c := range cases {
		name := map[string]string{"axial.nrrd": "p1.nrrd", "organs.seg.nrrd": "p1.seg.nrrd", "axial.mha": "p2.MHA",
			"packed.mhd": "packed.mhd"}[c.Name]
		if name == "" {
			continue
		}
		for file, data := range c.Files {
			if file == c.Name {
				file = name
			}
			if err := os.WriteFile(filepath.Join(root, file), data, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	d := detect(t, root)
	if got := list(d); !slices.Equal(got, []string{"p1 p1.nrrd p1.seg.nrrd", "p2 p2.MHA", "packed packed.mhd"}) ||
		len(d.Notes) > 0 || d.LabelNames[3] != "Parotid left" {
		t.Errorf("%q, %q, %v", got, d.Notes, d.LabelNames)
	}
	if paths, err := d.Cases[2].Sources(); err != nil || len(paths) != 2 {
		t.Errorf("the files of a pair: %q, %v", paths, err)
	}
	if s, err := Run(t.Context(), d, t.TempDir(), volume.DefaultPreparation(), Options{}, nil); err != nil ||
		s.Prepared != 3 || s.Labelled != 1 {
		t.Errorf("%v, %+v", err, s)
	}
	entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
	if err != nil || len(entries) != 4 || entries[0].Kind != "NRRD" || entries[1].LabelNames[7] != "cord" ||
		len(entries[0].Problems) > 0 {
		t.Errorf("%v, %+v", err, entries)
	}
}
