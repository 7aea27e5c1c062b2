package dataset

import (
	"fmt"
	"slices"

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

// drawnOf are those of some series that labels refer to; all of them where labels refer to none.
func drawnOf(series []*dicom.Series, drawn map[*dicom.Series][]format.Object) []*dicom.Series {
	labelled := slices.DeleteFunc(slices.Clone(series), func(s *dicom.Series) bool { return drawn[s] == nil })
	if len(labelled) == 0 {
		return series
	}
	return labelled
}
