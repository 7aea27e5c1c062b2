package miniature

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/phantom"
)

// ScanOptions say which scans [Scans] writes.
type ScanOptions struct {
	Cases, Labelled int
	// nnunet, dicom, masks (a file for each organ), nii (not compressed); otherwise NIfTI
	Format  string
	Empty   bool   // labels without foreground
	Moved   bool   // labels on another grid than their scans
	Thick   bool   // the first scan's slices lie twice as far apart
	Around  int    // voxels of air on every side
	Axcodes string // as [volume.Volume.Orient] has them; empty: RAS
	Hostile string // a text that DICOM's tags hold besides their own
	MR      bool   // values as those of MR: from 0 up, and of another scale in each scan
	First   int    // the number before that of the first case
}

// Scans writes scans of made-up patients, 24 x 20 x 16 voxels each.
func Scans(folder string, o ScanOptions) error {
	o.Axcodes = cmp.Or(o.Axcodes, "RAS")
	for _, sub := range []string{"imagesTr", "labelsTr"} {
		if o.Format == "masks" {
			break
		}
		if err := os.MkdirAll(filepath.Join(folder, sub), 0o755); err != nil {
			return err
		}
	}
	for n := o.First; n < o.First+o.Cases; n++ {
		v, l, err := phantom.New(uint64(n+1), phantom.Options{Shape: [3]int{24, 20, 16}})
		if err != nil {
			return err
		}
		l.Names = nil // as in most files
		origin, size := [3]int{-o.Around, -o.Around, -o.Around}, [3]int{24 + 2*o.Around, 20 + 2*o.Around,
			16 + 2*o.Around}
		if v, err = v.Crop(origin, size, -1000); err != nil {
			return err
		}
		if l, err = l.Crop(origin, size); err != nil {
			return err
		}
		if v, err = v.Orient(o.Axcodes); err != nil {
			return err
		}
		if l, err = l.Orient(o.Axcodes); err != nil {
			return err
		}
		modality := volume.ModalityCT
		if o.MR {
			modality = volume.ModalityMR
			asMR(v, 1+0.4*float32(n))
		}
		if o.Thick && n == 0 {
			v.Affine[2][2] *= 2
			l.Affine[2][2] *= 2
		}
		if o.Empty {
			clear(l.Labels)
		}
		if o.Moved {
			l.Affine[2][3] += 100
		}
		id := fmt.Sprintf("case_%d", n+1)
		image := filepath.Join(folder, "imagesTr", id)
		switch o.Format {
		case "masks":
			if err := writeMasks(filepath.Join(folder, id), v, l); err != nil {
				return err
			}
			continue
		case "dicom":
			err = writeSlices(image, v, modality, o.Hostile)
		case "nnunet":
			err = nifti.Write(image+"_0000.nii.gz", v)
		case "nii":
			err = nifti.Write(image+".nii", v)
		default:
			err = nifti.Write(image+".nii.gz", v)
		}
		if err == nil && n < o.Labelled {
			err = nifti.WriteLabels(filepath.Join(folder, "labelsTr", id+".nii.gz"), l)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// asMR makes a signal of HU, whose scale no two scans share: fat is bright, bone is dark, and there
// is none in air.
func asMR(v *volume.Volume, scale float32) {
	for n, hu := range v.Int16 {
		signal := float32(0)
		switch {
		case hu > 200:
			signal = 40
		case hu > -70:
			signal = 250 + float32(hu)
		case hu > -500:
			signal = 520
		}
		v.Int16[n] = int16(scale * signal)
	}
}

// writeMasks writes a scan and a mask for each organ, as TotalSegmentator's data set has them.
func writeMasks(folder string, v *volume.Volume, l *volume.LabelMap) error {
	if err := os.MkdirAll(filepath.Join(folder, "segmentations"), 0o755); err != nil {
		return err
	}
	for label, name := range phantom.Names() {
		mask := &volume.LabelMap{Grid: l.Grid, Labels: make([]uint16, l.Len())}
		for n, at := range l.Labels {
			if at == label {
				mask.Labels[n] = 1
			}
		}
		if err := nifti.WriteLabels(filepath.Join(folder, "segmentations", strings.ReplaceAll(name, " ", "_")+
			".nii.gz"), mask); err != nil {
			return err
		}
	}
	return nifti.Write(filepath.Join(folder, "ct.nii.gz"), v)
}

// writeSlices writes a scan as axial slices of a modality, the least that a DICOM reader needs:
// explicit VR, little endian. A hostile text stands behind those that name and describe the series.
func writeSlices(folder string, v *volume.Volume, modality, hostile string) error {
	v, err := v.Orient("LPS")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	le := binary.LittleEndian
	short := func(x int) string { return string(le.AppendUint16(nil, uint16(x))) }
	decimals := func(x ...float64) string {
		s := make([]string, len(x))
		for i := range x {
			s[i] = fmt.Sprintf("%.9g", x[i])
		}
		return strings.Join(s, `\`)
	}
	spacing, slice := v.Spacing(), v.Shape[0]*v.Shape[1]
	base := filepath.Base(folder)
	series := fmt.Sprintf("1.2.826.0.1.%d", base[len(base)-1]) // one for each case
	for k := range v.Shape[2] {
		corner := v.World([3]float64{0, 0, float64(k)}) // RAS; DICOM has LPS
		var pixels []byte
		for _, hu := range v.Int16[k*slice:][:slice] {
			pixels = le.AppendUint16(pixels, uint16(hu))
		}
		meta := element(0x0002, 0x0002, "UI", ctImage) + element(0x0002, 0x0010, "UI", "1.2.840.10008.1.2.1")
		file := append(make([]byte, 128), "DICM"...)
		file = append(file, element(0x0002, 0x0000, "UL", string(le.AppendUint32(nil, uint32(len(meta)))))...)
		file = append(file, meta...)
		for _, e := range []struct {
			tag       uint32
			vr, value string
		}{
			{0x00080008, "CS", `ORIGINAL\PRIMARY\AXIAL`}, {0x00080016, "UI", ctImage},
			{0x00080018, "UI", fmt.Sprintf("%s.%d", series, k+1)},
			{0x00080060, "CS", modality}, {0x00100010, "PN", "Secret^Name" + hostile},
			{0x0008103E, "LO", "Series" + hostile}, {0x0020000D, "UI", series + ".0" + hostile},
			{0x0020000E, "UI", series + hostile}, {0x00200011, "IS", "1" + hostile},
			{0x00200013, "IS", fmt.Sprint(k + 1)}, {0x00200032, "DS", decimals(-corner[0], -corner[1], corner[2])},
			{0x00200037, "DS", decimals(1, 0, 0, 0, 1, 0)},
			{0x00280002, "US", short(1)}, {0x00280004, "CS", "MONOCHROME2"}, {0x00280010, "US", short(v.Shape[1])},
			{0x00280011, "US", short(v.Shape[0])},
			{0x00280030, "DS", decimals(spacing[1], spacing[0])}, {0x00280100, "US", short(16)},
			{0x00280101, "US", short(16)}, {0x00280102, "US", short(15)},
			{0x00280103, "US", short(1)}, {0x00281052, "DS", "0"}, {0x00281053, "DS", "1"},
			{0x7FE00010, "OW", string(pixels)},
		} {
			file = append(file, element(uint16(e.tag>>16), uint16(e.tag), e.vr, e.value)...)
		}
		if err := os.WriteFile(filepath.Join(folder, fmt.Sprintf("%03d.dcm", k)), file, 0o644); err != nil {
			return err
		}
	}
	return nil
}
