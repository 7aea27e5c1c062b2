package dataset

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw/internal/safetext"
)

// This file: names of cases, and their order.

var digits = regexp.MustCompile(`\d+`)

// Number returns the last number in a case's name, which the published folds go by; false where
// there is none.
func Number(id string) (int, bool) {
	all := digits.FindAllString(id, -1)
	if len(all) == 0 {
		return 0, false
	}
	n, err := strconv.Atoi(all[len(all)-1])
	return n, err == nil
}

// FileName makes a case's name one that does as a file name everywhere, and is UTF-8.
func FileName(id string) string {
	id = safetext.Name(id)
	id = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || strings.ContainsRune(`/\:*?"<>|`, r) {
			return '_'
		}
		return r
	}, id)
	id = strings.TrimFunc(id, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
	if id == "" {
		return "scan"
	}
	const most = 200
	if len(id) > most { // file systems take 255 bytes, endings included
		sum := sha256.Sum256([]byte(id))
		id = fmt.Sprintf("%s_%x", strings.ToValidUTF8(id[:most-9], ""), sum[:4])
	}
	return id
}

// namesOf lists names in the order of their labels.
func namesOf(names map[uint16]string) (list []string) {
	for _, label := range slices.Sorted(maps.Keys(names)) {
		list = append(list, names[label])
	}
	return list
}

// letters counts as the columns of a table are named: a to z, aa, ab, ...
func letters(n int) (name string) {
	for ; n > 0; n = (n - 1) / 26 {
		name = string(rune('a'+(n-1)%26)) + name
	}
	return name
}
