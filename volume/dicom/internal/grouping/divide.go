package grouping

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: how slices that are not one series by what evidence.go finds are divided into series.

// attribute is what a slice says of where it belongs, "" where it does not say.
type attribute func(*stack.Slice) string

func studyOf(s *stack.Slice) string    { return s.Image.Study }
func frameOf(s *stack.Slice) string    { return s.Image.FrameOfRef }
func numberOf(s *stack.Slice) string   { return s.Image.Number }
func modalityOf(s *stack.Slice) string { return s.Image.Modality }
func folderOf(s *stack.Slice) string   { return filepath.Dir(s.Image.Path) }

// seriesOf is the UID of the series or, where there is none, the folder. Images that are anonymised
// too well have nothing else in common.
func seriesOf(s *stack.Slice) string {
	if s.Image.Series == "" {
		return "\x00" + folderOf(s)
	}
	return s.Image.Series
}

// belongings are what slices of one patient have in common.
var belongings = []attribute{seriesOf, studyOf, frameOf, folderOf}

// uniform reports whether an attribute has one value for all slices.
func uniform(all []stack.Slice, value attribute) bool {
	first := value(&all[0])
	return !slices.ContainsFunc(all, func(s stack.Slice) bool { return value(&s) != first })
}

// parted divides slices by an attribute, in the order of its values.
func parted(all []stack.Slice, value attribute) (parts [][]stack.Slice) {
	byValue := map[string][]stack.Slice{}
	for n := range all {
		v := value(&all[n])
		byValue[v] = append(byValue[v], all[n])
	}
	for _, v := range slices.Sorted(maps.Keys(byValue)) {
		parts = append(parts, byValue[v])
	}
	return parts
}

// divide divides sorted slices that look alike into sets, each of which is one series or cannot be
// divided further. A value that one slice alone has names no series, nor does the study, frame of
// reference or folder of two: the slices with such values stay together.
func divide(all []stack.Slice) (sets [][]stack.Slice) {
	if one(all) || uniform(all, seriesOf) {
		return [][]stack.Slice{all}
	}
	for n, value := range []attribute{seriesOf, modalityOf, numberOf, studyOf, frameOf, folderOf} {
		if n == 1 && volumesIn(all) != nil {
			break // no series is named, and what tells volumes apart does so here
		}
		least := 2
		if n > 2 {
			least = few // two slices always stack up: that they share a UID proves nothing
		}
		var parts [][]stack.Slice
		var rest []stack.Slice
		for _, part := range parted(all, value) {
			if len(part) >= least {
				parts = append(parts, part)
			} else {
				rest = append(rest, part...)
			}
		}
		if len(rest) > 0 {
			sortSlices(rest)
			parts = append(parts, rest)
		}
		if len(parts) > 1 {
			for _, part := range parts {
				sets = append(sets, divide(part)...)
			}
			return sets
		}
	}
	return remainder(all)
}

// remainder says what becomes of slices that do not stack up and that no series names: they are one
// set if they are numbered as one series of a study or frame of reference, or if what tells volumes
// apart explains them. Otherwise nobody knows what they are, and each is by itself.
func remainder(all []stack.Slice) (sets [][]stack.Slice) {
	common := func(value attribute) bool { return value(&all[0]) != "" && uniform(all, value) }
	if uniform(all, numberOf) && (common(studyOf) || common(frameOf)) || volumesIn(all) != nil {
		return [][]stack.Slice{all}
	}
	for n := range all {
		sets = append(sets, all[n:n+1:n+1])
	}
	return sets
}

// reunite puts sets together that are one series after all: they lie among others, or some of their
// slices have no UID, others one of their own.
func reunite(sets [][]stack.Slice) [][]stack.Slice {
	about := make([]outline, len(sets))
	for n, set := range sets {
		about[n] = outlineOf(set)
	}
	merge := func(n int, whole []stack.Slice, others []int) {
		sets[n], about[n] = whole, outlineOf(whole)
		for _, m := range slices.Backward(others) {
			sets, about = slices.Delete(sets, m, m+1), slices.Delete(about, m, m+1)
		}
	}
	for n := 0; n < len(sets); n++ {
		// All that lie beside this one and may belong to it, or else one after the other.
		whole, others := sets[n], []int(nil)
		for m := n + 1; m < len(sets); m++ {
			if about[n].strange(&about[m]) || coincide(sets[n], sets[m]) {
				continue
			}
			both := union(sets[n], sets[m])
			if one(both) {
				merge(n, both, []int{m})
				whole, others, m = sets[n], nil, n
			} else {
				whole, others = union(whole, sets[m]), append(others, m)
			}
		}
		if len(others) > 1 && one(whole) {
			merge(n, whole, others)
		}
	}
	return sets
}

// outline is what is compared of two sets at first. There may be thousands of them.
type outline struct {
	count            int
	modality, number string
	first            *stack.Slice    // the one with the smallest instance number
	names            map[string]bool // of series, studies, frames of reference and folders
}

func outlineOf(set []stack.Slice) outline {
	o := outline{count: len(set), modality: modalityOf(&set[0]), number: numberOf(&set[0]), first: &set[0],
		names: map[string]bool{}}
	for n := range set {
		if set[n].Image.Instance < o.first.Image.Instance {
			o.first = &set[n]
		}
		for kind, name := range belongings {
			if v := name(&set[n]); v != "" {
				o.names[fmt.Sprint(kind, v)] = true
			}
		}
	}
	return o
}

// strange reports whether two sets cannot be one series.
func (o *outline) strange(p *outline) bool {
	if o.count+p.count < few || o.modality != p.modality {
		return true
	}
	if o.count < 2 || p.count < 2 {
		return false
	}
	if counted := o.first.Image.Instance != 0 && o.first.Image.Instance == p.first.Image.Instance; counted &&
		(o.number != p.number || math.Abs(o.first.At-p.first.At) >= stack.SamePlace) {
		return true
	}
	for name := range o.names {
		if p.names[name] {
			return false
		}
	}
	return true
}

// coincide reports whether more of the sorted slices of two sets lie in one place than an accident
// explains.
func coincide(a, b []stack.Slice) bool {
	count, n, m := 0, 0, 0
	for n < len(a) && m < len(b) {
		switch d := a[n].At - b[m].At; {
		case math.Abs(d) < stack.SamePlace:
			count, n, m = count+1, n+1, m+1
		case d < 0:
			n++
		default:
			m++
		}
	}
	return !fewDoubles(count, len(a)+len(b)-count)
}

// union returns the slices of two sets, sorted.
func union(a, b []stack.Slice) []stack.Slice {
	all := slices.Concat(a, b)
	sortSlices(all)
	return all
}

// sortSlices sorts slices along their normal.
func sortSlices(all []stack.Slice) {
	slices.SortStableFunc(all, func(a, b stack.Slice) int { return cmp.Compare(a.At, b.At) })
}

// identities are the UIDs that images of one volume should share.
var identities = []struct {
	tag   tag.Tag
	value attribute
}{
	{tag.StudyInstanceUID, studyOf},
	{tag.FrameOfReferenceUID, frameOf},
	{tag.SeriesInstanceUID, func(s *stack.Slice) string { return s.Image.Series }},
}

// merged says in which UIDs the slices of a volume differ, in words, or "" if in none.
func merged(all []stack.Slice) string {
	var differ []string
	for _, id := range identities {
		values, missing := map[string]bool{}, 0
		for n := range all {
			value := id.value(&all[n])
			if value == "" {
				missing++
			}
			values[value] = true
		}
		switch {
		case len(values) < 2:
		case missing == 0:
			differ = append(differ, fmt.Sprintf("%s (%d values)", id.tag, len(values)))
		case len(values) == 2:
			differ = append(differ, fmt.Sprintf("%s (missing in %d)", id.tag, missing))
		default:
			differ = append(differ, fmt.Sprintf("%s (%d values, missing in %d)", id.tag, len(values)-1, missing))
		}
	}
	return strings.Join(differ, " and ")
}

// splitByIdentity divides the sorted slices of one series, which do not stack up, by what they
// should share. It returns nil where the parts would be no better: single slices, or parts of one
// stack.
func splitByIdentity(all []stack.Slice) [][]stack.Slice {
	if one(all) {
		return nil
	}
	for _, value := range []attribute{studyOf, frameOf, numberOf} {
		if parts := parted(all, value); len(parts) > 1 && better(all, parts) {
			return parts
		}
	}
	return nil
}

// better reports whether a UID divides slices into volumes, and does not tear them apart. Half of
// the slices or more must be in parts of several. If slices lay in one place, no part may have such
// slices that cannot be divided further. Otherwise all parts of several must be regular stacks,
// none of which goes on in another.
func better(all []stack.Slice, parts [][]stack.Slice) bool {
	several := slices.DeleteFunc(slices.Clone(parts), func(p []stack.Slice) bool { return len(p) < 2 })
	count := 0
	for _, p := range several {
		count += len(p)
	}
	if 2*count < len(all) {
		return false
	}
	if stack.Crowded(all) > 0 {
		return !slices.ContainsFunc(several,
			func(p []stack.Slice) bool { return stack.Crowded(p) > 0 && volumesIn(p) == nil })
	}
	if slices.ContainsFunc(several, func(p []stack.Slice) bool { return !stack.Regular(p) }) {
		return false
	}
	slices.SortStableFunc(several, func(a, b []stack.Slice) int { return cmp.Compare(a[0].At, b[0].At) })
	for n := 1; n < len(several); n++ {
		if goesOn(several[n-1], several[n]) {
			return false
		}
	}
	return true
}

// goesOn reports whether one regular stack begins where another would have its next slice.
func goesOn(a, b []stack.Slice) bool {
	step := (a[len(a)-1].At - a[0].At) / float64(len(a)-1)
	next := (b[len(b)-1].At - b[0].At) / float64(len(b)-1)
	return math.Abs(b[0].At-a[len(a)-1].At-step) <= stack.Tolerance(step) &&
		math.Abs(next-step) <= stack.Tolerance(step)
}
