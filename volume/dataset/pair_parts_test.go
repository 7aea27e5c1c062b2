package dataset

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// organs are the structures that the tests below draw, by label.
var organs = map[uint16]string{phantom.Liver: "liver", phantom.Spleen: "spleen"}

// partsOf writes the scan of a made-up patient, and the files of his labels: the mask of an
// organ, or all of them where the organ is 0. At -1 it is the scan.
func partsOf(t *testing.T, files map[string]int) (root string, want *volume.LabelMap) {
	t.Helper()
	root = t.TempDir()
	v, l, err := phantom.New(3, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	for n, label := range l.Labels {
		if organs[label] == "" {
			l.Labels[n] = 0
		}
	}
	l.Names = nil // as in most files
	for name, organ := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if organ < 0 {
			err = nifti.Write(path, v)
		} else {
			err = nifti.WriteLabels(path, only(l, uint16(organ)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root, l
}

// only is a map of one label as 255, as some write masks, or the map itself for 0.
func only(l *volume.LabelMap, label uint16) *volume.LabelMap {
	if label == 0 {
		return l
	}
	o := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
	for n := range l.Labels {
		if l.Labels[n] == label {
			o.Labels[n] = 255
		}
	}
	return o
}

// structures replaces labels by the names of their structures, to compare maps with other numbers.
func structures(l *volume.LabelMap, names map[uint16]string) []string {
	list := make([]string, len(l.Labels))
	for n, label := range l.Labels {
		list[n] = names[label]
	}
	return list
}

// Labels in a file for each structure, under the names that people give them, are one label map.
func TestLabelsInParts(t *testing.T) {
	const liver, spleen = int(phantom.Liver), int(phantom.Spleen)
	for name, files := range map[string]map[string]int{
		"TotalSegmentator": {"s1/ct.nii.gz": -1, "s1/segmentations/liver.nii.gz": liver,
			"s1/segmentations/spleen.nii.gz": spleen},
		"TotalSegmentator, alone": {"ct.nii.gz": -1, "segmentations/liver.nii.gz": liver,
			"segmentations/spleen.nii.gz": spleen},
		"beside the scan":      {"s1/ct.nii.gz": -1, "s1/liver.nii.gz": liver, "s1/spleen.nii.gz": spleen},
		"named after the scan": {"p7.nii.gz": -1, "p7_liver.nii.gz": liver, "p7_spleen.nii.gz": spleen},
		"folders of labels": {"images/p7.nii.gz": -1, "labels/p7/liver.nii.gz": liver,
			"labels/p7/spleen.nii.gz": spleen},
		"masks of BIDS": {
			"sub-01/ct/sub-01_ct.nii.gz":                                   -1,
			"derivatives/manual/sub-01/ct/sub-01_label-liver_mask.nii.gz":  liver,
			"derivatives/manual/sub-01/ct/sub-01_label-spleen_mask.nii.gz": spleen,
		},
	} {
		root, want := partsOf(t, files)
		d, err := Detect(root, Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(d.Cases) != 1 || !maps.Equal(d.LabelNames, map[uint16]string{1: "liver", 2: "spleen"}) ||
			len(d.Unused) > 0 {
			t.Errorf("%s: %q, names %v, not used %q, notes %q", name, list(d), d.LabelNames, d.Unused, d.Notes)
			continue
		}
		_, l, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
		if err != nil || !slices.Equal(structures(l, l.Names), structures(want, organs)) {
			t.Errorf("%s: another label map: %v", name, err)
		}
		// Chosen by name, in another spelling.
		if d, err = Detect(root, Options{Structures: []string{"Spl*"}}); err != nil ||
			!maps.Equal(d.LabelNames, map[uint16]string{1: "spleen"}) {
			t.Errorf("%s: chosen: %v, %v", name, d.LabelNames, err)
		}
	}
}

// Labels in one file, under names that were not paired before.
func TestNamesOfLabels(t *testing.T) {
	for name, files := range map[string]map[string]int{
		"a number behind the word": {"c.nii.gz": -1, "c_seg1.nii.gz": 0},
		"numbers on both sides":    {"pat_img0001.nii.gz": -1, "pat_label0001.nii.gz": 0},
		"BIDS": {"sub-01/ses-2/ct/sub-01_ses-2_ct.nii.gz": -1,
			"derivatives/x/sub-01/ses-2/ct/sub-01_ses-2_desc-organs_dseg.nii.gz": 0},
		"BIDS, magnetic resonance": {"sub-01/anat/sub-01_T1w.nii.gz": -1,
			"derivatives/x/sub-01/anat/sub-01_space-T1w_dseg.nii.gz": 0},
	} {
		root, want := partsOf(t, files)
		if strings.HasPrefix(name, "BIDS") {
			if err := os.WriteFile(filepath.Join(root, "derivatives", "x", "desc-organs_dseg.tsv"),
				fmt.Appendf(nil, "index\tname\n%d\tliver\n%d\tspleen\n", phantom.Liver, phantom.Spleen),
				0o666); err != nil {
				t.Fatal(err)
			}
		}
		d, err := Detect(root, Options{})
		if err != nil || len(d.Cases) != 1 || d.Cases[0].Labels == "" {
			t.Errorf("%s: %v, %v", name, err, d)
			continue
		}
		_, l, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
		if err != nil || !slices.Equal(l.Labels, want.Labels) {
			t.Errorf("%s: another label map: %v", name, err)
		}
		if strings.HasPrefix(name, "BIDS") && !maps.Equal(l.Names, organs) {
			t.Errorf("%s: names %v", name, l.Names)
		}
	}
	// Two numbered files may be of two people.
	root, _ := partsOf(t, map[string]int{"c.nii.gz": -1, "c_seg1.nii.gz": 0, "c_seg2.nii.gz": 0})
	if d := detect(t, root); d.Cases[0].Labels != "" || len(d.Unused) != 2 ||
		!datasettest.Noted(d.Notes, "2 files of them") {
		t.Errorf("%q, %q", list(d), d.Notes)
	}
	// So may masks of one structure each, whose names tell no structure.
	for _, two := range [][2]string{{"c_seg1", "c_seg2"}, {"c_seg_1", "c_seg_2"}, {"c_rater1", "c_rater2"},
		{"c_reader_A_seg", "c_reader_B_seg"}, {"c/1", "c/2"}} {
		files := map[string]int{"c.nii.gz": -1, two[0] + ".nii.gz": int(phantom.Liver),
			two[1] + ".nii.gz": int(phantom.Spleen)}
		root, _ := partsOf(t, files)
		if d := detect(t, root); len(d.Cases) != 1 || d.Cases[0].Labels != "" || len(d.Unused) != 2 ||
			!datasettest.Noted(d.Notes,
				"several people: say with --pairs which to take ('*.nii.gz=*"+two[0][1:]+".nii.gz')") {
			t.Errorf("%q: %q, %q", two, list(d), d.Notes)
		}
		d, err := Detect(root, Options{Pairs: "*.nii.gz=*" + two[1][1:] + ".nii.gz"})
		if err != nil || len(d.Cases) != 1 || filepath.Base(d.Cases[0].Labels) != filepath.Base(two[1])+".nii.gz" {
			t.Errorf("%q, the second: %v, %v", two, err, d)
		}
	}
	// What a program has made is no reference.
	root, _ = partsOf(t, map[string]int{"c.nii.gz": -1, "c_pred.nii.gz": int(phantom.Liver)})
	if d := detect(t, root); len(d.Cases) != 1 || d.Cases[0].Labels != "" || len(d.Unused) != 1 {
		t.Errorf("%q, %q", list(d), d.Notes)
	}
}

// A file of labels belongs to the scan of its folder, but not where there are others in it and the
// labels lie elsewhere than this one.
func TestLabelsOfOtherScansInAFlatFolder(t *testing.T) {
	root, want := partsOf(t, map[string]int{"ct.nii.gz": -1, "ct_seg.nii.gz": 0, "a_ct.nii.gz": -1, "a_seg.nii.gz": 0,
		"b_seg.nii.gz": 0})
	moved := &volume.LabelMap{Grid: want.Grid, Labels: want.Labels}
	moved.Affine[2][3] += 1000
	if err := nifti.WriteLabels(filepath.Join(root, "b_seg.nii.gz"), moved); err != nil {
		t.Fatal(err)
	}
	d := detect(t, root)
	if got := list(d); !slices.Equal(got, []string{"a_ct a_ct.nii.gz a_seg.nii.gz", "ct ct.nii.gz ct_seg.nii.gz"}) ||
		!datasettest.Noted(d.Notes, "b_seg.nii.gz looks like labels, but belongs to no scan") {
		t.Errorf("%q, notes %q", got, d.Notes)
	}
	if err := os.Remove(filepath.Join(root, "ct_seg.nii.gz")); err != nil {
		t.Fatal(err)
	}
	if c, _ := detect(t, root).Case("ct"); c.Labels != "" {
		t.Errorf("ct has the labels %s", c.Labels)
	}
	// On the voxels of the scan they are its.
	if err := nifti.WriteLabels(filepath.Join(root, "b_seg.nii.gz"), want); err != nil {
		t.Fatal(err)
	}
	if c, _ := detect(t, root).Case("ct"); filepath.Base(c.Labels) != "b_seg.nii.gz" {
		t.Errorf("ct has the labels %q", c.Labels)
	}
}

// Masks that cannot be put together are refused by name.
func TestMasksThatDisagree(t *testing.T) {
	root, _ := partsOf(t, map[string]int{"s1/ct.nii.gz": -1, "s1/segmentations/a.nii.gz": int(phantom.Liver),
		"s1/segmentations/b.nii.gz": int(phantom.Liver)})
	d := detect(t, root)
	o := DefaultReadOptions()
	if _, _, _, err := d.Cases[0].Read(o, d.LabelNames); err == nil ||
		!strings.Contains(err.Error(), "structures overlap: a and b (") {
		t.Errorf("masks that overlap: %v", err)
	}
	o.Overlap = "last"
	if _, l, notes, err := d.Cases[0].Read(o, d.LabelNames); err != nil || l.Counts()[2] == 0 || l.Counts()[1] > 0 ||
		!datasettest.Noted(notes, "structures overlap") {
		t.Errorf("the last one wins: %v, %q", err, notes)
	}
	root, _ = partsOf(t, map[string]int{"s1/ct.nii.gz": -1, "s1/segmentations/a.nii.gz": 0,
		"s1/segmentations/b.nii.gz": int(phantom.Liver)})
	d = detect(t, root)
	if _, _, _, err := d.Cases[0].Read(o, d.LabelNames); err == nil ||
		!strings.Contains(err.Error(), "a.nii.gz: is to be the mask of a alone, but holds 2 different labels") {
		t.Errorf("a mask of two: %v", err)
	}
}

// AbdomenAtlas has all structures in one file, too, beside the folder of masks.
func TestMasksPutTogetherBesideTheirFolder(t *testing.T) {
	root, _ := partsOf(t, map[string]int{"s1/ct.nii.gz": -1, "s1/combined_labels.nii.gz": 0,
		"s1/segmentations/liver.nii.gz": int(phantom.Liver), "s1/segmentations/spleen.nii.gz": int(phantom.Spleen)})
	d := detect(t, root)
	if len(d.Cases) != 1 || len(d.Cases[0].Masks) != 2 || d.LabelNames[1] != "liver" || d.LabelNames[2] != "spleen" {
		t.Fatalf("%+v, %v", d.Cases, d.LabelNames)
	}
	file := filepath.Join(root, "s1", "combined_labels.nii.gz")
	if !datasettest.Noted(d.Notes, file+": passed over: it holds more than one structure") ||
		!slices.Contains(d.Unused, file) {
		t.Errorf("notes %q, unused %q", d.Notes, d.Unused)
	}
	if _, l, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames); err != nil || len(l.Counts()) != 3 {
		t.Errorf("labels %v", err)
	}
}

// A file with a volume for each label, with the background and without.
func TestOneHotLabels(t *testing.T) {
	v, l, err := phantom.New(3, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	for n, label := range l.Labels {
		if label > 2 {
			l.Labels[n] = 0
		}
	}
	for _, background := range []bool{true, false} {
		var values []float32
		for label := range uint16(3) {
			if label == 0 && !background {
				continue
			}
			for _, x := range l.Labels {
				value := float32(0)
				if x == label {
					value = 1
				}
				values = append(values, value)
			}
		}
		root := t.TempDir()
		if err := nifti.Write(filepath.Join(root, "a.nii.gz"), v); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(root, "a_seg.nii.gz")
		if err := nifti.WriteChannels(path, l.Grid, values, nil, nil); err != nil {
			t.Fatal(err)
		}
		d := detect(t, root)
		_, got, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
		if err != nil || !slices.Equal(got.Labels, l.Labels) {
			t.Errorf("background %v: %v", background, err)
		}
		values[0] = 0.5
		if err := nifti.WriteChannels(path, l.Grid, values, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames); err == nil ||
			!strings.Contains(err.Error(), "volumes, and 0.5") {
			t.Errorf("probabilities: %v", err)
		}
		// numpy's order, as nibabel writes it: the labels come first, the patient's axes follow
		first := volume.Grid{Shape: [3]int{len(values) / v.Len(), 24, 20}, Affine: l.Grid.Affine}
		if err := nifti.WriteChannels(path, first, values, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames); err == nil ||
			!strings.Contains(err.Error(),
				"x24x20x16 voxels and its scan 24x20x16: its first axis seems to count the labels") {
			t.Errorf("labels along the first axis: %v", err)
		}
		other := volume.Grid{Shape: [3]int{24, 20, 8}, Affine: l.Grid.Affine}
		other.Affine[2][3] += 5 // off the scan's voxels
		if err := nifti.WriteChannels(path, other, values, nil, nil); err != nil {
			t.Fatal(err)
		}
		if _, _, _, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames); err == nil ||
			!strings.Contains(err.Error(), "on a part of the image, but between its voxels") {
			t.Errorf("half of the slices: %v", err)
		}
	}
}

// Where names do not tell, a table or a pattern does.
func TestPairs(t *testing.T) {
	root, want := partsOf(t, map[string]int{"scans/anna.nii.gz": -1, "scans/bert.nii.gz": -1, "drawn/17.nii.gz": 0,
		"drawn/18/x.nii.gz": int(phantom.Liver), "drawn/18/y.nii.gz": int(phantom.Spleen),
		"drawn/organs-of-anna.nii.gz": 0})
	csv := filepath.Join(root, "pairs.csv")
	read := func(pairs string) (*Dataset, error) { return Detect(root, Options{Pairs: pairs}) }
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(csv, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("scan,labels\nscans/anna.nii.gz,drawn/17.nii.gz\n")
	d, err := read(csv)
	if err != nil || !slices.Equal(list(d), []string{"anna scans/anna.nii.gz drawn/17.nii.gz",
		"bert scans/bert.nii.gz"}) {
		t.Fatalf("%v: %q", err, list(d))
	}
	write("scan,labels,name\nscans/bert.nii.gz,drawn/18/x.nii.gz,Liver\nscans/bert.nii.gz,drawn/18/y.nii.gz,spleen\n")
	if d, err = read(csv); err != nil || d.LabelNames[1] != "Liver" {
		t.Fatalf("%v: %q", err, list(d))
	}
	c, _ := d.Case("bert")
	if _, l, _, err := c.Read(DefaultReadOptions(), d.LabelNames); err != nil ||
		!slices.Equal(structures(l, map[uint16]string{1: "liver", 2: "spleen"}), structures(want, organs)) {
		t.Errorf("masks with names: %v", err)
	}
	write("scan,labels\nscans/bert.nii.gz,drawn/18\n")
	if d, err = read(csv); err != nil || !maps.Equal(d.LabelNames, map[uint16]string{1: "x", 2: "y"}) {
		t.Errorf("a folder of masks: %v, %v", err, d.LabelNames)
	}
	if d, err = read("scans/*.nii.gz=drawn/organs-of-*.nii.gz"); err != nil {
		t.Fatal(err)
	}
	if c, _ := d.Case("anna"); filepath.Base(c.Labels) != "organs-of-anna.nii.gz" {
		t.Errorf("a pattern: %q", list(d))
	}
	for text, want := range map[string]string{
		"scan,labels\nscans/carl.nii.gz,drawn/17.nii.gz\n": "there is no scans/carl.nii.gz",
		"image,mask\na,b\n": "its first line must name the columns " +
			"(scan,labels or scan,labels,name), and is image,mask",
		"scans/anna.nii.gz,drawn/17.nii.gz\n": "its first line must name the columns (scan,labels or " +
			"scan,labels,name), and is scans/anna.nii.gz,drawn/17.nii.gz",
		"scan,labels\n":                     "no line follows the one that names the columns",
		"scan;labels\nscans/anna.nii.gz;\n": "line 2: needs scan and labels",
		"scan,labels\nscans/anna.nii.gz,drawn/17.nii.gz\nscans/anna.nii.gz,drawn/18/x.nii.gz\n": "" +
			"a column name says of which structure",
		"scan,labels\ndrawn/17.nii.gz,drawn/18/x.nii.gz\n": "is no scan that was found",
	} {
		write(text)
		if _, err := read(csv); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	// European Excel's table, with its mark of UTF-8, and one with tabs.
	for _, text := range []string{"\ufeffscan;labels\r\nscans/anna.nii.gz;drawn/17.nii.gz\r\n",
		"scan\tlabels\nscans/anna.nii.gz\tdrawn/17.nii.gz\n",
		"\ufeff\"scan\",\"labels\"\n\"scans/anna.nii.gz\",drawn/17.nii.gz\n"} {
		write(text)
		if d, err := read(csv); err != nil ||
			!slices.Equal(list(d), []string{"anna scans/anna.nii.gz drawn/17.nii.gz", "bert scans/bert.nii.gz"}) {
			t.Errorf("%q: %v", text, err)
		}
	}
	for pattern, want := range map[string]string{
		"scans/*.nii=x/*.nii": "no file matches " +
			"scans/*.nii: patterns have paths as they are below " + root + ", such as drawn/17.nii.gz",
		root + "/scans/*.nii.gz=" + root + "/drawn/*.nii.gz": "patterns have paths as they are below " + root,
		"scans/*.nii.gz=drawn/*_x.nii.gz": "anna.nii.gz matches scans/*.nii.gz, " +
			"but none has a partner drawn/*_x.nii.gz in " + root + ", such as drawn/17.nii.gz",
	} {
		if _, err := read(pattern); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the pattern %s: %v", pattern, err)
		}
	}
}
