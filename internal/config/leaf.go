package config

import (
	"encoding"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

var (
	duration        = reflect.TypeFor[time.Duration]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
)

// isText tells whether values of the type read and write themselves as text.
func isText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(textUnmarshaler) && reflect.PointerTo(t).Implements(textMarshaler)
}

// isScalar tells whether the type is written as one word.
func isScalar(t reflect.Type) bool {
	if isText(t) {
		return true
	}
	switch t.Kind() {
	case reflect.Bool, reflect.String, reflect.Float32, reflect.Float64,
		reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return true
	}
	return false
}

// isList tells whether the type is a slice or an array of scalars.
func isList(t reflect.Type) bool {
	return !isText(t) && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array) && isScalar(t.Elem())
}

// isExtents tells whether the type is numbers along three axes, or whole ones along two or four,
// which are written 3x3.
func isExtents(t reflect.Type) bool {
	if t.Kind() != reflect.Array {
		return false
	}
	switch t.Elem().Kind() {
	case reflect.Int:
		return t.Len() >= 2 && t.Len() <= 4
	case reflect.String, reflect.Bool:
		return false
	}
	return t.Len() == 3
}

// isLeaf tells whether the type can be a flag.
func isLeaf(t reflect.Type) bool { return isScalar(t) || isList(t) }

// kindName says what a leaf wants, in the words of a usage line.
func kindName(t reflect.Type) string {
	switch {
	case isText(t):
		if named, ok := reflect.New(t).Interface().(interface{ Type() string }); ok {
			return named.Type() // a flag's value says itself what it wants
		}
		return "value"
	case isList(t) && t.Kind() == reflect.Array:
		letters := make([]string, t.Len())
		for i := range letters {
			letters[i] = string(rune('A' + i))
		}
		if isExtents(t) {
			return strings.Join(letters, "x")
		}
		return strings.Join(letters, ",")
	case isList(t):
		return kindName(t.Elem()) + ",..."
	case t == duration:
		return "duration"
	}
	switch t.Kind() {
	case reflect.Bool:
		return "bool"
	case reflect.String:
		return "string"
	case reflect.Float32, reflect.Float64:
		return "number"
	}
	return "int"
}

// setScalar reads one word into a scalar.
func setScalar(v reflect.Value, text string) error {
	text = safetext.Unpack(text)
	if isText(v.Type()) {
		return v.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	if v.Type() == duration {
		d, err := time.ParseDuration(text)
		if err != nil {
			return fmt.Errorf("%q is not a duration such as 90s or 1h30m", text)
		}
		v.SetInt(int64(d))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		switch text {
		case "true", "True", "TRUE":
			v.SetBool(true)
		case "false", "False", "FALSE":
			v.SetBool(false)
		default:
			return fmt.Errorf("%q is not true or false", text)
		}
	case reflect.Float32, reflect.Float64:
		x, err := strconv.ParseFloat(strings.Replace(text, ".inf", "inf", 1), v.Type().Bits())
		if err != nil || math.IsNaN(x) {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetFloat(x)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if err := decimal(text); err != nil {
			return err
		}
		x, err := strconv.ParseUint(text, 0, v.Type().Bits())
		if err != nil {
			return wholeNumber(text, err, "a whole number of 0 or more")
		}
		v.SetUint(x)
	default:
		if err := decimal(text); err != nil {
			return err
		}
		x, err := strconv.ParseInt(text, 0, v.Type().Bits())
		if err != nil {
			return wholeNumber(text, err, "a whole number")
		}
		v.SetInt(x)
	}
	return nil
}

// decimal refuses a whole number that begins with a zero, which some read as an octal one and
// others do not: 0100 is 64 or 100.
func decimal(text string) error {
	digits := strings.TrimLeft(text, "+-")
	if rest := strings.TrimLeft(digits, "0"); len(digits) > 1 && digits[0] == '0' &&
		(rest == "" || rest[0] >= '1' && rest[0] <= '9' || rest[0] == '_') {
		return fmt.Errorf("%q begins with a zero, by which it may be meant as an octal number: leave the zero out",
			text)
	}
	return nil
}

func wholeNumber(text string, err error, want string) error {
	if errors.Is(err, strconv.ErrRange) {
		return fmt.Errorf("%s is out of range", text)
	}
	return fmt.Errorf("%q is not %s", text, want)
}

// setLeaf reads words into a leaf. A scalar takes one; a slice takes any number; an array of n
// takes n, or one number for all of them where n is 3: a size, a spacing. Nothing is changed when
// there is an error.
func setLeaf(v reflect.Value, words []string) error {
	t := v.Type()
	if isScalar(t) {
		if len(words) != 1 {
			return fmt.Errorf("want one value, not %d", len(words))
		}
		fresh := reflect.New(t).Elem()
		if err := setScalar(fresh, words[0]); err != nil {
			return err
		}
		v.Set(fresh)
		return nil
	}
	if t.Kind() == reflect.Array {
		if len(words) == 1 && isExtents(t) {
			words = slices.Repeat(words, t.Len())
		}
		if len(words) != t.Len() {
			return fmt.Errorf("want %d values (%s), not %d", t.Len(), kindName(t), len(words))
		}
	}
	fresh := reflect.New(t).Elem()
	if t.Kind() == reflect.Slice {
		fresh = reflect.MakeSlice(t, len(words), len(words))
	}
	for n, w := range words {
		if err := setScalar(fresh.Index(n), w); err != nil {
			return err
		}
	}
	v.Set(fresh)
	return nil
}

// split cuts the text of a flag, or of a single YAML scalar, into the words of a leaf: 1,2,3 or
// 1x2x3 for numbers, a,b,c for strings.
func split(t reflect.Type, text string) []string {
	if !isList(t) {
		return []string{text}
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	separator := ","
	if k := t.Elem().Kind(); k != reflect.String && !strings.Contains(text, ",") {
		separator = "x"
	}
	words := strings.Split(text, separator)
	for n := range words {
		words[n] = strings.TrimSpace(words[n])
	}
	return words
}

// scalarText writes a scalar the way [setScalar] reads it.
func scalarText(v reflect.Value) string {
	if isText(v.Type()) {
		p := reflect.New(v.Type())
		p.Elem().Set(v)
		if text, err := p.Interface().(encoding.TextMarshaler).MarshalText(); err == nil {
			return string(text)
		}
	}
	if v.Type() == duration {
		return time.Duration(v.Int()).String()
	}
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'g', -1, v.Type().Bits())
	}
	return fmt.Sprint(v.Interface())
}

// check holds the words of a leaf against its choices. The empty word always passes: it is what an
// unset field is written as.
func (f field) check(words []string) error {
	if len(f.choice) == 0 {
		return nil
	}
	for _, w := range words {
		if w != "" && !slices.Contains(f.choice, w) {
			return unknown("value", "", w, f.choice)
		}
	}
	return nil
}

// A word stands for a number.
type word struct{ text, number string }

// wordsOf are the words of a struct's field that stand for numbers.
func wordsOf(f reflect.StructField) (all []word) {
	for _, one := range strings.Fields(f.Tag.Get("words")) {
		text, number, _ := strings.Cut(one, "=")
		all = append(all, word{text, number})
	}
	return all
}

// set checks the words and reads them into the field, which stays as it was where there is an
// error.
func (f field) set(words []string) error {
	if err := f.check(words); err != nil {
		return err
	}
	numbers := slices.Clone(words)
	for n, text := range words {
		if at := slices.IndexFunc(f.words, func(w word) bool { return w.text == text }); at >= 0 {
			numbers[n] = f.words[at].number
		}
	}
	fresh := reflect.New(f.value.Type()).Elem()
	numbers, given, err := f.filled(numbers)
	if err != nil {
		return err
	}
	if err := setLeaf(fresh, numbers); err != nil {
		for _, w := range f.words {
			err = fmt.Errorf("%w, nor %s", err, w.text)
		}
		return err
	}
	checked := fresh
	if given < len(numbers) {
		checked = fresh.Slice(0, given)
	}
	if err := f.checkNumbers(words, checked); err != nil {
		return err
	}
	f.value.Set(fresh)
	return nil
}

// filled adds a zero for a last number that is left out. One word stands for the others.
func (f field) filled(words []string) (numbers []string, given int, err error) {
	if f.last == "" {
		return words, len(words), nil
	}
	most := f.value.Len()
	if len(words) == 1 {
		words = slices.Repeat(words, most-1)
	}
	switch len(words) {
	case most:
		return words, most, nil
	case most - 1:
		return append(slices.Clone(words), "0"), most - 1, nil
	}
	return nil, 0, fmt.Errorf("want %d or %d values (%s), not %d", most-1, most, f.kind(), len(words))
}

// kind says what the leaf wants, in the words of a usage line.
func (f field) kind() string {
	name := kindName(f.value.Type())
	if f.last == "" {
		return name
	}
	at := len(name) - len("xD")
	return name[:at] + "[" + name[at:] + "]"
}

// short says whether the last number of the leaf is left out.
func (f field) short() bool { return f.last != "" && f.value.Index(f.value.Len()-1).IsZero() }

// checkNumbers holds the numbers that were not said by words against the range.
func (f field) checkNumbers(words []string, v reflect.Value) error {
	named := func(text string) bool {
		return slices.ContainsFunc(f.words, func(w word) bool { return w.text == text })
	}
	if !slices.ContainsFunc(words, named) {
		return f.within.checkNumbers(v)
	}
	for n, text := range words { // a single word is that of all numbers
		if isList(v.Type()) && !named(text) {
			if err := f.within.checkNumbers(v.Index(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// word is the word that says a number which the range leaves out; "" where numbers say it.
func (f field) word(v reflect.Value) string {
	if len(f.words) == 0 || f.within.checkNumbers(v) == nil {
		return ""
	}
	for _, w := range f.words {
		if w.number == scalarText(v) {
			return w.text
		}
	}
	return ""
}

// texts writes each part of a leaf with the given function, or as its word; of a list of which all
// are one word, that alone.
func (f field) texts(write func(reflect.Value) string) (texts []string, alone bool) {
	parts := []reflect.Value{f.value}
	if isList(f.value.Type()) {
		parts = nil
		for n := range f.value.Len() {
			parts = append(parts, f.value.Index(n))
		}
		if f.short() {
			parts = parts[:len(parts)-1]
		}
	}
	worded := map[string]bool{}
	for _, part := range parts {
		text := f.word(part)
		worded[text] = true
		if text == "" {
			text = write(part)
		}
		texts = append(texts, text)
	}
	if len(worded) == 1 && !worded[""] {
		return texts[:1], true
	}
	return texts, !isList(f.value.Type())
}

// text writes the leaf the way a user would type it after its flag.
func (f field) text() string {
	texts, _ := f.texts(scalarText)
	if isExtents(f.value.Type()) {
		return strings.Join(texts, "x")
	}
	return strings.Join(texts, ",")
}

// usage is the help text, with what a last number is that may be left out.
func (f field) usage() string {
	if f.last != "" {
		return f.comment() + "; " + f.last
	}
	return f.comment()
}

// comment is the help text, with the choices where there are some.
func (f field) comment() string {
	if len(f.choice) == 0 {
		return f.help
	}
	return strings.TrimSpace(f.help + " (" + strings.Join(f.choice, ", ") + ")")
}
