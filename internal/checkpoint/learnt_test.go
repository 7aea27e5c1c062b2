package checkpoint

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/volume"
)

func TestLearntIsReadAsItWasWritten(t *testing.T) {
	want := description
	want.Learnt = Learnt{
		Spacings: volume.Range{Min: [3]float64{0.7, 0.7, 1}, Max: [3]float64{0.9765625, 0.9, 5}},
		Scans: []Scan{{"a: b # c", "0123456789abcdef0123456789abcdef", true}, {"case 2", "", true},
			{"é \"x\"", "f123456789abcdef0123456789abcdef", false}},
	}
	path := write(t, want, newModel(3))
	got, err := Read(path)
	if want.path = path; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if !got.Known() || description.Known() {
		t.Error("whether voxels are known is mistaken")
	}
	for want, text := range map[string]string{
		"is no scan that was learnt from": "format: 6\nkind: test\nscans: [abc]\n",
		"voxel sizes of 1 to 0":           "format: 6\nkind: test\nspacings:\n  min: [1, 1, 1]\n  max: [0, 1, 1]\n",
	} {
		meta := map[string]string{headerKey: text}
		meta[textKey] = digestOfTexts(meta)
		if _, err := parse("file", meta); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The scans of many cases lie in a file beside the checkpoint.
func TestLongListOfScans(t *testing.T) {
	d := Description{Kind: "jigsaw"}
	for n := range manyNames + 1 {
		d.Learnt.Scans = append(d.Learnt.Scans, Scan{fmt.Sprintf("case %04d", n), fmt.Sprintf("%032x", n), n%2 == 0})
	}
	path := write(t, d, newModel(1))
	if got, err := Read(path); err != nil || got.Lost != "" || !slices.Equal(got.Learnt.Scans, d.Learnt.Scans) {
		t.Errorf("%d scans were read: %v", len(got.Learnt.Scans), err)
	}
	if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), "case 0017") {
		t.Errorf("the checkpoint has all scans (%v)", err)
	}
	list, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "names-*.txt"))
	if len(list) != 1 || os.Remove(list[0]) != nil {
		t.Fatalf("lists: %v", list)
	}
	if got, err := Read(path); err != nil || got.Known() ||
		!strings.Contains(got.Lost, "1001 scans that it has learnt from are named in names-") {
		t.Errorf("without the list: %q, %v", got.Lost, err)
	}
}

func TestSeen(t *testing.T) {
	pretrained := Description{Kind: "jigsaw", TrainedOn: []string{"a", "b"},
		Learnt: Learnt{Scans: []Scan{{"a", "1", false}, {"b", "2", false}}}}
	d := Description{Kind: Segmentation,
		Learnt: Learnt{Scans: []Scan{{"x", "2", true}, {"a", "1", true}, {"c", "", true}}}.After(pretrained)}
	if want := []Scan{{"a", "1", true}, {"b", "2", false}, {"c", "", true},
		{"x", "2", true}}; !slices.Equal(d.Learnt.Scans, want) {
		t.Errorf("%v, want %v", d.Learnt.Scans, want)
	}
	for _, c := range []struct {
		name, voxels, there string
		labels, found       bool
	}{
		{"any", "1", "a", true, true}, {"b", "2", "x", true, true}, // by voxels, whatever the name
		{"a", "9", "", false, false}, // another scan of that name
		// by name where voxels are not known here
		{"a", "", "a", true, true}, {"b", "", "b", false, true},
		{"c", "9", "c", true, true}, // or there
		{"d", "", "", false, false}, {"d", "9", "", false, false},
	} {
		scan, found := d.Seen().Find(c.name, c.voxels)
		if found != c.found || found && (scan.Name != c.there || scan.Labels != c.labels) {
			t.Errorf("%s of voxels %q: %v, %v", c.name, c.voxels, scan, found)
		}
	}
	// One of a name whose voxels nobody knows is not forgotten for another of that name.
	both := Description{Kind: Segmentation, Learnt: Learnt{Scans: []Scan{{"p1", "", false}, {"p1", "1", true}}}}
	for voxels, labels := range map[string]bool{"1": true, "": true, "2": false} {
		if scan, found := both.Seen().Find("p1", voxels); !found || scan.Labels != labels {
			t.Errorf("p1 of voxels %q: %v, %v", voxels, scan, found)
		}
	}
	old := Description{Kind: Segmentation, TrainedOn: []string{"p1"}}
	if scan, found := old.Seen().Find("p1", "77"); !found || !scan.Labels || old.Known() {
		t.Errorf("names alone: %v, %v", scan, found)
	}
	if got := (Learnt{}).After(old).Scans; !slices.Equal(got, []Scan{{"p1", "", true}}) {
		t.Errorf("after names alone: %v", got)
	}
}

// Voxel sizes are compared where a network would see the difference: numbers with numbers, and with
// the range of scans that keep their own.
func TestMismatchesOfSpacing(t *testing.T) {
	r := volume.Range{Min: [3]float64{0.7, 0.7, 1}, Max: [3]float64{0.9, 0.9, 1}}
	own, one, two := [3]float64{}, [3]float64{0.8, 0.8, 1}, [3]float64{2, 2, 2}
	for _, c := range []struct {
		before, now           [3]float64
		rangeBefore, rangeNow volume.Range
		want                  string
	}{
		{own, own, r, r, ""}, {own, one, r, volume.Range{}, ""}, {one, own, volume.Range{}, r, ""},
		{one, one, volume.Range{}, volume.Range{}, ""},
		{own, own, volume.Range{}, r, ""}, // nobody knows
		{own, two, r, volume.Range{}, "0.7 to 0.9 x 0.7 to 0.9 x 1 mm in the checkpoint, 2 x 2 x 2 mm here"},
		{two, own, volume.Range{}, r, "2 x 2 x 2 mm in the checkpoint, 0.7 to 0.9 x 0.7 to 0.9 x 1 mm here"},
		{own, two, volume.Range{}, volume.Range{}, "each scan's own in the checkpoint, 2x2x2 mm here"},
		{one, two, volume.Range{}, volume.Range{}, "0.8x0.8x1 mm in the checkpoint, 2x2x2 mm here"},
	} {
		d := Description{Settings: fmt.Sprintf("preparation:\n  axcodes: RAS\n  spacing: [%g, %g, %g]\n", c.before[0],
			c.before[1], c.before[2]), Learnt: Learnt{Spacings: c.rangeBefore}}
		p, err := d.Preparation()
		if err != nil {
			t.Fatal(err)
		}
		p.Spacing = c.now
		lines := d.Mismatches(p, c.rangeNow, voxsaw.Network{})
		if len(lines) > 1 || (len(lines) == 0) != (c.want == "") ||
			c.want != "" && !strings.HasPrefix(lines[0], "spacing of the scans: "+c.want+": ") {
			t.Errorf("%v and %v: %q, want %q", c.before, c.now, lines, c.want)
		}
	}
}

// Weights of another preset, norm or activation are of another network, even where they fit.
func TestMismatchesOfNetworks(t *testing.T) {
	d := Description{Settings: "network: {preset: paper, norm: instance, activation: prelu}\n"}
	for want, n := range map[string]voxsaw.Network{
		"": {Preset: "paper", Norm: "instance", Activation: "prelu"},
		"preset of the network: paper in the checkpoint, monai here: ":      {Preset: "monai"},
		"norm of the network: instance in the checkpoint, batch here: ":     {Norm: "batch"},
		"activation of the network: prelu in the checkpoint, elu here: the": {Activation: "elu"},
	} {
		lines := d.Mismatches(volume.Preparation{}, volume.Range{}, n)
		if len(lines) > 1 || !strings.HasPrefix(strings.Join(lines, ""), want) || (len(lines) == 0) != (want == "") {
			t.Errorf("%q, want %q", lines, want)
		}
	}
}
