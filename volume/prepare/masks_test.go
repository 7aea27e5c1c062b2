package prepare

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// A case that an older version prepared, over a mask of each channel, and that cannot be prepared
// again is not lost unasked; those that are prepared again are told with the reason.
func TestCasesOverOtherMasksAreNotLost(t *testing.T) {
	root, dir := t.TempDir(), filepath.Join(t.TempDir(), "store")
	for _, id := range []string{"p1", "p2"} {
		for name, from := range map[string]string{"t1w": "sub-01_T1w", "flair": "sub-01_FLAIR", "seg": "box"} {
			datasettest.CopyFile(t, "../../testdata/channels/"+from+".nii.gz",
				filepath.Join(root, id, id+"_"+name+".nii.gz"))
		}
	}
	p := volume.DefaultPreparation()
	p.Axcodes, p.Spacing, p.Crop, p.Channels = "RAS", [3]float64{2, 2, 2.5}, volume.CropNone, "T1w,FLAIR"
	p.Intensity = volume.ZScoreNonzero
	prepare := func(o Options) (*Summary, error) {
		t.Helper()
		d, err := dataset.Detect(root, dataset.Options{Channels: p.ChannelsAsked()})
		if err != nil {
			t.Fatal(err)
		}
		return Run(t.Context(), d, dir, p, o, nil)
	}
	inStore := func() (ids []string) {
		for _, ext := range []string{".json", ".vox"} {
			files, _ := filepath.Glob(filepath.Join(dir, "cases", "*"+ext))
			for _, file := range files {
				ids = append(ids, strings.TrimSuffix(filepath.Base(file), ext)+ext)
			}
		}
		return ids
	}
	age := func() { // as the older version would have written the store
		t.Helper()
		files, _ := filepath.Glob(filepath.Join(dir, "cases", "*.json"))
		for _, path := range files {
			text, err := os.ReadFile(path)
			older := regexp.MustCompile(`,\s*"masks": "common"`).ReplaceAll(text, nil)
			if err != nil || len(older) == len(text) {
				t.Fatalf("%s, %v", text, err)
			}
			if err := os.WriteFile(path, older, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"manifest.json", filepath.Join("cases", atomicfile.SumsFile)} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s, err := prepare(Options{}); err != nil || s.Prepared != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	all := inStore()
	age()
	if err := os.WriteFile(filepath.Join(root, "p2", "p2_flair.nii.gz"), []byte("no scan"), 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := prepare(Options{})
		if got := inStore(); len(all) != 4 || !slices.Equal(got, all) {
			t.Errorf("in the store are %q, before %q", got, all)
		}
		if err == nil || !strings.Contains(err.Error(), "over a mask of each channel, is still there") ||
			!strings.Contains(err.Error(), "add --force to be rid of p2_p2") {
			t.Errorf("error %v", err)
		}
	}
	s, err := prepare(Options{Force: true})
	if got := inStore(); err == nil || !strings.Contains(err.Error(), "is removed") || s.Kept != 1 || len(got) != 2 {
		t.Errorf("by force: %d kept, %v, in the store are %q", s.Kept, err, got)
	}
	age()
	s, err = prepare(Options{})
	const reason = "prepared again, because an older version standardised each channel over a mask of its own: " +
		"1 case (p1_p1)"
	if err == nil || s.Fingerprint == "" || !slices.Contains(s.Notes, reason) ||
		slices.ContainsFunc(s.Notes, func(note string) bool { return strings.Contains(note, "--gaps") }) {
		t.Errorf("notes %q, %v", s.Notes, err)
	}
}
