package itk

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file reads the headers of NRRD files: https://teem.sourceforge.net/nrrd/format.html

// nrrdTypes are numpy's names of the types, by those of NRRD.
var nrrdTypes = map[string]string{
	"signed char": "int8", "int8": "int8", "int8_t": "int8", "uchar": "uint8", "unsigned char": "uint8",
	"uint8": "uint8", "uint8_t": "uint8",
	"short": "int16", "short int": "int16", "signed short": "int16", "signed short int": "int16", "int16": "int16",
	"int16_t": "int16",
	"ushort":  "uint16", "unsigned short": "uint16", "unsigned short int": "uint16", "uint16": "uint16",
	"uint16_t": "uint16",
	"int":      "int32", "signed int": "int32", "int32": "int32", "int32_t": "int32", "uint": "uint32",
	"unsigned int": "uint32", "uint32": "uint32", "uint32_t": "uint32",
	"longlong": "int64", "long long": "int64", "long long int": "int64", "signed long long": "int64",
	"signed long long int": "int64", "int64": "int64", "int64_t": "int64",
	"ulonglong": "uint64", "unsigned long long": "uint64", "unsigned long long int": "uint64", "uint64": "uint64",
	"uint64_t": "uint64",
	"float":    "float32", "double": "float64",
}

// nrrdSpaces are the signs that turn the axes of a space to RAS.
var nrrdSpaces = map[string][3]float64{
	"left-posterior-superior": lps, "lps": lps, "right-anterior-superior": {1, 1, 1}, "ras": {1, 1, 1},
	"left-anterior-superior": {-1, 1, 1}, "las": {-1, 1, 1},
}

// readNRRD reads a header up to the empty line that ends it, or to the end of the file.
func (h *Header) readNRRD(r *lines) error {
	fields, pairs := map[string]string{}, map[string]string{}
	ended := false // by its empty line
	for {
		line, err := r.next()
		if ended = line == "" && err == nil; ended {
			break
		}
		if r.read >= maxHeader {
			return h.damaged("has a header of more than %d bytes", maxHeader)
		}
		if key, value, found := strings.Cut(line, ":="); found && !strings.Contains(key, ": ") {
			if err := h.set(pairs, key, value); err != nil && segmentKey.MatchString(key) {
				return err
			}
		} else if key, value, found := strings.Cut(line, ": "); found && !strings.HasPrefix(line, "#") {
			key = strings.ReplaceAll(strings.ToLower(key), " ", "")
			if err := h.set(fields, key, strings.TrimSpace(value)); err != nil {
				return err
			}
		}
		if err != nil {
			break
		}
	}
	var err error
	if h.Dims, err = extents(fields["sizes"]); err != nil || strconv.Itoa(len(h.Dims)) != fields["dimension"] {
		return h.damaged("its sizes %q are not those of %q dimensions", fields["sizes"], fields["dimension"])
	}
	if !ended && fields["datafile"] == "" {
		return h.damaged("its header has no end: no empty line divides it from the voxels")
	}
	if err := h.nrrdData(fields, r.read); err != nil {
		return err
	}
	if err := h.nrrdAxes(fields); err != nil {
		return err
	}
	return h.nrrdSegments(pairs)
}

// nrrdData reads how the values are stored, and where.
func (h *Header) nrrdData(fields map[string]string, end int64) (err error) {
	known := false
	if h.kind, known = types[nrrdTypes[strings.ToLower(fields["type"])]]; !known {
		return h.unsupported("values of type %q are not read", fields["type"])
	}
	h.Datatype = h.kind.name
	if strings.EqualFold(fields["endian"], "big") {
		h.order = binary.BigEndian
	}
	switch encoding := fields["encoding"]; {
	case oneOf(encoding, "raw"):
	case oneOf(encoding, "gzip", "gz"):
		h.compression = "gzip"
	default:
		return h.unsupported("its encoding is %q: raw and gzip are read", encoding)
	}
	h.offset, h.header = end, end
	if name := fields["datafile"]; name != "" {
		if strings.HasPrefix(name, "LIST") || strings.Contains(name, "%") {
			return h.unsupported("its voxels lie in several files")
		}
		if h.data, err = h.beside(name); err != nil {
			return err
		}
		h.offset, h.header = 0, 0
	}
	if skip := fields["lineskip"]; skip != "" && skip != "0" {
		return h.unsupported("it skips %s lines before its voxels", skip)
	}
	if text := fields["byteskip"]; text != "" {
		skip, err := strconv.ParseInt(text, 10, 64)
		if err != nil || skip < -1 || skip != 0 && h.compression != "" {
			return h.unsupported("it skips %q bytes before its voxels", text)
		}
		if skip > math.MaxInt64-h.offset {
			return h.damaged("it skips %d bytes before its voxels, more than any file has", skip)
		}
		if h.offset += skip; skip == -1 {
			h.offset = -1
		}
	}
	return nil
}

// nrrdAxes makes the grid of the three axes of space; a fourth axis, first or last, is volumes.
func (h *Header) nrrdAxes(fields map[string]string) error {
	signs, known := nrrdSpaces[strings.ToLower(fields["space"])]
	size := 3
	switch {
	case known || fields["spacedirections"] == "":
	case fields["space"] == "" && oneOf(fields["spacedimension"], "3", "4"):
		// as ITK writes volumes of four axes
		size, _ = strconv.Atoi(fields["spacedimension"])
	default:
		return h.unsupported("its space is %q: left-posterior-superior, "+
			"right-anterior-superior and left-anterior-superior are read", fields["space"])
	}
	if !known {
		signs = lps
		h.Problems = append(h.Problems,
			"does not say where its axes go: they are taken for those of DICOM, "+
				"to the left, to the back and to the head")
	}
	space, err := h.nrrdDirections(fields, size)
	if err != nil {
		return err
	}
	var directions [3][3]float64
	found, other := 0, -1
	for n, v := range space {
		switch {
		case n >= len(h.Dims):
			return h.damaged("has %d axes and %d directions", len(h.Dims), len(space))
		case v == nil && other < 0:
			other = n
		case v == nil || found == 3:
			return h.unsupported("has %d axes: three of space and one more are read", len(h.Dims))
		default:
			directions[found], h.Shape[found] = [3]float64(v), h.Dims[n]
			found++
		}
	}
	if found != 3 || len(space) != len(h.Dims) || other > 0 && other < 3 {
		return h.unsupported("its axes %v are not three of space, and perhaps one before or behind them", h.Dims)
	}
	if other >= 0 {
		h.Volumes, h.first = h.Dims[other], other == 0
	}
	var origin [3]float64
	if text := fields["spaceorigin"]; text != "" {
		v, err := floats(strings.ReplaceAll(strings.Trim(text, "() "), ",", " "), size)
		if err != nil {
			return h.damaged("its space origin is %q", text)
		}
		origin = [3]float64(v[:3])
	}
	h.setAxes(directions, origin, signs)
	return nil
}

// nrrdDirections lists the direction of each axis, nil for those that are none of space: such as
// the fourth of a space of four.
func (h *Header) nrrdDirections(fields map[string]string, size int) (space [][]float64, err error) {
	text := fields["spacedirections"]
	for _, word := range vectors(text) {
		v, err := floats(strings.ReplaceAll(strings.Trim(word, "()"), ",", " "), size)
		switch {
		case err == nil && size == 4 && v[0] == 0 && v[1] == 0 && v[2] == 0:
			v = nil
		case err == nil:
			v = v[:3]
		case !oneOf(word, "none"):
			return nil, h.damaged("its space directions are %q", text)
		}
		space = append(space, v)
	}
	if text != "" {
		return space, nil
	}
	for n, word := range strings.Fields(fields["spacings"]) {
		var v []float64
		x, err := strconv.ParseFloat(word, 64)
		if axis := n - max(len(h.Dims)-3, 0); err == nil && !math.IsNaN(x) && axis >= 0 && axis < 3 {
			v = make([]float64, 3)
			v[axis] = x
		}
		space = append(space, v)
	}
	if space == nil && len(h.Dims) == 3 {
		h.Problems = append(h.Problems, "says nothing of the size of its voxels: 1 mm is taken")
		space = [][]float64{{1, 0, 0}, {0, 1, 0}, {0, 0, 1}}
	}
	return space, nil
}

// vectors divides a list such as "none (1,0,0) (0, 1, 0)" into its parts.
func vectors(text string) (parts []string) {
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		end := strings.IndexByte(text, ' ')
		if text[0] == '(' {
			end = strings.IndexByte(text, ')') + 1
		}
		if end <= 0 {
			end = len(text)
		}
		parts, text = append(parts, text[:end]), text[end:]
	}
	return parts
}

// segmentKey is the key of a pair about a segment: its number, and what of it.
var segmentKey = regexp.MustCompile(`^Segment(\d{1,9})_(Name|LabelValue|Layer|ID)$`)

// nrrdSegments reads what 3D Slicer says of the segments of a segmentation. Slicer before 5.0 gave
// each a volume of its own, and no value.
// https://apidocs.slicer.org/main/vtkMRMLSegmentationStorageNode_8h_source.html
func (h *Header) nrrdSegments(pairs map[string]string) error {
	said := map[int]map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		m := segmentKey.FindStringSubmatch(key)
		if m == nil {
			continue
		}
		number, _ := strconv.Atoi(m[1])
		if said[number] == nil {
			said[number] = map[string]string{}
		}
		said[number][m[2]] = strings.TrimSpace(pairs[key])
	}
	valued := false
	for _, s := range said {
		valued = valued || s["LabelValue"] != ""
	}
	type place struct {
		layer int
		value uint16
	}
	first, values := map[place]string{}, map[uint16]bool{}
	for _, number := range slices.Sorted(maps.Keys(said)) {
		s := said[number]
		if valued && s["LabelValue"] == "" {
			continue // it says nothing of its voxels
		}
		segment := Segment{Name: s["Name"], Value: 1, Label: uint16(len(h.Segments) + 1)}
		if h.Volumes > 1 {
			segment.Layer = len(h.Segments)
		}
		called := strconv.Quote(cmp.Or(segment.Name, s["ID"], fmt.Sprintf("Segment%d", number)))
		if text := s["LabelValue"]; text != "" {
			value, err := strconv.ParseUint(text, 10, 16)
			if err != nil || value == 0 {
				return h.damaged("its segment %s has the LabelValue %q, which must be a whole number from 1 to 65535",
					called, text)
			}
			segment.Value = uint16(value)
		}
		if text := s["Layer"]; text != "" {
			layer, err := strconv.Atoi(text)
			if err != nil {
				return h.damaged("its segment %s has the Layer %q, which must be a whole number", called, text)
			}
			segment.Layer = layer
		}
		if segment.Layer < 0 || segment.Layer >= h.Volumes {
			return h.damaged("its segment %s lies in layer %d, and it holds layers 0 to %d",
				called, segment.Layer, h.Volumes-1)
		}
		at := place{segment.Layer, segment.Value}
		if other := first[at]; other != "" {
			return h.damaged("its segments %s and %s are both the value %d of layer %d: which voxels are whose?",
				other, called, at.value, at.layer)
		}
		first[at], values[segment.Value] = called, true
		if h.Segments = append(h.Segments, segment); len(h.Segments) > math.MaxUint16 {
			return h.damaged("it has more than %d segments", math.MaxUint16)
		}
	}
	for n := range h.Segments {
		s := &h.Segments[n]
		if len(values) == len(h.Segments) { // each value is of one segment
			s.Label = s.Value
		}
		if s.Name != "" {
			if h.Names == nil {
				h.Names = map[uint16]string{}
			}
			h.Names[s.Label] = s.Name
		}
	}
	return nil
}
