package photo

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"
	"image/draw"
	"image/jpeg"
)

// jpegHeader is what the markers before the first scan say.
type jpegHeader struct {
	frame         byte // the marker that begins it: baseline, progressive and so on
	precision     int  // bits a sample
	width, height int
	components    []byte // of the frame: an identifier, sampling factors and a table each
	scanned       []byte // of a scan: an identifier and tables each
	spectrum      []byte // and which bits of which coefficients it holds
	scan          int    // where the first begins
	quantisation  [4]*[64]int32
	huffman       [2][4][]byte // DC and AC: counts, then symbols
	interval      int          // MCUs between restarts
	jfif          bool
	adobe         int // the transform of Adobe's marker, or -1
	orientation   orientation
}

// Markers of ITU-T T.81, table B.1.
const (
	baseline     = 0xc0
	extended     = 0xc1 // sequential, with more tables
	progressive  = 0xc2
	huffmanTable = 0xc4
	endOfImage   = 0xd9
	startOfScan  = 0xda
	tables       = 0xdb
	restarts     = 0xdd
	app0         = 0xe0
	app1         = 0xe1
	app14        = 0xee
)

var (
	errCut     = problem("copy or download it again", "the JPEG is cut off")
	errDamaged = problem("save it again, or leave it out", "the JPEG is damaged")
)

// readJPEGHeader reads the markers up to the first scan, and no pixel.
func readJPEGHeader(data []byte) (h jpegHeader, err error) {
	h.orientation, h.adobe = 1, -1
	for at := 2; ; {
		next := bytes.IndexByte(data[min(at, len(data)):], 0xff)
		if next < 0 || at+next+2 > len(data) {
			return h, errCut
		}
		at += next + 1
		marker := data[at]
		if marker == 0 || marker == 0xff || marker == 1 || marker >= 0xd0 && marker <= 0xd8 {
			continue // stray bytes, fill bytes and markers without content
		}
		at++
		if marker == endOfImage || at+2 > len(data) {
			return h, errCut
		}
		size := int(binary.BigEndian.Uint16(data[at:]))
		if size < 2 || at+size > len(data) {
			return h, errCut
		}
		segment := data[at+2 : at+size]
		at += size
		if err := h.read(marker, segment); err != nil {
			return h, err
		}
		if marker == startOfScan {
			h.scan = at
			return h, nil
		}
	}
}

// read takes over what a marker says.
func (h *jpegHeader) read(marker byte, segment []byte) error {
	switch {
	case marker == startOfScan:
		if len(segment) == 0 || len(segment) < 4+2*int(segment[0]) || len(h.components) == 0 {
			return errDamaged
		}
		h.scanned = segment[1 : 1+2*int(segment[0])]
		h.spectrum = segment[1+2*int(segment[0]):]
	case marker == huffmanTable:
		return h.readHuffman(segment)
	case isFrame(marker):
		if len(segment) < 6 || len(segment) < 6+3*int(segment[5]) || segment[5] == 0 {
			return errDamaged
		}
		h.frame, h.precision = marker, int(segment[0])
		h.height, h.width = int(binary.BigEndian.Uint16(segment[1:])), int(binary.BigEndian.Uint16(segment[3:]))
		h.components = segment[6 : 6+3*int(segment[5])]
		return checkSize(h.width, h.height) // before anything else is looked at
	case marker == tables:
		return h.readQuantisation(segment)
	case marker == restarts && len(segment) >= 2:
		h.interval = int(binary.BigEndian.Uint16(segment))
	case marker == app0:
		h.jfif = h.jfif || bytes.HasPrefix(segment, []byte("JFIF\x00"))
	case marker == app1:
		if exif, ok := bytes.CutPrefix(segment, []byte("Exif\x00\x00")); ok {
			h.orientation = orientationOf(exif)
		}
	case marker == app14:
		if bytes.HasPrefix(segment, []byte("Adobe")) && len(segment) >= 12 {
			h.adobe = int(segment[11])
		}
	}
	return nil
}

// isFrame says whether a marker begins a frame, of any kind.
func isFrame(marker byte) bool {
	return marker >= 0xc0 && marker <= 0xcf && marker != huffmanTable && marker != 0xc8 && marker != 0xcc
}

// table makes a Huffman table ready: of class 0 for DC, 1 for AC.
func (h *jpegHeader) table(class int, id byte) (*huffman, error) {
	if id > 3 || h.huffman[class][id] == nil {
		return nil, errDamaged
	}
	return newHuffman(h.huffman[class][id][:16], h.huffman[class][id][16:])
}

func (h *jpegHeader) readQuantisation(segment []byte) error {
	for len(segment) > 0 {
		wide, id := int(segment[0]>>4), segment[0]&15
		size := 64 << wide
		if wide > 1 || id > 3 || len(segment) < 1+size {
			return errDamaged
		}
		var table [64]int32
		for n := range table {
			if wide == 1 {
				table[n] = int32(binary.BigEndian.Uint16(segment[1+2*n:]))
			} else {
				table[n] = int32(segment[1+n])
			}
		}
		h.quantisation[id] = &table
		segment = segment[1+size:]
	}
	return nil
}

func (h *jpegHeader) readHuffman(segment []byte) error {
	for len(segment) > 0 {
		class, id := segment[0]>>4, segment[0]&15
		if class > 1 || id > 3 || len(segment) < 17 {
			return errDamaged
		}
		symbols := 0
		for _, n := range segment[1:17] {
			symbols += int(n)
		}
		if symbols > 256 || len(segment) < 17+symbols {
			return errDamaged
		}
		h.huffman[class][id] = segment[1 : 17+symbols]
		segment = segment[17+symbols:]
	}
	return nil
}

// check says what cannot be decoded, or is not all there.
func (h jpegHeader) check(data []byte) error {
	switch {
	case h.precision != 8:
		return problem("convert it to 8-bit JPEG or to PNG", "a JPEG of %d bits a sample is not read", h.precision)
	case h.frame == 0xc3 || h.frame == 0xc7:
		return problem("convert it to an ordinary JPEG or to PNG", "lossless JPEG is not read")
	case h.frame > extended && h.frame != progressive:
		return problem("convert it to an ordinary JPEG (cjpeg, or jpegtran without -arithmetic)",
			"a JPEG with arithmetic coding or in hierarchies is not read")
	}
	// No code is shorter than a bit, of a block of 64 pixels: what claims more is damaged, or made
	// to take memory.
	if int64(h.width)*int64(h.height) > 1024*int64(len(data)) {
		return errCut
	}
	// Within a scan these two bytes never stand beside each other, but at its end.
	if bytes.LastIndex(data[h.scan:], []byte{0xff, endOfImage}) < 0 {
		return errCut
	}
	return nil
}

// decodeJPEG reads the planes of a JPEG as they are. Damage within the coded pixels is overlooked,
// as it is by libjpeg.
func decodeJPEG(data []byte) (*Photo, error) {
	h, err := readJPEGHeader(data)
	if err != nil {
		return nil, err
	}
	if err := h.check(data); err != nil {
		return nil, err
	}
	p := &Photo{Width: h.width, Height: h.height, orientation: h.orientation}
	if ok, err := p.fromScans(h, data[h.scan:]); ok || err != nil {
		return p, err
	}
	decoded, err := jpeg.Decode(bytes.NewReader(data))
	if err != nil {
		return nil, problem("save it again, or leave it out", "the JPEG is damaged (%v)", err)
	}
	switch m := decoded.(type) {
	case *image.Gray:
		p.planes = []plane{{m.Pix, m.Stride, h.width, h.height, 1, 1}}
	case *image.YCbCr:
		p.fromYCbCr(m)
	case *image.CMYK:
		p.fromCMYK(m)
	default:
		p.fromImage(decoded)
	}
	return p, nil
}

// fromScans decodes the planes of a JPEG with gray or three channels. Nearly all are such; it
// reports false for others.
func (p *Photo) fromScans(h jpegHeader, data []byte) (bool, error) {
	n := len(h.components) / 3
	if n != 1 && n != 3 {
		return false, nil
	}
	components := make([]component, n)
	var across, down byte = 1, 1 // samples of an MCU, in blocks
	for k := range components {
		c := &components[k]
		spec := h.components[3*k : 3*k+3]
		c.id, c.across, c.down, c.table = spec[0], spec[1]>>4, spec[1]&15, spec[2]
		if n == 1 {
			c.across, c.down = 1, 1
		}
		if c.across < 1 || c.across > 4 || c.down < 1 || c.down > 4 || c.table > 3 {
			return false, errDamaged
		}
		across, down = max(across, c.across), max(down, c.down)
	}
	for _, c := range components {
		if across%c.across != 0 || down%c.down != 0 {
			return false, nil
		}
	}
	mcusAcross, mcusDown := (h.width+8*int(across)-1)/(8*int(across)), (h.height+8*int(down)-1)/(8*int(down))
	for k := range components {
		c := &components[k]
		c.stride = 8 * mcusAcross * int(c.across)
		c.plane = make([]byte, c.stride*8*mcusDown*int(c.down))
		perAcross, perDown := int(across/c.across), int(down/c.down)
		c.width, c.height = (h.width+perAcross-1)/perAcross, (h.height+perDown-1)/perDown
		p.planes = append(p.planes, plane{c.plane, c.stride, c.width, c.height, perAcross, perDown})
	}
	p.chroma = n == 3 && h.luma()
	if h.frame == progressive || len(h.scanned) != 2*n {
		return true, newDecoder(h, components, mcusAcross, mcusDown).decode(data)
	}
	for k := range components {
		c := &components[k]
		var err error
		if c.quantisation = h.quantisation[c.table]; c.quantisation == nil || h.scanned[2*k] != c.id {
			return false, errDamaged
		}
		if c.dc, err = h.table(0, h.scanned[2*k+1]>>4); err != nil {
			return false, err
		}
		if c.ac, err = h.table(1, h.scanned[2*k+1]&15); err != nil {
			return false, err
		}
	}
	(&coded{data: data}).scan(components, mcusAcross, mcusDown, h.interval)
	return true, nil
}

// luma says whether three components are luma and chroma, and not red, green and blue: libjpeg's
// reasons (jdapimin.c: default_decompress_parms).
func (h jpegHeader) luma() bool {
	switch {
	case h.jfif:
		return true
	case h.adobe >= 0:
		return h.adobe != 0
	}
	return !(h.components[0] == 'R' && h.components[3] == 'G' && h.components[6] == 'B')
}

// fromYCbCr takes over the planes of an image with luma and chroma.
func (p *Photo) fromYCbCr(m *image.YCbCr) {
	across, down := 1, 1
	switch m.SubsampleRatio {
	case image.YCbCrSubsampleRatio422:
		across = 2
	case image.YCbCrSubsampleRatio420:
		across, down = 2, 2
	case image.YCbCrSubsampleRatio440:
		down = 2
	case image.YCbCrSubsampleRatio411:
		across = 4
	case image.YCbCrSubsampleRatio410:
		across, down = 4, 2
	}
	width, height := (p.Width+across-1)/across, (p.Height+down-1)/down
	p.chroma = true
	p.planes = []plane{
		{m.Y, m.YStride, p.Width, p.Height, 1, 1},
		{m.Cb, m.CStride, width, height, across, down},
		{m.Cr, m.CStride, width, height, across, down},
	}
}

// fromCMYK turns ink into light: each of red, green and blue is what its ink and black let through.
func (p *Photo) fromCMYK(m *image.CMYK) {
	p.allocate()
	for y := range p.Height {
		row := m.Pix[y*m.Stride:]
		for x := range p.Width {
			through := 255 - int(row[4*x+3])
			for c := range 3 {
				light := through * (255 - int(row[4*x+c]))
				p.planes[c].pix[y*p.Width+x] = byte((light + 127) / 255)
			}
		}
	}
}

// fromImage takes the colours of any image, over white.
func (p *Photo) fromImage(m image.Image) {
	size := image.Rect(0, 0, p.Width, p.Height)
	canvas := image.NewRGBA(size)
	draw.Draw(canvas, size, image.NewUniform(color.White), image.Point{}, draw.Src)
	draw.Draw(canvas, m.Bounds(), m, m.Bounds().Min, draw.Over)
	p.allocate()
	r, g, b := p.planes[0].pix, p.planes[1].pix, p.planes[2].pix
	for n := range r {
		pixel := canvas.Pix[4*n : 4*n+3]
		r[n], g[n], b[n] = pixel[0], pixel[1], pixel[2]
	}
}

// allocate makes planes of red, green and blue.
func (p *Photo) allocate() {
	p.planes = nil
	for range 3 {
		p.planes = append(p.planes, plane{make([]byte, p.Width*p.Height), p.Width, p.Width, p.Height, 1, 1})
	}
}
