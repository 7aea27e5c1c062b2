// Package config turns a tagged struct into a YAML file, a set of flags and back, so that an option
// is declared once, where it is used.
//
// Start at [Bind] and [Resolve]: a command fills its struct with defaults, binds it to its flags,
// and after parsing resolves it. Precedence is default < YAML < flag. [Marshal] writes the resolved
// struct, with the help texts as comments, into a run's folder, and [Parse] reads it back.
//
// A field is described by its tags:
//
//	yaml:"name"        key in the file; ",inline" (or an embedded struct without a name) lifts the
//	                   fields of a struct up; "-" hides a field;
//	                   ",omitempty" leaves a zero value out of what [Marshal] writes
//	help:"text"        the flag's usage and the file's comment. Fields of exported structs in public
//	                   packages have none: the first paragraph of their comment is it, which
//	                   scripts/help writes to help.txt; "-": the comment is no help
//	flag:"name"        the flag's name instead of the kebab-case of the key; "-" for none; on a
//	                   struct, a prefix for the flags of its fields
//	oneof:"a b c"      the only words that a string may be
//	words:"auto=0"     words that stand for numbers, in the file and as a flag: in a list each of them
//	                   does, and one alone for all where a list has three; a number that the range
//	                   leaves out can be said by its word alone
//	range:"[0,1)"      the numbers that it may be, and that each number of a list may be: an interval,
//	                   with a round bracket where the end is outside and nothing for an open end;
//	                   without the tag, a number with a help text is 0 or more, and finite
//	last:"text"        the last number of an array may be left out, and is 0 then; the text says what
//	                   it is, after the help
//	most:"4096"        the largest whole number, where it is not ten million, or 4096 of each of several
//	                   lengths; seeds (uint64) have none
//
// A [OneOf] stands for one of several structs, a [Section] for a part that is read later. Leaves
// are strings, booleans, numbers, [time.Duration], slices and arrays of them, and anything that is
// an [encoding.TextUnmarshaler]. Lists and maps of structs are read from files and have no flags.
// What the package leaves out: environment variables, anchors and aliases in YAML, and checks
// across fields, which belong to the struct's owner.
package config

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// field is one key of a struct.
type field struct {
	key    string
	help   string
	flag   string // name or prefix; "-" for none; "" for the default
	choice []string
	spare  bool // not written where it is zero
	words  []word
	last   string // of an array whose last number may be left out: what that is
	within interval
	value  reflect.Value
}

// fields lists the keys of a struct in the order of their declaration, inlined structs in place.
func fields(v reflect.Value) []field {
	var all []field
	t := v.Type()
	for n := range t.NumField() {
		f := t.Field(n)
		key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		flags := strings.Split(options, ",")
		if f.Type == oneOf {
			o := v.Field(n).Addr().Interface().(*OneOf)
			all = append(all, o.selector())
			all = append(all, fields(pointee(o.Value()))...)
			continue
		}
		inline := isInline(f)
		if key == "-" || !f.IsExported() && !inline {
			continue
		}
		if inline && f.Type.Kind() == reflect.Struct {
			all = append(all, fields(v.Field(n))...)
			continue
		}
		key = cmp.Or(key, strings.ToLower(f.Name))
		all = append(all, field{
			key: key, help: helpOf(t, f), flag: f.Tag.Get("flag"), choice: strings.Fields(f.Tag.Get("oneof")),
			spare: slices.Contains(flags, "omitempty"), words: wordsOf(f), last: f.Tag.Get("last"),
			within: intervalOf(t, f), value: v.Field(n),
		})
	}
	return all
}

// isInline says whether the keys of a struct's field are lifted up.
func isInline(f reflect.StructField) bool {
	key, options, _ := strings.Cut(f.Tag.Get("yaml"), ",")
	return slices.Contains(strings.Split(options, ","), "inline") || f.Anonymous && key == ""
}

// pointee is the struct that cfg points to. Anything else is a programmer's mistake.
func pointee(cfg any) reflect.Value {
	v := reflect.ValueOf(cfg)
	if v.Kind() != reflect.Pointer || v.IsNil() || v.Elem().Kind() != reflect.Struct {
		panic(fmt.Sprintf("config: %T is not a pointer to a struct", cfg))
	}
	return v.Elem()
}

// kebab writes a key the way flags are written: learning_rate and learningRate become
// learning-rate.
func kebab(key string) string {
	var b strings.Builder
	previous := ' '
	for _, r := range key {
		switch {
		case r == '_' || r == '.' || r == ' ':
			r = '-'
		case unicode.IsUpper(r):
			if unicode.IsLower(previous) || unicode.IsDigit(previous) {
				b.WriteByte('-')
			}
			r = unicode.ToLower(r)
			previous = 'A'
			b.WriteRune(r)
			continue
		}
		previous = r
		b.WriteRune(r)
	}
	return b.String()
}

// Nearest lists the keys that are the fewest edits away from a misspelt one, if that is less than
// about half of it.
func Nearest(word string, keys []string) []string {
	if len(word) > 100 {
		return nil // not a slip of the fingers
	}
	var best []string
	least := max(len(word)/2, 1)
	for _, k := range keys {
		d := edits(strings.ToLower(word), strings.ToLower(k))
		if word != "" && (strings.HasPrefix(k, word) || strings.HasPrefix(word, k)) {
			d = min(d, 1) // an abbreviation, or a word too long
		}
		if d < least {
			best, least = nil, d
		}
		if d == least {
			best = append(best, k)
		}
	}
	return best
}

// edits is the Damerau-Levenshtein distance (optimal string alignment): insertions, deletions,
// substitutions and swaps of neighbours.
func edits(a, b string) int {
	s, t := []rune(a), []rune(b)
	before, above := make([]int, len(t)+1), make([]int, len(t)+1)
	for j := range above {
		above[j] = j
	}
	for i := range s {
		row := make([]int, len(t)+1)
		row[0] = i + 1
		for j := range t {
			cost := 1
			if s[i] == t[j] {
				cost = 0
			}
			row[j+1] = min(above[j+1]+1, row[j]+1, above[j]+cost)
			if i > 0 && j > 0 && s[i] == t[j-1] && s[i-1] == t[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, above = above, row
	}
	return above[len(t)]
}

// unknown is the error for a key that no field has, or a word that is no choice. prefix is what
// stands before all of them.
func unknown(what, prefix, word string, keys []string) error {
	if near := Nearest(word, keys); len(near) > 0 {
		for n, k := range near {
			near[n] = strconv.Quote(prefix + k)
		}
		return fmt.Errorf("unknown %s %q: did you mean %s?", what, prefix+word, strings.Join(near, " or "))
	}
	return fmt.Errorf("unknown %s %q: the valid ones are %s", what, prefix+word,
		strings.Join(slices.Sorted(slices.Values(keys)), ", "))
}
