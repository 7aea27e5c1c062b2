package nifti

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"sync/atomic"

	gonii "github.com/okieraised/gonii/pkg/nifti"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume"
)

// Header says what a file holds.
type Header struct {
	volume.Grid             // of one volume
	Path        string      // of the header, as it was given
	Version     int         // 1 or 2
	Dims        []int       // as nibabel's shape: all extents, those of time and the like included
	Volumes     int         // how many the file holds
	Datatype    string      // numpy's name: int16, uint8, float32, ...
	Slope       float64     // a voxel's value is Slope * stored + Intercept
	Intercept   float64     //
	AffineFrom  string      // "sform", "qform" or "voxel sizes"
	Extensions  []Extension // of the header
	Problems    []string    // what is odd, though the file can be read
	image       string      // path of the file with the voxels
	offset      int64       // of the first voxel in it
	datatype    int32       // NIfTI's code
	size        int         // bytes a voxel
	// bytes behind the voxels of a compressed file, once it has been read; nil: nobody has looked
	behind *atomic.Int64
	order  byteOrder // of header and voxels
	// both forms as they stand; nil where they were repaired
	placing *placing
	// the voxel sizes, as ITK repairs them
	pixdim [3]float64
}

// Extension is a piece of a header that other programs have put there.
type Extension struct {
	Code int32  // who: 2 DICOM, 4 AFNI, 6 comment, ...
	Data []byte // padded with zeros, as it lies in the file
}

// maxExtensions bounds the bytes of a header's extensions that are read.
const maxExtensions = 16 << 20

type byteOrder interface {
	binary.ByteOrder
	String() string
}

// datatypes that are read: NIfTI's code, numpy's name, bytes.
var datatypes = map[int32]struct {
	name string
	size int
}{
	gonii.DT_UINT8: {"uint8", 1}, gonii.DT_INT8: {"int8", 1}, gonii.DT_UINT16: {"uint16", 2},
	gonii.DT_INT16:  {"int16", 2},
	gonii.DT_UINT32: {"uint32", 4}, gonii.DT_INT32: {"int32", 4}, gonii.DT_UINT64: {"uint64", 8},
	gonii.DT_INT64:   {"int64", 8},
	gonii.DT_FLOAT32: {"float32", 4}, gonii.DT_FLOAT64: {"float64", 8},
}

// refused datatypes: correct, but no scans.
var refused = map[int32]string{
	gonii.DT_BINARY: "single bits", gonii.DT_COMPLEX64: "complex numbers", gonii.DT_COMPLEX128: "complex numbers",
	gonii.DT_COMPLEX256: "complex numbers", gonii.DT_FLOAT128: "128-bit floats", gonii.DT_RGB24: "colours (RGB)",
	gonii.DT_RGBA32: "colours (RGBA)",
}

// ReadHeader reads a file's header and checks it, against the file's length too where that tells
// something. Errors are those of [Read].
func ReadHeader(path string) (*Header, error) {
	header, image, err := pair(path)
	if err != nil {
		return nil, err
	}
	raw, size, err := head(header, gonii.NII2HeaderSize)
	if err != nil {
		return nil, err
	}
	h, err := parse(raw, header, image)
	if err != nil {
		return nil, err
	}
	h.behind = new(atomic.Int64)
	if h.image != header {
		if _, size, err = head(h.image, 2); err != nil {
			return nil, err
		}
	}
	if err := h.readExtensions(header); err != nil {
		return nil, err
	}
	// the product may be too large for int64
	room := size.bytes - h.offset
	if h.bytes() > room || int64(h.Volumes) > room/h.bytes() {
		return nil, &volume.FormatError{Path: h.image,
			Problem: fmt.Sprintf("is truncated or its header is wrong: %v voxels of %s need "+
				"%.0f bytes, the file can hold %d at most",
				numbers.Extents(h.Dims), h.Datatype, float64(h.offset)+float64(h.bytes())*float64(h.Volumes),
				size.bytes)}
	}
	if more := room - h.bytes()*int64(h.Volumes); size.exact && more > 0 {
		h.problem("%s", h.unread(more))
	}
	return h, nil
}

// readExtensions reads what lies between the header and the voxels, if the header says so. What is
// damaged there does not matter: it is left out.
func (h *Header) readExtensions(path string) error {
	size := map[int]int{1: gonii.NII1HeaderSize, 2: gonii.NII2HeaderSize}[h.Version]
	end := int64(maxExtensions)
	if path == h.image {
		end = min(h.offset, end)
	}
	if end < int64(size+4+16) {
		return nil
	}
	flags, _, err := head(path, size+4)
	if err != nil || len(flags) < size+4 || flags[size] == 0 {
		return err
	}
	raw, _, err := head(path, int(end))
	if err != nil {
		return err
	}
	for raw = raw[size+4:]; len(raw) >= 16; {
		length := int64(h.order.Uint32(raw))
		if length < 16 || length%16 != 0 || length > int64(len(raw)) {
			return nil
		}
		h.Extensions = append(h.Extensions, Extension{int32(h.order.Uint32(raw[4:])), raw[8:length:length]})
		raw = raw[length:]
	}
	return nil
}

// bytes that the voxels of one volume take in the file.
func (h *Header) bytes() int64 { return int64(h.Len()) * int64(h.size) }

// choose turns the user's choice (1 for the first, 0 for none) into the index of the volume.
func (h *Header) choose(k int) (int, error) {
	switch {
	case k == 0 && h.Volumes > 1:
		return 0, &volume.UnsupportedError{Path: h.Path,
			Problem: fmt.Sprintf("holds %d volumes (shape %v): choose one with --volume", h.Volumes,
				numbers.Extents(h.Dims))}
	case k < 0 || k > h.Volumes:
		return 0, &volume.UnsupportedError{Path: h.Path, Problem: fmt.Sprintf("has no volume %d: it holds %d", k,
			h.Volumes)}
	}
	return max(k-1, 0), nil
}

// VoxelBytes is how many bytes a voxel of the scan takes in memory: 2 where the values are whole
// numbers of 16 bits, otherwise 4, also where they only may be larger. Of int16 that is not taken
// to be by an intercept alone, such as a CT's.
func (h *Header) VoxelBytes() int {
	low, high := 0.0, 255.0
	switch h.datatype {
	case gonii.DT_UINT8:
	case gonii.DT_INT8:
		low, high = -128, 127
	case gonii.DT_INT16:
		if h.wholeNumbers() && math.Abs(h.Slope) <= 1 {
			return 2
		}
		return 4
	default:
		return 4
	}
	a, b := h.Slope*low+h.Intercept, h.Slope*high+h.Intercept
	if h.wholeNumbers() && min(a, b) >= math.MinInt16 && max(a, b) <= math.MaxInt16 {
		return 2
	}
	return 4
}

// wholeNumbers says whether every value is one, after scaling.
func (h *Header) wholeNumbers() bool {
	return h.datatype != gonii.DT_FLOAT32 && h.datatype != gonii.DT_FLOAT64 &&
		h.Slope == math.Trunc(h.Slope) && h.Intercept == math.Trunc(h.Intercept)
}

// sheared says whether the axes miss right angles by more than what float32 does to them.
func (h *Header) sheared() bool { return h.Affine.Shear() > 1e-3 }

// shear describes it.
func (h *Header) shear() string {
	return fmt.Sprintf("the axes are sheared: two of them are %.2f degrees apart",
		math.Acos(h.Affine.Shear())*180/math.Pi)
}

// fields are those of both versions that matter here.
type fields struct {
	magic            string
	bare             bool // a magic string of NIfTI-2 without the line ends behind it
	datatype, bitpix int32
	dim              [8]int64
	pixdim           [8]float64
	offset           float64
	slope, inter     float64
	qform, sform     int32
	quaternion       [3]float64
	qoffset          [3]float64
	srow             [3][4]float64
	units            int32
	epsilon          float64 // of the numbers of the quaternion
}

// parse reads the bytes of a header. Image is the other half of the pair, or the header's own path.
func parse(raw []byte, path, image string) (*Header, error) {
	bad := func(format string, args ...any) error {
		return &volume.FormatError{Path: path, Problem: fmt.Sprintf(format, args...)}
	}
	if len(raw) == 0 {
		return nil, bad("is empty")
	}
	if len(raw) < 4 {
		return nil, bad("is too short for a NIfTI file: %d bytes", len(raw))
	}
	h := &Header{Path: path, image: image}
	if err := h.recognise(raw); err != nil {
		return nil, err
	}
	var f fields
	var err error
	if h.Version == 1 {
		f, err = parse1(raw, h.order)
	} else {
		f, err = parse2(raw, h.order)
	}
	if err != nil {
		return nil, bad("is truncated: its header has %d bytes", len(raw))
	}
	want := map[string]bool{fmt.Sprintf("n+%d", h.Version): true, fmt.Sprintf("ni%d", h.Version): true}
	least := int64(0) // of the offset, in a single file: the header and the flags of its extensions
	if image == path {
		least = map[int]int64{1: gonii.NII1HeaderSize + 4, 2: gonii.NII2HeaderSize + 4}[h.Version]
	}
	switch {
	case h.Version == 1 && strings.Trim(f.magic, "\x00") == "":
		return nil, &volume.UnsupportedError{Path: path,
			Problem: "is in the Analyze 7.5 format, the forerunner of NIfTI, which does " +
				"not say how the patient lies: convert it"}
	case !want[f.magic]:
		return nil, bad("has the magic string %q, which is not NIfTI-%d's", f.magic, h.Version)
	case f.magic[1] == 'i' && image == path && !(f.offset >= float64(least)):
		return nil, bad("is the header of a pair (magic %q), but there is no image file to it", f.magic)
	case f.magic[1] == 'i' && image == path:
		h.problem("the magic string %q is that of a pair, but the voxels are here", f.magic)
	case f.magic[1] == '+' && image != path:
		return nil, bad("says that it is a single file (magic %q), but has the name of a pair's header", f.magic)
	}

	if f.bare {
		h.problem("the magic string has zeros where line ends belong: ignored")
	}

	if f.dim[0] < 1 || f.dim[0] > 7 {
		return nil, bad("has %d dimensions: dim[0] must be 1 to 7", f.dim[0])
	}
	h.Shape, h.Volumes = [3]int{1, 1, 1}, 1
	for a := 1; a <= int(f.dim[0]); a++ {
		n := f.dim[a]
		if n == 0 && a >= 3 {
			h.problem("the extent in dimension %d is 0: taken for 1, as by the NIfTI library of FSL and ITK", a)
			n, f.dim[a] = 1, 1
		}
		if n < 1 || n > volume.MaxVoxels {
			return nil, bad("has an extent of %d in dimension %d", n, a)
		}
		h.Dims = append(h.Dims, int(n))
		if a <= 3 {
			h.Shape[a-1] = int(n)
		} else if int64(h.Volumes) > volume.MaxVoxels/n {
			return nil, bad("has absurd extents: %v", f.dim[1:])
		} else {
			h.Volumes *= int(n)
		}
	}

	h.datatype = f.datatype
	if what, ok := refused[h.datatype]; ok {
		return nil, &volume.UnsupportedError{Path: path, Problem: "holds " + what + " (NIfTI data type " +
			fmt.Sprint(h.datatype) + "), not a scan"}
	}
	t, ok := datatypes[h.datatype]
	if !ok {
		return nil, bad("has the data type %d, which NIfTI does not know", h.datatype)
	}
	h.Datatype, h.size = t.name, t.size
	if f.bitpix != int32(8*h.size) {
		h.problem("bitpix is %d, %s has %d: ignored", f.bitpix, h.Datatype, 8*h.size)
	}

	if f.offset == 0 && least > 0 {
		h.problem("vox_offset is 0: the voxels are taken from behind the header")
		f.offset = float64(least)
	}
	if !(f.offset >= float64(least) && f.offset < 1<<40) {
		return nil, bad("has its voxels at byte %g (vox_offset), which cannot be", f.offset)
	}
	h.offset = int64(f.offset)
	if f.offset != math.Trunc(f.offset) {
		h.problem("vox_offset is %g: the fraction is ignored", f.offset)
	}

	h.Slope, h.Intercept = f.slope, f.inter
	if math.IsInf(h.Slope, 0) {
		h.problem("scl_slope is %+g: values are not scaled", h.Slope)
	}
	if h.Slope == 0 || !numbers.Finite(h.Slope) {
		h.Slope, h.Intercept = 1, 0 // the standard's way, and nibabel's, to say: not scaled
	}
	if !numbers.Finite(h.Intercept) {
		return nil, bad("has the intercept %g (scl_inter)", h.Intercept)
	}

	if err := (volume.Grid{Shape: h.Shape, Affine: volume.Scaling([3]float64{1, 1, 1})}).Check(); err != nil {
		return nil, bad("has absurd extents: %v", err)
	}
	for a, size := range f.pixdim[1:4] {
		if h.pixdim[a] = math.Abs(size); !(h.pixdim[a] > 0) {
			h.pixdim[a] = 1
		}
	}
	asItStands := f
	if f.mend(h); f == asItStands {
		h.placing = &placing{[4]float64(f.pixdim[:4]), f.qform, f.sform, f.quaternion, f.qoffset, f.srow, f.units}
	}
	h.Affine, h.AffineFrom, err = f.affine()
	if err != nil {
		return nil, &volume.FormatError{Path: path, Problem: h.AffineFrom, Err: err}
	}
	if err := h.Grid.Check(); err != nil {
		return nil, &volume.FormatError{Path: path, Problem: h.AffineFrom, Err: err}
	}
	h.describe(f)
	return h, nil
}

// recognise finds out the version and the byte order. Some programs write a wrong length of the
// header; then the magic string and the number of dimensions tell, as they do for nibabel.
func (h *Header) recognise(raw []byte) error {
	bad := func(problem string) error { return &volume.FormatError{Path: h.Path, Problem: problem} }
	magic := ""
	if len(raw) >= gonii.NII1HeaderSize {
		magic = string(raw[gonii.NII1HeaderSize-4 : gonii.NII1HeaderSize])
	}
	is1 := magic == "n+1\x00" || magic == "ni1\x00"
	plausible := func(order byteOrder) bool { n := int16(order.Uint16(raw[40:])); return n >= 1 && n <= 7 }
	for _, order := range []byteOrder{binary.LittleEndian, binary.BigEndian} {
		switch size := order.Uint32(raw); {
		case size == gonii.NII1HeaderSize && (!is1 || plausible(order)):
			h.Version, h.order = 1, order
			return nil
		case size == gonii.NII2HeaderSize && !is1:
			h.Version, h.order = 2, order
			return nil
		}
	}
	if is1 {
		h.Version, h.order = 1, binary.LittleEndian
		if plausible(binary.BigEndian) ||
			!plausible(binary.LittleEndian) && binary.BigEndian.Uint32(raw) == gonii.NII1HeaderSize {
			h.order = binary.BigEndian
		}
		if size := h.order.Uint32(raw); size != gonii.NII1HeaderSize {
			h.problem("sizeof_hdr is %d, not %d: ignored", int32(size), gonii.NII1HeaderSize)
		}
		return nil
	}
	if raw[0] == 0x1f && raw[1] == 0x8b {
		return bad("is compressed twice: decompress it once")
	}
	if len(raw) >= 132 && string(raw[128:132]) == "DICM" {
		return bad("is a DICOM file with the name of a NIfTI file: rename it")
	}
	return bad("is not a NIfTI file")
}

// unread says that a file goes on behind its voxels: often the header has lost a volume or a slice.
func (h *Header) unread(more int64) string {
	what := numbers.Count(int(more), "byte")
	for _, part := range []struct {
		bytes int64
		name  string
	}{{h.bytes(), "volume"}, {h.bytes() / int64(h.Shape[2]), "slice"}} {
		if more%part.bytes == 0 {
			what = numbers.Count(int(more/part.bytes), part.name)
			break
		}
	}
	return fmt.Sprintf("holds %s more than its header says, which other readers pass over, too: not read", what)
}

// Pixdim are the voxel sizes that the header says beside the affine ([volume.Volume]).
func (h *Header) Pixdim() [3]float64 { return h.pixdim }

// Behind says what lies behind the voxels of a compressed file, once they have been read; "" where
// it ends with them. Of a file that is not compressed Problems says so at once.
func (h *Header) Behind() string {
	if more := h.behind.Load(); more > 0 {
		return h.unread(more)
	}
	return ""
}

// problem notes what is odd.
func (h *Header) problem(format string, args ...any) {
	h.Problems = append(h.Problems, fmt.Sprintf(format, args...))
}

// mend repairs the geometry where other readers read it as well, and notes what it does. It follows
// nibabel, and ITK where the sform is no affine: then the qform counts.
func (f *fields) mend(h *Header) {
	const lastCode = 5 // NIFTI_XFORM_TEMPLATE_OTHER
	for _, form := range []struct {
		name string
		code *int32
	}{{"sform", &f.sform}, {"qform", &f.qform}} {
		if *form.code < 0 || *form.code > lastCode {
			h.problem("the %s has the code %d, which NIfTI does not know: taken for none", form.name, *form.code)
			*form.code = 0
		}
	}
	if f.sform != 0 && f.qform != 0 {
		a := volume.Affine{f.srow[0], f.srow[1], f.srow[2], {0, 0, 0, 1}}
		if err := (volume.Grid{Shape: h.Shape, Affine: a}).Check(); err != nil {
			h.problem("the sform counts for nothing, the qform is taken: %v", err)
			f.sform = 0
		}
	}
	if f.sform != 0 {
		return
	}
	for a := 1; a <= 3; a++ {
		switch size := f.pixdim[a]; {
		case size == 0 && a <= int(f.dim[0]):
			h.problem("the voxel size along %c is 0: taken for 1 mm", "ijk"[a-1])
			f.pixdim[a] = 1
		case size < 0:
			h.problem("the voxel size along %c is %.4g mm: taken for positive", "ijk"[a-1], size)
			f.pixdim[a] = -size
		case size == 0:
			f.pixdim[a] = 1
		}
	}
}

// describe notes what is odd about the geometry.
func (h *Header) describe(f fields) {
	if h.AffineFrom == "voxel sizes" {
		h.problem("neither sform nor qform has a code: where the patient's left is, is a guess")
	}
	if unit := f.units & 7; unit == 1 || unit == 3 {
		h.problem("the unit of length is %s: taken for mm, as other readers do",
			map[int32]string{1: "metre", 3: "micrometre"}[unit])
	}
	if h.sheared() {
		h.problem("%s", h.shear())
	}
	if f.sform != 0 && f.qform != 0 {
		if apart := f.formsApart(h.Grid); apart > max(0.1, f.blur(h.Grid)) {
			h.problem("sform and qform lie up to %.2g mm apart: the sform is taken, other readers may take the qform",
				apart)
		}
	}
	sp := h.Spacing()
	for a := range 3 {
		if p := math.Abs(f.pixdim[a+1]); a < int(f.dim[0]) && math.Abs(p-sp[a]) > 1e-2*sp[a] {
			h.problem("pixdim says %.4g mm along %c, the %s %.4g", p, "ijk"[a], h.AffineFrom, sp[a])
		}
	}
}

func parse1(raw []byte, order binary.ByteOrder) (fields, error) {
	var r gonii.Nii1Header
	if err := binary.Read(bytes.NewReader(raw), order, &r); err != nil {
		return fields{}, err
	}
	f := fields{
		magic: strings.TrimRight(string(r.Magic[:]), "\x00"), datatype: int32(uint16(r.Datatype)),
		bitpix: int32(r.Bitpix),
		offset: float64(r.VoxOffset), slope: float64(r.SclSlope), inter: float64(r.SclInter), qform: int32(r.QformCode),
		sform:      int32(r.SformCode),
		quaternion: [3]float64{float64(r.QuaternB), float64(r.QuaternC), float64(r.QuaternD)},
		qoffset:    [3]float64{float64(r.QoffsetX), float64(r.QoffsetY), float64(r.QoffsetZ)},
		units:      int32(r.XyztUnits),
		epsilon:    0x1p-23, // float32
	}
	for n := range 8 {
		f.dim[n], f.pixdim[n] = int64(r.Dim[n]), float64(r.Pixdim[n])
	}
	for n := range 4 {
		f.srow[0][n], f.srow[1][n], f.srow[2][n] = float64(r.SrowX[n]), float64(r.SrowY[n]), float64(r.SrowZ[n])
	}
	return f, nil
}

func parse2(raw []byte, order binary.ByteOrder) (fields, error) {
	var r gonii.Nii2Header
	if err := binary.Read(bytes.NewReader(raw), order, &r); err != nil {
		return fields{}, err
	}
	f := fields{
		magic: strings.TrimRight(string(r.Magic[:4]), "\x00"), datatype: int32(uint16(r.Datatype)),
		bitpix: int32(r.Bitpix), dim: r.Dim, pixdim: r.Pixdim,
		offset: float64(r.VoxOffset), slope: r.SclSlope, inter: r.SclInter, qform: r.QformCode, sform: r.SformCode,
		quaternion: [3]float64{r.QuaternB, r.QuaternC, r.QuaternD}, qoffset: [3]float64{r.QoffsetX, r.QoffsetY,
			r.QoffsetZ},
		srow: [3][4]float64{r.SrowX, r.SrowY, r.SrowZ}, units: r.XyztUnits,
		epsilon: 0x1p-52, // float64
	}
	switch end := string(r.Magic[4:]); end {
	case "\r\n\x1a\n":
	case "\x00\x00\x00\x00": // left out: nothing tells whether the transfer damaged the file
		f.bare = true
	default:
		f.magic += end // damaged by a transfer in text mode
	}
	return f, nil
}

// affine is nibabel's get_best_affine: the sform if it has a code, else the qform, else voxel sizes
// about the centre with x flipped.
func (f *fields) affine() (volume.Affine, string, error) {
	switch {
	case f.sform != 0:
		return volume.Affine{f.srow[0], f.srow[1], f.srow[2], {0, 0, 0, 1}}, "sform", nil
	case f.qform != 0:
		a, err := f.quaternAffine()
		return a, "qform", err
	}
	a := volume.Affine{3: {0, 0, 0, 1}}
	for r := range 3 {
		size, extent := f.pixdim[r+1], float64(max(f.dim[r+1], 1))
		if r >= int(f.dim[0]) {
			size, extent = 1, 1
		}
		if r == 0 {
			size = -size
		}
		a[r][r], a[r][3] = size, -size*(extent-1)/2
	}
	return a, "voxel sizes", nil
}

// formsApart returns how far apart (mm) sform and qform put a corner of the grid, at most.
func (f *fields) formsApart(g volume.Grid) float64 {
	q, err := f.quaternAffine()
	if err != nil {
		return math.Inf(1)
	}
	most := 0.0
	for corner := range 8 {
		var p [3]float64
		for a := range p {
			p[a] = float64(corner >> a & 1 * (g.Shape[a] - 1))
		}
		x, y := g.Affine.Apply(p), q.Apply(p)
		most = max(most, math.Hypot(math.Hypot(x[0]-y[0], x[1]-y[1]), x[2]-y[2]))
	}
	return most
}

// blur returns how far (mm) rounding of the quaternion may move a corner of the grid. It matters
// near half a turn, where a is computed from a small difference.
func (f *fields) blur(g volume.Grid) float64 {
	b, c, d := f.quaternion[0], f.quaternion[1], f.quaternion[2]
	a2 := max(1-b*b-c*c-d*d, 0)
	angle := 2 * (math.Sqrt(a2+3*f.epsilon) - math.Sqrt(max(a2-3*f.epsilon, 0)))
	corners, far := g.Corners(), 0.0
	for _, p := range corners {
		far = max(far, math.Hypot(math.Hypot(p[0]-corners[0][0], p[1]-corners[0][1]), p[2]-corners[0][2]))
	}
	return angle * far
}

// quaternAffine is method 2 of the NIfTI-1 standard: R(a, b, c, d) * diag(pixdim 1, 2, qfac *
// pixdim 3), a = sqrt(1 - b^2 - c^2 - d^2). Near half a turn a is small, and a^2 is mostly
// rounding: below three epsilons of the header's numbers it is 0, as in nibabel.
func (f *fields) quaternAffine() (volume.Affine, error) {
	b, c, d := f.quaternion[0], f.quaternion[1], f.quaternion[2]
	a2 := 1 - b*b - c*c - d*d
	if !(a2 > -1e-6) { // float32 of a unit quaternion
		return volume.Affine{}, fmt.Errorf("quaternion %g, %g, %g is longer than 1", b, c, d)
	}
	var a float64
	if a2 >= 3*f.epsilon {
		a = math.Sqrt(a2)
	}
	// Where a is 0, the rotation is by half a turn, and what rounding has left is scaled away.
	s := 2 / (a*a + b*b + c*c + d*d)
	z := f.pixdim[3]
	if f.pixdim[0] == -1 {
		z = -z
	}
	x, y := f.pixdim[1], f.pixdim[2]
	return volume.Affine{
		{(1 - s*(c*c+d*d)) * x, s * (b*c - a*d) * y, s * (b*d + a*c) * z, f.qoffset[0]},
		{s * (b*c + a*d) * x, (1 - s*(b*b+d*d)) * y, s * (c*d - a*b) * z, f.qoffset[1]},
		{s * (b*d - a*c) * x, s * (c*d + a*b) * y, (1 - s*(b*b+c*c)) * z, f.qoffset[2]},
		{0, 0, 0, 1},
	}, nil
}
