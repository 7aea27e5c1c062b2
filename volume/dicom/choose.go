package dicom

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// Is reports whether a series is the wanted one: by its UID, by its number, or by number and part
// (3.2); UID#2 is a part, too. Or by a word of what it says of itself, one of [Words]:
// description~portal for one that contains it, description=portal for one that is it, several with
// commas between them (modality~MR,description~t2). Capitals do not count.
func (s *Series) Is(wanted string) bool {
	if all, err := conditions(wanted); all != nil || err != nil {
		return err == nil && s.meets(all)
	}
	if wanted == s.UID || wanted == s.Number || slices.Contains(s.uids, wanted) {
		return true
	}
	return s.Part > 0 && (wanted == fmt.Sprintf("%s.%d", s.Number, s.Part) ||
		wanted == fmt.Sprintf("%s#%d", s.UID, s.Part))
}

// SharesNumber says whether another series of the study has the same number, so that only its UID
// tells it apart.
func (s *Series) SharesNumber(o *Series) bool {
	return s.UID != o.UID && s.Study == o.Study && s.Number == o.Number
}

// LooksLike says whether the images of two series have the same modality, matrix, orientation and
// pixel spacing, so that their slices could be of one volume.
func (s *Series) LooksLike(o *Series) bool {
	a, b := &s.stack.Slices[0], &o.stack.Slices[0]
	return s.Modality == o.Modality && a.Image.Rows == b.Image.Rows && a.Image.Columns == b.Image.Columns &&
		stack.Alike(a, b)
}

// Choose picks a series: the one that is wanted (see [Series.Is]), or with wanted empty the only
// scan, or else the largest axial CT. Localizers, colour images, fragments and projections are
// no scans where there are others, maps of something else than attenuation none where there is a
// CT in HU, and an original goes before what was derived from one, if it is
// half as long. A scan that will be refused, perhaps for a gap, is chosen all the same: taking a
// smaller one quietly would hide that. Why says in words how it was chosen.
func Choose(series []*Series, wanted string) (chosen *Series, why string, err error) {
	if len(series) == 0 {
		return nil, "", errors.New("there are no images")
	}
	if err := CheckWanted(wanted); err != nil {
		return nil, "", err
	}
	if wanted != "" {
		matches := only(series, func(s *Series) bool { return s.Is(wanted) })
		switch scans := scansOf(matches); {
		case len(matches) == 0:
			return nil, "", fmt.Errorf("there is no series %s; there are:%s", wanted, list(series))
		case len(matches) == 1:
			return matches[0], "as asked for", nil
		case len(scans) == 1:
			return scans[0], fmt.Sprintf("the only scan of %d series that are %s", len(matches), wanted), nil
		}
		return nil, "", fmt.Errorf("series %s is not one but %d "+
			"(choose by UID, by number and part: 3.2, or by words: description~portal,kernel=B30f):%s",
			wanted, len(matches), list(matches))
	}
	scans := scansOf(series)
	if some := only(scans, func(s *Series) bool { _, projection := s.derived(); return !projection }); len(some) > 0 {
		scans = some
	}
	in := ""
	if slices.ContainsFunc(scans, (*Series).InHU) { // never a map of something else before a scan
		some := only(scans, func(s *Series) bool { return s.Modality != "CT" || s.InHU() })
		if len(some) < len(scans) {
			scans, in = some, " in HU"
		}
	}
	if len(scans) == 1 {
		return scans[0], fmt.Sprintf("the only scan%s of %d series", in, len(series)) + scans[0].remarks(series), nil
	}
	if len(only(scans, func(s *Series) bool { return s.Shape[2] > 1 })) == 0 {
		return nil, "", fmt.Errorf("all %d scans are single slices, which do not stack up: choose with --series:%s",
			len(scans), list(series))
	}
	scans = only(scans, func(s *Series) bool { return s.Modality == "CT" && s.axial() })
	if len(scans) == 0 {
		return nil, "", fmt.Errorf("none of several series is an axial CT: choose with --series:%s", list(series))
	}
	longest, largest := 0.0, "largest"
	for _, s := range scans {
		longest = max(longest, s.length())
	}
	originals := only(scans, func(s *Series) bool { what, _ := s.derived(); return what == "" })
	if len(originals) < len(scans) && slices.ContainsFunc(originals,
		func(s *Series) bool { return s.length() >= longest/2 }) {
		scans, largest = originals, "largest original"
	}
	slices.SortStableFunc(scans, func(a, b *Series) int {
		return cmp.Or(cmp.Compare(b.voxels(), a.voxels()), failed(a)-failed(b), a.compareNumbers(b),
			cmp.Compare(a.UID, b.UID), a.Part-b.Part)
	})
	why = fmt.Sprintf("the %s axial CT%s of %d series", largest, in, len(series)) + scans[0].remarks(series)
	var ties []string
	for _, s := range scans[1:] {
		if s.voxels() == scans[0].voxels() && failed(s) == failed(scans[0]) {
			tie := s.short()
			if slices.ContainsFunc(series, s.SharesNumber) {
				tie += " " + s.named()
			}
			ties = append(ties, tie)
		}
	}
	if ties != nil {
		why += ", as large as " + safetext.List(ties)
	}
	return scans[0], why, nil
}

// made are the words in an ImageType that say what was made of a scan.
var made = map[string]struct {
	what       string
	projection bool // a voxel shows another tissue than the one that lies there
}{
	"MIP": {"MIP", true}, "MAXIP": {"MIP", true}, "MAXIMUM": {"MIP", true}, "MINIP": {"MinIP", true},
	"MNIP": {"MinIP", true}, "MINIMUM": {"MinIP", true},
	"PROJECTION": {"PROJECTION IMAGE", true}, "VRT": {"rendered", true}, "RENDER": {"rendered", true},
	"RENDERED": {"rendered", true},
	"MPR":      {"MPR", false}, "AVERAGE": {"AVERAGE", false}, "MEAN": {"AVERAGE", false},
	"REFORMATTED": {"REFORMATTED", false}, "RESAMPLED": {"RESAMPLED", false},
	"DERIVED": {"DERIVED", false}, "SECONDARY": {"SECONDARY", false},
}

// derived says what the series was made into, by its ImageType, "" for an original, and whether
// that is a projection, whose values are not those of a scan.
func (s *Series) derived() (what string, projection bool) {
	for n := range s.stack.Slices {
		// the last ones tell most
		for _, value := range slices.Backward(s.stack.Slices[n].Info.ImageType) {
			for word := range strings.FieldsFuncSeq(strings.ToUpper(strings.ReplaceAll(value, "_", "")),
				func(r rune) bool { return r < 'A' || r > 'Z' }) {
				if m := made[word]; m.projection {
					return m.what, true
				} else if what == "" {
					what = m.what
				}
			}
		}
	}
	return what, false
}

// Projection says whether the series is a projection of a scan, such as a MIP, by its ImageType.
func (s *Series) Projection() bool {
	_, projection := s.derived()
	return projection
}

// remarks is what the line that names a choice must also say: that it is no original, and which of
// several series of one number it is.
func (s *Series) remarks(among []*Series) (text string) {
	switch what, projection := s.derived(); {
	case projection:
		text = fmt.Sprintf(", though a projection (%s), not a scan", what)
	case what != "":
		text = fmt.Sprintf(", derived from a scan (%s)", what)
	}
	if slices.ContainsFunc(among, s.SharesNumber) {
		text += ", " + s.named()
	}
	return text
}

// short is the series in a list of several.
func (s *Series) short() string {
	text := "series " + s.Number
	if s.Part > 0 {
		text += fmt.Sprintf(".%d", s.Part)
	}
	for _, more := range []string{s.Description, s.Phase} {
		if more != "" {
			text += fmt.Sprintf(" %q", more)
		}
	}
	return text
}

// named tells the series apart from others of its number.
func (s *Series) named() string {
	if s.UID == "" {
		return "without a UID"
	}
	return "UID " + s.UID
}

// length returns mm from the first slice to the last.
func (s *Series) length() float64 {
	return s.stack.Slices[len(s.stack.Slices)-1].At - s.stack.Slices[0].At
}

// Fragment says whether the series has so few slices that it is no scan: a scout view, a slice for
// trying out, what is left of a transfer.
func (s *Series) Fragment() bool {
	const least = 3
	return s.Shape[2] < least
}

// scansOf leaves out localizers, colour images, single slices and fragments, where there are
// others.
func scansOf(series []*Series) []*Series {
	for _, better := range []func(*Series) bool{
		func(s *Series) bool { return s.Axcodes != "" && s.stack.Slices[0].Image.Samples == 1 },
		func(s *Series) bool { return !s.Localizer },
		func(s *Series) bool { return s.Shape[2] > 1 },
		func(s *Series) bool { return !s.Fragment() },
	} {
		if some := only(series, better); len(some) > 0 {
			series = some
		}
	}
	return series
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
func (s *Series) axial() bool { return s.Axcodes != "" && strings.ContainsAny(s.Axcodes[2:], "IS") }

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
		if slices.ContainsFunc(series, s.SharesNumber) {
			fmt.Fprintf(&b, ", %s", s.named())
		}
		if s.Err != nil {
			fmt.Fprintf(&b, ": %v", s.Err)
		}
	}
	return b.String()
}

// SameSpace reports whether positions in two series compare: they share a frame of reference, or
// one of them does not name any.
func (s *Series) SameSpace(o *Series) bool {
	space := func(im *stack.Image) string { return im.FrameOfRef }
	a, b := uidsOf(s.stack.Slices, space), uidsOf(o.stack.Slices, space)
	return len(a) == 0 || len(b) == 0 ||
		slices.ContainsFunc(a, func(uid string) bool { return slices.Contains(b, uid) })
}
