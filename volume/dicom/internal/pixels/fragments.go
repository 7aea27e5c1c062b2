package pixels

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// Span is a piece of a file.
type Span struct{ From, Length int64 }

// fragments finds the compressed frames of a file, each in one or more fragments (PS3.5 A.4).
type fragments struct {
	once   sync.Once
	frames [][]Span
	err    error
}

// FrameSpans returns where frame number n of encapsulated pixels lies in the file.
func (im *Image) FrameSpans(file *element.File, n int) ([]Span, error) {
	f := &im.fragments
	f.once.Do(func() { f.frames, f.err = im.findFrames(file) })
	if f.err != nil {
		return nil, f.err
	}
	if n >= len(f.frames) {
		return nil, fmt.Errorf("there is no frame %d", n+1)
	}
	return f.frames[n], nil
}

// findFrames divides the fragments by frames: there is one each, or the offset table tells, or the
// beginnings of code streams do.
func (im *Image) findFrames(file *element.File) ([][]Span, error) {
	all, starts, table, err := im.walkFragments(file)
	if err != nil {
		return nil, err
	}
	if im.Frames == 1 {
		return [][]Span{all}, nil
	}
	if len(all) == im.Frames {
		frames := make([][]Span, len(all))
		for n := range all {
			frames[n] = all[n : n+1]
		}
		return frames, nil
	}
	if frames := byTable(table, starts, all); len(frames) == im.Frames {
		return frames, nil
	}
	if frames, err := byStart(file, all); err != nil || len(frames) == im.Frames {
		return frames, err
	}
	return nil, fmt.Errorf("%d fragments hold %d frames, and no table says which", len(all), im.Frames)
}

// walkFragments returns the fragments, where each begins relative to the first, as the offset table
// counts, and that table.
func (im *Image) walkFragments(file *element.File) (all []Span, starts []int64, table []uint32, err error) {
	w := element.NewWalker(file, file.Size, im.Syntax.Order, false)
	offset := im.Pixels.Value
	for first := true; ; first = false {
		e, err := w.Header(offset)
		if errors.Is(err, element.ErrTruncated) && offset == file.Size && len(all) > 0 {
			return all, starts, table, nil // the delimiter is missing, the pixels are there
		}
		if err != nil {
			return nil, nil, nil, err
		}
		switch {
		case e.Tag == tag.SequenceDelimitationItem:
			return all, starts, table, nil
		case e.Tag != tag.Item || e.Length == element.Undefined:
			return nil, nil, nil, errors.New("the fragments are not items")
		case !first:
			all = append(all, Span{e.Value, e.Length})
			starts = append(starts, e.Value-all[0].From)
		case e.Length > 4*MaxFrames:
			return nil, nil, nil, errors.New("the offset table is too long")
		default:
			b, err := w.At(e.Value, int(e.Length))
			if err != nil {
				return nil, nil, nil, err
			}
			for n := 0; n+4 <= len(b); n += 4 {
				table = append(table, binary.LittleEndian.Uint32(b[n:]))
			}
		}
		offset = e.Value + e.Length
	}
}

// byTable divides fragments by the offset table, or returns nil where the two do not fit.
func byTable(table []uint32, starts []int64, all []Span) (frames [][]Span) {
	for n, s := range starts {
		if len(frames) < len(table) && s == int64(table[len(frames)]) {
			frames = append(frames, nil)
		}
		if len(frames) == 0 {
			return nil
		}
		frames[len(frames)-1] = append(frames[len(frames)-1], all[n])
	}
	if len(frames) != len(table) {
		return nil
	}
	return frames
}

// byStart divides fragments where a code stream begins: that of a JPEG, JPEG-LS or JPEG 2000 image.
func byStart(file *element.File, all []Span) (frames [][]Span, err error) {
	for _, s := range all {
		var start [4]byte
		if _, err := file.ReadAt(start[:min(len(start), int(s.Length))], s.From); err != nil {
			return nil, err
		}
		if start[0] == 0xFF && start[1] == 0xD8 || start == [4]byte{0xFF, 0x4F, 0xFF, 0x51} {
			frames = append(frames, nil)
		}
		if len(frames) == 0 {
			return nil, nil
		}
		frames[len(frames)-1] = append(frames[len(frames)-1], s)
	}
	return frames, nil
}
