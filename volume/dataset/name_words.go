package dataset

import (
	"strings"
	"unicode"
)

// This file knows the words in names of files and folders that mean an image or labels, in the
// languages that data sets come with.

// Each word is as foldWord writes it. They count where they are a whole folder's name, or the first
// or last word of a file's: words that may be part of a patient's or an organ's name are none.
var (
	imageWords = words("image images imagestr imagests imaging img imgs ct cts scan scans volume volumes",
		"bild bilder", "imagen imagenes", "immagine immagini", "imagem imagens")
	labelWords = words("label labels labelstr labelsts lbl lbls mask masks seg segs segmentation segmentations dseg gt truth groundtruth roi rois annotation annotations manual contour contours",
		"maske masken beschriftung beschriftungen segmentierung segmentierungen kontur konturen", "masque masques", "mascara mascaras segmentacion segmentaciones contorno contornos",
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
var plainLetters = strings.NewReplacer("á", "a", "à", "a", "â", "a", "ã", "a", "ä", "a", "ç", "c", "é", "e", "è", "e", "ê", "e", "í", "i", "ì", "i",
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
	if last := foldWord(stem[len(rest):]); (rest == "" || strings.ContainsRune(between, rune(rest[len(rest)-1]))) && (imageWords[last] || labelWords[last]) {
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
