package dicom

import (
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
)

// This file: what a SEG object takes over from the images that it refers to.

// carried are elements of a file that another takes over as they are. Nobody looks at their values,
// but for dates and times, and none of them may be printed.
type carried map[uint32][]byte

// carriedTypes are the elements that say whose the images are and of which study: the Patient,
// General Study, Patient Study and Frame of Reference modules, as far as their values are plain
// text, and whether images have been compressed with loss. Those that must be there are written
// empty where the file has none.
var carriedTypes = map[uint32]struct {
	vr   string
	must bool
}{
	// SpecificCharacterSet, TimezoneOffsetFromUTC
	0x00080005: {"CS", false}, 0x00080201: {"SH", false},
	0x00100010: {"PN", true}, 0x00100020: {"LO", true}, 0x00100021: {"LO", false}, 0x00100030: {"DA", true}, 0x00100032: {"TM", false}, 0x00100040: {"CS", true},
	0x00101000: {"LO", false}, 0x00101001: {"PN", false}, 0x00102160: {"SH", false}, 0x00104000: {"LT", false}, 0x00120062: {"CS", false}, 0x00120063: {"LO", false},
	0x0020000D: {"UI", true}, 0x00080020: {"DA", true}, 0x00080030: {"TM", true}, 0x00080050: {"SH", true}, 0x00080090: {"PN", true}, 0x00200010: {"SH", true}, 0x00081030: {"LO", false},
	0x00101010: {"AS", false}, 0x00101020: {"DS", false}, 0x00101030: {"DS", false}, 0x00102180: {"SH", false}, 0x001021B0: {"LT", false},
	0x00200052: {"UI", false}, 0x00201040: {"LO", true},
	0x00282110: {"CS", false}, 0x00282112: {"DS", false}, 0x00282114: {"CS", false},
	// of acquisition and series: not written, but asked for a date
	0x00080022: {"DA", false}, 0x00080032: {"TM", false}, 0x00080021: {"DA", false}, 0x00080031: {"TM", false},
}

// carry takes the elements of carriedTypes from a file.
func carry(path string) (carried, error) {
	d, s, _, offset, err := open(path)
	if err != nil {
		return nil, inFile(path, err)
	}
	defer d.Close()
	c := carried{}
	w := &walker{window: &window{from: d, size: d.size}, order: s.order, implicit: s.implicit}
	_, err = w.elements(offset, d.size, false, 0, func(e element) error {
		if e.tag >= tagFloatPixels {
			return errStop
		}
		if _, wanted := carriedTypes[e.tag]; !wanted || e.length == undefined || e.length >= math.MaxUint16-1 {
			return nil
		}
		b, err := w.at(e.value, int(e.length))
		c[e.tag] = slices.Clone(b)
		return err
	})
	if err != nil && !errors.Is(err, errStop) {
		return nil, inFile(path, err)
	}
	return c, nil
}

func (c carried) has(tag uint32) bool { return len(strings.Trim(string(c[tag]), " \x00")) > 0 }

// moment is when the images were made, as near as they tell: the labels have no other time of their
// own, or the same labels would not make the same file.
func (c carried) moment() (date, time string) {
	for _, tags := range [][2]uint32{{0x00080022, 0x00080032}, {0x00080021, 0x00080031}, {0x00080020, 0x00080030}} {
		if c.has(tags[0]) {
			time = "000000"
			if c.has(tags[1]) {
				time = strings.Trim(string(c[tags[1]]), " \x00")
			}
			return strings.Trim(string(c[tags[0]]), " \x00"), time
		}
	}
	return "19700101", "000000"
}

// carry adds what was taken from another file.
func (e *encoder) carry(c carried) {
	for _, tag := range slices.Sorted(maps.Keys(carriedTypes)) {
		kind := carriedTypes[tag]
		switch tag {
		case 0x00080021, 0x00080031, 0x00080022, 0x00080032:
			continue
		}
		if c.has(tag) || kind.must {
			e.bytes(tag, kind.vr, c[tag])
		}
	}
}
