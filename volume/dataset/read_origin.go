package dataset

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// This file: what a case was prepared from.

// pathsOf lists the files of each case.
func pathsOf(cases []Case) (map[string][]string, error) {
	all := map[string][]string{}
	for _, c := range cases {
		paths, err := absolute(c.sourcePaths())
		if err != nil {
			return nil, err
		}
		all[c.ID] = paths
	}
	return all, nil
}

// originOfImage is how the record of a case begins to say how its files are read: which series of
// a study, and which volume of a file.
const originOfImage = "series %q, volume %d,"

// origin is the files of a case and how they are read: where either differs, a case that was
// prepared is not kept.
func (c Case) origin(how ReadOptions) (paths []string, origin string, err error) {
	paths, err = absolute(c.sourcePaths())
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

// input is what is recorded of a case beside its voxels.
func (c Case) input(p volume.Preparation, origin string) (prepared.Input, error) {
	undrawn, err := p.RelabelUndrawn(c.labels, c.undrawn)
	return prepared.Input{ID: c.ID, Group: c.Group, Patient: c.Patient, Origin: origin, Undrawn: undrawn}, err
}

// emptiedNote names structures that were drawn and have lost all their voxels to others; "" where
// none has.
func emptiedNote(l *volume.LabelMap) string {
	if l == nil || len(l.Emptied) == 0 {
		return ""
	}
	var names []string
	for _, label := range l.Emptied {
		names = append(names, cmp.Or(l.Names[label], fmt.Sprintf("label %d", label)))
	}
	return "WARNING: emptied, because others have all their voxels (--segment-overlap): " + safetext.List(names) +
		". They were drawn, and are neither absent nor undrawn"
}
