package dataset

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: SEG objects and RT structure sets, and the series that they refer to.

// objectsOn lists the SEG objects and structure sets of each series. Notes say which are of none.
func objectsOn(all []*dicom.Series, objects []format.Object) (
	drawn map[*dicom.Series][]format.Object, notes []string) {
	drawn = map[*dicom.Series][]format.Object{}
	for _, o := range objects {
		if s := o.Find(all); s != nil {
			drawn[s] = append(drawn[s], o)
		} else {
			notes = append(notes,
				fmt.Sprintf("%s: passed over %s: %s", o.Path, o, o.NotFound(all)))
		}
	}
	return drawn, notes
}

// structuresOf are the names of the structures of several objects of one series. Competing says
// why they are not the labels of one drawing, in parts: "" where they are SEG objects whose
// segments all have names, of which none comes twice.
func structuresOf(objects []format.Object) (names []string, competing string) {
	in := map[string]int{} // the object of a name
	for n, o := range objects {
		if o.Segmentation == nil {
			return nil, "structure sets are not put together with others"
		}
		for _, s := range o.Segmentation.Segments {
			name := safetext.Fold(s.Name)
			other, known := in[name]
			switch {
			case name == "":
				return nil, fmt.Sprintf("segment %d of %s has no name", s.Label, filepath.Base(o.Path))
			case known && other != n:
				return nil, fmt.Sprintf("%s is in several", s.Name)
			case known:
				return nil, fmt.Sprintf("%s has %s twice", filepath.Base(o.Path), s.Name)
			}
			in[name], names = n, append(names, s.Name)
		}
	}
	return names, ""
}

// drawnOf are those of some series that labels refer to; all of them where labels refer to none.
func drawnOf(series []*dicom.Series, drawn map[*dicom.Series][]format.Object) []*dicom.Series {
	labelled := slices.DeleteFunc(slices.Clone(series), func(s *dicom.Series) bool { return drawn[s] == nil })
	if len(labelled) == 0 {
		return series
	}
	return labelled
}
