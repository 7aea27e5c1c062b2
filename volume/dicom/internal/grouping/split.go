package grouping

import (
	"cmp"
	"maps"
	"path/filepath"
	"slices"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/element"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
	"github.com/voxsaw/voxsaw/volume/dicom/internal/tag"
)

// split sorts slices along the normal and divides them into volumes where they are several. Copies
// are files whose images are there twice.
func split(all []stack.Slice) (parts [][]stack.Slice, copies []string) {
	if !all[0].Located() {
		all, copies = withoutCopies(all, sameInstance)
		return [][]stack.Slice{all}, copies
	}
	sortSlices(all)
	if parts := by(stack.KernelTag, all); volumes(parts) {
		// even where they interleave evenly: sharp and smooth slices are no volume
		return parts, nil
	}
	if stack.Regular(all) {
		return [][]stack.Slice{all}, nil
	}
	all, copies = withoutCopies(all, sameInstance)
	if stack.Regular(all) {
		return [][]stack.Slice{all}, copies
	}
	if several := splitByIdentity(all); several != nil {
		for _, one := range several {
			finer, again := split(one)
			parts, copies = append(parts, finer...), append(copies, again...)
		}
		return parts, copies
	}
	if parts := volumesIn(all); parts != nil {
		return parts, copies
	}
	// Images that were sent again under other UIDs make one volume once they are gone. Volumes that
	// differ do not.
	once, again := withoutCopies(all, samePosition)
	if stack.Regular(once) {
		return [][]stack.Slice{once}, append(copies, again...)
	}
	for key, t := range stack.VolumeTags {
		if slices.Contains(stack.TimeTags, t) {
			if parts := byTime(key, all); volumes(parts) {
				return parts, copies
			}
		}
	}
	// Whatever else is wrong will be said of what is left: of each volume, where an attribute keeps
	// slices of one place apart.
	for key := range stack.VolumeTags {
		if parts := by(key, once); len(parts) > 1 && stack.Crowded(once) > 0 &&
			!slices.ContainsFunc(parts, func(p []stack.Slice) bool { return stack.Crowded(p) > 0 }) {
			return parts, append(copies, again...)
		}
	}
	return [][]stack.Slice{once}, append(copies, again...)
}

// volumesIn returns the volumes that sorted slices are by their attributes, or nil if they are not
// several.
func volumesIn(all []stack.Slice) [][]stack.Slice {
	// By one attribute, if that is enough; else by one after the other (echoes of several types).
	for key := range stack.VolumeTags {
		if parts := by(key, all); volumes(parts) {
			return parts
		}
	}
	parts := [][]stack.Slice{all}
	for key := range stack.VolumeTags {
		var finer [][]stack.Slice
		for _, part := range parts {
			if smaller := by(key, part); !stack.Regular(part) && smaller != nil {
				finer = append(finer, smaller...)
			} else {
				finer = append(finer, part)
			}
		}
		parts = finer
	}
	if volumes(parts) {
		return parts
	}
	return nil
}

// by divides sorted slices by the value of an attribute, or returns nil if that makes single slices
// of them, or no difference.
func by(key int, all []stack.Slice) [][]stack.Slice {
	return divided(all, func(s *stack.Slice) string { return s.Info.VolumeKeys[key] })
}

func divided(all []stack.Slice, key func(*stack.Slice) string) [][]stack.Slice {
	values := map[string][]stack.Slice{}
	for n := range all {
		values[key(&all[n])] = nil
	}
	if len(values) < 2 || len(values) > len(all)/2 {
		return nil
	}
	for n := range all {
		k := key(&all[n])
		values[k] = append(values[k], all[n])
	}
	var parts [][]stack.Slice
	for _, key := range slices.SortedFunc(maps.Keys(values), CompareValues) {
		parts = append(parts, values[key])
	}
	return parts
}

// CompareValues orders attributes: those that are numbers as such, before all others.
func CompareValues(a, b string) int {
	x, errX := element.Decimal(a)
	y, errY := element.Decimal(b)
	switch {
	case errX == nil && errY == nil:
		return cmp.Or(cmp.Compare(x, y), cmp.Compare(a, b))
	case errX == nil:
		return -1
	case errY == nil:
		return 1
	}
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

// byTime divides sorted slices, each of which may have a time of its own, into volumes that were
// taken one after the other: as many as there are slices in each place, where all of one volume are
// earlier than any of the next. It returns nil where times do not say that.
func byTime(key int, all []stack.Slice) [][]stack.Slice {
	places := len(all) - stack.Crowded(all)
	if len(all)%places != 0 || places == len(all) {
		return nil
	}
	time := func(s *stack.Slice) string { return s.Info.VolumeKeys[key] }
	compare := cmp.Compare[string] // of times of day, which may be cut short: 1200 for 120000
	if stack.VolumeTags[key] == tag.FrameReferenceTime {
		compare = CompareValues
	}
	order := slices.Clone(all)
	slices.SortStableFunc(order, func(a, b stack.Slice) int { return compare(time(&a), time(&b)) })
	var parts [][]stack.Slice
	for part := range slices.Chunk(order, places) {
		if n := len(parts); n > 0 && compare(time(&parts[n-1][places-1]), time(&part[0])) >= 0 {
			return nil
		}
		parts = append(parts, slices.Clone(part))
	}
	for _, part := range parts {
		sortSlices(part)
	}
	return parts
}

// volumes says whether parts are several regular stacks that lie in the same place. Those that lie
// one behind the other are one stack with a gap.
func volumes(parts [][]stack.Slice) bool {
	inside := false
	for n, part := range parts {
		if len(part) < 2 || !stack.Regular(part) {
			return false
		}
		for _, other := range parts[:n] {
			inside = inside || part[0].At < other[len(other)-1].At-stack.SamePlace &&
				other[0].At < part[len(part)-1].At-stack.SamePlace
		}
	}
	return inside
}

// Interleaved says in what sorted slices differ that could be several volumes as well, each
// regular, in one place, or "".
func Interleaved(all []stack.Slice) string {
	if !all[0].Located() || !stack.Regular(all) {
		return ""
	}
	for key, t := range stack.VolumeTags {
		if !slices.Contains(stack.TimeTags, t) && volumes(by(key, all)) {
			return t.String()
		}
	}
	if volumes(divided(all, func(s *stack.Slice) string { return filepath.Dir(s.Image.Path) })) {
		return "their folders"
	}
	return ""
}
