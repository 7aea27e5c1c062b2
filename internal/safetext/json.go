package safetext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"unicode/utf16"
)

// Encode writes a value as JSON for a program, and ends it with a new line. Characters that cannot
// be seen become \u escapes, for it may come to a terminal all the same. A byte that is not UTF-8,
// as a path may have, becomes \udc80 to \udcff, as in Python (PEP 383): there os.fsencode gives
// back the bytes.
func Encode(v any, indent string) ([]byte, error) {
	text, err := marshal(v, indent)
	// what encoding/json writes for a byte that is not UTF-8; a U+FFFD of the text itself it does
	// not escape
	lost := err == nil && bytes.Contains(text, []byte(`\ufffd`))
	if lost {
		text, err = marshal(packedCopy(reflect.ValueOf(v)).Interface(), indent)
	}
	return escapeJSON(text, lost), err
}

func marshal(v any, indent string) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", indent)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return b.Bytes(), err
}

// JSON shows JSON that is UTF-8: characters that cannot be seen become \u escapes.
func JSON(data []byte) []byte { return escapeJSON(data, false) }

// escapeJSON has \u escapes for characters that cannot be seen, which JSON allows for any character
// of a text, and for what stands for bytes. It means the same to who reads it. Line ends and tabs
// stay.
func escapeJSON(data []byte, packed bool) []byte {
	seen := func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\t' || !hidden(r) && !(packed && isPacked(r))
	}
	if !bytes.ContainsFunc(data, func(r rune) bool { return !seen(r) }) {
		return data
	}
	var b bytes.Buffer
	for _, r := range string(data) {
		switch {
		case seen(r):
			b.WriteRune(r)
		case packed && isPacked(r):
			fmt.Fprintf(&b, `\udc%02x`, r-firstPacked)
		default:
			for _, unit := range utf16.Encode([]rune{r}) {
				fmt.Fprintf(&b, `\u%04x`, unit)
			}
		}
	}
	return b.Bytes()
}

// packedCopy is a copy of a value in which [Pack] has gone over every text. Values that make their
// own JSON stay as they are.
func packedCopy(v reflect.Value) reflect.Value {
	if !v.IsValid() {
		return v
	}
	if t := v.Type(); t.Implements(marshaler) ||
		t.Kind() != reflect.Pointer && reflect.PointerTo(t).Implements(marshaler) {
		return v
	}
	to := reflect.New(v.Type()).Elem()
	to.Set(v)
	switch v.Kind() {
	case reflect.String:
		to.SetString(Pack(v.String()))
	case reflect.Interface:
		if !v.IsNil() {
			to.Set(packedCopy(v.Elem()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			to.Set(reflect.New(v.Type().Elem()))
			to.Elem().Set(packedCopy(v.Elem()))
		}
	case reflect.Slice:
		if !v.IsNil() {
			to.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		}
		fallthrough
	case reflect.Array:
		for i := range v.Len() {
			to.Index(i).Set(packedCopy(v.Index(i)))
		}
	case reflect.Map:
		if !v.IsNil() {
			to.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		}
		for key, value := range v.Seq2() {
			to.SetMapIndex(packedCopy(key), packedCopy(value))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				to.Field(i).Set(packedCopy(v.Field(i)))
			}
		}
	}
	return to
}

var marshaler = reflect.TypeFor[json.Marshaler]()
