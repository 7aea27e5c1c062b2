package dataset

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Segments of 3D Slicer have the voxels that Slicer's own package reads, whatever layer they lie
// in.
func TestSegmentsInLayersAgreeWithSlicer(t *testing.T) {
	var cases []struct {
		Name     string           `json:"name"`
		File     []byte           `json:"file"`
		Segments map[string][]int `json:"segments"`
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "slicer_layers.json"))
	if err == nil {
		err = json.Unmarshal(text, &cases)
	}
	if err != nil || len(cases) == 0 {
		t.Fatal(err)
	}
	labels := map[string]map[uint16]string{
		"one":                 {1: "ball", 2: "box"},
		"values-again":        {1: "ball", 2: "box"},
		"values-of-their-own": {3: "ball", 7: "box"},
		"several-in-a-layer":  {1: "tube", 2: "ball", 3: "box", 4: "cone"},
		"overlap":             {1: "ball", 2: "shell", 3: "box"},
		"empty":               {1: "ball", 2: "nothing", 3: "box"},
	}
	for _, c := range cases {
		root := t.TempDir()
		path := filepath.Join(root, "a.seg.nrrd")
		if err := os.WriteFile(path, c.File, 0o666); err != nil {
			t.Fatal(err)
		}
		h, err := format.ReadHeader(path)
		if err != nil || !maps.Equal(h.Names, labels[c.Name]) {
			t.Errorf("%s: %v, %v", c.Name, err, h.Names)
		}
		l, _, err := readLabelFile(path, DefaultReadOptions(), nil, nil)
		if c.Name == "overlap" {
			if err == nil || !strings.Contains(err.Error(), "structures overlap: ball and shell (") {
				t.Errorf("overlap: %v", err)
			}
			l, _, err = readLabelFile(path, ReadOptions{Overlap: dicom.OverlapLast}, nil, nil)
		}
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
			continue
		}
		for label, name := range labels[c.Name] {
			var voxels []int
			for n, x := range l.Labels {
				if x == label {
					voxels = append(voxels, n)
				}
			}
			want := c.Segments[name]
			if c.Name == "overlap" { // what a later segment holds, too, is that one's
				want = slices.DeleteFunc(slices.Clone(want), func(n int) bool {
					return name == "ball" && slices.Contains(c.Segments["shell"], n)
				})
			}
			if !slices.Equal(voxels, want) && len(voxels)+len(want) > 0 {
				t.Errorf("%s: %s has %d voxels, want %d", c.Name, name, len(voxels), len(want))
			}
		}
		// inspecting reads them as preparing does
		blank := &volume.Volume{Grid: l.Grid, Int16: make([]int16, l.Len())}
		if err := nifti.Write(filepath.Join(root, "a.nii"), blank); err != nil {
			t.Fatal(err)
		}
		entries, _, err := Inspect(t.Context(), []string{root}, InspectOptions{})
		at := slices.IndexFunc(entries, func(e Entry) bool { return e.Path == path })
		if err != nil || at < 0 {
			t.Fatal(err, entries)
		}
		e := entries[at]
		refused := len(e.Problems) > 0
		counted := refused || maps.Equal(e.Labels, l.Counts())
		if refused != (c.Name == "overlap") || !counted || !maps.Equal(e.LabelNames, labels[c.Name]) {
			t.Errorf("%s is inspected as %v %v %q", c.Name, e.Labels, e.LabelNames, e.Problems)
		}
	}
}

// A header and layers that contradict one another are refused, with the segment's name.
func TestLayersThatContradictThemselves(t *testing.T) {
	header := func(segments string) []byte {
		return []byte("NRRD0004\ntype: uchar\ndimension: 4\nspace: left-posterior-superior\nsizes: 2 2 2 1\n" +
			"space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: list domain domain domain\nencoding: raw\n" +
			"space origin: (0,0,0)\n" + segments + "\n\x01\x00\x00\x01\x00\x00\x00\x02")
	}
	const ball = "Segment0_Name:=ball\nSegment0_LabelValue:=1\nSegment0_Layer:=0\n" +
		"Segment1_Name:=box\nSegment1_LabelValue:=1\nSegment1_Layer:=1\n"
	const tube = "Segment2_Name:=tube\nSegment2_LabelValue:=2\nSegment2_Layer:=1\n"
	for segments, want := range map[string]string{
		ball + tube: "",
		ball:        "holds 2 in its layer 1 (1 voxel), which is the LabelValue of no segment there",
		ball + strings.Replace(tube, "Value:=2", "Value:=1", 1):   `"box" and "tube" are both the value 1 of layer 1`,
		ball + strings.Replace(tube, "Layer:=1", "Layer:=2", 1):   `"tube" lies in layer 2, and it holds layers 0 to 1`,
		ball + strings.Replace(tube, "Value:=2", "Value:=two", 1): `segment "tube" has the LabelValue "two"`,
		ball + strings.Replace(tube, "Value:=2", "Value:=0", 1):   `segment "tube" has the LabelValue "0"`,
	} {
		path := filepath.Join(t.TempDir(), "a.seg.nrrd")
		if err := os.WriteFile(path, header(segments), 0o666); err != nil {
			t.Fatal(err)
		}
		l, _, err := readLabelFile(path, DefaultReadOptions(), nil, nil)
		switch {
		case want == "" && (err != nil || !slices.Equal(l.Labels, []uint16{1, 2, 0, 3})):
			t.Errorf("%v, %v", err, l)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path)):
			t.Errorf("want %s: %v", want, err)
		}
	}
}

// What preparing takes for labels, inspecting counts, and what it refuses is a problem: whole
// numbers but for a rounding, a volume for each label, whatever the files are called.
func TestInspectTakesLabelsAsPrepareDoes(t *testing.T) {
	v, l := datasettest.Patient(t, 1)
	hot := make([]float32, 0, 2*l.Len())
	near, off, huge := make([]float32, l.Len()), make([]float32, l.Len()), make([]float32, l.Len())
	for n, label := range l.Labels {
		if label > 0 {
			l.Labels[n], near[n], off[n], huge[n] = 2, 2.0009, 2.01, 70000
		}
	}
	for _, label := range []uint16{1, 2} {
		for _, x := range l.Labels {
			value := float32(0)
			if x == label {
				value = 0.9995
			}
			hot = append(hot, value)
		}
	}
	for _, name := range []string{"labelsTr/p1.nii.gz", "masks of all/p1.nii.gz"} {
		for what, values := range map[string][]float32{"near": near, "one-hot": hot, "off": off, "huge": huge} {
			root := t.TempDir()
			image, path := filepath.Join(root, "imagesTr/p1.nii.gz"), filepath.Join(root, name)
			for _, p := range []string{image, path} {
				if err := os.MkdirAll(filepath.Dir(p), 0o777); err != nil {
					t.Fatal(err)
				}
			}
			if err := nifti.Write(image, v); err != nil {
				t.Fatal(err)
			}
			if err := nifti.WriteChannels(path, l.Grid, values, nil, nil); err != nil {
				t.Fatal(err)
			}
			// the second is labels because somebody says so, not by its name
			c := Case{ID: "p1", Image: image, Labels: path}
			_, read, _, failed := c.Read(DefaultReadOptions(), nil)
			if good := what == "near" || what == "one-hot"; good != (failed == nil) {
				t.Errorf("%s is prepared: %v", what, failed)
			}
			e := inspectFile(path, 0, newSeen())
			d := &Dataset{Root: root, Layout: LayoutMSD, Cases: []Case{c}}
			entries := []Entry{inspectFile(image, 0, newSeen()), e}
			if _, err := d.comparePairs(t.Context(), entries, DefaultReadOptions()); err != nil {
				t.Fatal(err)
			}
			e = entries[1]
			switch {
			case failed == nil && (!maps.Equal(e.Labels, read.Counts()) || len(e.Problems) > 0 || e.several):
				t.Errorf("%s, %s: %v %q, want %v", name, what, e.Labels, e.Problems, read.Counts())
			case failed == nil:
			case e.Labels != nil || len(e.Problems) != 1,
				!strings.HasSuffix(failed.Error(), strings.TrimPrefix(e.Problems[0], "its labels cannot be read: ")):
				t.Errorf("%s, %s: %v %q, want %v", name, what, e.Labels, e.Problems, failed)
			}
		}
	}
}

// Segments of several files whose numbers mean different structures go by their names: where
// segments lie in layers, their numbers are their places in the file. That each number means the
// same nobody can say then.
func TestSegmentsInAnotherOrderGoByNames(t *testing.T) {
	header := func(names ...string) string {
		text := "NRRD0004\ntype: uint8\ndimension: 4\nspace: left-posterior-superior\nsizes: 2 2 2 2\n" +
			"space directions: none (1,0,0) (0,1,0) (0,0,1)\nkinds: list domain domain domain\n" +
			"encoding: raw\nspace origin: (0,0,0)\n"
		for n, name := range names {
			text += fmt.Sprintf("Segment%[1]d_Name:=%[2]s\nSegment%[1]d_LabelValue:=1\nSegment%[1]d_Layer:=%[1]d\n", n,
				name)
		}
		return text + "\n" + strings.Repeat("\x00\x01", 8)
	}
	for _, c := range []struct {
		second  []string
		want    uint16 // label of the second segment of the second file
		refused string // without, and with --same-labels; * for any
		same    string
	}{
		{[]string{"ball", "box"}, 2, "", ""},
		{[]string{"Ball", "box"}, 2, "", ""}, // another spelling
		{[]string{"box", "ball"}, 1, "", "ball is label 1 and 2, and label 1 is also box: a number would be learnt"},
		{[]string{"lung", "ball"}, 1, "", "ball is label 1 and 2, and label 1 is also lung"},
		// two spellings of one, or two structures: who knows
		{[]string{"ball", "box (old)"}, 2, `label 2 is "box" in ROOT/a.seg.nrrd and "box (old)" in`, ""},
	} {
		root := tree(t, map[string]string{
			"a.nii.gz": "", "b.nii.gz": "", "a.seg.nrrd": header("ball", "box"), "b.seg.nrrd": header(c.second...),
		})
		for _, same := range []bool{false, true} {
			d, err := Detect(root, Options{SameLabels: same})
			if err != nil || len(d.Cases) != 2 || d.Cases[1].Labels == "" {
				t.Fatalf("%v, %+v", err, d)
			}
			want := strings.ReplaceAll(filepath.FromSlash(c.refused), "ROOT", root)
			if same {
				want = c.same
			}
			switch err := d.CheckNames(); {
			case want == "" && err != nil, want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)):
				t.Errorf("%q, same labels %v: %v", c.second, same, err)
			case want == "" && !same:
				l, _, err := readLabelFile(d.Cases[1].Labels, DefaultReadOptions(), nil, nil)
				if err != nil {
					t.Fatal(err)
				}
				if d.Cases[1].renumber != nil {
					l, err = d.Cases[1].renumbered(l)
				}
				if err != nil || l.Counts()[c.want] != 8 || l.Names[c.want] != c.second[1] {
					t.Errorf("%q: %v, %v, %v", c.second, err, l.Counts(), l.Names)
				}
			}
		}
		d, err := Detect(root, Options{Unlabelled: true})
		if err == nil {
			err = d.CheckNames()
		}
		if err != nil {
			t.Errorf("%q, unlabelled: %v", c.second, err)
		}
	}
}
