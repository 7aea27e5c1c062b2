package predict

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/miniature"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// simple is a model that labels what is bright.
type simple struct {
	modality string
	above    bool // of Hounsfield units
	device   string
	name     string
	before   func() error // it predicts
	blind    bool         // finds nothing
}

func (m simple) Provenance() segment.Provenance {
	return segment.Provenance{Model: m.name, Window: [3]int{8, 8, 8}, Device: m.device}
}
func (simple) Labels() []uint16                                         { return []uint16{1} }
func (simple) LabelNames() map[uint16]string                            { return map[uint16]string{1: "liver"} }
func (simple) Watch(func(done, total int), func(string))                {}
func (simple) Fits(volume.Grid, int, segment.MapOptions) error          { return nil }
func (simple) CheckSpacing(volume.Grid) error                           { return nil }
func (m simple) Modality() string                                       { return m.modality }
func (m simple) AboveHU() bool                                          { return m.above }
func (simple) AsStored() bool                                           { return false }
func (simple) LearntFrom(string, string) (how segment.Lesson, met bool) { return how, false }

func (m simple) Predict(_ context.Context, channels []*volume.Volume, o segment.MapOptions) (*volume.LabelMap,
	*segment.Maps, error) {
	if m.before != nil {
		if err := m.before(); err != nil {
			return nil, nil, err
		}
	}
	l := &volume.LabelMap{Grid: channels[0].Grid, Labels: make([]uint16, channels[0].Len())}
	if !m.blind {
		l.Labels[0] = 1
	}
	if o.Agreement {
		return l, &segment.Maps{Agreement: map[uint16]float64{1: 0.75}}, nil
	}
	return l, nil, nil
}

// A scan's label map has its name whatever is predicted with it.
func TestNamesWithoutChannels(t *testing.T) {
	for names, want := range map[string]string{
		"a_0000 b_0000":          "a b",
		"a_0000 b_0000 extra":    "a b extra",
		"p_0000 p_0001":          "p_0000 p_0001",
		"p_0000 p_0002 b_0000":   "p_0000 p_0002 b",
		"a a_0000":               "a a_0000",
		"scan_12_0000 scan_0012": "scan_12 scan_0012",
	} {
		var cases []dataset.Case
		for name := range strings.FieldsSeq(names) {
			cases = append(cases, dataset.Case{ID: name})
		}
		dropChannel(cases)
		var got []string
		for _, c := range cases {
			got = append(got, c.ID)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("%s: %s, want %s", names, text, want)
		}
	}
}

// A model that takes all channels takes no chosen one.
func TestVolumeOfManyChannels(t *testing.T) {
	scans := filepath.Join(t.TempDir(), "scans")
	scansIn(t, scans, "p_0000.nii", "p_0001.nii")
	_, err := New([]string{scans}, Options{Out: t.TempDir(), Format: NIfTI, Channels: []string{"T1", "T2"},
		Find: dataset.Options{Volume: 2}})
	if err == nil || !strings.Contains(err.Error(), "--volume 2, where the model takes all of T1, T2") {
		t.Error(err)
	}
}

// listener keeps what is told.
type listener struct {
	nobody
	notes, written []string
}

func (l *listener) Note(text string)    { l.notes = append(l.notes, text) }
func (l *listener) Written(path string) { l.written = append(l.written, filepath.Base(path)) }

func (l *listener) told(text string) bool {
	return slices.ContainsFunc(l.notes, func(note string) bool { return strings.Contains(note, text) })
}

// scansIn writes scans of these names.
func scansIn(t *testing.T, dir string, names ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for n, name := range names {
		g := volume.Grid{Shape: [3]int{8, 8, 8}, Affine: volume.Scaling([3]float64{1, 1, 1})}
		v := &volume.Volume{Grid: g, Int16: make([]int16, g.Len())}
		for i := range v.Int16 {
			v.Int16[i] = int16(i*(n+3)%1000 - 500)
		}
		if err := nifti.Write(filepath.Join(dir, name), v); err != nil {
			t.Fatal(err)
		}
	}
}

func run(t *testing.T, ctx context.Context, m simple, o Options, paths ...string) (*listener, error) {
	t.Helper()
	o.Format, o.Read = NIfTI, dataset.DefaultReadOptions()
	b, err := New(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	var l listener
	return &l, b.Run(ctx, m, &l)
}

// The table tells of one batch: where it told of others that lie there, a note says so. Before a
// label map is written over, it goes, whatever ends the batch.
func TestTableOfTwoBatches(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "labels")
	scansIn(t, filepath.Join(dir, "a"), "a1.nii.gz", "a2.nii.gz")
	scansIn(t, filepath.Join(dir, "b"), "b1.nii.gz")
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	const others = "no longer of 2 label maps"
	for n, paths := range [][]string{{a}, {b}, {a, b}} {
		l, err := run(t, context.Background(), simple{name: "m"}, Options{Out: out}, paths...)
		if err != nil || l.told(others) != (n == 1) {
			t.Errorf("batch %d: %q, %v", n, l.notes, err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	again := simple{name: "other", before: func() error { cancel(); return nil }}
	_, err := run(t, ctx, again, Options{Out: out, Force: true}, a, b)
	if !errors.As(err, new(*StoppedError)) {
		t.Errorf("not stopped: %v", err)
	}
	for _, name := range []string{quality.File, pageFile} {
		if _, err := os.Stat(filepath.Join(out, name)); err == nil {
			t.Errorf("%s tells of label maps that were written over", name)
		}
	}
}

// A label map with nothing in it is told of, and has its rows in the table; so has one that was
// there already, and one beside which there is no table is told of.
func TestEmptyLabelMapsAreTold(t *testing.T) {
	dir := t.TempDir()
	out, scan := filepath.Join(dir, "labels"), filepath.Join(dir, "a1.nii.gz")
	scansIn(t, dir, "a1.nii.gz")
	const empty = "WARNING: nothing was found in 1 of 1 scan, whose label maps are empty: a1"
	for _, to := range []string{out, out, filepath.Join(dir, "one.nii.gz")} {
		l, err := run(t, context.Background(), simple{name: "m", blind: true}, Options{Out: to}, scan)
		if err != nil || !l.told(empty) {
			t.Errorf("%s: %q, %v", to, l.notes, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, quality.File))
	if err != nil || !strings.Contains(string(text), "\na1,1,liver,0,0,0,0,") {
		t.Errorf("%s, %v", text, err)
	}
}

// Label maps of another precision are not mixed into a folder; those of an exact GPU and a CPU are.
func TestPrecisionsAreNotMixed(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "labels")
	scansIn(t, filepath.Join(dir, "a"), "a1.nii.gz")
	for n, by := range []string{"cpu", "cuda fp32", "cuda bf16", ""} {
		_, err := run(t, context.Background(), simple{name: "m", device: by}, Options{Out: out},
			filepath.Join(dir, "a"))
		refused := err != nil && strings.Contains(err.Error(), "other precision (cpu, not cuda bf16)")
		if refused != (n == 2) || err != nil && !refused {
			t.Errorf("by %s: %v", by, err)
		}
	}
}

// Agreement that is asked for is measured, though the label map is there.
func TestAgreementIsMeasuredWhereItIsMissing(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "labels")
	scansIn(t, filepath.Join(dir, "a"), "a1.nii.gz")
	for n, want := range []int{1, 0, 1, 0} {
		o := Options{Out: out, Maps: segment.MapOptions{Agreement: n >= 2}}
		l, err := run(t, context.Background(), simple{name: "m"}, o, filepath.Join(dir, "a"))
		if err != nil || len(l.written) != want {
			t.Errorf("batch %d: %q written, %v", n, l.written, err)
		}
	}
	text, err := os.ReadFile(filepath.Join(out, quality.File))
	if err != nil || !strings.Contains(string(text), ",0.75,") {
		t.Errorf("%s, %v", text, err)
	}
}

// An agreement that does not fit into a label map is that of the table.
func TestAgreementThatDoesNotFit(t *testing.T) {
	o := origin{Program: "voxsaw predict", Agreement: map[uint16]float64{}}
	for n := range 100 {
		o.Agreement[uint16(n)] = 1 / float64(n+3)
	}
	text, err := o.inDICOM()
	var read origin
	if err != nil || json.Unmarshal([]byte(text), &read) != nil || read.Agreement != nil || !read.Elsewhere {
		t.Errorf("%s, %v", text, err)
	}
	// of a label map without structures it is known, and says nothing
	o.Agreement = map[uint16]float64{}
	read = origin{}
	if text, err = o.inDICOM(); err != nil || json.Unmarshal([]byte(text), &read) != nil || read.Agreement == nil {
		t.Errorf("%s, %v: it would be predicted again and again", text, err)
	}
	dir := t.TempDir()
	g := volume.Grid{Shape: [3]int{2, 2, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	target := filepath.Join(dir, "a.nii.gz")
	extensions, err := origin{Program: "voxsaw predict", Elsewhere: true}.extension()
	if err = errors.Join(err, nifti.WriteLabelsWith(target, l, nil, extensions)); err != nil {
		t.Fatal(err)
	}
	b := &Batch{options: Options{Out: dir, Maps: segment.MapOptions{Agreement: true}}, targets: []string{target},
		scans: []dataset.Case{{ID: "a", Image: target}}, cases: map[int]quality.Case{}}
	var told listener
	if b.complete(0) {
		t.Error("its agreement, which nothing has, is not made again")
	}
	if b.measureAgain(0, simple{}, &told); !told.told("has no room for its agreement") {
		t.Errorf("%q", told.notes)
	}
	b.before = []quality.Case{{ID: "a", Agreement: map[uint16]float64{1: 0.5}}}
	if !b.complete(0) {
		t.Error("it would be predicted again and again")
	}
	if b.measureAgain(0, simple{}, &told); b.cases[0].Agreement[1] != 0.5 || len(told.notes) != 1 {
		t.Errorf("%+v, %q", b.cases[0], told.notes)
	}
}

// A batch that is cut short keeps the agreements that no label map has room for, its own and those
// of an earlier batch.
func TestAgreementsOfABatchThatIsCutShort(t *testing.T) {
	dir := t.TempDir()
	g := volume.Grid{Shape: [3]int{2, 2, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	l := &volume.LabelMap{Grid: g, Labels: make([]uint16, g.Len())}
	l.Labels[0] = 1
	b := &Batch{options: Options{Out: dir, Maps: segment.MapOptions{Agreement: true}}, cases: map[int]quality.Case{}}
	for n, id := range []string{"a", "b", "c"} {
		target := filepath.Join(dir, id+".nii.gz")
		extensions, err := origin{Program: "voxsaw predict", Elsewhere: true}.extension()
		if n < 2 { // nobody has made the last one yet
			err = errors.Join(err, nifti.WriteLabelsWith(target, l, nil, extensions))
		}
		if err != nil {
			t.Fatal(err)
		}
		b.targets, b.scans = append(b.targets, target), append(b.scans, dataset.Case{ID: id, Image: target})
	}
	of := func(id string, agreement float64) quality.Case {
		return quality.Case{ID: id, Structures: quality.Measure(l), Agreement: map[uint16]float64{1: agreement}}
	}
	b.before = []quality.Case{of("b", 0.25), of("c", 0.125)}
	var told listener
	cut := outcome{Stopped: true, Cases: map[int]quality.Case{0: of("a", 0.5)}}
	if err := b.writeTable(cut, &told); err != nil || !told.told("tells of the 2 label maps that are there") {
		t.Fatalf("%v, %q", err, told.notes)
	}
	var err error
	if b.before, err = b.readTable(); err != nil || len(b.before) != 2 {
		t.Fatalf("%+v, %v", b.before, err)
	}
	for n, want := range []float64{0.5, 0.25} {
		if b.measureAgain(n, simple{}, &told); b.cases[n].Agreement[1] != want || len(told.notes) != 1 {
			t.Errorf("%+v, want %v; %q", b.cases[n], want, told.notes)
		}
	}
}

// Of a scan that fails, a label map that is there is of an earlier run, and not in the table.
func TestFailedScansKeepEarlierLabelMaps(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "labels")
	scansIn(t, filepath.Join(dir, "a"), "a1.nii.gz", "a2.nii.gz")
	count := 0
	second := func() error {
		if count++; count%2 == 0 {
			return errors.New("a bad scan")
		}
		return nil
	}
	scans := filepath.Join(dir, "a")
	if _, err := run(t, context.Background(), simple{name: "m"}, Options{Out: out}, scans); err != nil {
		t.Fatal(err)
	}
	_, err := run(t, context.Background(), simple{name: "other", before: second}, Options{Out: out, Force: true}, scans)
	var failed *FailedError
	if !errors.As(err, &failed) || len(failed.Unwrap()) != 1 || !strings.Contains(failed.Unwrap()[0].Error(),
		"a bad scan (the label map in "+filepath.Join(out, "a2.nii.gz")+" is of an earlier run)") {
		t.Error(err)
	}
}

// A scan that is gone is not passed over as one that has its label map.
func TestScansThatCannotBeReadFail(t *testing.T) {
	dir := t.TempDir()
	scans, out := filepath.Join(dir, "a"), filepath.Join(dir, "labels")
	scansIn(t, scans, "a1.nii.gz", "a2.nii.gz")
	o := Options{Out: out, Format: NIfTI, Read: dataset.DefaultReadOptions()}
	for _, gone := range []bool{false, true} {
		b, err := New([]string{scans}, o)
		if err != nil {
			t.Fatal(err)
		}
		if gone {
			if err := os.Remove(filepath.Join(scans, "a2.nii.gz")); err != nil {
				t.Fatal(err)
			}
		}
		err = b.Run(context.Background(), simple{name: "m"}, &listener{})
		var failed *FailedError
		if errors.As(err, &failed) != gone || gone && !slices.Equal(failed.Names, []string{"a2"}) {
			t.Errorf("gone %v: %v", gone, err)
		}
	}
}

// What could not be written at the end is refused before the work.
func TestFilesThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	scansIn(t, filepath.Join(dir, "a"), "Case1.nii.gz")
	scansIn(t, filepath.Join(dir, "b"), "case1.nii.gz")
	scansIn(t, filepath.Join(dir, "c"), "x.nii.gz", "x_probabilities.nii.gz")
	try := func(want, out string, maps segment.MapOptions, names ...string) {
		t.Helper()
		var paths []string
		for _, name := range names {
			paths = append(paths, filepath.Join(dir, name))
		}
		_, err := New(paths, Options{Out: filepath.Join(dir, out), Format: NIfTI, Maps: maps,
			Read: dataset.DefaultReadOptions()})
		if (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q into %s: %v, want %q", names, out, err, want)
		}
	}
	with := segment.MapOptions{Probabilities: true}
	try("would both be written as case1.nii.gz, where capital and small letters are the same (", "labels",
		segment.MapOptions{}, "a", "b")
	try("", "labels", segment.MapOptions{}, "a", "c")
	try("would both be written as x_probabilities.nii.gz:", "labels", with, "c")
	for _, name := range []string{"seg.hdr", "seg.NII.GZ", "seg.Nii", "seg.hdr.gz"} {
		try("whose name ends in .nii or .nii.gz", name, segment.MapOptions{}, "a")
	}
	try("", "seg.nii", segment.MapOptions{}, "a")
}

// What a DICOM object says comes back as it was, whatever words chose the series.
func TestOriginsInDICOM(t *testing.T) {
	dir := t.TempDir()
	if err := miniature.Scans(dir, miniature.ScanOptions{Cases: 1, Labelled: 1, Format: "dicom"}); err != nil {
		t.Fatal(err)
	}
	d, err := dataset.Detect(dir, dataset.Options{Layout: dataset.LayoutScans})
	if err != nil || len(d.Cases) == 0 {
		t.Fatal(err)
	}
	series, err := d.Cases[0].DICOM()
	if err != nil {
		t.Fatal(err)
	}
	l := &volume.LabelMap{Grid: series.Grid, Labels: make([]uint16, series.Grid.Len()),
		Names: map[uint16]string{1: "liver"}}
	for i := range l.Labels {
		l.Labels[i] = 1
	}
	for n, words := range []string{"", "2", "description~Thorax & Abdomen",
		`description~"thin" \ kernel<>`, "description~Schädel 100 %",
		"description~100 %26+1"} {
		o := origin{Program: "voxsaw predict", Version: "1", Scan: reading{Series: words}}
		text, err := o.inDICOM()
		if err != nil {
			t.Fatal(err)
		}
		for kind, write := range map[string]func(string, *volume.LabelMap, *dicom.Series, dicom.WriteOptions) error{
			DICOMSEG: dicom.WriteSegmentation, RTSTRUCT: dicom.WriteStructureSet} {
			path := filepath.Join(t.TempDir(), "labels.dcm")
			if err := write(path, l, series, dicom.WriteOptions{Algorithm: "Voxsaw", Version: "1", Parameters: text,
				Labels: []uint16{1}}); err != nil {
				t.Fatal(err)
			}
			if got, ok := readProvenance(path); !ok || got.differs(o) != "" {
				t.Errorf("%d, %s: %q became %q, %v", n, kind, words, got.Scan.Series, ok)
			}
		}
	}
}

// A CT whose values lie 1024 above Hounsfield units is segmented by a network that was trained on
// such ones, and by no other. A CT in Hounsfield units is told of there.
func TestShiftedCTs(t *testing.T) {
	ct, _, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 32}})
	if err != nil {
		t.Fatal(err)
	}
	shifted := &volume.Volume{Grid: ct.Grid, Int16: make([]int16, ct.Len())}
	for i, hu := range ct.Int16 {
		shifted.Int16[i] = max(hu, -1024) + 1024
	}
	for _, scan := range []*volume.Volume{ct, shifted} {
		path := filepath.Join(t.TempDir(), "a.nii.gz")
		if err := nifti.Write(path, scan); err != nil {
			t.Fatal(err)
		}
		for _, above := range []bool{false, true} {
			m := simple{name: "m", modality: volume.ModalityCT, above: above}
			_, err := run(t, context.Background(), m, Options{Out: t.TempDir()}, path)
			if (err == nil) != (above || scan == ct) {
				t.Errorf("trained above HU %v, scan above HU %v: %v", above, scan == shifted, err)
			}
		}
	}
}

// A label map says of its place what the scan says.
func TestLabelMapsLieAsTheirScan(t *testing.T) {
	var golden struct {
		Cases []struct{ Scan []byte }
	}
	data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "nifti_placing.json"))
	if err == nil {
		err = json.Unmarshal(data, &golden)
	}
	if err != nil {
		t.Fatal(err)
	}
	scan := golden.Cases[1].Scan // its forms differ
	dir := t.TempDir()
	path, out := filepath.Join(dir, "a.nii"), filepath.Join(dir, "labels.nii")
	if err := os.WriteFile(path, scan, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t, context.Background(), simple{name: "m"}, Options{Out: out}, path); err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile(out)
	if err != nil || !bytes.Equal(written[252:328], scan[252:328]) {
		t.Errorf("% x, the scan % x: %v", written[252:328], scan[252:328], err)
	}
}

// stopping is a predictor of a model of nnU-Net for whose scans there is no memory.
type stopping struct {
	foreignPredictor
	spacing [3]float64 // of the scan that it was asked about
}

func (s *stopping) Fits(g volume.Grid, _ int) error {
	s.spacing = g.Spacing()
	return errors.New("too large")
}

// Whether there is memory for a scan is asked, before it is read, with the spacing that nnU-Net
// goes by: pixdim, not the affine's.
func TestMemoryGoesByPixdim(t *testing.T) {
	model, err := nnunet.Open(filepath.Join("..", "..", "testdata", "nnunet", "thick"), nil)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "scan.nii")
	scansIn(t, filepath.Dir(path), "scan.nii")
	scan, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for axis, size := range []float32{2, 3, 5} {
		binary.LittleEndian.PutUint32(scan[80+4*axis:], math.Float32bits(size)) // pixdim
	}
	if err := os.WriteFile(path, scan, 0o666); err != nil {
		t.Fatal(err)
	}
	b, err := New([]string{path}, Options{Out: t.TempDir(), Format: NIfTI, Read: dataset.DefaultReadOptions()})
	if err != nil {
		t.Fatal(err)
	}
	p := &stopping{}
	err = b.Run(t.Context(), &foreign{p, model, func(func(done, total int), func(string)) {}, segment.Provenance{}},
		&listener{})
	if err == nil || p.spacing != [3]float64{2, 3, 5} {
		t.Errorf("asked with a spacing of %v: %v", p.spacing, err)
	}
}
