package dataset

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// tellsOf is what is told of a data set: of each case its scan, its labels and the structures of
// masks.
func tellsOf(d *Dataset) (lines []string) {
	relative := func(path string) string {
		path, _ = filepath.Rel(d.Root, path)
		return filepath.ToSlash(path)
	}
	for _, c := range d.Cases {
		line := relative(c.Image)
		switch {
		case c.Masks != nil:
			var names []string
			for _, m := range c.Masks {
				names = append(names, m.Name)
			}
			line += ": " + strings.Join(names, ",")
		case c.Labels != "":
			line += ": " + filepath.Base(c.Labels)
		}
		lines = append(lines, line)
	}
	return lines
}

func TestContrastsOfBIDS(t *testing.T) {
	const liver, spleen, both = int(phantom.Liver), int(phantom.Spleen), 0
	contrasts := map[string]int{
		"sub-01/anat/sub-01_T1w.nii.gz": -1, "sub-01/anat/sub-01_ce-gad_T1w.nii.gz": -1,
		"sub-01/anat/sub-01_T2w.nii.gz": -1, "sub-01/anat/sub-01_FLAIR.nii.gz": -1,
		"derivatives/manual/sub-01/anat/sub-01_T2w_seg.nii.gz": both,
		"sub-02/anat/sub-02_T1w.nii.gz":                        -1,
		"derivatives/manual/sub-02/anat/sub-02_dseg.nii.gz":    both,
	}
	mixed := map[string]int{"sub-01/anat/sub-01_T1w.nii.gz": -1, "sub-02/anat/sub-02_T2w.nii.gz": -1}
	preprocessed := map[string]int{
		"sub-01/anat/sub-01_T1w.nii.gz": -1, "derivatives/prep/sub-01/anat/sub-01_desc-preproc_T1w.nii.gz": -1,
		"derivatives/prep/sub-01/anat/sub-01_label-liver_mask.nii.gz": liver,
		"derivatives/prep/sub-01/anat/sub-01_label-GM_probseg.nii.gz": liver,
	}
	for _, c := range []struct {
		files map[string]int
		o     Options
		want  []string
		note  string // or the error
	}{
		{contrasts, Options{}, nil,
			"subjects have several contrasts: @/sub-01/anat has 4, in all FLAIR (1), T1w (2), T2w (1), ce-gad_T1w " +
				"(1). Choose one with --contrast, such as --contrast FLAIR; --contrast all takes each as a case"},
		{contrasts, Options{Contrast: "T1w"},
			[]string{"sub-01/anat/sub-01_T1w.nii.gz", "sub-02/anat/sub-02_T1w.nii.gz: sub-02_dseg.nii.gz"},
			"contrast T1w (2) is taken; passed over those of the same subjects: FLAIR (1), T2w (1), ce-gad_T1w (1)"},
		{contrasts, Options{Contrast: "t2W"}, []string{"sub-01/anat/sub-01_T2w.nii.gz: sub-01_T2w_seg.nii.gz"},
			"@/sub-02/anat: passed over, because it has no contrast t2W: T1w"},
		{contrasts, Options{Contrast: "ce-gad"}, []string{"sub-01/anat/sub-01_ce-gad_T1w.nii.gz"}, ""},
		{contrasts, Options{Contrast: "PDw"}, nil,
			"no subject has a contrast PDw: there are FLAIR, T1w, T2w, ce-gad_T1w"},
		{contrasts, Options{Contrast: "all"},
			[]string{"sub-01/anat/sub-01_FLAIR.nii.gz", "sub-01/anat/sub-01_T1w.nii.gz",
				"sub-01/anat/sub-01_T2w.nii.gz: sub-01_T2w_seg.nii.gz", "sub-01/anat/sub-01_ce-gad_T1w.nii.gz",
				"sub-02/anat/sub-02_T1w.nii.gz: sub-02_dseg.nii.gz"},
			""},
		{contrasts, Options{Pairs: "sub-*/anat/sub-*_T1w.nii.gz=derivatives/manual/sub-*/anat/sub-*_T2w_seg.nii.gz"},
			[]string{"sub-01/anat/sub-01_T1w.nii.gz: sub-01_T2w_seg.nii.gz",
				"sub-02/anat/sub-02_T1w.nii.gz: sub-02_dseg.nii.gz"},
			"contrast T1w (2) is taken"},
		{mixed, Options{}, []string{"sub-01/anat/sub-01_T1w.nii.gz", "sub-02/anat/sub-02_T2w.nii.gz"},
			"contrasts differ from subject to subject: T1w (1), T2w (1); --contrast chooses one"},
		{preprocessed, Options{}, []string{"sub-01/anat/sub-01_T1w.nii.gz: liver"},
			"passed over 1 scan below derivatives or sourcedata, of subjects with scans of their own: " +
				"@/derivatives/prep/sub-01/anat/sub-01_desc-preproc_T1w.nii.gz; --contrast chooses them"},
		{preprocessed, Options{Contrast: "desc-preproc"},
			[]string{"derivatives/prep/sub-01/anat/sub-01_desc-preproc_T1w.nii.gz: liver"},
			"sub-01_label-GM_probseg.nii.gz: passed over: probabilities"},
		// Repeated scans are scans.
		{map[string]int{"sub-01/anat/sub-01_run-1_T1w.nii.gz": -1, "sub-01/anat/sub-01_run-2_T1w.nii.gz": -1,
			"derivatives/x/sub-01/anat/sub-01_run-2_dseg.nii.gz": both},
			Options{},
			[]string{"sub-01/anat/sub-01_run-1_T1w.nii.gz",
				"sub-01/anat/sub-01_run-2_T1w.nii.gz: sub-01_run-2_dseg.nii.gz"}, ""},
		{map[string]int{"sub-01_1.nii.gz": -1, "sub-01_2.nii.gz": -1, "sub-01_2_seg.nii.gz": both}, Options{},
			[]string{"sub-01_1.nii.gz", "sub-01_2.nii.gz: sub-01_2_seg.nii.gz"}, ""},
		{map[string]int{"images/sub-01_0000.nii.gz": -1, "labels/sub-01.nii.gz": both}, Options{},
			[]string{"images/sub-01_0000.nii.gz: sub-01.nii.gz"}, ""},
		// Words of the scan's name are no structure, nor are words that say how labels were made.
		{map[string]int{"sub-1/ct/sub-1_ct.nii.gz": -1, "derivatives/x/sub-1/ct/sub-1_ct_seg.nii.gz": both}, Options{},
			[]string{"sub-1/ct/sub-1_ct.nii.gz: sub-1_ct_seg.nii.gz"}, ""},
		{map[string]int{"sub-1/ct/sub-1_ct.nii.gz": -1, "derivatives/x/sub-1/ct/sub-1_ct_mask.nii.gz": liver},
			Options{}, []string{"sub-1/ct/sub-1_ct.nii.gz: sub-1_ct_mask.nii.gz"}, ""},
		{map[string]int{"sub-1/ct/sub-1_ct.nii.gz": -1, "derivatives/labels/sub-1/ct/sub-1_ct.nii.gz": both}, Options{},
			[]string{"sub-1/ct/sub-1_ct.nii.gz: sub-1_ct.nii.gz"}, ""},
		{map[string]int{"rawdata/sub-1/sub-1_ct.nii.gz": -1, "derivatives/sub-1/sub-1_seg-vert_msk.nii.gz": both},
			Options{}, []string{"rawdata/sub-1/sub-1_ct.nii.gz: sub-1_seg-vert_msk.nii.gz"}, ""},
		{map[string]int{"sub-1/anat/sub-1_T2w.nii.gz": -1,
			"derivatives/labels/sub-1/anat/sub-1_T2w_seg-manual.nii.gz": both},
			Options{}, []string{"sub-1/anat/sub-1_T2w.nii.gz: sub-1_T2w_seg-manual.nii.gz"}, ""},
		{map[string]int{"sub-1/ct/sub-1_ct.nii.gz": -1, "derivatives/x/sub-1/ct/sub-1_desc-manual_mask.nii.gz": liver},
			Options{}, []string{"sub-1/ct/sub-1_ct.nii.gz: sub-1_desc-manual_mask.nii.gz"}, ""},
		{map[string]int{"sub-1/ct/sub-1_ct.nii.gz": -1, "derivatives/x/sub-1/ct/sub-1_desc-rater1_mask.nii.gz": liver,
			"derivatives/x/sub-1/ct/sub-1_desc-rater2_mask.nii.gz": liver},
			Options{}, []string{"sub-1/ct/sub-1_ct.nii.gz"},
			"say with --pairs which to take " +
				"('sub-*/ct/sub-*_ct.nii.gz=derivatives/x/sub-*/ct/sub-*_desc-rater1_mask.nii.gz')"},
		// What is left names the structure.
		{map[string]int{"sub-1/ct/sub-1_ct.nii.gz": -1, "derivatives/x/sub-1/ct/sub-1_desc-liver_mask.nii.gz": liver,
			"derivatives/x/sub-1/ct/sub-1_desc-spleen_mask.nii.gz": spleen},
			Options{}, []string{"sub-1/ct/sub-1_ct.nii.gz: liver,spleen"}, ""},
		{map[string]int{"sub-1/ct/sub-1_ct.nii.gz": -1,
			"derivatives/x/sub-1/ct/sub-1_space-ct_label-liver_desc-manual_mask.nii.gz": liver,
			"derivatives/x/sub-1/ct/sub-1_ct_label-spleen_mask.nii.gz":                  spleen},
			Options{}, []string{"sub-1/ct/sub-1_ct.nii.gz: liver,spleen"}, ""},
		{map[string]int{"sub-1/sub-1_ct.nii.gz": -1, "sub-1/sub-1_ct_liver.nii.gz": liver,
			"sub-1/sub-1_spleen.nii.gz": spleen},
			Options{}, []string{"sub-1/sub-1_ct.nii.gz: liver,spleen"}, ""},
		{map[string]int{"sub-1/sub-1_ct.nii.gz": -1, "sub-1/sub-1_ct_liver_seg.nii.gz": liver,
			"sub-1/sub-1_ct_spleen_seg.nii.gz": spleen},
			Options{}, []string{"sub-1/sub-1_ct.nii.gz: liver,spleen"}, ""},
	} {
		name := fmt.Sprint(slices.Sorted(maps.Keys(c.files)), c.o)
		root, _ := partsOf(t, c.files)
		d, err := Detect(root, c.o)
		note := strings.ReplaceAll(c.note, "@", root)
		if c.want == nil {
			if err == nil || !strings.Contains(err.Error(), note) {
				t.Errorf("%s: %v, want %s", name, err, note)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := tellsOf(d); !slices.Equal(got, c.want) || !datasettest.Noted(append(d.Notes, ""), note) {
			t.Errorf("%s:\n%q, want\n%q; notes %q, want %q", name, got, c.want, d.Notes, note)
		}
	}
	root, _ := partsOf(t, map[string]int{"a.nii.gz": -1})
	if _, err := Detect(root, Options{Contrast: "T1w"}); err == nil ||
		!strings.Contains(err.Error(), "no scan here has a name of BIDS") {
		t.Error(err)
	}
	if _, err := Detect(folderOf(t, "p1"), Options{Contrast: "T1w", Layout: LayoutMSD}); err == nil ||
		!strings.Contains(err.Error(), "--volume chooses among channels") {
		t.Error(err)
	}
	// inspect says it, and looks at all.
	root, _ = partsOf(t, contrasts)
	entries, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || len(entries) != 7 || !datasettest.Noted(notes, "subjects have several contrasts") ||
		!datasettest.Noted(notes, "5 cases, 2 with labels") {
		t.Errorf("%d entries, %q, %v", len(entries), notes, err)
	}
}
