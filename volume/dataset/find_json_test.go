package dataset

import (
	"maps"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
)

// What a dataset.json says of labels is understood in all of its forms, and refused where it
// contradicts itself, whatever the layout.
func TestLabelsOfDatasetJSON(t *testing.T) {
	liver := map[uint16]string{1: "liver", 2: "tumour"}
	for _, c := range []struct {
		json  string
		names map[uint16]string
		said  string // the error, or a note
	}{
		{`{"labels": {"0": "background", "1": "liver", "2": "tumour"}}`, liver, ""},
		{`{"labels": {"background": 0, "liver": 1, "tumour": 2}}`, liver, ""},
		{`{"labels": {"background": "0", "liver": "1", "tumour": " 2"}}`, liver, ""},
		{`{"labels": {"background": 0, "1": "liver", "tumour": 2.0}}`, liver, ""},
		{"\ufeff" + `{"labels": {"0": "background", "1": "liver", "2": "tumour"}}`, liver, ""},
		{`{"labels": {"0": "Clear Label", "1": "liver", "2": "tumour"}}`, liver, ""},
		{`{"labels": {"0": "skin", "1": "liver", "2": "tumour"}}`, liver, `calls 0 "skin": its voxels are background`},
		{`{"labels": {"1": "kidney", "2": "kidney"}}`, map[uint16]string{1: "kidney", 2: "kidney"},
			`calls labels 1, 2 all "kidney"`},
		{`{"labels": {"background": 0, "liver": 1, "all": [1, "2"]}, "regions_class_order": [1, 2]}`,
			map[uint16]string{1: "liver"}, ""},
		{`{"labels": {"background": 0, "liver": 1, "all": [1, 2]}, "regions_class_order": [1]}`,
			map[uint16]string{1: "liver"},
			"has 2 regions and 1 number in regions_class_order"},
		{`{"labels": {"background": 0, "liver": 1, "ignore": 2}}`, map[uint16]string{1: "liver", 2: "ignore"},
			"label 2 for voxels to ignore"},
		{`{"labels": {"1": 1, "inf": 2}}`, map[uint16]string{1: "1", 2: "inf"}, ""},

		{`{"labels": {"background": 0, "tumour": 2, "vessel": 2}}`, nil, `label 2 is "tumour" and "vessel"`},
		{`{"labels": {"0": "background", "2": "tumour", "2": "vessel"}}`, nil, `label 2 is "tumour" and "vessel"`},
		{`{"labels": {"background": 0, "liver": 1, "liver": 2}}`, nil, `"liver" is label 1 and label 2`},
		{`{"labels": {"0": "liver", "1": "background"}}`, nil, "background is label 1"},
		{`{"labels": {"background": 1, "liver": 0}}`, nil, "background is label 1"},
		{`{"labels": {"Background": "2", "liver": "1"}}`, nil, "background is label 2"},
		{`{"labels": {"background": 0, "liver": -1}}`, nil, `"liver" has the number -1: labels are whole numbers`},
		{`{"labels": {"background": 0, "liver": 1.5}}`, nil, `"liver" has the number 1.5: labels are whole numbers`},
		{`{"labels": {"background": 0, "liver": "1.5"}}`, nil, `"liver" has the number 1.5: labels are whole numbers`},
		{`{"labels": {"background": 0, "liver": 65536}}`, nil,
			`"liver" has the number 65536: labels are whole numbers`},
		{`{"labels": {"-1": "liver"}}`, nil, `"liver" has the number -1: labels are whole numbers`},
		{`{"labels": {"1": "liver", "tumour": "two"}}`, nil, `"tumour": "two", and neither is a number`},
		{`{"labels": {"1": "liver", "2": null}}`, nil, `label "2" has no number, but null`},
		{`{"labels": {"1": "liver", "2": {"a": 1}}}`, nil, `label "2" has no number, but {"a":1}`},
		{`{"labels": {"1": "liver", "2": true}}`, nil, `label "2" has no number, but true`},
		{`{"labels": {"0": "background", "1": "", "2": "tumour"}}`, map[uint16]string{2: "tumour"}, ""},
		{`{"labels": {"1": 2}}`, nil, `label "1" has the number 2: one of the two must be a name`},
		{`{"labels": {"liver": 1, "all": [1, -2]}}`, nil, `region "all" is made of -2`},
		{`{"labels": {"liver": 1, "all": [1, {"a": 2}]}}`, nil, `region "all" is made of {"a":2}`},
		{"\xff\xfe{\x00}\x00", nil, "is UTF-16"},
		{"{\x00}\x00", nil, "is UTF-16"},
		{"\x00{\x00}", nil, "is UTF-16"},
		{"{\"labels\":\n{\"Gr\xf6\xdfe\": 1}}", nil, "line 2 is not UTF-8"},
	} {
		for _, image := range []string{"imagesTr/p1.nii.gz", "imagesTr/p1_0000.nii.gz", "p1.nii.gz"} {
			if strings.Contains(c.said, "regions_class_order") && image == "p1.nii.gz" {
				continue
			}
			root := tree(t, map[string]string{image: "", "dataset.json": c.json})
			d, err := Detect(root, Options{})
			switch {
			case c.names != nil && (err != nil || !maps.Equal(d.LabelNames, c.names)):
				t.Errorf("%s, %s: %v, %+v", image, c.json, err, d)
			case c.names != nil && c.said != "" && !datasettest.Noted(d.Notes, c.said):
				t.Errorf("%s, %s: notes %q, want %q", image, c.json, d.Notes, c.said)
			case c.names != nil && c.said == "" && datasettest.Noted(d.Notes, "calls"), c.said == "" &&
				datasettest.Noted(d.Notes, "regions_class_order"):
				t.Errorf("%s, %s: notes %q", image, c.json, d.Notes)
			case c.names == nil && (err == nil || !strings.Contains(err.Error(), c.said) ||
				!strings.Contains(err.Error(), "dataset.json")):
				t.Errorf("%s, %s: %v, want %q", image, c.json, err, c.said)
			}
			if c.names == nil { // who inspects is told, too
				if _, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{}); err != nil ||
					!datasettest.Noted(notes, c.said) {
					t.Errorf("%s, %s: inspect says %v, %q", image, c.json, err, notes)
				}
			}
		}
	}
}
