package dataset

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/seed"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// writeSeries writes an axial CT as DICOM files: explicit little endian, one slice a file, HU +
// 1024 in unsigned 16 bits. Names say nothing about the order; instance numbers grow from the first
// slice to the last or, descending, the other way.
func writeSeries(t *testing.T, dir, uid string, v *volume.Volume, descending bool) {
	t.Helper()
	numbers := make([]int, v.Shape[2])
	for k := range numbers {
		numbers[k] = k + 1
	}
	if descending {
		slices.Reverse(numbers)
	}
	writeStudy(t, dir, uid, uid+".9", 1, "CT", v, numbers)
}

// noNumber is no InstanceNumber at all.
const noNumber = -1

// writeStudy is writeSeries for one series of a study, of a number and a modality, with the
// instance numbers of its slices; nil: noNumber.
func writeStudy(t *testing.T, dir, uid, study string, series int, modality string, v *volume.Volume, instances []int) {
	t.Helper()
	writeTold(t, dir, uid, study, series, modality, v, instances, "")
}

// writeTold is writeStudy with more elements in each file.
func writeTold(t *testing.T, dir, uid, study string, series int, modality string, v *volume.Volume, instances []int,
	more string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	r := seed.Rand(1, uid)
	spacing := v.Spacing()
	area := v.Shape[0] * v.Shape[1]
	for k := range v.Shape[2] {
		instance := ""
		if instances != nil && instances[k] != noNumber {
			instance = element(0x0020, 0x0013, "IS", fmt.Sprint(instances[k]))
		}
		// DICOM's world is LPS, ours RAS.
		p := v.World([3]float64{0, 0, float64(k)})
		pixels := make([]byte, 0, 2*area)
		for _, hu := range v.Int16[k*area:][:area] {
			pixels = binary.LittleEndian.AppendUint16(pixels, uint16(hu+1024))
		}
		number := func(x int) string { return string(binary.LittleEndian.AppendUint16(nil, uint16(x))) }
		sop := fmt.Sprintf("%s.%d", uid, k+1)
		a := v.Affine
		meta := element(0x0002, 0x0002, "UI", "1.2.840.10008.5.1.4.1.1.2") + element(0x0002, 0x0003, "UI", sop) +
			element(0x0002, 0x0010, "UI", "1.2.840.10008.1.2.1")
		file := strings.Repeat("\x00", 128) + "DICM" + element(0x0002, 0x0000, "UL",
			string(binary.LittleEndian.AppendUint32(nil, uint32(len(meta))))) + meta +
			element(0x0008, 0x0016, "UI", "1.2.840.10008.5.1.4.1.1.2") + element(0x0008, 0x0018, "UI", sop) +
			element(0x0008, 0x0060, "CS", modality) +
			element(0x0010, 0x0010, "PN", "Secret^Patient") + more +
			element(0x0020, 0x000D, "UI", study) + element(0x0020, 0x000E, "UI", uid) + element(0x0020, 0x0011, "IS",
			fmt.Sprint(series)) + instance +
			// one frame of reference for each folder of series
			element(0x0020, 0x0052, "UI", fmt.Sprint("1.2.52.", crc32.ChecksumIEEE([]byte(filepath.Dir(dir))))) +
			element(0x0020, 0x0032, "DS", fmt.Sprintf("%.4f\\%.4f\\%.4f", -p[0], -p[1], p[2])) + element(0x0020, 0x0037,
			"DS",
			fmt.Sprintf(`%.6f\%.6f\%.6f\%.6f\%.6f\%.6f`, -a[0][0]/spacing[0], -a[1][0]/spacing[0], a[2][0]/spacing[0],
				-a[0][1]/spacing[1], -a[1][1]/spacing[1], a[2][1]/spacing[1])) +
			element(0x0028, 0x0002, "US", number(1)) + element(0x0028, 0x0004, "CS", "MONOCHROME2") +
			element(0x0028, 0x0010, "US", number(v.Shape[1])) + element(0x0028, 0x0011, "US", number(v.Shape[0])) +
			element(0x0028, 0x0030, "DS", fmt.Sprintf("%.5f\\%.5f", spacing[1], spacing[0])) +
			element(0x0028, 0x0100, "US", number(16)) + element(0x0028, 0x0101, "US", number(16)) +
			element(0x0028, 0x0102, "US", number(15)) + element(0x0028, 0x0103, "US", number(0)) +
			element(0x0028, 0x1052, "DS", "-1024") + element(0x0028, 0x1053, "DS", "1") + element(0x7FE0, 0x0010, "OW",
			string(pixels))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%08x-%04x.dcm", r.Uint32(), r.Uint32()>>16)),
			[]byte(file), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// element writes one of DICOM's in explicit little endian.
func element(group, number uint16, representation, value string) string {
	if len(value)%2 == 1 {
		pad := " "
		if representation == "UI" {
			pad = "\x00"
		}
		value += pad
	}
	b := binary.LittleEndian.AppendUint16(nil, group)
	b = append(binary.LittleEndian.AppendUint16(b, number), representation...)
	if representation == "OW" {
		b = binary.LittleEndian.AppendUint32(append(b, 0, 0), uint32(len(value)))
	} else {
		b = binary.LittleEndian.AppendUint16(b, uint16(len(value)))
	}
	return string(b) + value
}

// axial makes a patient as a CT scanner writes one: axes LPS, the labels of the pancreas only.
func axial(t *testing.T, number uint64) (*volume.Volume, *volume.LabelMap) {
	t.Helper()
	v, l, err := phantom.New(number, phantom.Options{Shape: [3]int{40, 36, 30}})
	if err != nil {
		t.Fatal(err)
	}
	for n, label := range l.Labels {
		if label != phantom.Pancreas {
			l.Labels[n] = 0
		}
	}
	v, err = v.Orient("LPS")
	if err != nil {
		t.Fatal(err)
	}
	l, err = l.Orient("LPS")
	if err != nil {
		t.Fatal(err)
	}
	return v, l
}

func TestNIHPancreasCT(t *testing.T) {
	root := t.TempDir()
	labels := filepath.Join(root, "TCIA_pancreas_labels-02-05-2017")
	if err := os.Mkdir(labels, 0o777); err != nil {
		t.Fatal(err)
	}
	truth := map[string]*volume.LabelMap{}
	for number := 1; number <= 4; number++ {
		v, l := axial(t, uint64(number))
		id := fmt.Sprintf("PANCREAS_%04d", number)
		truth[id] = l
		descending := number == 2
		writeSeries(t, filepath.Join(root, "DOI", id, "1.2.3", "1.2.3.4"), fmt.Sprintf("1.2.3.%d", number), v,
			descending)
		// Labels count slices by instance number, and their header says something else: read by it,
		// they are upside down.
		stored := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling(l.Spacing())},
			Labels: l.Labels}
		if descending {
			stored = flipLabels(stored, "k")
		}
		if number == 4 {
			stored = flipLabels(stored, "j") // a case that is wrong even so
		}
		if err := nifti.WriteLabels(filepath.Join(labels, fmt.Sprintf("label%04d.nii.gz", number)),
			stored); err != nil {
			t.Fatal(err)
		}
	}
	d := detect(t, root)
	if d.Layout != LayoutNIH || len(d.Cases) != 4 {
		t.Fatalf("layout %s, %d cases", d.Layout, len(d.Cases))
	}
	for _, c := range d.Cases {
		_, got, _, err := c.Read(DefaultReadOptions(), d.LabelNames)
		if c.ID == "PANCREAS_0004" {
			if err == nil || !strings.Contains(err.Error(), "along j") {
				t.Errorf("%s: %v", c.ID, err)
			}
			var notes []string
			if _, got, notes, err = c.Read(ReadOptions{Flips: FlipsFix}, d.LabelNames); len(notes) != 1 {
				t.Errorf("%s: notes %q", c.ID, notes)
			}
		}
		if err != nil {
			t.Errorf("%s: %v", c.ID, err)
			continue
		}
		if !got.Same(truth[c.ID].Grid, 1e-3) || !slices.Equal(got.Labels, truth[c.ID].Labels) {
			t.Errorf("%s: labels do not lie where they were drawn", c.ID)
		}
	}
	dir := t.TempDir()
	s, err := Prepare(t.Context(), d, dir, volume.DefaultPreparation(), PrepareOptions{}, nil)
	if err == nil || s.Prepared != 3 || len(s.Failed) != 1 {
		t.Errorf("%+v, %v", s, err)
	}
	// Nothing about the patient is written anywhere.
	err = filepath.Walk(dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), "Secret") {
			t.Errorf("%s names the patient", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	entries, notes, err := Inspect(t.Context(), []string{root}, InspectOptions{})
	if err != nil || len(entries) != 8 {
		t.Fatalf("%d entries, %v, %v", len(entries), notes, err)
	}
	series := 0
	for _, e := range entries {
		if want := strings.HasSuffix(e.Path, "label0004.nii.gz"); want != (len(e.Problems) > 0) {
			t.Errorf("%s: problems %q", e.Path, e.Problems)
		}
		if e.Series != "" {
			series++
			if e.Kind != "DICOM" || e.Axcodes != "LAS" || !slices.Equal(e.Shape, []int{40, 36, 30}) {
				t.Errorf("%+v", e)
			}
		}
	}
	if series != 4 {
		t.Errorf("%d series", series)
	}
}

// Labels of NIH Pancreas-CT are the stack of images by instance number, whatever way the patient
// lies in the scanner and slices are numbered; where the numbers do not tell one order, they are
// refused.
func TestLabelsCountSlicesByInstance(t *testing.T) {
	v, l := axial(t, 1)
	n := v.Shape[2]
	numbers := func(f func(k int) int) []int {
		all := make([]int, n)
		for k := range all {
			all[k] = f(k)
		}
		return all
	}
	shuffled := numbers(func(k int) int { return k*7%n + 1 }) // 7 has no factor in common with 30
	tilted := &volume.Volume{Grid: v.Grid, Int16: v.Int16}
	tilted.Affine[1][2] = 0.3 * v.Spacing()[2]
	// the same pixels of a patient who lies the other way
	prone := func(g volume.Grid) volume.Grid {
		for w := range 2 {
			for a := range 4 {
				g.Affine[w][a] = -g.Affine[w][a]
			}
		}
		return g
	}
	for name, c := range map[string]struct {
		scan      *volume.Volume
		instances []int
		o         ReadOptions
		fails     string
	}{
		"ascending":           {v, numbers(func(k int) int { return k + 1 }), ReadOptions{}, ""},
		"descending":          {v, numbers(func(k int) int { return n - k }), ReadOptions{}, ""},
		"in no order":         {v, shuffled, ReadOptions{}, ""},
		"interleaved, from 0": {v, numbers(func(k int) int { return k/2 + k%2*(n/2) }), ReadOptions{}, ""},
		"every tenth":         {v, numbers(func(k int) int { return 10 * shuffled[k] }), ReadOptions{}, ""},
		"prone":               {&volume.Volume{Grid: prone(v.Grid), Int16: v.Int16}, shuffled, ReadOptions{}, ""},
		"tilted, kept":        {tilted, shuffled, ReadOptions{Tilt: dicom.TiltKeep}, ""},
		"twice": {v, numbers(func(k int) int { return max(k, 1) }), ReadOptions{},
			"have the instance number 1 both, by which the labels count the slices"},
		"none": {v, nil, ReadOptions{}, "have no instance number, by which the labels count the slices"},
		"one without": {v, slices.Replace(numbers(func(k int) int { return k + 1 }), 9, 10, noNumber), ReadOptions{},
			"has no instance number, by which the labels count the slices"},
	} {
		root := t.TempDir()
		writeStudy(t, filepath.Join(root, "PANCREAS_0001", "1.2"), "1.2.1", "1.2.9", 1, "CT", c.scan, c.instances)
		file := filepath.Join(root, "label0001.nii.gz")
		stored := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling(l.Spacing())},
			Labels: make([]uint16, l.Len())}
		area := l.Shape[0] * l.Shape[1]
		rank := slices.Sorted(slices.Values(c.instances))
		for k := range c.instances {
			z, _ := slices.BinarySearch(rank, c.instances[k])
			copy(stored.Labels[z*area:][:area], l.Labels[k*area:])
		}
		if err := nifti.WriteLabels(file, stored); err != nil {
			t.Fatal(err)
		}
		d := detect(t, root)
		scan, got, _, err := d.Cases[0].Read(c.o, nil)
		if c.fails != "" {
			if err == nil || !strings.HasPrefix(err.Error(), file+": ") || !strings.Contains(err.Error(), c.fails) {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := (&volume.LabelMap{Grid: c.scan.Grid, Labels: l.Labels}).Orient("LPS")
		if err != nil {
			t.Fatal(err)
		}
		if !got.Same(scan.Grid, 1e-9) || !got.Same(want.Grid, 1e-2) || !slices.Equal(got.Labels, want.Labels) {
			t.Errorf("%s: labels do not lie where they were drawn", name)
		}
	}
}

// Labels by index go where the slices go that were straightened, or between which others were
// missing.
func TestLabelsByIndexFollowRepairs(t *testing.T) {
	for name, c := range map[string]struct {
		tilt    float64 // mm to the front per mm to the head
		missing bool    // the tenth slice
		o       ReadOptions
	}{
		"tilted":         {0.3, false, ReadOptions{Tilt: dicom.TiltResample}},
		"a slice less":   {0, true, ReadOptions{Gaps: dicom.GapsResample}},
		"both":           {-0.3, true, ReadOptions{Gaps: dicom.GapsResample}},
		"nothing to do":  {0, false, ReadOptions{}},
		"tilted, as is":  {0.3, false, ReadOptions{Tilt: dicom.TiltKeep}},
		"as is, resized": {0.3, true, ReadOptions{Tilt: dicom.TiltKeep, Gaps: dicom.GapsResample}},
	} {
		v, l := axial(t, 2)
		v.Affine[1][2] = c.tilt * v.Spacing()[2]
		root := t.TempDir()
		series := filepath.Join(root, "PANCREAS_0001")
		numbers := make([]int, v.Shape[2])
		for k := range numbers {
			numbers[k] = k*7%len(numbers) + 1
		}
		writeStudy(t, series, "1.2.1", "1.2.9", 1, "CT", v, numbers)
		area := l.Shape[0] * l.Shape[1]
		stored := &volume.LabelMap{Grid: volume.Grid{Shape: l.Shape, Affine: volume.Scaling(l.Spacing())},
			Labels: make([]uint16, l.Len())}
		for k, number := range numbers {
			copy(stored.Labels[(number-1)*area:][:area], l.Labels[k*area:])
		}
		const tenth = 9
		if c.missing {
			all, _, err := dicom.Scan(series)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.Remove(all[0].Files[tenth]); err != nil {
				t.Fatal(err)
			}
			stored.Labels = slices.Delete(stored.Labels, (numbers[tenth]-1)*area, numbers[tenth]*area)
			stored.Shape[2]--
		}
		if err := nifti.WriteLabels(filepath.Join(root, "label0001.nii.gz"), stored); err != nil {
			t.Fatal(err)
		}
		d := detect(t, root)
		scan, got, _, err := d.Cases[0].Read(c.o, nil)
		if err != nil || !got.Same(scan.Grid, 1e-9) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		// What was drawn at a place in the patient is there, but for half a pixel that slices are
		// moved in their plane.
		there, here := 0, 0
		for n, label := range l.Labels {
			if label == 0 || c.missing && n/area == tenth {
				continue
			}
			there++
			p, err := got.Voxel((volume.Grid{Shape: l.Shape,
				Affine: v.Affine}).World([3]float64{float64(n % l.Shape[0]), float64(n % area / l.Shape[0]),
				float64(n / area)}))
			if err != nil {
				t.Fatal(err)
			}
			if got.At(int(math.Round(p[0])), int(math.Round(p[1])), int(math.Round(p[2]))) == label {
				here++
			}
		}
		if there == 0 || here < there*98/100 {
			t.Errorf("%s: %d of %d voxels are where they were drawn", name, here, there)
		}
	}
}

func TestTreeOfSeries(t *testing.T) {
	root := t.TempDir()
	a, l := axial(t, 1)
	b, _ := axial(t, 2)
	writeSeries(t, filepath.Join(root, "one", "CT"), "1.2.1", a, false)
	writeSeries(t, filepath.Join(root, "two"), "1.2.2", a, false)
	writeSeries(t, filepath.Join(root, "two"), "1.2.3", b, false)
	if err := errors.Join(nifti.WriteLabels(filepath.Join(root, "one_seg.nii.gz"), l),
		nifti.Write(filepath.Join(root, "three.nii"), b),
		os.WriteFile(filepath.Join(root, "readme.txt"), []byte("text"), 0o666)); err != nil {
		t.Fatal(err)
	}
	d := detect(t, root)
	if got, want := list(d), []string{"one one/CT one_seg.nii.gz", "three three.nii", "two_s1 two",
		"two_s1_b two"}; !slices.Equal(got, want) {
		t.Fatalf("%q, want %q", got, want)
	}
	dir := t.TempDir()
	if _, err := Prepare(t.Context(), d, dir, volume.DefaultPreparation(), PrepareOptions{}, nil); err != nil {
		t.Fatal(err)
	}
	cache, err := prepared.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer cache.Close()
	want := map[string]*volume.Volume{"one": a, "two_s1": a, "two_s1_b": b, "three": b}
	for info := range cache.Records() {
		p, err := cache.Preparation().Apply(want[info.ID], info.Part())
		if err != nil {
			t.Fatal(err)
		}
		c, err := cache.Open(info.ID)
		if err != nil {
			t.Fatal(err)
		}
		v, err := c.Volume()
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(v.Int16, p.Int16) || !c.Same(p.Grid, 1e-3) || info.HasLabels != (info.ID == "one") {
			t.Errorf("%s is not the scan that was written", info.ID)
		}
	}
	// A folder alone, as predict is given one.
	v, notes, err := ReadImage(filepath.Join(root, "one"), DefaultReadOptions())
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	if v, err = v.Orient("LPS"); err != nil || !slices.Equal(v.Int16, a.Int16) {
		t.Errorf("%v", err)
	}
	if _, notes, err = ReadImage(filepath.Join(root, "two"), DefaultReadOptions()); err != nil || len(notes) != 1 {
		t.Errorf("a choice of two: %q, %v", notes, err)
	}
	for _, path := range []string{"readme.txt", "nothing"} {
		if _, _, err := ReadImage(filepath.Join(root, path), DefaultReadOptions()); err == nil {
			t.Errorf("%s is read as a scan", path)
		}
	}
}

// A real trunk at 3 mm, written as TCIA wrote Pancreas-CT: the label file's rows run against what
// its header says.
func TestNIHLayoutFromARealScan(t *testing.T) {
	data := os.Getenv("VOXSAW_DATA")
	if data == "" {
		t.Skip("VOXSAW_DATA is unset: real data is not looked at")
	}
	v, _, err := ReadImage(filepath.Join(data, "totalsegmentator", "ct.nii.gz"), DefaultReadOptions())
	if err != nil {
		t.Fatal(err)
	}
	organs, err := nifti.ReadLabels(filepath.Join(data, "totalsegmentator", "ct_seg.nii.gz"))
	if err != nil {
		t.Fatal(err)
	}
	p := volume.DefaultPreparation()
	p.Relabel = "7:1,*:0" // the pancreas
	p.Axcodes = "LPS"
	l, err := p.ApplyLabels(organs, v.Whole())
	if err != nil {
		t.Fatal(err)
	}
	if v, err = v.Orient("LPS"); err != nil {
		t.Fatal(err)
	}
	for n, hu := range v.Int16 { // what a scanner stores
		v.Int16[n] = max(hu, -1024)
	}

	root := t.TempDir()
	writeSeries(t, filepath.Join(root, "PANCREAS_0007", "study", "series"), "1.2.7", v, false)
	file := filepath.Join(root, "labels", "label0007.nii.gz")
	if err := os.Mkdir(filepath.Dir(file), 0o777); err != nil {
		t.Fatal(err)
	}
	// As an array the label is the stack of slices; its header claims that rows run to the front.
	claimed := l.Grid
	claimed.Affine[1][1], claimed.Affine[1][3] = -l.Affine[1][1], l.Affine[1][3]+float64(l.Shape[1]-1)*l.Affine[1][1]
	write := func(flip string) {
		t.Helper()
		if err := nifti.WriteLabels(file, flipLabels(&volume.LabelMap{Grid: claimed, Labels: l.Labels},
			flip)); err != nil {
			t.Fatal(err)
		}
	}
	write("")
	d := detect(t, root)
	scan, got, notes, err := d.Cases[0].Read(DefaultReadOptions(), d.LabelNames)
	if err != nil || len(notes) > 0 {
		t.Fatal(notes, err)
	}
	if !slices.Equal(got.Labels, l.Labels) || !got.Same(v.Grid, 1e-2) || !slices.Equal(scan.Int16, v.Int16) {
		t.Error("the scan and its labels do not come back")
	}
	// By the headers they would lie elsewhere in the body, though in the same box.
	byHeader := d.Cases[0]
	byHeader.ByIndex = false
	if _, wrong, _, err := byHeader.Read(DefaultReadOptions(), nil); err == nil {
		prepared, err := volume.DefaultPreparation().ApplyLabels(wrong, scan.Whole())
		if err != nil {
			t.Fatal(err)
		}
		right, err := volume.DefaultPreparation().ApplyLabels(got, scan.Whole())
		if err != nil {
			t.Fatal(err)
		}
		if slices.Equal(prepared.Labels, right.Labels) {
			t.Error("the headers agree: the test shows nothing")
		}
	}
	for _, flip := range []string{"i", "j", "ij", "k", "ik", "jk", "ijk"} {
		write(flip)
		if _, _, _, err := d.Cases[0].Read(DefaultReadOptions(), nil); err == nil ||
			!strings.Contains(err.Error(), "along "+flip+",") {
			t.Errorf("labels flipped along %s: %v", flip, err)
		}
	}

	// Slices that were numbered in another order than they lie in.
	numbers := make([]int, l.Shape[2])
	for k := range numbers {
		numbers[k] = k/2 + k%2*((len(numbers)+1)/2) + 1
	}
	writeStudy(t, filepath.Join(root, "PANCREAS_0008"), "1.2.8", "1.2.9", 1, "CT", v, numbers)
	stored := &volume.LabelMap{Grid: claimed, Labels: make([]uint16, l.Len())}
	area := l.Shape[0] * l.Shape[1]
	for k, number := range numbers {
		copy(stored.Labels[(number-1)*area:][:area], l.Labels[k*area:])
	}
	if err := nifti.WriteLabels(filepath.Join(root, "labels", "label0008.nii.gz"), stored); err != nil {
		t.Fatal(err)
	}
	if _, got, notes, err = detect(t, root).Cases[1].Read(DefaultReadOptions(), nil); err != nil || len(notes) > 0 ||
		!slices.Equal(got.Labels, l.Labels) {
		t.Errorf("slices in another order than their numbers: %q, %v", notes, err)
	}
}
