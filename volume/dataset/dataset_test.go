package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	return datasettest.Tree(t, files, func(name string) (number int, labels bool) {
		number, _ = Number(strings.TrimSuffix(name, "_0000.nii.gz"))
		return number, parseName(name).labels
	})
}

// list shows cases as ID [group] image [labels], with paths below the root.
func list(d *Dataset) []string {
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

func TestLayouts(t *testing.T) {
	for _, test := range []struct {
		name   string
		files  []string
		text   map[string]string
		o      Options
		layout string
		cases  []string
		labels map[uint16]string
		notes  int
	}{
		{
			name: "MSD",
			files: []string{"imagesTr/pancreas_10.nii.gz", "labelsTr/pancreas_10.nii.gz", "imagesTr/pancreas_2.nii.gz",
				"labelsTr/pancreas_2.nii.gz", "imagesTs/pancreas_3.nii.gz"},
			text: map[string]string{"imagesTr/._pancreas_10.nii.gz": "junk", "labelsTr/._pancreas_10.nii.gz": "junk",
				"._imagesTr":   "junk",
				"dataset.json": `{"labels": {"0": "background", "1": "pancreas", "2": "cancer"}, "training": [{"image": "./imagesTr/pancreas_2.nii.gz"}, {"image": "./imagesTr/pancreas_99.nii.gz"}]}`},
			layout: LayoutMSD,
			cases: []string{"pancreas_2 imagesTr/pancreas_2.nii.gz labelsTr/pancreas_2.nii.gz",
				"pancreas_3 test imagesTs/pancreas_3.nii.gz",
				"pancreas_10 imagesTr/pancreas_10.nii.gz labelsTr/pancreas_10.nii.gz"},
			labels: map[uint16]string{1: "pancreas", 2: "cancer"},
			notes:  1, // a case of dataset.json that is not there
		},
		{
			name: "nnU-Net",
			files: []string{"imagesTr/p_1_0000.nii.gz", "labelsTr/p_1.nii.gz", "imagesTr/p_2_0000.nii.gz",
				"imagesTs/p_3_0000.nii.gz", "labelsTr/p_4.nii.gz"},
			text:   map[string]string{"dataset.json": `{"channel_names": {"0": "CT"}, "labels": {"background": 0, "pancreas": 1, "whole": [1, 2]}, "file_ending": ".nii.gz"}`},
			layout: LayoutNNUNet,
			cases: []string{"p_1 imagesTr/p_1_0000.nii.gz labelsTr/p_1.nii.gz", "p_2 imagesTr/p_2_0000.nii.gz",
				"p_3 test imagesTs/p_3_0000.nii.gz"},
			labels: map[uint16]string{1: "pancreas"},
			notes:  3, // a scan without labels, labels without a scan, a region
		},
		{
			name: "case numbers of four digits are no channels",
			files: []string{"imagesTr/amos_0000.nii.gz", "labelsTr/amos_0000.nii.gz", "imagesTr/amos_0004.nii.gz",
				"labelsTr/amos_0004.nii.gz"},
			text:   map[string]string{"dataset.json": `{"labels": {"0": "background", "1": "spleen"}}`},
			layout: LayoutMSD,
			cases: []string{"amos_0000 imagesTr/amos_0000.nii.gz labelsTr/amos_0000.nii.gz",
				"amos_0004 imagesTr/amos_0004.nii.gz labelsTr/amos_0004.nii.gz"},
			labels: map[uint16]string{1: "spleen"},
		},
		{
			name: "NIH as NIfTI",
			files: []string{"img/PANCREAS_0001.nii.gz", "img/PANCREAS_0025.nii.gz", "img/PANCREAS_0026.nii.gz",
				"TCIA_pancreas_labels-02-05-2017/label0001.nii.gz", "TCIA_pancreas_labels-02-05-2017/label0025.nii.gz"},
			layout: LayoutNIH,
			cases: []string{"PANCREAS_0001 img/PANCREAS_0001.nii.gz TCIA_pancreas_labels-02-05-2017/label0001.nii.gz",
				"PANCREAS_0025 img/PANCREAS_0025.nii.gz TCIA_pancreas_labels-02-05-2017/label0025.nii.gz",
				"PANCREAS_0026 img/PANCREAS_0026.nii.gz"},
			labels: map[uint16]string{1: "pancreas"},
			notes:  2, // no labels; with the repeated patients
		},
		{
			name: "NIH without repeats",
			files: []string{"DOI/PANCREAS_0001.nii", "DOI/PANCREAS_0070.nii", "labels/label0001.nii",
				"labels/label0070.nii"},
			o:      Options{WithoutRepeats: true},
			layout: LayoutNIH,
			cases:  []string{"PANCREAS_0001 DOI/PANCREAS_0001.nii labels/label0001.nii"},
			labels: map[uint16]string{1: "pancreas"},
			notes:  1,
		},
		{
			name: "NIH, labels and NIfTI files in the patients' folders",
			files: []string{"PANCREAS_0001/label0001.nii.gz", "PANCREAS_0001/image.nii.gz",
				"PANCREAS_0002/CT/PANCREAS_0002.nii.gz", "PANCREAS_0003/1.dcm", "PANCREAS_0003/x.nii.gz",
				"PANCREAS_0003/label/label0003.nii.gz"},
			layout: LayoutNIH,
			cases: []string{"PANCREAS_0001 PANCREAS_0001/image.nii.gz PANCREAS_0001/label0001.nii.gz",
				"PANCREAS_0002 PANCREAS_0002/CT/PANCREAS_0002.nii.gz",
				"PANCREAS_0003 PANCREAS_0003 PANCREAS_0003/label/label0003.nii.gz"},
			labels: map[uint16]string{1: "pancreas"},
			notes:  1, // no labels
		},
		{
			name:  "NIH, NIfTI files with what converters and people leave beside them",
			files: []string{"PANCREAS_0001/image.nii.gz", "PANCREAS_0002/scan.nii.gz"},
			text: map[string]string{"PANCREAS_0001/image.json": "{}", "PANCREAS_0001/LICENSE": "CC BY",
				"PANCREAS_0002/README.txt": "a scan"},
			layout: LayoutNIH,
			cases:  []string{"PANCREAS_0001 PANCREAS_0001/image.nii.gz", "PANCREAS_0002 PANCREAS_0002/scan.nii.gz"},
			labels: map[uint16]string{1: "pancreas"},
		},
		{
			name: "MSD's folders without dataset.json",
			files: []string{"imagesTr/pt_1.nii.gz", "labelsTr/pt_1.nii.gz", "imagesTr/pt_2.nii.gz",
				"imagesTs/pt_1.nii.gz"},
			layout: LayoutScans,
			cases:  nil, // pt_1 twice
		},
		{
			name:   "a flat folder",
			files:  []string{"b.nii.gz", "a.nii", "c10.nii", "c9.nii"},
			layout: LayoutScans,
			cases:  []string{"a a.nii", "b b.nii.gz", "c9 c9.nii", "c10 c10.nii"},
		},
		{
			name:   "a flat folder with labels",
			files:  []string{"a.nii.gz", "a_seg.nii.gz", "b_ct.nii.gz", "b-label.nii.gz", "c.nii.gz", "d_mask.nii.gz"},
			layout: LayoutScans,
			cases:  []string{"a a.nii.gz a_seg.nii.gz", "b_ct b_ct.nii.gz b-label.nii.gz", "c c.nii.gz"},
			notes:  1,
		},
		{
			name:   "images and labels",
			files:  []string{"images/1.nii.gz", "images/2.nii.gz", "labels/1.nii.gz", "labels/2.nii.gz"},
			layout: LayoutScans,
			cases:  []string{"1 images/1.nii.gz labels/1.nii.gz", "2 images/2.nii.gz labels/2.nii.gz"},
		},
		{
			name:   "Synapse",
			files:  []string{"Training/img/img0001.nii.gz", "Training/label/label0001.nii.gz"},
			layout: LayoutScans,
			cases:  []string{"Training_img0001 Training/img/img0001.nii.gz Training/label/label0001.nii.gz"},
		},
		{
			name: "a folder a patient",
			files: []string{"s1/ct.nii.gz", "s1/seg.nii.gz", "s2/ct.nii.gz", "s2/segmentations/liver.nii.gz",
				"s2/segmentations/spleen.nii.gz"},
			layout: LayoutScans,
			cases:  []string{"s1 s1/ct.nii.gz s1/seg.nii.gz", "s2 s2/ct.nii.gz s2/segmentations"},
			labels: map[uint16]string{1: "liver", 2: "spleen"},
		},
		{
			name:   "two kinds of labels",
			files:  []string{"a.nii.gz", "a_seg.nii.gz", "a_mask.nii.gz"},
			layout: LayoutScans,
			cases:  []string{"a a.nii.gz"},
			notes:  1,
		},
		{
			name:   "without labels, as asked",
			files:  []string{"images/1.nii.gz", "labels/1.nii.gz"},
			o:      Options{Unlabelled: true},
			layout: LayoutScans,
			cases:  []string{"1 images/1.nii.gz"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			files := map[string]string{}
			for _, name := range test.files {
				files[name] = "not looked at"
			}
			for name, text := range test.text {
				files[name] = text
			}
			d, err := Detect(tree(t, files), test.o)
			if test.cases == nil {
				if err == nil {
					t.Fatalf("%v", list(d))
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := list(d); d.Layout != test.layout || !slices.Equal(got, test.cases) {
				t.Errorf("%s:\n%s\nwant %s:\n%s", d.Layout, strings.Join(got, "\n"), test.layout,
					strings.Join(test.cases, "\n"))
			}
			if !reflect.DeepEqual(d.LabelNames, test.labels) {
				t.Errorf("labels %v, want %v", d.LabelNames, test.labels)
			}
			if len(d.Notes) != test.notes {
				t.Errorf("notes %q, want %d", d.Notes, test.notes)
			}
		})
	}
}

func TestNoDataset(t *testing.T) {
	for name, files := range map[string]map[string]string{
		"nothing":             {"readme.txt": "text"},
		"only labels":         {"a_seg.nii.gz": "x"},
		"two extensions":      {"imagesTr/a.nii": "x", "imagesTr/a.nii.gz": "x", "dataset.json": "{}"},
		"broken dataset.json": {"imagesTr/a.nii.gz": "x", "dataset.json": "{"},
		"two channels":        {"imagesTr/a_0000.nii.gz": "x", "imagesTr/a_0001.nii.gz": "x"},
		"no first channel":    {"imagesTr/a_0001.nii.gz": "x"},
		"NIH twice":           {"a/PANCREAS_0001.nii": "x", "b/PANCREAS_0001.nii": "x"},
	} {
		if d, err := Detect(tree(t, files), Options{}); err == nil {
			t.Errorf("%s: %v", name, list(d))
		}
	}
	if _, err := Detect(filepath.Join(t.TempDir(), "not there"), Options{}); err == nil {
		t.Error("a folder that is not there")
	}
	if _, err := Detect(t.TempDir(), Options{Layout: "mds"}); err == nil {
		t.Error("a layout that is not there")
	}
}

func TestSecondChannel(t *testing.T) {
	root := tree(t, map[string]string{"imagesTr/a_0000.nii.gz": "x", "imagesTr/a_0001.nii.gz": "x"})
	d, err := Detect(root, Options{Volume: 2})
	if err != nil || !strings.HasSuffix(d.Cases[0].Image, "a_0001.nii.gz") || d.Cases[0].Volume != 0 {
		t.Errorf("%v, %v", d, err)
	}
}

func TestNaturalOrder(t *testing.T) {
	want := []string{"", "a", "a02", "a2", "a2b", "a10", "a100b", "b1-9", "b1-10", "c"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, numbers.CompareNatural)
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestFlips(t *testing.T) {
	v, _, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 36}})
	if err != nil {
		t.Fatal(err)
	}
	_, l, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 36}})
	if err != nil {
		t.Fatal(err)
	}
	if v, err = v.Orient("LPS"); err != nil {
		t.Fatal(err)
	}
	if l, err = l.Orient("LPS"); err != nil {
		t.Fatal(err)
	}
	for n, label := range l.Labels {
		if label != phantom.Pancreas {
			l.Labels[n] = 0
		} else {
			l.Labels[n] = 1
		}
	}
	if got := betterFlip(v, l); got != "" {
		t.Errorf("labels where they belong should be flipped along %q", got)
	}
	dir := t.TempDir()
	image, labels := filepath.Join(dir, "PANCREAS_0001.nii"), filepath.Join(dir, "label0001.nii")
	// The labels' header says what it likes.
	odd := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling([3]float64{3, 2, 1})},
		Labels: l.Labels}
	if err := nifti.Write(image, v); err != nil {
		t.Fatal(err)
	}
	c := Case{ID: "a", Image: image, Labels: labels, ByIndex: true}
	write := func(o *volume.LabelMap) {
		t.Helper()
		if err := nifti.WriteLabels(labels, o); err != nil {
			t.Fatal(err)
		}
	}
	write(odd)
	_, got, _, err := c.Read(ReadOptions{Flips: FlipsCheck}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Labels, l.Labels) || !got.Same(v.Grid, 1e-4) {
		t.Error("labels by index are not those of the file on the grid of the scan")
	}
	for _, axes := range []string{"j", "ij", "k"} {
		write(flipLabels(odd, axes))
		if _, _, _, err := c.Read(ReadOptions{Flips: FlipsCheck}, nil); err == nil ||
			!strings.Contains(err.Error(), "along "+axes) {
			t.Errorf("flipped along %s: %v", axes, err)
		}
		_, fixed, notes, err := c.Read(ReadOptions{Flips: FlipsFix}, nil)
		if err != nil || !slices.Equal(fixed.Labels, l.Labels) || len(notes) != 1 {
			t.Errorf("flipped along %s and back: %v, %v", axes, notes, err)
		}
		if _, off, _, err := c.Read(ReadOptions{Flips: FlipsOff}, nil); err != nil ||
			slices.Equal(off.Labels, l.Labels) {
			t.Errorf("flipped along %s, not looked at: %v", axes, err)
		}
	}
	odd.Shape = [3]int{40, 48, 36}
	write(odd)
	if _, _, _, err := c.Read(ReadOptions{Flips: FlipsOff}, nil); err == nil {
		t.Error("labels of another shape by index")
	}
}

func TestBetterFlip(t *testing.T) {
	missed := 0
	for number := range uint64(20) {
		v, l, err := phantom.New(number, phantom.Options{Shape: [3]int{40, 36, 30}})
		if err != nil {
			t.Fatal(err)
		}
		for n, label := range l.Labels {
			if label != phantom.Pancreas {
				l.Labels[n] = 0
			}
		}
		if got := betterFlip(v, l); got != "" {
			t.Errorf("patient %d: labels where they belong should be flipped along %s", number, got)
		}
		for _, axes := range []string{"i", "j", "k", "ij"} {
			switch betterFlip(v, flipLabels(l, axes)) {
			case axes:
			case "":
				missed++
			default:
				t.Errorf("patient %d: flipped along %s, taken for another", number, axes)
			}
		}
	}
	if missed > 2 {
		t.Errorf("%d of 80 flips are not noticed", missed)
	}
	empty := &volume.LabelMap{Grid: volume.Grid{Shape: [3]int{2, 2, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})},
		Labels: make([]uint16, 8)}
	if got := betterFlip(&volume.Volume{Grid: empty.Grid, Int16: make([]int16, 8)}, empty); got != "" {
		t.Errorf("no labels should be flipped along %s", got)
	}
}

func TestRealLayout(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	d, err := Detect(filepath.Join(data, "openkbp"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if d.Layout != LayoutScans || len(d.Cases) != 99 || len(d.IDs("", true)) != 99 || d.Cases[0].ID != "pt_001" ||
		len(d.Notes) > 0 {
		t.Errorf("layout %s: %d cases from %s on, notes %v", d.Layout, len(d.Cases), d.Cases[0].ID, d.Notes)
	}
	if d, err = Detect(filepath.Join(data, "totalsegmentator"), Options{}); err != nil {
		t.Fatal(err)
	}
	want := []string{"aorta_ct aorta_ct.nii.gz aorta_seg.nii.gz", "ct ct.nii.gz ct_seg.nii.gz",
		"dicom_jpeg2000 dicom_jpeg2000 dicom_jpeg2000_seg.nii.gz"}
	if got := list(d); !slices.Equal(got, want) || len(d.Notes)+len(d.PassedOver) > 0 {
		t.Errorf("found %q, notes %q, passed over %q", got, d.Notes, d.PassedOver)
	}
	for _, c := range d.Cases { // labels lie on their scans
		v, l, notes, err := c.Read(DefaultReadOptions(), nil)
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		if flip := betterFlip(v, l); flip != "" || len(notes) > 0 {
			t.Errorf("%s: flip along %q, notes %q", c.ID, flip, notes)
		}
	}
}

// Around real patients there is air: the box of the patient leaves it out, and no labelled voxel.
func TestBodyOfRealScans(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	d, err := Detect(filepath.Join(data, "openkbp"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	every, total := 9, 0.0 // all of them take half a minute
	if os.Getenv("VOXSAW_TEST_LONG") != "" {
		every = 1
	}
	looked := 0
	for n := 0; n < len(d.Cases); n += every {
		v, l, _, err := d.Cases[n].Read(DefaultReadOptions(), nil)
		if err != nil {
			t.Fatal(err)
		}
		body := v.Body()
		inside, err := l.Crop(body.Origin, body.Size)
		if err != nil {
			t.Fatal(err)
		}
		if all, in := l.Len()-l.Counts()[0], inside.Len()-inside.Counts()[0]; all != in {
			t.Errorf("%s: %d of %d labelled voxels lie outside %v of %v", d.Cases[n].ID, all-in, all, body.Box, v.Shape)
		}
		total += body.Share()
		looked++
	}
	t.Logf("%d scans: %.3f of the voxels are kept", looked, total/float64(looked))
	if mean := total / float64(looked); !(mean > 0.2 && mean < 0.45) {
		t.Errorf("%.3f of the voxels are kept, want about a third", mean)
	}
}

// Names and a dataset.json that break nnU-Net's rules, or those of JSON: the error names what is to
// be mended.
func TestMistakesInPublishedLayouts(t *testing.T) {
	const nnunet = `{"channel_names": {"0": "CT"}, "labels": {"background": 0, "pancreas": 1}, "file_ending": ".nii.gz"}`
	for name, c := range map[string]struct {
		files []string
		json  string
		want  string
	}{
		"an image without channel": {[]string{"imagesTr/a_1.nii.gz", "imagesTr/a_2_0000.nii.gz",
			"labelsTr/a_1.nii.gz", "labelsTr/a_2.nii.gz"}, nnunet,
			"a_1.nii.gz lacks the number of its channel: rename it to a_1_0000.nii.gz"},
		"the same, told by the labels": {[]string{"imagesTr/a_1.nii.gz", "imagesTr/a_2_0000.nii.gz",
			"labelsTr/a_1.nii.gz", "labelsTr/a_2.nii.gz"}, `{"labels": {"1": "pancreas"}}`,
			"a_1.nii.gz lacks the number"},
		"labels with a channel": {[]string{"imagesTr/a_1_0000.nii.gz", "labelsTr/a_1_0000.nii.gz"}, nnunet,
			"a_1_0000.nii.gz ends in the number of a channel, which labels have none of: rename it to a_1.nii.gz"},
		"no JSON": {[]string{"imagesTr/a.nii.gz", "labelsTr/a.nii.gz"},
			"{\n\"labels\": {\"0\": \"bg\",}", "dataset.json: is not JSON, line 2: "},
		"labels that are no object": {[]string{"imagesTr/a.nii.gz", "labelsTr/a.nii.gz"},
			`{"labels": ["pancreas"]}`, `dataset.json: line 1: "labels" must be an object, not array`},
		"an image that is no text": {[]string{"imagesTr/a.nii.gz", "labelsTr/a.nii.gz"},
			`{"training": [{"image": 1}]}`, `dataset.json: line 1: "training.image" must be a text, not number`},
		"a dataset.json that is a number": {[]string{"imagesTr/a_0000.nii.gz", "labelsTr/a.nii.gz"}, `7`,
			"dataset.json: line 1: the whole must be an object, not number"},
	} {
		text := map[string]string{"dataset.json": c.json}
		for _, file := range c.files {
			text[file] = ""
		}
		if d, err := Detect(tree(t, text), Options{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v, want %s", name, d, err, c.want)
		}
	}
	// MSD's folders with the second version's way to name labels.
	d := detect(t, tree(t, map[string]string{"imagesTr/a.nii.gz": "", "labelsTr/a.nii.gz": "",
		"dataset.json": `{"labels": {"background": 0, "pancreas": 1}}`}))
	if d.Layout != LayoutMSD || d.LabelNames[1] != "pancreas" {
		t.Errorf("%v, labels %v", d, d.LabelNames)
	}
	// NIH's folder of a patient with a mask beside the scan, whose name does not tell it.
	d = detect(t, tree(t, map[string]string{"PANCREAS_0001/ct.nii.gz": "", "PANCREAS_0001/liver.nii.gz": "",
		"PANCREAS_0002/ct.nii.gz": "", "PANCREAS_0002/ct.json": "{}"}))
	if _, _, err := d.Cases[0].ReadImage(DefaultReadOptions()); err == nil ||
		!strings.Contains(err.Error(), "PANCREAS_0001: holds 2 NIfTI files, such as "+filepath.Join(d.Cases[0].Image,
			"ct.nii.gz")) {
		t.Errorf("two NIfTI files: %v", err)
	}
	if _, _, err := d.Cases[1].ReadImage(DefaultReadOptions()); err != nil {
		t.Error(err)
	}
}

// Files of one scan are no patients, wherever they lie.
func TestChannelsAreNoCases(t *testing.T) {
	root := tree(t, map[string]string{"a_0000.nii.gz": "", "b_0000.nii.gz": ""})
	for _, name := range []string{"a", "b"} {
		v, err := nifti.Read(filepath.Join(root, name+"_0000.nii.gz"))
		if err == nil {
			err = nifti.Write(filepath.Join(root, name+"_0001.nii.gz"), v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Detect(root, Options{}); err == nil ||
		!strings.Contains(err.Error(), "look like 2 channels of one scan") {
		t.Errorf("two channels: %v", err)
	}
	d, err := Detect(root, Options{Volume: 2})
	if err != nil || !slices.Equal(list(d), []string{"a a_0001.nii.gz", "b b_0001.nii.gz"}) || d.Cases[0].Volume != 0 {
		t.Errorf("the second channel: %v, %v", d, err)
	}
	if d, err = Detect(root, Options{Layout: LayoutScans}); err != nil || len(d.Cases) != 4 {
		t.Errorf("cases that are numbered: %v, %v", d, err)
	}
	// Other voxels: other patients.
	v, err := nifti.Read(filepath.Join(root, "a_0000.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	v.Affine[0][3]++
	if err := errors.Join(nifti.Write(filepath.Join(root, "a_0001.nii.gz"), v),
		nifti.Write(filepath.Join(root, "b_0001.nii.gz"), v)); err != nil {
		t.Fatal(err)
	}
	if d, err = Detect(root, Options{}); err != nil || len(d.Cases) != 4 {
		t.Errorf("patients that are numbered: %v, %v", d, err)
	}
}

func TestOneOfSeveralVolumes(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	file := filepath.Join(data, "nifti", "nibabel", "example4d.nii.gz")
	d, err := Detect(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var unsupported *volume.UnsupportedError
	if _, _, err := d.Cases[0].ReadImage(DefaultReadOptions()); !errors.As(err, &unsupported) ||
		!strings.Contains(err.Error(), "--volume") {
		t.Errorf("two volumes: %v", err)
	}
	if d, err = Detect(file, Options{Volume: 2}); err != nil {
		t.Fatal(err)
	}
	v, _, err := d.Cases[0].ReadImage(DefaultReadOptions())
	if err != nil || v.Shape != [3]int{128, 96, 24} {
		t.Errorf("the second volume: %v", err)
	}
}

// What is done about shear is done to a scan and to its labels, which stay together.
func TestShear(t *testing.T) {
	root := t.TempDir()
	g := volume.Grid{Shape: [3]int{20, 18, 16}, Affine: volume.Affine{{1, 0.3, 0, -7}, {0, 1, 0, 3}, {0, 0, 2, 5},
		{0, 0, 0, 1}}}
	v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	for n := range v.Int16 {
		if n%7 == 0 {
			v.Int16[n], l.Labels[n] = -500, 1
		}
	}
	c := Case{Image: filepath.Join(root, "scan.nii.gz"), Labels: filepath.Join(root, "label.nii.gz")}
	if err := errors.Join(nifti.Write(c.Image, v), nifti.WriteLabels(c.Labels, l)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		shear    nifti.Shear
		straight bool
		note     string
	}{
		{nifti.ShearKeep, false,
			"the axes are sheared: two of them are 73.30 degrees apart: taken " +
				"as it is, --shear resample straightens it"},
		{nifti.ShearResample, true,
			"the axes are sheared: two of them are 73.30 degrees apart: resampled onto a grid without shear"},
	} {
		v, l, notes, err := c.Read(ReadOptions{Shear: test.shear}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if straight := v.Affine.Shear() < 1e-6; straight != test.straight || !v.Same(l.Grid, 1e-6) ||
			!slices.Equal(notes, []string{test.note}) {
			t.Errorf("%s: shear %g, labels on %v, notes %q", test.shear, v.Affine.Shear(), l.Grid, notes)
		}
		a, b, notes, err := ReadLabelPair(c.Labels, c.Labels, nil, ReadOptions{Shear: test.shear})
		if err != nil || (a.Affine.Shear() < 1e-6) != test.straight || !slices.Equal(a.Labels, b.Labels) ||
			len(notes) != 2 {
			t.Errorf("%s: label pair: %v, notes %q", test.shear, err, notes)
		}
	}
	var unsupported *volume.UnsupportedError
	if _, _, _, err := c.Read(ReadOptions{Shear: nifti.ShearError}, nil); !errors.As(err, &unsupported) ||
		!strings.Contains(err.Error(), "--shear resample") {
		t.Errorf("error: %v", err)
	}
}
func TestParsePart(t *testing.T) {
	for _, text := range []string{"3", "0/4", "5/4", "-1/4", "1/0", "1/4x", "x", "1 of 4"} {
		if p, err := ParsePart(text); err == nil {
			t.Errorf("%q is part %v", text, p)
		}
	}
	if p, err := ParsePart(""); err != nil || !p.Has(7) || p.Len(9) != 9 {
		t.Errorf("no part is the whole: %v", err)
	}
	seen, total := map[int]int{}, 0
	for number := range 4 {
		p, err := ParsePart(fmt.Sprintf("%d/4", number+1))
		if err != nil {
			t.Fatal(err)
		}
		total += p.Len(10)
		for n := range 10 {
			if p.Has(n) {
				seen[n]++
			}
		}
	}
	if len(seen) != 10 || total != 10 {
		t.Errorf("four parts have %d of 10 things, and say %d", len(seen), total)
	}
}

// betterFlip looks at the HU inside and just outside of the labels. It returns the axes, such as
// "j" or "ij", along which the labels must be flipped to fit clearly better than they do, or "".
func betterFlip(v *volume.Volume, l *volume.LabelMap) string {
	e := lookAtFlips(v, l)
	better, _ := e.verdict()
	return better
}
