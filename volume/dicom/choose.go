package dicom

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Is says whether a series is the one that somebody asks for: by its UID, its number, or number and part (3.2); UID#2 is a part, too.
func (s *Series) Is(wanted string) bool {
	return wanted == s.UID || wanted == s.Number || s.Part > 0 && (wanted == fmt.Sprintf("%s.%d", s.Number, s.Part) || wanted == fmt.Sprintf("%s#%d", s.UID, s.Part))
}

// Choose picks a series: the one that is wanted (see [Series.Is]), or with wanted empty the only scan, or else the largest axial CT. Localizers, colour images and single
// slices are no scans where there are others. A scan that will be refused, for a gap perhaps, is chosen all the same: to take a smaller one quietly would hide it.
// Why says in words how it was chosen.
func Choose(series []*Series, wanted string) (chosen *Series, why string, err error) {
	if len(series) == 0 {
		return nil, "", errors.New("there are no images")
	}
	if wanted != "" {
		matches := only(series, func(s *Series) bool { return s.Is(wanted) })
		switch len(matches) {
		case 1:
			return matches[0], "as asked for", nil
		case 0:
			return nil, "", fmt.Errorf("there is no series %s; there are:%s", wanted, list(series))
		}
		return nil, "", fmt.Errorf("series %s is not one but %d (choose by UID, or by number and part: 3.2):%s", wanted, len(matches), list(matches))
	}
	scans := series
	for _, better := range []func(*Series) bool{
		func(s *Series) bool { return s.Axcodes != "" && s.slices[0].image.samples == 1 },
		func(s *Series) bool { return !s.Localizer },
		func(s *Series) bool { return s.Shape[2] > 1 },
	} {
		if some := only(scans, better); len(some) > 0 {
			scans = some
		}
	}
	if len(scans) == 1 {
		return scans[0], fmt.Sprintf("the only scan of %d series", len(series)), nil
	}
	scans = only(scans, func(s *Series) bool { return s.Modality == "CT" && s.axial() })
	if len(scans) == 0 {
		return nil, "", fmt.Errorf("none of several series is an axial CT: choose with --series:%s", list(series))
	}
	slices.SortStableFunc(scans, func(a, b *Series) int {
		return cmp.Or(cmp.Compare(b.voxels(), a.voxels()), failed(a)-failed(b), a.compareNumbers(b), cmp.Compare(a.UID, b.UID), a.Part-b.Part)
	})
	return scans[0], fmt.Sprintf("the largest axial CT of %d series", len(series)), nil
}

func only(series []*Series, is func(*Series) bool) []*Series {
	return slices.DeleteFunc(slices.Clone(series), func(s *Series) bool { return !is(s) })
}

func failed(s *Series) int {
	if s.Err != nil {
		return 1
	}
	return 0
}

// axial says whether slices lie across the body.
func (s *Series) axial() bool {
	return s.Axcodes != "" && strings.ContainsAny(s.Axcodes[2:], "IS")
}

// compareNumbers orders series by their numbers, those without one last.
func (s *Series) compareNumbers(o *Series) int {
	a, errA := strconv.Atoi(s.Number)
	b, errB := strconv.Atoi(o.Number)
	if errA != nil || errB != nil {
		return cmp.Compare(s.Number, o.Number)
	}
	return a - b
}

func list(series []*Series) string {
	var b strings.Builder
	for _, s := range series {
		fmt.Fprintf(&b, "\n  %s", s)
		if s.Err != nil {
			fmt.Fprintf(&b, ": %v", s.Err)
		}
	}
	return b.String()
}
