package grouping

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// This file: images that only together stack up, though their UIDs say that they are of different
// series.

// join puts pieces of different series together that only together are a volume:
//
//   - Single slices, three or more, that stack up, or that have one study or frame of reference and
//     one series number: every file was given a series of its own.
//   - Pieces of one study, with one series number and different instance numbers, that stack up: a
//     series was sent in parts, or some of its files have lost their UID.
func join(all []*piece) []*piece {
	for _, alike := range parallel(all) {
		joinSingles(alike)
		joinParts(alike)
	}
	return slices.DeleteFunc(all, func(p *piece) bool { return len(p.slices) == 0 })
}

// parallel lists the pieces that may go together by their geometry, where there are several.
func parallel(all []*piece) (clusters [][]*piece) {
	type key struct {
		class
		modality string
	}
	known := map[key][]int{}
	for _, p := range all {
		if !p.class.located || p.class.localizer || p.class.colours {
			continue
		}
		k := key{p.class, p.slices[0].Image.Modality}
		at := slices.IndexFunc(known[k], func(c int) bool { return stack.Alike(&clusters[c][0].slices[0], &p.slices[0]) })
		if at < 0 {
			known[k] = append(known[k], len(clusters))
			clusters = append(clusters, []*piece{p})
			continue
		}
		c := known[k][at]
		clusters[c] = append(clusters[c], p)
	}
	return slices.DeleteFunc(clusters, func(c []*piece) bool { return len(c) < 2 })
}

// joinSingles joins single slices. The tighter what they have in common, the less they need to
// stack up.
func joinSingles(all []*piece) {
	const few = 3 // two slices always stack up
	for _, by := range []struct {
		key func(*stack.Slice) string
		// they are slices of one volume, even if some are missing
		sure bool
	}{
		{func(s *stack.Slice) string { return both(s.Image.Study, s.Image.Number) }, true},
		{func(s *stack.Slice) string { return both(s.Image.FrameOfRef, s.Image.Number) }, true},
		{func(s *stack.Slice) string { return filepath.Dir(s.Image.Path) + "\x00" + s.Image.Number }, false},
		{func(s *stack.Slice) string { return filepath.Dir(s.Image.Path) }, false},
		{func(s *stack.Slice) string { return s.Image.Study }, false},
	} {
		for _, singles := range keyed(all, by.key) {
			singles = slices.DeleteFunc(singles, func(p *piece) bool { return len(p.slices) != 1 })
			if len(singles) < few {
				continue
			}
			together := union(singles...)
			if stack.Regular(together) || by.sure && stack.Crowded(together) == 0 {
				merge(singles)
			}
		}
	}
}

// joinParts joins pieces of one study with one series number that stack up two by two.
func joinParts(all []*piece) {
	for _, parts := range keyed(all, func(s *stack.Slice) string {
		if s.Image.Study != "" {
			return s.Image.Study + "\x00" + s.Image.Number
		}
		return filepath.Dir(s.Image.Path) + "\x00" + s.Image.Number
	}) {
		for n := 0; n < len(parts); n++ {
			for m := 0; m < len(parts); m++ {
				if m != n && fit(parts[n], parts[m]) {
					merge([]*piece{parts[n], parts[m]})
					m = -1 // there is more to fit to now
				}
			}
		}
	}
}

// fit reports whether two pieces, at least one of which is more than a slice, are one stack.
func fit(a, b *piece) bool {
	if len(a.slices) < 2 || len(b.slices) == 0 {
		return false
	}
	numbers := map[int]bool{}
	for _, p := range []*piece{a, b} {
		for n := range p.slices {
			im := p.slices[n].Image
			if im.Frames > 1 || im.Instance == 0 || numbers[im.Instance] {
				return false
			}
			numbers[im.Instance] = true
		}
	}
	return stack.Regular(union(a, b))
}

// keyed lists the pieces whose first slices have the same key, where several have it. The empty key
// is none.
func keyed(all []*piece, key func(*stack.Slice) string) (groups [][]*piece) {
	at := map[string]int{}
	for _, p := range all {
		if len(p.slices) == 0 {
			continue
		}
		k := key(&p.slices[0])
		if k == "" {
			continue
		}
		if _, known := at[k]; !known {
			at[k] = len(groups)
			groups = append(groups, nil)
		}
		groups[at[k]] = append(groups[at[k]], p)
	}
	return slices.DeleteFunc(groups, func(g []*piece) bool { return len(g) < 2 })
}

// both is a key of two values, none if the first is missing.
func both(a, b string) string {
	if a == "" {
		return ""
	}
	return a + "\x00" + b
}

// union returns the slices of pieces, sorted.
func union(parts ...*piece) (all []stack.Slice) {
	for _, p := range parts {
		all = append(all, p.slices...)
	}
	sortSlices(all)
	return all
}

// merge puts the slices of all pieces into the first, which leaves the others empty.
func merge(parts []*piece) {
	all := union(parts...)
	for _, p := range parts {
		p.slices = nil
	}
	parts[0].slices = all
}

// sortSlices sorts slices along their normal.
func sortSlices(all []stack.Slice) {
	slices.SortStableFunc(all, func(a, b stack.Slice) int { return cmp.Compare(a.At, b.At) })
}

// identities are the UIDs that images of one volume should share.
var identities = []struct {
	tag   tag.Tag
	value func(*stack.Image) string
}{
	{tag.StudyInstanceUID, func(im *stack.Image) string { return im.Study }},
	{tag.FrameOfReferenceUID, func(im *stack.Image) string { return im.FrameOfRef }},
	{tag.SeriesInstanceUID, func(im *stack.Image) string { return im.Series }},
}

// merged says in which UIDs the slices of a volume differ, in words, or "" if in none.
func merged(all []stack.Slice) string {
	var differ []string
	for _, id := range identities {
		values, missing := map[string]bool{}, 0
		for n := range all {
			value := id.value(all[n].Image)
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

// splitByIdentity divides sorted slices, which do not stack up, by a UID that they should share. It
// returns nil where the parts would be no better: single slices, or parts of one stack.
func splitByIdentity(all []stack.Slice) [][]stack.Slice {
	for _, id := range identities[:2] { // the third has divided them already
		byValue, order := map[string][]stack.Slice{}, []string{}
		for n := range all {
			value := id.value(all[n].Image)
			if byValue[value] == nil {
				order = append(order, value)
			}
			byValue[value] = append(byValue[value], all[n])
		}
		var parts [][]stack.Slice
		for _, value := range order {
			parts = append(parts, byValue[value])
		}
		if len(parts) > 1 && better(all, parts) {
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
		return !slices.ContainsFunc(several, func(p []stack.Slice) bool { return stack.Crowded(p) > 0 && divide(p) == nil })
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
	return math.Abs(b[0].At-a[len(a)-1].At-step) <= stack.Tolerance(step) && math.Abs(next-step) <= stack.Tolerance(step)
}
