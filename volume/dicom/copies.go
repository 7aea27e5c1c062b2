package dicom

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// This file: images that are there twice. Files are copied about and sent again, some under a new
// SOPInstanceUID, and careless tools give one UID to many images. So what the UID says is not
// believed: an image is a copy if it lies in the same place and holds the same values.

// Which slices may be copies of one another.
func samePosition(s *slice) any { return s.at }
func sameInstance(s *slice) any {
	if s.image.sop == "" {
		return [2]any{s.image, s.frame}
	}
	return [2]any{s.image.sop, s.frame}
}

// withoutCopies drops slices that hold the same as another of the same key, in the same place, and
// lists their files. Of two, the one whose pixels can be read stays, else the one that lies less
// deep: copies are put into folders of their own. The order stays.
func withoutCopies(all []slice, key func(*slice) any) (kept []slice, copies []string) {
	alike := map[any][]int{} // places in kept
	for n := range all {
		s := &all[n]
		k := key(s)
		at := -1
		for _, candidate := range alike[k] {
			if kept[candidate].image != s.image && kept[candidate].same(s) {
				at = candidate
				break
			}
		}
		if at < 0 {
			alike[k] = append(alike[k], len(kept))
			kept = append(kept, *s)
			continue
		}
		gone, there := s.image, kept[at].image
		if bad := there.checkPixels() != nil; bad || s.image.checkPixels() == nil && depth(s.image) < depth(there) {
			gone, kept[at] = there, *s
		}
		if !slices.Contains(copies, gone.path) {
			copies = append(copies, gone.path)
		}
	}
	return kept, copies
}

// depth counts the folders that a file lies in.
func depth(im *image) int { return strings.Count(im.path, string(filepath.Separator)) }

// same says whether two slices lie in the same place and hold the same values. One whose pixels are
// missing is the same as a whole one of its UID.
func (s *slice) same(o *slice) bool {
	if !slices.Equal(s.info.position, o.info.position) {
		return false
	}
	a, b := s.image, o.image
	if (a.checkPixels() == nil) != (b.checkPixels() == nil) {
		return a.sop != "" && a.sop == b.sop
	}
	if a.syntax.uid == b.syntax.uid && s.frame == o.frame && !a.syntax.deflated {
		// The same bytes, or other values: nobody encodes an image a second time in the same way.
		// That saves decoding.
		return a.allocated == b.allocated && a.stored == b.stored && a.high == b.high && a.signed == b.signed && slices.Equal(s.scale(), o.scale()) && sameBytes(a, b)
	}
	x, errX := Read(&Series{slices: []slice{*s}})
	y, errY := Read(&Series{slices: []slice{*o}})
	return errX == nil && errY == nil && slices.Equal(x.Int16, y.Int16) && slices.Equal(x.Float32, y.Float32)
}

func (s *slice) scale() []float64 {
	slope, intercept, _ := s.image.rescale(&s.info)
	return []float64{slope, intercept}
}

// sameBytes says whether the pixels of two files are the same bytes.
func sameBytes(a, b *image) bool {
	var pixels [2]io.Reader
	for n, im := range []*image{a, b} {
		f, err := os.Open(im.path)
		if err != nil {
			return false
		}
		defer f.Close()
		length := im.frameBytes() * int64(im.frames) // what is behind is padding
		if im.pixels.length == undefined {
			// up to the end of the file: what follows pixels is rare
			length = im.size - im.pixels.value
		}
		pixels[n] = io.NewSectionReader(f, im.pixels.value, length)
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
