// Package quality says what label maps look like where there is no reference to compare them with:
// the volume, height and components of each structure, where the scan's edge cuts it, whether it
// has its mirror partner, and how unusual all this is beside other cases.
//
// Start at [Measure], which measures one label map, and [NewSet], whose [Set.Judge] says what is
// unusual about one. Nothing here knows networks.
package quality

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// A Structure is what one label of a label map measures.
type Structure struct {
	Label      uint16
	Name       string // "" where unknown
	Voxels     int
	Volume     float64    // ml
	Height     float64    // mm from feet to head, from the first voxel's edge to the last one's
	Components int        // of voxels that touch at a face, an edge or a corner
	Largest    float64    // share of the voxels that the largest component has
	Cut        string     // edges of the scan that it reaches, in the order of "LRPAIS"
	Centre     [3]float64 // mm, RAS
}

// Key is the name by which cases have a structure in common.
func (s Structure) Key() string {
	if s.Name != "" {
		return s.Name
	}
	return "label " + strconv.Itoa(int(s.Label))
}

// KeyOf is the key of a label, given the names that a label map has.
func KeyOf(label uint16, names map[uint16]string) string { return named(label, names).Key() }

// named is a structure with its name. A number is none: files do not keep it.
func named(label uint16, names map[uint16]string) Structure {
	s := Structure{Label: label, Name: names[label]}
	if s.Name == strconv.Itoa(int(label)) {
		s.Name = ""
	}
	return s
}

// A Case is the structures of one label map.
type Case struct {
	ID         string
	Structures []Structure // by their labels, ascending
	Undrawn    []string    // keys of structures that nobody drew: their absence says nothing
	// structures that a network can draw and that have no voxel here: label and name alone, by
	// their labels, ascending
	Absent []Structure

	// of labels that several networks or mirror images predicted: the mean DSC of pairs
	Agreement map[uint16]float64
	DSC       map[uint16]float64 // of predictions whose reference is known, from 0 to 1
	Learnt    bool               // the network that predicted has learnt from that reference
}

const edges = "LRPAIS"

// Measure measures the labels that have voxels, in ascending order.
func Measure(l *volume.LabelMap) []Structure {
	type sums struct {
		Structure
		low, high [3]int
		sum       [3]float64
		largest   uint32
	}
	all := map[uint16]*sums{}
	width, plane := l.Shape[0], l.Shape[0]*l.Shape[1]
	growing(l.Labels, l.Shape, func(r run) {
		label := l.Labels[r.start]
		s := all[label]
		if s == nil {
			s = &sums{Structure: named(label, l.Names), low: l.Shape}
			all[label] = s
		}
		at := [3]int{int(r.start) % width, int(r.start) % plane / width, int(r.start) / plane}
		end := at
		end[0] += int(r.length) - 1
		for a := range 3 {
			s.low[a], s.high[a] = min(s.low[a], at[a]), max(s.high[a], end[a])
			s.sum[a] += float64(r.length) * float64(at[a]+end[a]) / 2
		}
		s.Voxels += int(r.length)
	}, func(label uint16, more int, voxels uint32) {
		s := all[label]
		s.Components += more
		s.largest = max(s.largest, voxels)
	})
	spacing, codes := l.Spacing(), l.Axcodes()
	measured := make([]Structure, 0, len(all))
	for _, s := range all {
		s.Volume = float64(s.Voxels) * spacing[0] * spacing[1] * spacing[2] / 1000
		s.Largest = float64(s.largest) / float64(s.Voxels)
		for a := range 3 {
			s.sum[a] /= float64(s.Voxels)
			towards := strings.IndexByte(edges, codes[a])
			if towards>>1 == 2 {
				s.Height = float64(s.high[a]-s.low[a]+1) * spacing[a]
			}
		}
		s.Centre = l.World(s.sum)
		for n := range edges {
			a := strings.IndexAny(codes, edges[n&^1:n|1+1])
			if last := codes[a] == edges[n]; last && s.high[a] == l.Shape[a]-1 || !last && s.low[a] == 0 {
				s.Cut += edges[n : n+1]
			}
		}
		measured = append(measured, s.Structure)
	}
	slices.SortFunc(measured, func(x, y Structure) int { return int(x.Label) - int(y.Label) })
	return measured
}

// Absent lists, of the labels that a network can draw, those that a label map does not have, in
// ascending order.
func Absent(l []Structure, labels []uint16, names map[uint16]string) (absent []Structure) {
	for _, label := range slices.Sorted(slices.Values(labels)) {
		if !slices.ContainsFunc(l, func(s Structure) bool { return s.Label == label }) {
			absent = append(absent, named(label, names))
		}
	}
	return absent
}

// MeasurePrepared measures labels on the grid of a prepared case. Where a part of the scan was
// prepared, only the edges of the scan itself count as such.
func MeasurePrepared(r prepared.Record, l *volume.LabelMap) Case {
	c := Case{ID: r.ID, Structures: Measure(l)}
	for _, label := range l.Undrawn {
		c.Undrawn = append(c.Undrawn, named(label, l.Names).Key())
	}
	bounds, codes := r.Bounds(), r.Original.Axcodes()
	inner := func(edge rune) bool {
		n := strings.IndexRune(edges, edge)
		a := strings.IndexAny(codes, edges[n&^1:n|1+1])
		if codes[a] == edges[n] {
			return bounds.Box.Origin[a]+bounds.Box.Size[a] < r.Original.Shape[a]
		}
		return bounds.Box.Origin[a] > 0
	}
	for n := range c.Structures {
		c.Structures[n].Cut = strings.Map(func(edge rune) rune {
			if inner(edge) {
				return -1
			}
			return edge
		}, c.Structures[n].Cut)
	}
	return c
}

var words = regexp.MustCompile(`[A-Za-z]+`)

var otherSide = map[string]string{"left": "right", "right": "left", "lt": "rt", "rt": "lt", "l": "r", "r": "l"}

// Partner is the name of the structure on the other side of the body: Parotid_L and Parotid_R are
// partners. left says which side the name says. Names that say none, or several, have none.
func Partner(name string) (partner string, left, paired bool) {
	var at []int
	for _, found := range words.FindAllStringIndex(name, -1) {
		if otherSide[strings.ToLower(name[found[0]:found[1]])] == "" {
			continue
		}
		if at != nil {
			return "", false, false
		}
		at = found
	}
	if at == nil {
		return "", false, false
	}
	word := name[at[0]:at[1]]
	other := otherSide[strings.ToLower(word)]
	switch {
	case word == strings.ToUpper(word):
		other = strings.ToUpper(other)
	case word[0] < 'a':
		other = strings.ToUpper(other[:1]) + other[1:]
	}
	return name[:at[0]] + other + name[at[1]:], strings.EqualFold(word[:1], "l"), true
}
