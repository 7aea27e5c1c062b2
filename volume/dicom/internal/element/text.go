package element

import (
	"crypto/sha256"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxText is how many bytes a text may have that [Walker.Text] returns.
const MaxText = 1 << 10

// Text returns a value as text, trimmed.
func (w *Walker) Text(e Element) (string, error) {
	if e.Length == Undefined || e.Length > MaxText {
		return "", fmt.Errorf("%s has a value that is too long", e.Tag)
	}
	b, err := w.At(e.Value, int(e.Length))
	return trim(string(b)), err
}

// Short returns the value of an unsigned short.
func (w *Walker) Short(e Element) (uint16, error) {
	if e.Length != 2 {
		return 0, fmt.Errorf("%s is not one number of 16 bits", e.Tag)
	}
	b, err := w.At(e.Value, 2)
	if err != nil {
		return 0, err
	}
	return w.Order.Uint16(b), nil
}

// Printable makes a text from a file harmless: one line of valid UTF-8, without control characters.
func Printable(s string) string {
	if !utf8.ValidString(s) {
		s = strings.ToValidUTF8(s, "?")
	}
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, s))
}

// CodeString returns a value that is about to be shown. What is no code string, of capitals and
// digits, may be somebody's name, and becomes "other".
func CodeString(s string) string {
	if len(s) < 1 || len(s) > 16 || strings.Trim(s, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_ ") != "" {
		return "other"
	}
	return s
}

// IntegerString returns a number that is about to be shown, as it is spelled, or "" if it is none.
func IntegerString(s string) string {
	if _, err := strconv.ParseInt(s, 10, 32); err != nil {
		return ""
	}
	return s
}

// UID returns a UID that is about to be shown or recorded. Free text in its place may be somebody's
// name: it becomes a digest, which still tells one from another.
func UID(s string) string {
	if len(s) <= 64 && strings.Trim(s, "0123456789.") == "" {
		return s
	}
	sum := sha256.Sum256([]byte(s))
	return fmt.Sprintf("no-uid-%x", sum[:6])
}
