package dataset

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what a case was prepared from.

// originOfImage is how the record of a case begins to say how its files are read: which series of
// a study, and which volume of a file.
const originOfImage = "series %q, volume %d,"

// origin is the files of a case and how they are read.
func (c Case) origin(how ReadOptions) (paths []string, origin string, err error) {
	paths, err = c.Sources()
	channels := ""
	for _, more := range c.More {
		if more.Series != "" || more.Volume > 0 {
			channels += fmt.Sprintf(" channel of series %q volume %d,", more.Series, more.Volume)
			if more.suv {
				channels += " SUV,"
			}
		}
	}
	origin = fmt.Sprintf(originOfImage+" by index %v,%s %s", c.Series, c.Volume, c.ByIndex, channels, how.origin())
	for _, m := range c.Masks {
		origin += fmt.Sprintf(", %d %s", m.Label, m.Name)
	}
	for n, label := range slices.Sorted(maps.Keys(c.renumber)) {
		if n == 0 {
			origin += ", numbered"
		}
		origin += fmt.Sprintf(" %d:%d", label, c.renumber[label])
	}
	return paths, origin, err
}

// originMask is how an origin says of a mask which label it has.
var originMask = regexp.MustCompile(`, \d+ `)

// structuresIn are the names of the masks in an origin.
func structuresIn(origin string) []string {
	if _, rest, ok := strings.Cut(origin, "}"); ok {
		return originMask.Split(rest, -1)[1:]
	}
	return nil
}

// Input is what is recorded of a case beside its voxels, and the files that it is read from. Its
// Origin says how they are read: where either differs, a case that was prepared is not kept. Labels
// are called by the given names where [Case.Read] would call them so.
func (c Case) Input(p volume.Preparation, how ReadOptions, names map[uint16]string) (in prepared.Input, paths []string,
	err error) {
	paths, origin, err := c.origin(how)
	if err != nil {
		return in, nil, err
	}
	undrawn, err := p.RelabelUndrawn(c.labels, c.undrawn)
	if err != nil {
		return in, nil, err
	}
	given := c.givenNames(names)
	switch first, told := firstVolume(c.labelVolumes, given); {
	case told && first == 0:
		origin += ", background first"
	case told && c.labelVolumes > 1:
		origin += ", no background"
	}
	if len(c.More) > 0 && p.ModalityName() != volume.ModalityCT && (p.Crop == volume.CropAuto ||
		p.Crop == volume.CropBody) {
		origin += ", box of all channels" // and not of the first alone
	}
	called, err := p.RelabelNames(given)
	return prepared.Input{ID: c.ID, Group: c.Group, Patient: c.Patient, Origin: origin, Undrawn: undrawn,
		Names: called, Predicted: c.Predicted}, paths, err
}

// givenNames are the names that a data set gives the labels of a case: none where nothing says that
// they are those of its numbers, nil where its files say it themselves.
func (c Case) givenNames(names map[uint16]string) map[uint16]string {
	switch {
	case c.Labels == "" || c.Masks != nil || c.structures != nil || !format.IsName(c.Labels):
		return nil
	case c.ownNamed && !c.ByIndex:
		return nil
	case c.unnamed || names == nil:
		return map[uint16]string{}
	}
	return names
}
