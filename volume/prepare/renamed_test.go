package prepare

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// Names of labels that are put right in dataset.json are those of cases that were prepared before,
// too: they are kept, with these names.
func TestCorrectedNames(t *testing.T) {
	for _, c := range []struct {
		name, relabel, before, after string
		kept                         int
		want                         map[uint16]string
	}{
		{"swapped", "", `{"1": "tumour", "2": "pancreas"}`, `{"1": "pancreas", "2": "tumour"}`, 2,
			map[uint16]string{1: "pancreas", 2: "tumour"}},
		{"named later", "", `{"1": "pancreas"}`, `{"1": "pancreas", "2": "cyst"}`, 2,
			map[uint16]string{1: "pancreas", 2: "cyst"}},
		{"no longer named", "", `{"1": "pancreas", "2": "cyst"}`, `{}`, 2, nil},
		{"merged", "2:1", `{"1": "tumour"}`, `{"1": "pancreas", "2": "cyst"}`, 2,
			map[uint16]string{1: "pancreas"}},
		// which labels are dropped goes by the names: prepared again
		{"ignored", "*:1", `{"1": "pancreas", "2": "cyst"}`, `{"1": "pancreas", "2": "ignore"}`, 0,
			map[uint16]string{1: "pancreas", 2: "ignore"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := tree(t, map[string]string{"imagesTr/p1.nii.gz": "", "imagesTr/p2.nii.gz": "",
				"labelsTr/p1.nii.gz": "", "labelsTr/p2.nii.gz": "", "dataset.json": `{"labels": ` + c.before + `}`})
			p := volume.DefaultPreparation()
			p.Relabel = c.relabel
			dir := t.TempDir()
			run := func() *Summary {
				t.Helper()
				s, err := Run(t.Context(), detect(t, root), dir, p, DefaultOptions(), nil)
				if err != nil {
					t.Fatal(err)
				}
				return s
			}
			run()
			if err := os.WriteFile(filepath.Join(root, "dataset.json"), []byte(`{"labels": `+c.after+`}`),
				0o666); err != nil {
				t.Fatal(err)
			}
			again := run()
			said := slices.ContainsFunc(again.Notes, func(note string) bool {
				return strings.Contains(note, "2 cases (p1, p2), kept with the new names")
			})
			if again.Kept != c.kept || said != (c.kept == 2) {
				t.Errorf("%d kept, %q", again.Kept, again.Notes)
			}
			store, err := prepared.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			for r := range store.Records() {
				if !maps.Equal(r.LabelNames, c.want) {
					t.Errorf("%s: labels are called %v, want %v", r.ID, r.LabelNames, c.want)
				}
			}
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			if once := run(); once.Kept != 2 || len(again.Notes) > 0 && slices.Contains(once.Notes, again.Notes[0]) {
				t.Errorf("a third time: %d kept, %q", once.Kept, once.Notes)
			}
		})
	}
}
