package grouping

import (
	"math"
	"slices"

	"github.com/voxsaw/voxsaw/volume/dicom/internal/stack"
)

// This file: whether sorted slices stack up as those of one series do. The evidence is where they
// lie and how they are numbered. What is wrong with such a series, a slice that is missing or there
// twice, is said when it is read, as of a series with one UID.

// few is how many places slices of different series must have to be a stack: two always stack up.
const few = 3

// one reports whether sorted slices are one series.
func one(all []stack.Slice) bool {
	if uniform(all, seriesOf) {
		return onLattice(all) || inOrder(all)
	}
	if len(placesOf(all)) < few || contradictory(all) || complete(all) {
		return false
	}
	even, counted := onLattice(all), inOrder(all)
	switch {
	case even && counted:
		return related(all) || !severalNamed(all)
	case severalNumbers(all):
		return false
	}
	return (even || counted) && related(all)
}

// severalNamed reports whether several series have a UID that more than one slice has.
func severalNamed(all []stack.Slice) bool {
	count, named := map[string]int{}, 0
	for n := range all {
		if uid := all[n].Image.Series; uid != "" {
			if count[uid]++; count[uid] == 2 {
				named++
			}
		}
	}
	return named > 1
}

// placesOf lists where sorted slices lie, each place once.
func placesOf(all []stack.Slice) (at []float64) {
	for n := range all {
		if n == 0 || all[n].At-at[len(at)-1] >= stack.SamePlace {
			at = append(at, all[n].At)
		}
	}
	return at
}

// fewDoubles reports whether no more slices lie in the place of another than an accident explains.
func fewDoubles(doubles, places int) bool { return doubles <= max(1, places/10) }

// onLattice reports whether sorted slices are an even stack in which some slices may be missing or
// there twice: at least half of the distances are one step, and no more than a third as many slices
// are missing as there are.
func onLattice(all []stack.Slice) bool {
	at := placesOf(all)
	if !fewDoubles(len(all)-len(at), len(at)) {
		return false
	}
	if even, _, _ := stack.Evenly(at); even {
		return true
	}
	distances := make([]float64, len(at)-1)
	for n := range distances {
		distances[n] = at[n+1] - at[n]
	}
	// Rounded positions: the median of those that may be one step.
	least := slices.Min(distances)
	single := slices.DeleteFunc(slices.Clone(distances), func(d float64) bool { return d > 1.5*least })
	slices.Sort(single)
	step := single[len(single)/2]
	last, index := 0.0, make([]float64, len(at))
	for n, d := range distances {
		last += math.Round(d / step)
		index[n+1] = last
	}
	if missing := int(last) + 1 - len(at); 2*len(single) < len(distances) || 3*missing > len(at) {
		return false
	}
	step = (at[len(at)-1] - at[0]) / last
	low, high := 0.0, 0.0
	for n := range at {
		off := at[n] - at[0] - index[n]*step
		low, high = min(low, off), max(high, off)
	}
	return (high-low)/2 <= stack.Tolerance(step)
}

// inOrder reports whether the instance numbers of sorted slices go up or down with their places, so
// that one series has counted them, and no slice lies far from the next.
func inOrder(all []stack.Slice) bool {
	const (
		least = 4 // fewer are in order by chance
		far   = 5 // times the usual distance
	)
	at := placesOf(all)
	if len(at) < least || !fewDoubles(len(all)-len(at), len(at)) {
		return false
	}
	if gap, median := stack.GapIn(at); at[gap+1]-at[gap] > far*median {
		return false
	}
	up := all[len(all)-1].Image.Instance > all[0].Image.Instance
	for n := range all {
		im := all[n].Image
		if im.Frames > 1 || im.Instance == 0 {
			return false
		}
		if n == 0 || all[n].At-all[n-1].At < stack.SamePlace {
			continue // of two in one place, one may have any number
		}
		before := n - 1
		for before > 0 && all[before].At-all[before-1].At < stack.SamePlace {
			before--
		}
		if a, b := all[before].Image.Instance, im.Instance; a == b || (b > a) != up {
			return false
		}
	}
	return true
}

// complete reports whether one of the series has a slice in each place, so that what else lies
// there is none of it.
func complete(all []stack.Slice) bool {
	places := len(placesOf(all))
	return slices.ContainsFunc(parted(all, seriesOf),
		func(one []stack.Slice) bool { return len(one) < len(all) && len(placesOf(one)) == places })
}

// contradictory reports whether something says that slices are of several series: two modalities,
// one instance number in two places, or a file of another series that holds many slices, which is a
// volume by itself.
func contradictory(all []stack.Slice) bool {
	several := slices.ContainsFunc(all, func(s stack.Slice) bool { return s.Image.Frames > 1 })
	return several || !uniform(all, modalityOf) || numberedTwice(all)
}

// severalNumbers reports whether slices have several series numbers. If each slice has one of its
// own, it says nothing.
func severalNumbers(all []stack.Slice) bool {
	count, most := map[string]int{}, 0
	for n := range all {
		if number := numberOf(&all[n]); number != "" {
			count[number]++
			most = max(most, count[number])
		}
	}
	return len(count) > 1 && most > 1
}

// numberedTwice reports whether slices in different places have one instance number. Where all have
// the same, it says nothing.
func numberedTwice(all []stack.Slice) bool {
	places, twice := map[int]float64{}, false
	for n := range all {
		instance := all[n].Image.Instance
		if instance == 0 {
			continue
		}
		at, known := places[instance]
		if known && math.Abs(all[n].At-at) >= stack.SamePlace {
			twice = true
		}
		places[instance] = all[n].At
	}
	return twice && len(places) > 1
}

// related reports whether slices have something in common with each other, directly or through
// others: a series, study or frame of reference, or their folder.
func related(all []stack.Slice) bool {
	parent := make([]int, len(all))
	for n := range parent {
		parent[n] = n
	}
	root := func(n int) int {
		for parent[n] != n {
			parent[n] = parent[parent[n]]
			n = parent[n]
		}
		return n
	}
	for _, value := range belongings {
		first := map[string]int{}
		for n := range all {
			v := value(&all[n])
			if v == "" {
				continue
			}
			if f, known := first[v]; known {
				parent[root(n)] = root(f)
			} else {
				first[v] = n
			}
		}
	}
	for n := range parent {
		if root(n) != root(0) {
			return false
		}
	}
	return true
}
