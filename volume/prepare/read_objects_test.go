package prepare

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/internal/datasettest"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

func TestSegmentationsAreLabels(t *testing.T) {
	root := t.TempDir()
	in := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	a, la := datasettest.Axial(t, 1)
	b, lb := datasettest.Axial(t, 2)
	la.Names, lb.Names = map[uint16]string{la.Labels[slices.IndexFunc(la.Labels,
		func(x uint16) bool { return x != 0 })]: "pancreas"}, nil
	datasettest.WriteSeries(t, in("one", "CT"), "1.2.1", a, false)
	datasettest.WriteSeries(t, in("two", "CT"), "1.2.2", b, false)
	datasettest.WriteSegmentation(t, in("one", "seg", "pancreas.dcm"), in("one", "CT"), la)
	datasettest.WriteSegmentation(t, in("elsewhere", "b.dcm"), in("two", "CT"), lb)

	d := detect(t, root)
	if got, want := list(d), []string{"one one/CT one/seg/pancreas.dcm",
		"two two/CT elsewhere/b.dcm"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	truth := map[string]*volume.LabelMap{"1.2.1": la, "1.2.2": lb}
	for _, c := range d.Cases {
		// As Detect found it, and as somebody puts it together by hand.
		for _, c := range []dataset.Case{c, {Image: c.Image, Labels: c.Labels}} {
			v, l, notes, err := c.Read(dataset.DefaultReadOptions(), d.LabelNames)
			if err != nil || len(notes) > 0 {
				t.Fatal(notes, err)
			}
			want, err := truth[d.Cases[0].Series].Orient(v.Axcodes())
			if c.Image == d.Cases[1].Image {
				want, err = truth[d.Cases[1].Series].Orient(v.Axcodes())
			}
			if err != nil || !l.Same(v.Grid, 1e-9) || !slices.Equal(l.Labels, want.Labels) {
				t.Errorf("%s: labels are not those that were written (%v)", c.Image, err)
			}
		}
	}

	dir := t.TempDir()
	// The number has another name in the other case: that it means the same, somebody must say.
	var names *dataset.NamesError
	if _, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil); !errors.As(err,
		&names) ||
		!strings.Contains(err.Error(), `is "pancreas" in`) || !strings.Contains(names.Hint, "--same-labels") {
		t.Errorf("one label of two names: %v", err)
	}
	if _, notes, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{}); err != nil ||
		!datasettest.Noted(notes, `is "pancreas" in`) {
		t.Errorf("one label of two names: inspect says %q, %v", notes, err)
	}
	d, err := dataset.Detect(root, dataset.Options{SameLabels: true})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), d, dir, volume.DefaultPreparation(), Options{}, nil); err != nil {
		t.Fatal(err)
	}
	store, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	for info := range store.Records() {
		if !info.HasLabels || len(info.LabelCounts) == 0 {
			t.Errorf("case %s has no labels", info.ID)
		}
	}

	entries, _, err := dataset.Inspect(t.Context(), []string{root}, dataset.InspectOptions{})
	if err != nil || len(entries) != 4 {
		t.Fatal(len(entries), err)
	}
	objects := 0
	for _, e := range entries {
		if len(e.Problems) > 0 {
			t.Errorf("%s: %q", e.Path, e.Problems)
		}
		if e.Kind == "DICOM SEG" {
			objects++
			if e.Modality != "SEG" || e.Dtype != "binary" || len(e.Labels) != 2 || e.Shape[0] != a.Shape[0] {
				t.Errorf("%+v", e)
			}
		}
	}
	if objects != 2 {
		t.Errorf("%d SEG objects", objects)
	}

	// A copy is no second object; another one is, and somebody has to choose.
	file, err := os.ReadFile(in("elsewhere", "b.dcm"))
	if err == nil {
		err = os.WriteFile(in("elsewhere", "copy.dcm"), file, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	if d = detect(t, root); d.Cases[1].Labels == "" || !datasettest.Noted(d.PassedOver, "copy.dcm: passed over: copy") {
		t.Errorf("labels %s, passed over %q", d.Cases[1].Labels, d.PassedOver)
	}
	clear(la.Labels[:len(la.Labels)/2])
	datasettest.WriteSegmentation(t, in("one", "seg", "half.dcm"), in("one", "CT"), la)
	d = detect(t, root)
	if d.Cases[0].Labels != "" || !datasettest.Noted(d.Notes, "2 SEG objects") ||
		!datasettest.Noted(d.Notes, "half.dcm") {
		t.Errorf("labels %s, notes %q", d.Cases[0].Labels, d.Notes)
	}
	if d, err = dataset.Detect(root, dataset.Options{Segmentation: "half"}); err != nil ||
		filepath.Base(d.Cases[0].Labels) != "half.dcm" || !datasettest.Noted(d.Notes,
		"none of its SEG objects is half") {
		t.Errorf("%v, %q", err, d.Notes)
	}
	// A NIfTI file goes before.
	if err := nifti.WriteLabels(in("one", "CT_seg.nii.gz"), la); err != nil {
		t.Fatal(err)
	}
	if d, err = dataset.Detect(root, dataset.Options{Segmentation: "half.dcm"}); err != nil ||
		filepath.Base(d.Cases[0].Labels) != "CT_seg.nii.gz" || !datasettest.Noted(d.Notes, "its labels are") {
		t.Errorf("%v, %s, %q", err, d.Cases[0].Labels, d.Notes)
	}
	// Objects whose series is not there, and whose file is damaged.
	if err := os.RemoveAll(in("two", "CT")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in("elsewhere", "cut.dcm"), file[:len(file)-100], 0o666); err != nil {
		t.Fatal(err)
	}
	d = detect(t, root)
	if !datasettest.Noted(d.Notes, "none of the series here is the one that it refers to") ||
		!datasettest.Noted(d.PassedOver, "cut.dcm: passed over: is truncated") {
		t.Errorf("notes %q, passed over %q", d.Notes, d.PassedOver)
	}
	if _, _, _, err := (dataset.Case{Image: in("one", "CT"), Labels: in("elsewhere",
		"b.dcm")}).Read(dataset.DefaultReadOptions(),
		nil); err == nil || !strings.Contains(err.Error(), "refers to none of the series") {
		t.Errorf("labels of another series: %v", err)
	}
}

// A SEG object alone obeys --structures as several that are joined do, and a structure set does.
func TestStructuresOfOneSegmentation(t *testing.T) {
	root := t.TempDir()
	v, l := datasettest.Axial(t, 1)
	label := l.Labels[slices.IndexFunc(l.Labels, func(x uint16) bool { return x != 0 })]
	other, half := label+1, len(l.Labels)/2
	for i := range l.Labels[:half] {
		if l.Labels[i] == label {
			l.Labels[i] = other
		}
	}
	l.Names = map[uint16]string{label: "pancreas", other: "lesion"}
	count := func(of *volume.LabelMap, label uint16) (n int) {
		for _, x := range of.Labels {
			if x == label {
				n++
			}
		}
		return n
	}
	datasettest.WriteSeries(t, filepath.Join(root, "one", "CT"), "1.2.1", v, false)
	datasettest.WriteSegmentation(t, filepath.Join(root, "one", "seg.dcm"), filepath.Join(root, "one", "CT"), l)
	for _, c := range []struct {
		structures []string
		want       map[string]int
		note       string
	}{
		{nil, map[string]int{"pancreas": count(l, label), "lesion": count(l, other)}, ""},
		{[]string{"Lesion"}, map[string]int{"lesion": count(l, other)}, ""},
		{[]string{"spleen"}, nil, "seg.dcm: none of its structures is taken: "},
	} {
		d, err := dataset.Detect(root, dataset.Options{Structures: c.structures})
		if err != nil || len(d.Cases) != 1 {
			t.Fatal(err)
		}
		if c.note != "" && !datasettest.Noted(d.Notes, c.note) {
			t.Errorf("%v: notes %q", c.structures, d.Notes)
		}
		if c.want == nil {
			if d.Cases[0].Labels != "" {
				t.Errorf("%v: %+v", c.structures, d.Cases[0])
			}
			continue
		}
		_, read, _, err := d.Cases[0].Read(dataset.DefaultReadOptions(), d.LabelNames)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]int{}
		for label, name := range read.Names {
			got[name] = count(read, label)
		}
		if !maps.Equal(got, c.want) {
			t.Errorf("%v: %v, want %v", c.structures, got, c.want)
		}
	}
}
