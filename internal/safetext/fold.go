package safetext

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Fold is what spellings of one name have in common: two names are one structure's where Fold gives
// the same for both. It is not for showing, nor for files: what it gives may change.
//
//   - Letters are the same in capitals and small ("Größe" and "GRÖSSE"), and in every form that
//     Unicode has for them (NFC, NFD, and NFKC's: full and half width). Accents and vowel signs count,
//     and "ü" is not "ue".
//   - Spaces, punctuation and characters that cannot be seen only join words, and are left out:
//     "Brain Stem", "brain-stem", "brainstem".
//   - Between two digits they part numbers, and any of them is the same: "lesion_1_1" is "lesion 1.1",
//     and not "lesion_11". So do forms of digits that are no digits of a number, as in "10²".
//   - Signs that mean something stay: the symbols of Unicode, such as + < =, and ! # % & * ? @ §.
func Fold(name string) string {
	var b strings.Builder
	parted := false // by what is left out since the last character that stays
	last := rune(0)
	for _, r := range folded(Name(name)) {
		if !counts(r) {
			parted = true
			continue
		}
		if parted && unicode.IsDigit(last) && unicode.IsDigit(r) {
			b.WriteByte('_')
		}
		b.WriteRune(r)
		last, parted = r, false
	}
	return norm.NFC.String(b.String())
}

// FoldCase is what two spellings of one file's name may differ in, taken out: capital letters, and
// the form that Unicode has for accents. All signs count. macOS and other systems give one name in
// different forms.
func FoldCase(name string) string { return norm.NFC.String(small(norm.NFC.String(name))) }

// small is a text in small letters, by Unicode's case folding. The library's is wrong for Cherokee,
// whose capital letters it exchanges with the small ones.
func small(text string) string { return strings.ToLower(cases.Fold().String(text)) }

// folded has the letters and digits of a text as Unicode's case folding for compatible forms has
// them (NFKC_Casefold), but that digits of other forms, such as those raised, stand apart.
func folded(name string) string {
	apart := strings.Builder{}
	for _, r := range norm.NFC.String(name) {
		if unicode.Is(unicode.No, r) {
			apart.WriteRune(' ')
			apart.WriteRune(r)
			apart.WriteRune(' ')
		} else {
			apart.WriteRune(r)
		}
	}
	return norm.NFKC.String(small(norm.NFKC.String(apart.String())))
}

// counts tells the characters that are part of a name.
func counts(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsMark(r) || unicode.IsNumber(r) || unicode.IsSymbol(r) ||
		strings.ContainsRune("!#%&*?@§", r) || unicode.Is(unicode.Co, r) || r == utf8.RuneError
}
