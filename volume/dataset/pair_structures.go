package dataset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file chooses among structures that labels have a file or a contour for, by their names.

// chosenStructures chooses among structures, and remembers the names that it was asked about.
type chosenStructures struct {
	wanted []string // names, * for anything; none: all are taken
	seen   []string
}

// takes says whether a structure is taken.
func (s *chosenStructures) takes(name string) bool {
	if !slices.Contains(s.seen, name) {
		s.seen = append(s.seen, name)
	}
	return isWanted(name, s.wanted)
}

// choose leaves masks that are taken. Of several spellings of one name, somebody may choose those
// that are spelled as asked for, letter by letter.
func (s *chosenStructures) choose(masks []Mask) (taken []Mask) {
	exact := map[string]bool{} // folded names that are asked for in one spelling
	for _, m := range masks {
		if slices.Contains(s.wanted, m.Name) {
			exact[safetext.Fold(m.Name)] = true
		}
	}
	for _, m := range masks {
		if s.takes(m.Name) && (!exact[safetext.Fold(m.Name)] || slices.Contains(s.wanted, m.Name)) {
			taken = append(taken, m)
		}
	}
	return taken
}

// setObject gives a case the labels of a DICOM object: the structures that are wanted. Nobody
// naming any, they are all segments, or all of a structure set that have contours and may be
// anatomy. A note says which were left out.
func (c *Case) setObject(o format.Object, choice *chosenStructures) (note string) {
	c.withoutLabels()
	c.Labels, c.segmentation, c.structures = o.Path, o.Segmentation, o.Structures
	if o.Structures == nil {
		if len(choice.wanted) > 0 {
			return c.setObjects([]format.Object{o}, choice)
		}
		return ""
	}
	var left []string
	chosen := len(choice.wanted) > 0
	for at, s := range o.Structures.Structures {
		if s.Drawn {
			c.Masks = append(c.Masks, Mask{Path: o.Path, Name: s.Name, at: at})
		}
	}
	c.Masks = slices.DeleteFunc(choice.choose(c.Masks), func(m Mask) bool {
		return !chosen &&
			!o.Structures.Structures[m.at].Anatomy()
	})
	for at, s := range o.Structures.Structures {
		if !slices.ContainsFunc(c.Masks, func(m Mask) bool { return m.at == at }) {
			left = append(left, strings.TrimSpace(s.Name+" "+strings.ToLower(s.Type)))
		}
	}
	if len(c.Masks) == 0 {
		c.withoutLabels()
		return fmt.Sprintf("%s: none of its structures is taken: %s", o.Path, strings.Join(left, ", "))
	}
	if len(left) > 0 && !chosen {
		return fmt.Sprintf("%s: structures left out, because they are no anatomy or have no "+
			"contours: %s (--structures takes what it names)", o.Path, strings.Join(left, ", "))
	}
	return ""
}

// setObjects gives a case the segments of SEG objects as its masks: those that are wanted. A note
// says where none is.
func (c *Case) setObjects(objects []format.Object, choice *chosenStructures) (note string) {
	var masks []Mask
	var names []string
	for _, o := range objects {
		for _, s := range o.Segmentation.Segments {
			if s.Name == "" { // nobody can ask for it
				continue
			}
			masks = append(masks, Mask{Path: o.Path, Name: s.Name, at: int(s.Label)})
			names = append(names, s.Name)
		}
	}
	if masks = choice.choose(masks); len(masks) == 0 {
		c.withoutLabels()
		return fmt.Sprintf("%s: none of its structures is taken: %s", objects[0].Path, safetext.List(names))
	}
	c.setMasks(masks)
	for _, o := range objects {
		c.objects = append(c.objects, o.Segmentation)
	}
	return ""
}
