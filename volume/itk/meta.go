package itk

import (
	"encoding/binary"
	"strconv"
	"strings"
)

// This file reads the headers of MetaImage files:
// https://itk.org/Wiki/ITK/MetaIO/Documentation

// metaTypes are numpy's names of the types, by those of MetaImage.
var metaTypes = map[string]string{
	"MET_CHAR": "int8", "MET_UCHAR": "uint8", "MET_SHORT": "int16", "MET_USHORT": "uint16", "MET_INT": "int32",
	"MET_UINT":      "uint32",
	"MET_LONG_LONG": "int64", "MET_ULONG_LONG": "uint64", "MET_FLOAT": "float32", "MET_DOUBLE": "float64",
}

// readMeta reads a header up to the line that names the file with the voxels.
func (h *Header) readMeta(r *lines) error {
	fields := map[string]string{}
	for fields["elementdatafile"] == "" {
		line, err := r.next()
		key, value, found := strings.Cut(line, "=")
		if !found && strings.TrimSpace(line) != "" || err != nil && line == "" || r.read >= maxHeader {
			return h.damaged("is neither NRRD nor MetaImage: no line of its header names the file with the voxels")
		}
		if found {
			key = strings.ToLower(strings.TrimSpace(key))
			if err := h.set(fields, key, strings.TrimSpace(value)); err != nil {
				return err
			}
		}
	}
	if kind := fields["objecttype"]; kind != "" && !oneOf(kind, "Image") {
		return h.unsupported("holds an object of type %q, no image", kind)
	}
	var err error
	if h.Dims, err = extents(fields["dimsize"]); err != nil || strconv.Itoa(len(h.Dims)) != fields["ndims"] {
		return h.damaged("its DimSize %q is not that of %q dimensions", fields["dimsize"], fields["ndims"])
	}
	if err := h.metaData(fields, r.read); err != nil {
		return err
	}
	return h.metaAxes(fields)
}

// metaData reads how the values are stored, and where.
func (h *Header) metaData(fields map[string]string, end int64) (err error) {
	known := false
	if h.kind, known = types[metaTypes[strings.ToUpper(fields["elementtype"])]]; !known {
		return h.unsupported("values of type %q are not read", fields["elementtype"])
	}
	h.Datatype = h.kind.name
	if oneOf(fields["binarydata"], "False") {
		return h.unsupported("its voxels are text")
	}
	if oneOf(fields["binarydatabyteordermsb"], "True") || oneOf(fields["elementbyteordermsb"], "True") {
		h.order = binary.BigEndian
	}
	if oneOf(fields["compresseddata"], "True") {
		h.compression = "zlib"
	}
	if text := fields["elementnumberofchannels"]; text != "" && text != "1" {
		if h.Volumes, err = strconv.Atoi(text); err != nil {
			return h.damaged("its ElementNumberOfChannels is %q", text)
		}
		h.first = true
	}
	local := oneOf(fields["elementdatafile"], "LOCAL")
	switch name := fields["elementdatafile"]; {
	case local:
		h.offset, h.header = end, end
	case strings.HasPrefix(name, "LIST") || strings.Contains(name, "%"):
		return h.unsupported("its voxels lie in several files")
	default:
		if h.data, err = h.beside(name); err != nil {
			return err
		}
	}
	text := fields["headersize"]
	if text == "" {
		return nil
	}
	size, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil || size < -1 || size == -1 && h.compression != "":
		return h.damaged("its HeaderSize is %q", text)
	case local && size > 0 && size != end:
		return h.damaged("its HeaderSize is %d, but its header has %d bytes", size, end)
	case !local || size < 0:
		h.offset = size
	}
	return nil
}

// metaAxes makes the grid of the first three axes; a fourth is volumes.
func (h *Header) metaAxes(fields map[string]string) error {
	n := len(h.Dims)
	if n != 3 && n != 4 || n == 4 && h.first {
		return h.unsupported("has %d axes: three of space, and perhaps one of volumes behind them, are read", n)
	}
	h.Shape = [3]int(h.Dims[:3])
	if n == 4 {
		h.Volumes = h.Dims[3]
	}
	value := func(want int, otherwise []float64, keys ...string) ([]float64, error) {
		for _, key := range keys {
			if text := fields[key]; text != "" {
				list, err := floats(text, want)
				if err != nil {
					return nil, h.damaged("its %s is %q", key, text)
				}
				return list, nil
			}
		}
		h.Problems = append(h.Problems, "says no "+keys[0]+": the usual is taken")
		return otherwise, nil
	}
	identity := make([]float64, n*n)
	ones := make([]float64, n)
	for axis := range n {
		identity[axis*n+axis], ones[axis] = 1, 1
	}
	matrix, err := value(n*n, identity, "transformmatrix", "rotation", "orientation")
	if err != nil {
		return err
	}
	origin, err := value(n, make([]float64, n), "offset", "position", "origin")
	if err != nil {
		return err
	}
	spacing, err := value(n, ones, "elementspacing", "elementsize")
	if err != nil {
		return err
	}
	var directions [3][3]float64
	for axis := range 3 {
		for row := range 3 {
			directions[axis][row] = spacing[axis] * matrix[axis*n+row]
		}
	}
	h.setAxes(directions, [3]float64(origin[:3]), lps)
	return nil
}
