package grouping

import (
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// groupSlices makes the volumes of images, which are in the order of their paths: sorted slices of
// each. Copies are files whose images others hold as well.
func Group(images []*stack.Image) (volumes [][]stack.Slice, copies []string) {
	type key struct {
		series, study string
		space         string // FrameOfReferenceUID: positions in different ones do not compare
		// of images without a series: anonymised too well, the folder is all that holds them
		// together
		folder             string
		rows, columns      int
		localizer, colours bool
	}
	bins := map[key][][]stack.Slice{}
	var order []key
	for _, im := range images {
		for _, s := range im.Slices() {
			k := key{series: im.Series, study: im.Study, space: im.FrameOfRef, rows: im.Rows, columns: im.Columns, localizer: s.Localizer(), colours: im.Samples != 1}
			if im.Series == "" {
				k.folder = filepath.Dir(im.Path)
			}
			if s.Located() {
				if _, _, normal, err := s.Axes(); err == nil {
					s.At = stack.Vector(s.Info.Position).Dot(normal)
				}
			}
			there, known := bins[k]
			if !known {
				order = append(order, k)
			}
			at := slices.IndexFunc(there, func(b []stack.Slice) bool { return stack.Alike(&b[0], &s) })
			if at < 0 {
				bins[k] = append(there, []stack.Slice{s})
			} else {
				there[at] = append(there[at], s)
			}
		}
	}
	for _, k := range order {
		for _, bin := range bins[k] {
			parts, twice := split(bin)
			copies = append(copies, twice...)
			volumes = append(volumes, parts...)
		}
	}
	return volumes, copies
}

// Interleaved says in what sorted slices differ that could be several volumes as well, each
// regular, in one place, or "".
func Interleaved(all []stack.Slice) string {
	if !all[0].Located() || !stack.Regular(all) {
		return ""
	}
	for key, t := range stack.VolumeTags {
		if !slices.Contains(stack.TimeTags, t) && volumes(by(key, all)) {
			return t.String()
		}
	}
	if volumes(divided(all, func(s *stack.Slice) string { return filepath.Dir(s.Image.Path) })) {
		return "their folders"
	}
	return ""
}
