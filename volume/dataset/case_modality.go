package dataset

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: what kind of scan a case is. The header of a DICOM series says so, and dataset.json,
// and the suffix of a file of BIDS. Names of other files say something, which the values may
// contradict; and of what is left, the values alone tell whether it may be in Hounsfield units.

// A Modality is what a case is, in the words of DICOM (CT, MR, PT, ...), and what says so. Both are
// empty where nobody does.
type Modality struct {
	Name, By string
	// Stated says that a header, dataset.json or a name of BIDS does, and not some file's name.
	Stated bool
}

// modalityWords are what names and dataset.json call the modalities.
var modalityWords = map[string]map[string]bool{
	volume.ModalityCT: words("ct cbct ncct cect cta ctres"),
	volume.ModalityMR: words("mr mri mra mprage mp2rage t1 t1w t1wi t1n t1c t1ce t1gd t1post t2 t2w t2wi t2f t2star " +
		"t2starw flair pd pdw adc dwi swi dce lge tof"),
	volume.ModalityPT: words("pt pet suv fdg"),
	"US":              words("us ultrasound"),
}

// nameWords are the words of the above that say the same in the name of a file. Others mean another
// thing there, too: pt a patient, mr a medical record, t1 the first of several points in time.
var nameWords = words("ct cbct ctres mri mra mprage mp2rage t1w t1ce t1gd t2w t2star t2starw flair pdw adc dwi pet suv")

// bidsSuffixes are how names of BIDS end: the specification's suffixes of images of the brain, in
// lower case.
var bidsSuffixes = map[string]map[string]bool{
	volume.ModalityMR: words("t1w t2w flair pdw t2star t2starw pdt2 inplanet1 inplanet2 angio unit1 mp2rage megre " +
		"bold sbref dwi epi asl m0scan cbv phase magnitude"),
	volume.ModalityPT: words("pet"),
	volume.ModalityCT: words("ct"),
}

// wordsOf are the words of a text, in lower case.
func wordsOf(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return !unicode.IsLetter(r) &&
			!unicode.IsDigit(r)
	})
}

// among is the modality that has the word, "" where none has.
func among(lists map[string]map[string]bool, word string) string {
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		if lists[name][word] {
			return name
		}
	}
	return ""
}

// ModalityOfChannel is the modality of a channel by its name in dataset.json, such as "CT", "T2w"
// or "late phase CT"; "" where the name says none.
func ModalityOfChannel(channel string) string {
	for _, word := range wordsOf(channel) {
		if name := among(modalityWords, word); name != "" {
			return name
		}
	}
	return ""
}

// modalityOfName is what a file's name says: a suffix of BIDS, or a word at its beginning or end.
func modalityOfName(path string) Modality {
	stem, ok := format.Stem(filepath.Base(path))
	if !ok {
		return Modality{}
	}
	stem = channelSuffix.ReplaceAllString(stem, "")
	all := wordsOf(stem)
	if len(all) == 0 {
		return Modality{}
	}
	last := all[len(all)-1]
	if strings.HasPrefix(stem, "sub-") {
		if name := among(bidsSuffixes, last); name != "" {
			return Modality{name, "suffix of BIDS", true}
		}
	}
	for _, word := range []string{last, all[0]} {
		if name := among(modalityWords, word); name != "" && nameWords[word] {
			return Modality{name, "name", false}
		}
	}
	return Modality{}
}
