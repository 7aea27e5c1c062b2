package grouping

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// This file: images that are there twice. Files are copied about and sent again, some under a new
// SOPInstanceUID, and careless tools give one UID to many images. So what the UID says is not
// believed: an image is a copy if it lies in the same place and holds the same values.

// Which slices may be copies of one another.
func samePosition(s *stack.Slice) any { return s.At }
func sameInstance(s *stack.Slice) any {
	if s.Image.SOP == "" {
		return [2]any{s.Image, s.Frame}
	}
	return [2]any{s.Image.SOP, s.Frame}
}

// withoutCopies drops slices that hold the same as another of the same key, in the same place, and
// lists their files. Of two, the one whose pixels can be read stays, else the one that lies less
// deep: copies are put into folders of their own. The order stays.
func withoutCopies(all []stack.Slice, key func(*stack.Slice) any) (kept []stack.Slice, copies []string) {
	alike := map[any][]int{} // places in kept
	for n := range all {
		s := &all[n]
		k := key(s)
		at := -1
		for _, candidate := range alike[k] {
			if kept[candidate].Image != s.Image && same(&kept[candidate], s) {
				at = candidate
				break
			}
		}
		if at < 0 {
			alike[k] = append(alike[k], len(kept))
			kept = append(kept, *s)
			continue
		}
		gone, there := s.Image, kept[at].Image
		if bad := there.Check() != nil; bad || s.Image.Check() == nil && depth(s.Image) < depth(there) {
			gone, kept[at] = there, *s
		}
		if !slices.Contains(copies, gone.Path) {
			copies = append(copies, gone.Path)
		}
	}
	return kept, copies
}

// depth counts the folders that a file lies in.
func depth(im *stack.Image) int { return strings.Count(im.Path, string(filepath.Separator)) }

// same says whether two slices lie in the same place and hold the same values. One whose pixels are
// missing is the same as a whole one of its UID.
func same(s, o *stack.Slice) bool {
	if !slices.Equal(s.Info.Position, o.Info.Position) {
		return false
	}
	a, b := s.Image, o.Image
	if (a.Check() == nil) != (b.Check() == nil) {
		return a.SOP != "" && a.SOP == b.SOP
	}
	if a.Syntax.UID == b.Syntax.UID && s.Frame == o.Frame && !a.Syntax.Deflated {
		// The same bytes, or other values: nobody encodes an image a second time in the same way.
		// That saves decoding.
		return a.Allocated == b.Allocated && a.Stored == b.Stored && a.High == b.High && a.Signed == b.Signed &&
			slices.Equal(scale(s), scale(o)) && sameBytes(a, b)
	}
	quiet := func(string) {}
	x, errX := (&stack.Stack{Slices: []stack.Slice{*s}}).Read(stack.Options{}, nil, quiet)
	y, errY := (&stack.Stack{Slices: []stack.Slice{*o}}).Read(stack.Options{}, nil, quiet)
	return errX == nil && errY == nil && slices.Equal(x.Int16, y.Int16) && slices.Equal(x.Float32, y.Float32)
}

func scale(s *stack.Slice) []float64 {
	slope, intercept, _ := s.Info.Rescale()
	return []float64{slope, intercept}
}

// sameBytes says whether the pixels of two files are the same bytes.
func sameBytes(a, b *stack.Image) bool {
	var pixels [2]io.Reader
	for n, im := range []*stack.Image{a, b} {
		f, err := os.Open(im.Path)
		if err != nil {
			return false
		}
		defer f.Close()
		length := im.FrameBytes() * int64(im.Frames) // what is behind is padding
		if im.Pixels.Length == element.Undefined {
			// up to the end of the file: what follows pixels is rare
			length = im.Size - im.Pixels.Value
		}
		pixels[n] = io.NewSectionReader(f, im.Pixels.Value, length)
	}
	x, y := make([]byte, 1<<16), make([]byte, 1<<16)
	for {
		n, errX := io.ReadFull(pixels[0], x)
		m, errY := io.ReadFull(pixels[1], y)
		if n != m || !bytes.Equal(x[:n], y[:m]) {
			return false
		}
		if errX != nil || errY != nil {
			return errX == errY && (errX == io.EOF || errX == io.ErrUnexpectedEOF)
		}
	}
}
