package quality

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Fewest is how many cases must have a structure before one of them can be called unusual.
const Fewest = 8

// Unusual is the modified z-score from which on a value is an outlier (Iglewicz and Hoaglin, How to
// detect and handle outliers, 1993).
const Unusual = 3.5

// A Range is where the values of many cases lie, whatever a few of them are.
type Range struct {
	N             int
	Median, Scale float64 // Scale is the standard deviation where values are normal
}

// RangeOf is the median and the median absolute deviation of values; where more than half of them
// are equal, the mean absolute deviation. Both are made consistent with a standard deviation.
func RangeOf(values []float64) Range {
	const normalMAD, normalMean = 0.6744897501960817, 0.7978845608028654 // of a standard deviation
	r := Range{N: len(values)}
	if r.N == 0 {
		return r
	}
	r.Median = median(slices.Clone(values))
	away, sum := make([]float64, r.N), 0.0
	for n, x := range values {
		away[n] = math.Abs(x - r.Median)
		sum += away[n]
	}
	if r.Scale = median(away) / normalMAD; r.Scale == 0 {
		r.Scale = sum / float64(r.N) / normalMean
	}
	return r
}

func median(values []float64) float64 {
	slices.Sort(values)
	return (values[(len(values)-1)/2] + values[len(values)/2]) / 2
}

// Z is how many scales a value lies above the median; 0 where there are too few values to tell.
// Where all of them are alike, which leaves no scale, any other value is unusual.
func (r Range) Z(x float64) float64 {
	away := x - r.Median
	switch {
	case r.N < Fewest:
		return 0
	case r.Scale > 0:
		return away / r.Scale
	case math.Abs(away) <= 1e-6*math.Abs(r.Median):
		return 0
	}
	return math.Copysign(certain, away)
}

// A Set is the cases that others are held against.
type Set struct {
	Cases      int
	structures map[string]*ranges
	pairs      map[string]Range // log of the left one's volume over its partner's, by its key
	// SeldomDrawn are structures of a set for label maps ([NewSetFor]) that are held against the
	// label maps themselves, for too few cases have them drawn; in the order of their keys.
	SeldomDrawn []string
}

type ranges struct {
	of                int // cases that could have it: nobody left it undrawn there
	logVolume, height Range
	pieces            []int // components, ascending
	by                map[piecesOf]bool
	agreement         Range
	dsc               map[bool]Range // by whether the network has learnt from the labels
	cut               map[rune]int   // cases in which the edge of the scan cuts it
}

// piecesOf is how many components a case has.
type piecesOf struct {
	id string
	n  int
}

// seldom says whether so many components are too rare: no more than a twentieth of the cases has as
// many, or the judged one alone, where it is one of these.
func (r *ranges) seldom(id string, n int) bool {
	most := len(r.pieces) / 20
	if r.by[piecesOf{id, n}] {
		most = max(most, 1)
	}
	return len(r.pieces) >= Fewest && r.withPieces(n) <= most
}

// withPieces counts the cases that have as many components, or more.
func (r *ranges) withPieces(n int) int {
	at, _ := slices.BinarySearch(r.pieces, n)
	return len(r.pieces) - at
}

// NewSet makes a set of cases.
func NewSet(cases []Case) *Set {
	s := &Set{Cases: len(cases), structures: map[string]*ranges{}, pairs: map[string]Range{}}
	type values struct{ logVolume, height []float64 }
	all, ratios := map[string]*values{}, map[string][]float64{}
	for _, c := range cases {
		for _, one := range c.Structures {
			key := one.Key()
			if all[key] == nil {
				all[key], s.structures[key] = &values{}, &ranges{cut: map[rune]int{}, by: map[piecesOf]bool{}}
			}
			v := all[key]
			v.logVolume, v.height = append(v.logVolume, math.Log(one.Volume)), append(v.height, one.Height)
			s.structures[key].pieces = append(s.structures[key].pieces, one.Components)
			s.structures[key].by[piecesOf{c.ID, one.Components}] = true
			for _, edge := range one.Cut {
				s.structures[key].cut[edge]++
			}
			if partner := c.partner(one); partner != nil && partner.left {
				ratios[key] = append(ratios[key], math.Log(one.Volume/partner.Volume))
			}
		}
	}
	for key, v := range all {
		r := s.structures[key]
		r.logVolume, r.height = RangeOf(v.logVolume), RangeOf(v.height)
		slices.Sort(r.pieces)
	}
	for key, v := range ratios {
		s.pairs[key] = RangeOf(v)
	}
	for key, r := range s.structures {
		for _, c := range cases {
			if !slices.Contains(c.Undrawn, key) {
				r.of++
			}
		}
	}
	s.Networks(cases)
	return s
}

// NewSetFor makes the set that label maps of networks are held against: the labels that people
// drew, or, of a structure that was drawn in fewer than [Fewest] cases, the label maps themselves.
// Their agreement and DSC are held against their own in both.
func NewSetFor(maps, drawn []Case) *Set {
	own := NewSet(maps)
	if len(drawn) < Fewest {
		return own
	}
	s := NewSet(drawn)
	for key, r := range own.structures {
		if of := s.structures[key]; of == nil || of.logVolume.N < Fewest {
			s.structures[key] = r
			s.SeldomDrawn = append(s.SeldomDrawn, key)
		}
	}
	slices.Sort(s.SeldomDrawn)
	for key, r := range own.pairs {
		if s.pairs[key].N < Fewest {
			s.pairs[key] = r
		}
	}
	s.Networks(maps)
	return s
}

// Networks makes cases those that the agreement and the DSC of others are held against: these may
// be predictions, where the set is of labels that people drew. A network draws what it has learnt
// better than what it has not: the DSC of either is held against that of its kind alone.
func (s *Set) Networks(cases []Case) {
	agreement, dsc := map[string][]float64{}, map[bool]map[string][]float64{false: {}, true: {}}
	for _, c := range cases {
		for _, one := range c.Structures {
			if x, known := c.Agreement[one.Label]; known {
				agreement[one.Key()] = append(agreement[one.Key()], x)
			}
			if x, known := c.DSC[one.Label]; known {
				dsc[c.Learnt][one.Key()] = append(dsc[c.Learnt][one.Key()], x)
			}
		}
	}
	for key, r := range s.structures {
		r.agreement = RangeOf(agreement[key])
		r.dsc = map[bool]Range{false: RangeOf(dsc[false][key]), true: RangeOf(dsc[true][key])}
	}
}

// Judges says whether enough cases have a structure to call one of them unusual.
func (s *Set) Judges(key string) bool { return s.Has(key) >= Fewest }

// Has says how many cases of the set have a structure.
func (s *Set) Has(key string) int {
	if r := s.structures[key]; r != nil {
		return r.logVolume.N
	}
	return 0
}

// VolumeZ is how unusual a structure's volume is, on a scale of ratios.
func (s *Set) VolumeZ(one Structure) float64 {
	if r := s.structures[one.Key()]; r != nil {
		return r.logVolume.Z(math.Log(one.Volume))
	}
	return 0
}

// HeightZ is how unusual its height is.
func (s *Set) HeightZ(one Structure) float64 {
	if r := s.structures[one.Key()]; r != nil {
		return r.height.Z(one.Height)
	}
	return 0
}

type partnered struct {
	*Structure
	left bool // the structure that was asked for
}

// partner is the structure on the other side; nil where the case has none.
func (c Case) partner(of Structure) *partnered {
	name, left, paired := Partner(of.Name)
	at := slices.IndexFunc(c.Structures, func(s Structure) bool { return s.Name == name })
	if !paired || at < 0 {
		return nil
	}
	return &partnered{&c.Structures[at], left}
}

// A Finding is what is unusual about a structure.
type Finding struct {
	Key     string
	Unusual float64 // how much: 3.5 is barely so
	Reason  string  // for a person
}

// String names the structure, too.
func (f Finding) String() string { return f.Key + ": " + f.Reason }

// A structure that is there or not, on its side or not, has no z-score: it counts as one.
const certain = 2.0 * Unusual

// Judge says what is unusual about a case, the worst first.
func (s *Set) Judge(c Case) []Finding {
	var found []Finding
	add := func(key string, z float64, format string, args ...any) {
		if z = math.Abs(z); z >= Unusual {
			found = append(found, Finding{key, z, fmt.Sprintf(format, args...)})
		}
	}
	for _, one := range c.Structures {
		key := one.Key()
		r := s.structures[key]
		if r == nil {
			r = &ranges{pieces: []int{one.Components}}
		}
		cut := s.cutBy(one, r)
		z := r.logVolume.Z(math.Log(one.Volume))
		add(key, z, "volume %.3g ml, where others have %.3g ml (z %+.1f)", one.Volume, math.Exp(r.logVolume.Median), z)
		z = r.height.Z(one.Height)
		add(key, z, "height %.3g mm, where others have %.3g mm (z %+.1f)%s", one.Height, r.height.Median, z, cut)
		if one.Components > r.pieces[len(r.pieces)/2] && r.seldom(c.ID, one.Components) {
			z = certain
			if one.Largest > 0.99 { // a few stray voxels are little, however rare
				z = Unusual
			}
			add(key, z, "%d components, where others have %d", one.Components, r.pieces[len(r.pieces)/2])
		}
		if cut != "" && (math.Abs(r.height.Z(one.Height)) < Unusual) {
			add(key, Unusual, "%s", strings.TrimPrefix(cut, ", "))
		}
		if x, known := c.Agreement[one.Label]; known && x < r.agreement.Median {
			add(key, r.agreement.Z(x), "predictions agree to %.2f, elsewhere to %.2f", x, r.agreement.Median)
		}
		if x, known := c.DSC[one.Label]; known && x < r.dsc[c.Learnt].Median {
			others := r.dsc[c.Learnt]
			add(key, others.Z(x), "the network draws it otherwise: DSC %.2f, elsewhere %.2f", x, others.Median)
		}
		if p := c.partner(one); p != nil && p.left {
			if one.Centre[0] > p.Centre[0] {
				add(key, certain, "lies to the right of %s", p.Name)
			}
			pair := s.pairs[key]
			z = pair.Z(math.Log(one.Volume / p.Volume))
			add(key, z, "volume %.2g times that of %s, elsewhere %.2g times (z %+.1f)", one.Volume/p.Volume, p.Name,
				math.Exp(pair.Median), z)
		}
	}
	for _, key := range s.Missing(c) {
		add(key, certain, "missing, and %d of %d others have it", s.Has(key), s.structures[key].of)
	}
	slices.SortFunc(found, func(x, y Finding) int {
		return cmp.Or(cmp.Compare(y.Unusual, x.Unusual), strings.Compare(x.Key, y.Key),
			strings.Compare(x.Reason, y.Reason))
	})
	return found
}

// Missing lists the structures that this case does not have, and nine tenths of the set have: of
// the cases in which nobody left them undrawn.
func (s *Set) Missing(c Case) (keys []string) {
	for key, r := range s.structures {
		here := slices.ContainsFunc(c.Structures, func(one Structure) bool { return one.Key() == key })
		if n := r.logVolume.N; !here && n >= Fewest && 10*n >= 9*r.of && !slices.Contains(c.Undrawn, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// cutBy says which edges of the scan cut a structure here and in less than a fifth of the others;
// "" for none.
func (s *Set) cutBy(one Structure, r *ranges) string {
	words := map[rune]string{'L': "left", 'R': "right", 'P': "back", 'A': "front", 'I': "lower", 'S': "upper"}
	var which []string
	for _, edge := range one.Cut {
		if r.logVolume.N >= Fewest && 5*r.cut[edge] < r.logVolume.N {
			which = append(which, words[edge])
		}
	}
	if which == nil {
		return ""
	}
	return fmt.Sprintf(", cut by the scan's %s edge", strings.Join(which, " and "))
}
