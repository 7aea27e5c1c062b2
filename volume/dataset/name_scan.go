package dataset

import (
	"cmp"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume/format"
)

// This file: what the path of a file below a data set's folder says of it.

// scanName is what a path below the root says: its name without the words that mean image or
// labels, and whether one meant labels.
type scanName struct {
	key    string // what an image and its labels have in common
	id     string // the case's name
	labels bool
	bids   *bidsName // nil: no name of BIDS
	test   bool
	// below which it lies, those for images or labels alone left out
	folders []string
}

func parseName(relative string) scanName {
	var name scanName
	parts := strings.Split(filepath.ToSlash(relative), "/")
	stem, _ := format.Stem(parts[len(parts)-1])
	stem = cmp.Or(stem, parts[len(parts)-1])
	var key, id []string
	for _, folder := range parts[:len(parts)-1] {
		lower, word := strings.ToLower(folder), foldWord(folder)
		switch {
		case labelWords[word]:
			name.labels = true
		case !imageWords[word]:
			key, id = append(key, folder), append(id, folder)
		}
		name.test = name.test || lower == "imagests" || lower == "labelsts"
	}
	name.folders = slices.Clone(key)
	bare, labels := stripWords(stem)
	name.labels = name.labels || labels
	if b, labels, ok := parseBIDS(stem, key, name.labels); ok {
		name.bids, name.labels = b, labels
		bare, key = b.key(), nil
	}
	if bare != "" || len(key) == 0 {
		key = append(key, bare)
	}
	if bare != "" {
		id = append(id, stem)
	}
	if len(id) == 0 {
		id = []string{stem}
	}
	name.key, name.id = strings.Join(key, "/"), strings.Join(id, "_")
	if name.test {
		name.key = "test:" + name.key
	}
	return name
}

var firstChannel = regexp.MustCompile(`_0000$`)
