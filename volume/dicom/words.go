package dicom

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: what a series is called and what tells it apart, for people and for [Series.Is].

// planes are the planes of slices, by where their normal grows to.
var planes = map[byte]string{
	'I': "axial",
	'S': "axial",
	'A': "coronal",
	'P': "coronal",
	'L': "sagittal",
	'R': "sagittal",
}

// plane is the plane of the slices that is nearest, "" where the images do not say.
func (s *Series) plane() string {
	if s.Axcodes == "" {
		return ""
	}
	return planes[s.Axcodes[2]]
}

// said is what a line about the series ends with: its description, its kernel and so on.
func (s *Series) said() string {
	var b strings.Builder
	if s.Description != "" {
		fmt.Fprintf(&b, ", %q", s.Description)
	}
	if s.Kernel != "" {
		fmt.Fprintf(&b, ", kernel %s", s.Kernel)
	}
	if s.Phase != "" {
		fmt.Fprintf(&b, ", %s", s.Phase)
	}
	if s.Modality == "CT" && !s.InHU() {
		fmt.Fprintf(&b, ", no HU but %s", s.Unit)
	}
	return b.String()
}

// scouts are words for scout views, as scanners and people have them in descriptions.
var scouts = map[string]bool{
	"LOCALIZER": true, "LOCALISER": true, "LOCALIZERS": true, "LOCALISERS": true, "LOC": true, "SCOUT": true,
	"SURVEY": true, "SURVIEW": true, "TOPOGRAM": true, "SCANOGRAM": true,
}

// calledScout says whether the description is that of a scout view. MR scanners do not say so in
// ImageType.
func (s *Series) calledScout() bool {
	const most = 50 // slices
	return s.Shape[2] < most &&
		slices.ContainsFunc(
			strings.FieldsFunc(strings.ToUpper(s.Description), func(r rune) bool { return !unicode.IsLetter(r) }),
			func(word string) bool { return scouts[word] },
		)
}

// Words are the keys of the words that choose a series.
var Words = []string{"description", "protocol", "kernel", "phase", "modality", "plane", "type", "unit"}

// word is what a series says of itself under a key.
func (s *Series) word(key string) string {
	switch key {
	case "description":
		return s.Description
	case "protocol":
		return s.Protocol
	case "kernel":
		return s.Kernel
	case "phase":
		return s.Phase
	case "modality":
		return s.Modality
	case "plane":
		return s.plane()
	case "type":
		return strings.Join(s.ImageType, `\`)
	case "unit":
		return s.Unit
	}
	return ""
}

// A condition is one that a series must meet: its word contains a text (~), or is that (=).
type condition struct {
	key, text string
	whole     bool
}

var conditionForm = regexp.MustCompile(`^\s*([A-Za-z]+)\s*([~=])\s*(.*?)\s*$`)

// conditions takes words apart, such as modality~MR,description~t2. It returns nil for what names a
// series by number or UID.
func conditions(wanted string) (all []condition, err error) {
	if !strings.ContainsAny(wanted, "~=") {
		return nil, nil
	}
	for one := range strings.SplitSeq(wanted, ",") {
		m := conditionForm.FindStringSubmatch(one)
		key := ""
		if m != nil {
			key = strings.ToLower(m[1])
		}
		switch {
		case m == nil || m[3] == "":
			return nil, fmt.Errorf(
				"series %q: words have the form description~portal (contains) or description=portal (is), "+
					"several with commas between them",
				wanted,
			)
		case !slices.Contains(Words, key):
			return nil, fmt.Errorf("series %q: there is no word %s: must be one of %s", wanted, m[1],
				strings.Join(Words, ", "))
		}
		all = append(all, condition{key: key, text: strings.ToLower(m[3]), whole: m[2] == "="})
	}
	return all, nil
}

// CheckWanted says what is wrong with words that choose a series; see [Series.Is].
func CheckWanted(wanted string) error {
	_, err := conditions(wanted)
	return err
}

// ByWords reports whether a choice is one by words, which means the same in every study, as UIDs
// and numbers do not.
func ByWords(wanted string) bool {
	all, err := conditions(wanted)
	return all != nil && err == nil
}

// SameWords says whether two choices by words are one, in whatever order and capitals.
func SameWords(a, b string) bool {
	all, err := conditions(a)
	others, failed := conditions(b)
	if err != nil || failed != nil {
		return a == b
	}
	order := func(c, d condition) int {
		return cmp.Or(cmp.Compare(c.key, d.key), cmp.Compare(c.text, d.text))
	}
	slices.SortFunc(all, order)
	slices.SortFunc(others, order)
	return slices.Equal(all, others)
}

// meets says whether the series meets all conditions. Capitals do not count.
func (s *Series) meets(all []condition) bool {
	for _, c := range all {
		if word := strings.ToLower(s.word(c.key)); c.whole && word != c.text ||
			!c.whole && !strings.Contains(word, c.text) {
			return false
		}
	}
	return true
}

// phases are what tells volumes of one place apart, in words: of each, the first that all slices
// have.
var phases = [][]struct {
	tag  tag.Tag
	form string
}{
	{{tag.ContrastBolusAgentPhase, "%s"}},
	{
		{tag.NominalPercentageOfRespiratoryPhase, "respiratory %s %%"},
		{tag.RespiratoryCyclePosition, "respiratory %s"},
		{tag.StartingRespiratoryPhase, "respiratory from %s %%"},
		{tag.NominalRespiratoryTriggerDelayTime, "respiratory %s ms"},
	},
	{
		{tag.NominalPercentageOfCardiacPhase, "cardiac %s %%"},
		{tag.CardiacCyclePosition, "cardiac %s"},
		{tag.NominalCardiacTriggerDelayTime, "cardiac %s ms"},
		{tag.TriggerTime, "trigger %s ms"},
	},
	{{tag.TemporalPositionIndex, "time %s"}, {tag.TemporalPositionIdentifier, "time %s"}},
	{{tag.DiffusionBValue, "b %s"}},
}

// bValue is the b-value in the SequenceName of diffusion images of Siemens: *ep_b800t.
var bValue = regexp.MustCompile(`^\*?ep_(?:calc_)?b(\d+)`)

// common is the value of an attribute that all slices share, "" for none.
func common(all []stack.Slice, t tag.Tag) string {
	first := all[0].Info.Key(t)
	if slices.ContainsFunc(all, func(one stack.Slice) bool { return one.Info.Key(t) != first }) {
		return ""
	}
	return element.Printable(first)
}

// phase finds what tells the series from others of the same place.
func (s *Series) phase() string {
	var said []string
	for _, kind := range phases {
		for _, p := range kind {
			if value := common(s.stack.Slices, p.tag); value != "" {
				said = append(said, strings.ToLower(fmt.Sprintf(p.form, value)))
				break
			}
		}
	}
	if m := bValue.FindStringSubmatch(common(s.stack.Slices, tag.SequenceName)); m != nil &&
		common(s.stack.Slices, tag.DiffusionBValue) == "" {
		said = append(said, "b "+m[1])
	}
	return strings.Join(said, ", ")
}

// toldElsewhere are attributes that other words tell of, or that nobody tells volumes apart by.
var toldElsewhere = func() map[tag.Tag]bool {
	told := map[tag.Tag]bool{
		tag.ImageType:         true,
		tag.ConvolutionKernel: true,
		tag.RescaleType:       true,
		tag.Units:             true,
		tag.SeriesDescription: true,
		tag.ProtocolName:      true,
	}
	for _, kind := range phases {
		for _, p := range kind {
			told[p.tag] = true
		}
	}
	for _, t := range stack.TimeTags {
		told[t] = true
	}
	return told
}()

// tellApart adds to the phases of the volumes of one SeriesInstanceUID what else they differ in,
// until no two of them are the same.
func tellApart(parts []*Series) {
	for _, t := range stack.VolumeTags {
		known, values := map[string]bool{}, map[string]bool{}
		for _, s := range parts {
			known[s.Phase], values[common(s.stack.Slices, t)] = true, true
		}
		if len(known) == len(parts) {
			return
		}
		if toldElsewhere[t] || len(values) < 2 {
			continue
		}
		for _, s := range parts {
			if value := common(s.stack.Slices, t); value != "" {
				s.Phase = strings.TrimPrefix(fmt.Sprintf("%s, %s %s", s.Phase, t, value), ", ")
			}
		}
	}
}
