package photo

import (
	"fmt"
	"io"
	"os"

	"github.com/voxsaw/voxsaw/internal/folders"
)

const (
	// MaxPixels bounds a photograph; what says that it is larger is damaged, or made to harm.
	// Pillow refuses more, too.
	MaxPixels = 178956970
	// MinSide is the shorter side, in pixels, of the smallest photograph: less is a tracking pixel
	// or an icon.
	MinSide = 8
	// maxBytes bounds a file.
	maxBytes = 1 << 30
)

// A Photo is a decoded photograph. It may be read from several goroutines.
type Photo struct {
	Width, Height int    // pixels, with the orientation applied
	Format        Format // of the file

	planes      []plane // luma; luma, blue and red chroma; or red, green and blue
	chroma      bool    // the planes are luma and chroma
	orientation orientation
}

// plane is a channel, perhaps with fewer samples than the photograph has pixels.
type plane struct {
	pix           []byte
	stride        int
	width, height int // samples
	across, down  int // pixels of the photograph a sample along each axis: 1, 2 or 4
}

// A Problem says what is wrong with a file, and what to do.
type Problem struct{ What, Advice string }

func (p *Problem) Error() string { return p.What + ": " + p.Advice }

func problem(advice, format string, args ...any) error {
	return &Problem{fmt.Sprintf(format, args...), advice}
}

// Read decodes the photograph in a file. Errors name the file; those of its content wrap a
// [Problem].
func Read(path string) (*Photo, error) {
	data, err := Load(path)
	if err != nil {
		return nil, err
	}
	p, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return p, nil
}

// Load reads the file of a photograph, as [Decode] takes it, unless it is too large for one.
func Load(path string) ([]byte, error) {
	f, err := folders.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if info.Size() > maxBytes {
		return nil, fmt.Errorf("%s: %w", path, problem("leave it out", "%d bytes are no photograph", info.Size()))
	}
	data := make([]byte, info.Size())
	n, err := io.ReadFull(f, data)
	if err == io.EOF || err == io.ErrUnexpectedEOF { // it has become shorter meanwhile
		err = nil
	}
	if err != nil {
		return nil, &os.PathError{Op: "read", Path: path, Err: err}
	}
	return data[:n], nil
}

// Decode decodes the content of a file. Its size is checked before memory is taken for the pixels.
// Errors wrap a [Problem] and do not name the file.
func Decode(data []byte) (p *Photo, err error) {
	format := Sniff(data)
	if err := format.refusal(); err != nil {
		return nil, err
	}
	defer func() {
		// Decoders are fed what somebody else has made; that one stumbles must not end a run.
		if r := recover(); r != nil {
			p, err = nil, problem("save it again, or leave it out", "the %s cannot be decoded (%v)", format, r)
		}
	}()
	if format == JPEG {
		p, err = decodeJPEG(data)
	} else {
		p, err = decodeOther(format, data)
	}
	if err != nil {
		return nil, err
	}
	p.Format = format
	if p.orientation.transposes() {
		p.Width, p.Height = p.Height, p.Width
	}
	return p, nil
}

// checkSize refuses what is no photograph, by its header.
func checkSize(width, height int) error {
	switch {
	case int64(width)*int64(height) > MaxPixels:
		return problem("scale it down, or leave it out", "%d x %d pixels are too many (at most %d million)", width,
			height, MaxPixels/1000000)
	case min(width, height) < MinSide:
		return problem("leave it out", "%d x %d pixels are too few for a photograph (at least %d x %d)", width, height,
			MinSide, MinSide)
	}
	return nil
}
