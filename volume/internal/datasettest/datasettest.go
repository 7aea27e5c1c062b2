// Package datasettest makes the scans, labels and DICOM files that the tests of packages dataset
// and prepare find and prepare. Start at [Patient] and [WriteSeries]. It is for tests only, and
// knows neither package.
package datasettest

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
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
)

// Patient makes a small scan with labels of the pancreas.
func Patient(t *testing.T, number uint64) (*volume.Volume, *volume.LabelMap) {
	t.Helper()
	v, l, err := phantom.New(number, phantom.Options{Shape: [3]int{24, 20, 16}})
	if err != nil {
		t.Fatal(err)
	}
	for n, label := range l.Labels {
		if label != phantom.Pancreas {
			l.Labels[n] = 0
		}
	}
	l.Names = nil // as in most files
	return v, l
}

// Tree writes files below a folder: scans where the name ends in .nii or .nii.gz and the text is
// empty, labels where the name says so, both of the patient whose number the name holds; otherwise
// the text.
func Tree(t *testing.T, files map[string]string, read func(name string) (number int, labels bool)) string {
	t.Helper()
	root := t.TempDir()
	for name, text := range files {
		path := filepath.Join(root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if text != "" || !nifti.IsName(path) {
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			continue
		}
		number, labels := read(name)
		v, l := Patient(t, uint64(number))
		var err error
		if labels {
			err = nifti.WriteLabels(path, l)
		} else {
			err = nifti.Write(path, v)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// Likenesses are scans whose values are of many kinds.
func Likenesses(t *testing.T) map[string]*volume.Volume {
	t.Helper()
	ct, _, err := phantom.New(1, phantom.Options{Shape: [3]int{48, 40, 32}})
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	change := func(to func(hu float64) float64) *volume.Volume {
		o := &volume.Volume{Grid: ct.Grid, Float32: make([]float32, ct.Len())}
		for n, hu := range ct.Int16 {
			o.Float32[n] = float32(to(float64(hu)))
		}
		return o
	}
	hot := 0 // voxels so far
	signal := func(hu float64) float64 {
		switch {
		case hu > 200:
			return 60
		case hu > -70:
			return 300 + hu + 20*r.NormFloat64()
		case hu > -500:
			return 700
		}
		return 5 * math.Abs(r.NormFloat64())
	}
	return map[string]*volume.Volume{
		"CT": ct,
		"CT with filler": change(func(hu float64) float64 {
			return map[bool]float64{true: -3024,
				false: hu}[hu < -900]
		}),
		"CT masked with 0": change(func(hu float64) float64 {
			return map[bool]float64{true: 0,
				false: hu}[hu < -300]
		}),
		"CT from 0 up":          change(func(hu float64) float64 { return max(hu, -1024) + 1024 }),
		"CT from 0 up, by 1000": change(func(hu float64) float64 { return max(hu, -1000) + 1000 }),
		"CT in kilo-HU":         change(func(hu float64) float64 { return hu / 1000 }),
		"window from 0 to 255":  change(func(hu float64) float64 { return min(max((hu+160)/400*255, 0), 255) }),
		"MR":                    change(signal),
		"MR with ringing": change(func(hu float64) float64 {
			return signal(hu) - map[bool]float64{true: 90,
				false: 0}[r.IntN(5000) == 0]
		}),
		"MR with much ringing": change(func(hu float64) float64 { return signal(hu) + 20*r.NormFloat64() }),
		"MR of high values":    change(func(hu float64) float64 { return 10*signal(hu) + 200*r.NormFloat64() }),
		"MR, standardised":     change(func(hu float64) float64 { return signal(hu)/150 - 1 }),
		"PET in a tiny unit":   change(func(hu float64) float64 { return max(hu+1000, 0) * 1e-8 }),
		"PET, hot": change(func(hu float64) float64 {
			if hot++; hot == 30000 {
				return 4000
			}
			return max(hu+1000, 0) / 250
		}),
		"phases of -4096 to 4095": change(func(float64) float64 { return float64(r.IntN(8192) - 4096) }),
		"nothing":                 change(func(float64) float64 { return -1000 }),
		"soft tissue and bone, no fat": change(func(hu float64) float64 {
			return 30 + 10*r.NormFloat64() - map[bool]float64{true: 100, false: 0}[r.IntN(200) == 0]
		}),
	}
}

// WriteSeries writes an axial CT as DICOM files: explicit little endian, one slice a file, HU +
// 1024 in unsigned 16 bits. Names say nothing about the order; instance numbers grow from the first
// slice to the last or, descending, the other way.
func WriteSeries(t *testing.T, dir, uid string, v *volume.Volume, descending bool) {
	t.Helper()
	numbers := make([]int, v.Shape[2])
	for k := range numbers {
		numbers[k] = k + 1
	}
	if descending {
		slices.Reverse(numbers)
	}
	WriteStudy(t, dir, uid, uid+".9", 1, "CT", v, numbers)
}

// NoNumber is no InstanceNumber at all.
const NoNumber = -1

// WriteStudy is [WriteSeries] for one series of a study, of a number and a modality, with the
// instance numbers of its slices; nil: [NoNumber].
func WriteStudy(t *testing.T, dir, uid, study string, series int, modality string, v *volume.Volume, instances []int) {
	t.Helper()
	WriteTold(t, dir, uid, study, series, modality, v, instances, "")
}

// WriteTold is [WriteStudy] with more elements in each file.
func WriteTold(t *testing.T, dir, uid, study string, series int, modality string, v *volume.Volume, instances []int,
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
		if instances != nil && instances[k] != NoNumber {
			instance = Element(0x0020, 0x0013, "IS", fmt.Sprint(instances[k]))
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
		meta := Element(0x0002, 0x0002, "UI", "1.2.840.10008.5.1.4.1.1.2") + Element(0x0002, 0x0003, "UI", sop) +
			Element(0x0002, 0x0010, "UI", "1.2.840.10008.1.2.1")
		file := strings.Repeat("\x00", 128) + "DICM" + Element(0x0002, 0x0000, "UL",
			string(binary.LittleEndian.AppendUint32(nil, uint32(len(meta))))) + meta +
			Element(0x0008, 0x0016, "UI", "1.2.840.10008.5.1.4.1.1.2") + Element(0x0008, 0x0018, "UI", sop) +
			Element(0x0008, 0x0060, "CS", modality) +
			Element(0x0010, 0x0010, "PN", "Secret^Patient") + more +
			Element(0x0020, 0x000D, "UI", study) + Element(0x0020, 0x000E, "UI", uid) + Element(0x0020, 0x0011, "IS",
			fmt.Sprint(series)) + instance +
			// one frame of reference for each folder of series
			Element(0x0020, 0x0052, "UI", fmt.Sprint("1.2.52.", crc32.ChecksumIEEE([]byte(filepath.Dir(dir))))) +
			Element(0x0020, 0x0032, "DS", fmt.Sprintf("%.4f\\%.4f\\%.4f", -p[0], -p[1], p[2])) + Element(0x0020, 0x0037,
			"DS",
			fmt.Sprintf(`%.6f\%.6f\%.6f\%.6f\%.6f\%.6f`, -a[0][0]/spacing[0], -a[1][0]/spacing[0], a[2][0]/spacing[0],
				-a[0][1]/spacing[1], -a[1][1]/spacing[1], a[2][1]/spacing[1])) +
			Element(0x0028, 0x0002, "US", number(1)) + Element(0x0028, 0x0004, "CS", "MONOCHROME2") +
			Element(0x0028, 0x0010, "US", number(v.Shape[1])) + Element(0x0028, 0x0011, "US", number(v.Shape[0])) +
			Element(0x0028, 0x0030, "DS", fmt.Sprintf("%.5f\\%.5f", spacing[1], spacing[0])) +
			Element(0x0028, 0x0100, "US", number(16)) + Element(0x0028, 0x0101, "US", number(16)) +
			Element(0x0028, 0x0102, "US", number(15)) + Element(0x0028, 0x0103, "US", number(0)) +
			Element(0x0028, 0x1052, "DS", "-1024") + Element(0x0028, 0x1053, "DS", "1") + Element(0x7FE0, 0x0010, "OW",
			string(pixels))
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%08x-%04x.dcm", r.Uint32(), r.Uint32()>>16)),
			[]byte(file), 0o666); err != nil {
			t.Fatal(err)
		}
	}
}

// Element writes one of DICOM's in explicit little endian.
func Element(group, number uint16, representation, value string) string {
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

// Axial makes a patient as a CT scanner writes one: axes LPS, the labels of the pancreas only.
func Axial(t *testing.T, number uint64) (*volume.Volume, *volume.LabelMap) {
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

// WriteSegmentation writes labels as a SEG object that refers to the only series of a folder.
func WriteSegmentation(t *testing.T, path, series string, l *volume.LabelMap) {
	t.Helper()
	all, _, err := dicom.Scan(series)
	if err != nil || len(all) != 1 {
		t.Fatal(len(all), err)
	}
	if l, err = l.Orient(all[0].Axcodes); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), dicom.WriteSegmentation(path, l, all[0],
		dicom.WriteOptions{Algorithm: "test"})); err != nil {
		t.Fatal(err)
	}
}

// Noted reports whether a note holds the text.
func Noted(notes []string, want string) bool {
	return slices.ContainsFunc(notes, func(note string) bool { return strings.Contains(note, want) })
}

// WriteStructureSet writes a case of testdata/dicom_rtstruct.json below a folder: the slices of a
// series, and the structure set, which change (or nil) may edit.
func WriteStructureSet(t *testing.T, folder string, number int, change func(file []byte)) {
	t.Helper()
	var file struct {
		Cases []struct {
			Slices     [][]byte `json:"slices"`
			Structures []byte   `json:"structures"`
		} `json:"cases"`
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "testdata", "dicom_rtstruct.json"))
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		t.Fatal(err)
	}
	write := func(path string, packed []byte, change func(file []byte)) {
		t.Helper()
		z, err := gzip.NewReader(bytes.NewReader(packed))
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(z)
		if err == nil && change != nil {
			change(data)
		}
		if err == nil {
			err = os.MkdirAll(filepath.Dir(path), 0o777)
		}
		if err == nil {
			err = os.WriteFile(path, data, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c := file.Cases[number]
	for k, slice := range c.Slices {
		write(filepath.Join(folder, "ct", fmt.Sprint(k, ".dcm")), slice, nil)
	}
	write(filepath.Join(folder, "rs", "RS.dcm"), c.Structures, change)
}

// Written makes a folder with a scan, a.nii, and label maps by their names.
func Written(t *testing.T, v *volume.Volume, labels map[string]*volume.LabelMap) string {
	t.Helper()
	root := t.TempDir()
	if err := nifti.Write(filepath.Join(root, "a.nii"), v); err != nil {
		t.Fatal(err)
	}
	for name, l := range labels {
		path := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), nifti.WriteLabels(path, l)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// CopyFile copies a file into a folder, which is made.
func CopyFile(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o777), os.WriteFile(to, text, 0o666)); err != nil {
		t.Fatal(err)
	}
}

// FlipLabels turns labels around along the named axes, such as "ij"; the grid stays.
func FlipLabels(l *volume.LabelMap, axes string) *volume.LabelMap {
	flipped := *l
	flipped.Labels = make([]uint16, len(l.Labels))
	for n := range l.Labels {
		at := [3]int{n % l.Shape[0], n / l.Shape[0] % l.Shape[1], n / l.Shape[0] / l.Shape[1]}
		for _, axis := range axes {
			at[axis-'i'] = l.Shape[axis-'i'] - 1 - at[axis-'i']
		}
		flipped.Labels[at[0]+l.Shape[0]*(at[1]+l.Shape[1]*at[2])] = l.Labels[n]
	}
	return &flipped
}
