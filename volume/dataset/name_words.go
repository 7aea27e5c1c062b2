package dataset

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// This file knows the words in names of files and folders that mean an image or labels, in the
// languages that data sets come with.

// Each word is as foldWord writes it. They count where they are a whole folder's name, or the first
// or last word of a file's: words that may be part of a patient's or an organ's name are none.
var (
	imageWords = words("image images imagestr imagests imaging img imgs ct cts scan scans volume volumes",
		"bild bilder", "imagen imagenes", "immagine immagini", "imagem imagens")
	labelWords = words("label labels labelstr labelsts lbl lbls mask masks seg segs segmentation segmentations dseg "+
		"gt truth groundtruth roi rois annotation annotations manual contour contours",
		"maske masken beschriftung beschriftungen segmentierung segmentierungen kontur konturen", "masque masques",
		"mascara mascaras segmentacion segmentaciones contorno contornos",
		"maschera maschere segmentazione segmentazioni contorni", "segmentacao segmentacoes")
)

// words is the set of words in lists.
func words(lists ...string) map[string]bool {
	set := map[string]bool{}
	for _, list := range lists {
		for word := range strings.FieldsSeq(list) {
			set[word] = true
		}
	}
	return set
}

// plainLetters replaces letters with accents by those without.
var plainLetters = strings.NewReplacer("á", "a", "à", "a", "â", "a", "ã", "a", "ä", "a", "ç", "c", "é", "e", "è", "e",
	"ê", "e", "í", "i", "ì", "i",
	"ñ", "n", "ó", "o", "ò", "o", "ô", "o", "õ", "o", "ö", "o", "ú", "u", "ù", "u", "ü", "u")

// foldWord writes a word without capital letters and accents, also where an accent is a character
// of its own, as macOS has it in names of files.
func foldWord(word string) string {
	return plainLetters.Replace(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Mn, r) {
			return -1
		}
		return unicode.ToLower(r)
	}, word))
}

// stripWords takes the first and last word off a name where they mean image or labels: case_seg,
// label0001, s0011-ct.
func stripWords(stem string) (bare string, labels bool) {
	const between = "_-. "
	if m := numberedWord.FindStringSubmatch(stem); m != nil {
		if word := foldWord(m[2]); imageWords[word] || labelWords[word] {
			labels = labelWords[word]
			stem = m[1] + "_" + m[3]
		}
	}
	rest := strings.TrimRightFunc(stem, isLetter)
	if last := foldWord(stem[len(rest):]); (rest == "" || strings.ContainsRune(between, rune(rest[len(rest)-1]))) &&
		(imageWords[last] || labelWords[last]) {
		labels = labels || labelWords[last]
		stem = strings.TrimRight(rest, between)
	}
	rest = strings.TrimLeftFunc(stem, isLetter)
	if first := foldWord(stem[:len(stem)-len(rest)]); imageWords[first] || labelWords[first] {
		labels = labels || labelWords[first]
		stem = strings.TrimLeft(rest, between)
	}
	return stem, labels
}

// isLetter tells whether a character is part of a word: a letter, or an accent on one.
func isLetter(r rune) bool { return unicode.IsLetter(r) || unicode.Is(unicode.Mn, r) }

// numberedWord is a word at the end of a name that has a number: c_seg1, p_img0001.
var numberedWord = regexp.MustCompile(`^(.*)[_\-. ]([\pL\p{Mn}]+)(\d+)$`)

// outputs are words in the names of files that a program has made: they are no reference.
var outputs = regexp.MustCompile(
	`(?i)(^|[_\-. /])(pred|preds|prediction|predictions|predicted|output|outputs|result|results|prob|probs)($|[_\-. /\d])`,
)

// people are words for somebody who draws labels, with the number or letter that tells one from
// another.
var people = regexp.MustCompile(
	`(?i)^(rater|reader|observer|obs|annotator|expert|reviewer|radiologist)[_\-. ]?(\d+|[a-z])$`,
)

// maybePeople says whether what is left of the name of a file of labels names no structure: a
// number alone, as in c_seg1 and c_seg_1, or a person, as in c_rater1.
func maybePeople(rest string) bool {
	bare, _ := stripWords(rest)
	_, err := strconv.Atoi(bare)
	return err == nil || people.MatchString(bare)
}

// calledLabels says whether a folder has a name such as labels or masks.
func calledLabels(folder string) bool { return labelWords[foldWord(baseName(folder))] }

// onlyLabels is the error of a folder of labels that was given as if it held scans.
func onlyLabels(folder string) error {
	return fmt.Errorf("%s is a folder of labels by its name: give the folder that holds both the scans and "+
		"the labels, such as %s, where they are paired by their names; where names do not tell, say with "+
		"--pairs which labels belong to which scan", folder, filepath.Join(folder, ".."))
}

// isWanted says whether a structure is among those that somebody names, whatever their spelling;
// none named means all. A * stands for anything, but no number that is parted from what follows it
// goes on in it: lesion_1_* is not lesion_11.
func isWanted(name string, wanted []string) bool {
	return len(wanted) == 0 || slices.ContainsFunc(wanted, func(w string) bool {
		return wantedNames(w).MatchString(safetext.Fold(name))
	})
}

// wantedNames matches the folded names that a pattern means.
func wantedNames(pattern string) *regexp.Regexp {
	const noDigit = `[^\p{Nd}]`
	parts := strings.Split(pattern, "*")
	text := "^" + regexp.QuoteMeta(safetext.Fold(parts[0]))
	for n, part := range parts[1:] {
		before := safetext.Fold(parts[n]+"0") != safetext.Fold(parts[n])+"0" // its number has ended
		after := safetext.Fold("0"+part) != "0"+safetext.Fold(part)
		switch {
		case before && after:
			text += noDigit + "(?:.*" + noDigit + ")?"
		case before:
			text += "(?:" + noDigit + ".*)?"
		case after:
			text += "(?:.*" + noDigit + ")?"
		default:
			text += ".*"
		}
		text += regexp.QuoteMeta(safetext.Fold(part))
	}
	return regexp.MustCompile(text + "$")
}
