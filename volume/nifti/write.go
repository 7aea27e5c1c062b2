package nifti

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/klauspost/pgzip"
	gonii "github.com/okieraised/gonii/pkg/nifti"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// Write writes a volume as int16 or float32, whichever it holds, without scaling. The path ends in
// .nii, or in .nii.gz to have it compressed. Sform and qform hold the same affine; a sheared one,
// which a qform cannot hold, is in the sform alone. The file appears when it is complete.
func Write(path string, v *volume.Volume) error { return WriteWith(path, v, nil) }

// WriteWith is [Write] with extensions of the header, such as those of the file that the volume
// came from ([Header.Extensions]).
func WriteWith(path string, v *volume.Volume, extensions []Extension) error {
	if err := v.Check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	datatype, fill := voxels(v)
	return write(path, v.Grid, datatype, noIntent, extensions, nil, fill)
}

// Encode writes what [Write] does, uncompressed, to a writer.
func Encode(w io.Writer, v *volume.Volume) error {
	if err := v.Check(); err != nil {
		return err
	}
	datatype, fill := voxels(v)
	return writeTo(w, v.Grid, 1, datatype, noIntent, nil, nil, fill)
}

// voxels is a volume as it lies in a file.
func voxels(v *volume.Volume) (datatype int32, fill func(dst []byte, first int)) {
	if v.Int16 != nil {
		return gonii.DT_INT16, func(dst []byte, first int) {
			for n, x := range v.Int16[first : first+len(dst)/2] {
				binary.LittleEndian.PutUint16(dst[2*n:], uint16(x))
			}
		}
	}
	return gonii.DT_FLOAT32, func(dst []byte, first int) {
		for n, x := range v.Float32[first : first+len(dst)/4] {
			binary.LittleEndian.PutUint32(dst[4*n:], math.Float32bits(x))
		}
	}
}

// WriteLabels writes a label map like [Write], in the smallest type that holds the labels: uint8,
// or uint16 for labels above 255. Their names go into the header ([Header.LabelNames]).
func WriteLabels(path string, l *volume.LabelMap) error {
	return WriteLabelsWith(path, l, nil, nil)
}

// WriteLabelsWith is [WriteLabels] for a label map of a scan, whose header is given or nil, and
// with extensions of the header. Where it lies on the scan's voxels, its qform and sform and their
// codes are the scan's: a program that goes by either of them finds both in one place.
func WriteLabelsWith(path string, l *volume.LabelMap, scan *Header, extensions []Extension) error {
	if err := l.Check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	extensions, err := withNames(l, extensions)
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	datatype, fill := labels(l)
	return write(path, l.Grid, datatype, gonii.NIFTI_INTENT_LABEL, extensions, scan.placed(l.Grid), fill)
}

// EncodeLabels writes a label map like [Encode], without names.
func EncodeLabels(w io.Writer, l *volume.LabelMap) error {
	if err := l.Check(); err != nil {
		return err
	}
	datatype, fill := labels(l)
	return writeTo(w, l.Grid, 1, datatype, gonii.NIFTI_INTENT_LABEL, nil, nil, fill)
}

// labels is a label map as it lies in a file.
func labels(l *volume.LabelMap) (datatype int32, fill func(dst []byte, first int)) {
	if slices.Max(l.Labels) <= math.MaxUint8 {
		return gonii.DT_UINT8, func(dst []byte, first int) {
			for n, x := range l.Labels[first : first+len(dst)] {
				dst[n] = uint8(x)
			}
		}
	}
	return gonii.DT_UINT16, func(dst []byte, first int) {
		for n, x := range l.Labels[first : first+len(dst)/2] {
			binary.LittleEndian.PutUint16(dst[2*n:], x)
		}
	}
}

// WriteChannels writes several volumes on one grid as the volumes of a 4D file, in float32: channel
// c of voxel (i, j, k) is element i + I (j + J (k + K c)). The path ends as [Write] has it; scan
// and extensions are as [WriteLabelsWith] takes them.
func WriteChannels(path string, g volume.Grid, values []float32, scan *Header, extensions []Extension) error {
	if err := g.Check(); err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	channels := len(values) / g.Len()
	if channels < 1 || channels > math.MaxInt16 || channels*g.Len() != len(values) {
		return fmt.Errorf("writing %s: %d values are not volumes of %v voxels", path, len(values),
			numbers.Extents(g.Shape[:]))
	}
	fill := func(dst []byte, first int) {
		for n, x := range values[first : first+len(dst)/4] {
			binary.LittleEndian.PutUint32(dst[4*n:], math.Float32bits(x))
		}
	}
	return writeAll(path, g, channels, gonii.DT_FLOAT32, noIntent, extensions, scan.placed(g), fill)
}

const noIntent int16 = 0 // NIFTI_INTENT_NONE

// write makes the file. Fill puts the voxels from number first on into dst.
func write(path string, g volume.Grid, datatype int32, intent int16, extensions []Extension,
	place *placing, fill func(dst []byte, first int)) error {
	return writeAll(path, g, 1, datatype, intent, extensions, place, fill)
}

// writeAll makes a file of several volumes, or one.
func writeAll(path string, g volume.Grid, volumes int, datatype int32, intent int16, extensions []Extension,
	place *placing, fill func(dst []byte, first int)) error {
	compressed := strings.HasSuffix(path, ".nii.gz")
	if !compressed && !strings.HasSuffix(path, ".nii") {
		return fmt.Errorf("writing %s: the name must end in .nii or .nii.gz", path)
	}
	return atomicfile.Write(path, func(file io.Writer) error {
		b := bufio.NewWriterSize(file, piece)
		if !compressed {
			if err := writeTo(b, g, volumes, datatype, intent, extensions, place, fill); err != nil {
				return err
			}
			return b.Flush()
		}
		// CT is mostly noise: level 6 takes longer and is not a thousandth smaller, level 1 is 5 %
		// larger.
		z, err := pgzip.NewWriterLevel(b, 3)
		if err != nil {
			return err
		}
		err = writeTo(z, g, volumes, datatype, intent, extensions, place, fill)
		// Closed in any case: it compresses in goroutines of its own.
		if closed := z.Close(); err == nil {
			err = closed
		}
		if err != nil {
			return err
		}
		return b.Flush()
	})
}

// writeTo writes the header and the voxels.
func writeTo(w io.Writer, g volume.Grid, volumes int, datatype int32, intent int16, extensions []Extension,
	place *placing, fill func(dst []byte, first int)) error {
	if _, err := w.Write(header(g, volumes, datatype, intent, extensions, place)); err != nil {
		return err
	}
	size := datatypes[datatype].size
	buffer := make([]byte, piece)
	for first := 0; first < volumes*g.Len(); first += piece / size {
		dst := buffer[:min(piece/size, volumes*g.Len()-first)*size]
		fill(dst, first)
		if _, err := w.Write(dst); err != nil {
			return err
		}
	}
	return nil
}

// A placing is what a header says of where voxels lie: both forms, their codes, and the voxel sizes
// and the sign that belong to the qform.
type placing struct {
	pixdim       [4]float64
	qform, sform int32
	quaternion   [3]float64
	qoffset      [3]float64
	srow         [3][4]float64
	units        int32
}

// HeaderOf is the header of a scan to write something beside, for [WriteLabelsWith]; nil where the
// path is no NIfTI file, or none that can be read.
func HeaderOf(path string) *Header {
	if !IsName(path) {
		return nil
	}
	h, err := ReadHeader(path)
	if err != nil {
		return nil
	}
	return h
}

// placed is how a scan is placed, if its header was taken as it stands and the grid is the scan's;
// nil otherwise.
func (h *Header) placed(g volume.Grid) *placing {
	const rounding = 1e-4 // mm
	if h == nil || h.placing == nil || !h.Same(g, rounding) {
		return nil
	}
	return h.placing
}

// placingOf puts the affine of a grid into both forms; a sheared one, which a qform cannot hold, is
// in the sform alone.
func placingOf(g volume.Grid) *placing {
	const scanner = 1 // NIFTI_XFORM_SCANNER_ANAT
	const mm = 2
	s := g.Spacing()
	bcd, qfac := quaternion(g.Affine)
	p := &placing{pixdim: [4]float64{qfac, s[0], s[1], s[2]}, qform: scanner, sform: scanner, quaternion: bcd,
		qoffset: [3]float64{g.Affine[0][3], g.Affine[1][3], g.Affine[2][3]},
		srow:    [3][4]float64{g.Affine[0], g.Affine[1], g.Affine[2]}, units: mm}
	if g.Affine.Shear() > 1e-4 {
		p.qform = 0
	}
	return p
}

// header returns the header, the four bytes that say whether extensions follow, and these: NIfTI-1,
// or NIfTI-2 where an extent needs it. Without a placing, both forms are those of the grid.
func header(g volume.Grid, volumes int, datatype int32, intent int16, extensions []Extension,
	place *placing) []byte {
	if place == nil {
		place = placingOf(g)
	}
	bitpix := int16(8 * datatypes[datatype].size)
	var tail []byte
	for _, e := range extensions {
		length := (8 + len(e.Data) + 15) / 16 * 16
		tail = binary.LittleEndian.AppendUint32(tail, uint32(length))
		tail = binary.LittleEndian.AppendUint32(tail, uint32(e.Code))
		tail = append(append(tail, e.Data...), make([]byte, length-8-len(e.Data))...)
	}
	dimensions := 3
	if volumes > 1 {
		dimensions = 4
	}
	var out bytes.Buffer
	p := place.pixdim
	if max(g.Shape[0], g.Shape[1], g.Shape[2]) > math.MaxInt16 {
		h := gonii.Nii2Header{
			SizeofHdr: gonii.NII2HeaderSize, Magic: gonii.NIFTI_2_MAGIC_SINGLE, Datatype: int16(datatype),
			Bitpix: bitpix,
			Dim: [8]int64{int64(dimensions), int64(g.Shape[0]), int64(g.Shape[1]), int64(g.Shape[2]), int64(volumes),
				1, 1, 1},
			Pixdim:    [8]float64{p[0], p[1], p[2], p[3], 1, 1, 1, 1},
			VoxOffset: int64(gonii.NII2HeaderSize + 4 + len(tail)), SclSlope: 1,
			QformCode: place.qform, SformCode: place.sform, QuaternB: place.quaternion[0],
			QuaternC: place.quaternion[1], QuaternD: place.quaternion[2],
			QoffsetX: place.qoffset[0], QoffsetY: place.qoffset[1], QoffsetZ: place.qoffset[2],
			SrowX: place.srow[0], SrowY: place.srow[1], SrowZ: place.srow[2], XyztUnits: place.units,
			IntentCode: int32(intent),
		}
		copy(h.Descrip[:], "Voxsaw")
		binary.Write(&out, binary.LittleEndian, &h) // into memory: cannot fail
	} else {
		row := func(r [4]float64) [4]float32 {
			return [4]float32{float32(r[0]), float32(r[1]), float32(r[2]), float32(r[3])}
		}
		sizes := row(p)
		h := gonii.Nii1Header{
			SizeofHdr: gonii.NII1HeaderSize, Magic: gonii.NIFTI_1_MAGIC_SINGLE, Datatype: int16(datatype),
			Bitpix: bitpix, Regular: 'r',
			Dim: [8]int16{int16(dimensions), int16(g.Shape[0]), int16(g.Shape[1]), int16(g.Shape[2]), int16(volumes),
				1, 1, 1},
			Pixdim:    [8]float32{sizes[0], sizes[1], sizes[2], sizes[3], 1, 1, 1, 1},
			VoxOffset: float32(gonii.NII1HeaderSize + 4 + len(tail)), SclSlope: 1,
			QformCode: int16(place.qform), SformCode: int16(place.sform), QuaternB: float32(place.quaternion[0]),
			QuaternC: float32(place.quaternion[1]), QuaternD: float32(place.quaternion[2]),
			QoffsetX: float32(place.qoffset[0]), QoffsetY: float32(place.qoffset[1]),
			QoffsetZ: float32(place.qoffset[2]),
			SrowX:    row(place.srow[0]), SrowY: row(place.srow[1]), SrowZ: row(place.srow[2]),
			XyztUnits: uint8(place.units), IntentCode: intent,
		}
		copy(h.Descrip[:], "Voxsaw")
		binary.Write(&out, binary.LittleEndian, &h) // into memory: cannot fail
	}
	out.Write([]byte{byte(min(len(extensions), 1)), 0, 0, 0})
	out.Write(tail)
	return out.Bytes()
}

// quaternion returns b, c, d of the rotation in a, and qfac: -1 where the grid is left-handed and k
// is turned around to make it a rotation.
func quaternion(a volume.Affine) (bcd [3]float64, qfac float64) {
	s := a.Spacing()
	qfac = 1
	if a.Det() < 0 {
		qfac = -1
	}
	var r [3][3]float64
	for w := range 3 {
		r[w] = [3]float64{a[w][0] / s[0], a[w][1] / s[1], qfac * a[w][2] / s[2]}
	}
	// The largest of the four components is taken from the diagonal, the others from it: no
	// division by a small number (Shepperd 1978).
	q := [4]float64{
		1 + r[0][0] + r[1][1] + r[2][2], 1 + r[0][0] - r[1][1] - r[2][2], 1 - r[0][0] + r[1][1] - r[2][2],
		1 - r[0][0] - r[1][1] + r[2][2],
	}
	best := 0
	for n := range q {
		if q[n] > q[best] {
			best = n
		}
	}
	p := math.Sqrt(q[best]) // twice the component
	x, y, z := r[2][1]-r[1][2], r[0][2]-r[2][0], r[1][0]-r[0][1]
	xy, xz, yz := r[0][1]+r[1][0], r[0][2]+r[2][0], r[1][2]+r[2][1]
	w := [4]float64{}
	switch best {
	case 0:
		w = [4]float64{p * p, x, y, z}
	case 1:
		w = [4]float64{x, p * p, xy, xz}
	case 2:
		w = [4]float64{y, xy, p * p, yz}
	case 3:
		w = [4]float64{z, xz, yz, p * p}
	}
	sign := 1.0
	if w[0] < 0 {
		sign = -1
	}
	for n := range bcd {
		bcd[n] = sign * w[n+1] / (2 * p)
	}
	return bcd, qfac
}
