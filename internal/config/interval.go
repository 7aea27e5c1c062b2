package config

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
)

// An interval is the numbers that a setting may have. The zero value holds every number.
type interval struct {
	low, high             float64
	bounded               bool
	excludeLow, excludeUp bool // the ends themselves are outside
	// most is the largest whole number that is no slip of the fingers: only who exceeds it is told
	// of it; 0: none
	most float64
}

// What whole numbers are at most whose tags say nothing else: counts, and lengths in voxels. With
// larger ones, computations of sizes overflow.
const (
	mostOfCounts  = 1e7
	mostOfExtents = 4096
)

// fromZero holds for settings that do not say what they may be: nothing here is counted, measured
// or weighed in negative numbers, and infinity is no setting.
var fromZero = interval{low: 0, high: math.Inf(1), bounded: true, excludeUp: true}

// intervalOf is what the tags range and most of a field say, such as "[0,1)" or "(0,)". A tag that
// cannot be read is a programmer's mistake.
func intervalOf(t reflect.Type, f reflect.StructField) interval {
	text, tagged := f.Tag.Lookup("range")
	if !tagged && (helpOf(t, f) == "" || f.Tag.Get("flag") == "-") {
		return interval{} // not a user's
	}
	within := fromZero
	if tagged {
		within = rangeOf(f, text)
	}
	kind := f.Type.Kind()
	if kind == reflect.Array || kind == reflect.Slice {
		kind = f.Type.Elem().Kind()
	}
	switch text, tagged := f.Tag.Lookup("most"); {
	case tagged:
		most, err := strconv.ParseFloat(text, 64)
		if err != nil {
			panic(fmt.Sprintf("config: most %q of %s: %v", text, f.Name, err))
		}
		within.most = most
	case kind == reflect.Int && isExtents(f.Type):
		within.most = mostOfExtents
	case kind == reflect.Int:
		within.most = mostOfCounts
	}
	return within
}

// rangeOf reads the tag range of a field.
func rangeOf(f reflect.StructField, text string) interval {
	low, high, two := strings.Cut(strings.Trim(text, "[]()"), ",")
	if !two {
		panic(fmt.Sprintf("config: range %q of %s: want an interval such as [0,1) or (0,)", text, f.Name))
	}
	end := func(word string, open float64) float64 {
		if word == "" {
			return open
		}
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			panic(fmt.Sprintf("config: range %q of %s: %v", text, f.Name, err))
		}
		return x
	}
	return interval{
		low: end(low, math.Inf(-1)), high: end(high, math.Inf(1)), bounded: true,
		excludeLow: text[0] == '(', excludeUp: text[len(text)-1] == ')',
	}
}

// holds tells whether a number lies in the interval.
func (i interval) holds(x float64) bool {
	return !i.bounded || (x > i.low || x == i.low && !i.excludeLow) && (x < i.high || x == i.high && !i.excludeUp)
}

// String says in words which numbers the interval holds.
func (i interval) String() string {
	least, most := "", ""
	switch {
	case math.IsInf(i.low, -1):
	case i.excludeLow:
		least = fmt.Sprintf("more than %g", i.low)
	default:
		least = fmt.Sprintf("%g or more", i.low)
	}
	switch {
	case math.IsInf(i.high, 1):
	case i.excludeUp:
		most = fmt.Sprintf("less than %g", i.high)
	default:
		most = fmt.Sprintf("at most %g", i.high)
	}
	switch {
	case least == "" && most == "":
		return "a finite number"
	case least != "" && most != "":
		return least + " and " + most
	}
	return least + most
}

// checkNumbers holds the numbers of a leaf against the interval.
func (i interval) checkNumbers(v reflect.Value) error {
	if isList(v.Type()) {
		for n := range v.Len() {
			if err := i.checkNumbers(v.Index(n)); err != nil {
				return err
			}
		}
		return nil
	}
	if isText(v.Type()) || v.Type() == duration {
		return nil // it knows itself what it may be
	}
	var x float64
	switch {
	case v.CanInt():
		x = float64(v.Int())
	case v.CanUint():
		x = float64(v.Uint())
	case v.CanFloat():
		x = v.Float()
	default:
		return nil
	}
	if !i.holds(x) {
		return fmt.Errorf("want %v, not %s", i, scalarText(v))
	}
	if i.most > 0 && x > i.most {
		return fmt.Errorf("want at most %.0f, not %s", i.most, scalarText(v))
	}
	return nil
}
