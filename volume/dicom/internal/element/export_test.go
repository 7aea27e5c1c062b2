package element

import (
	"maps"
	"slices"
)

// Syntaxes lists the transfer syntaxes that are read.
func Syntaxes() (all []Syntax) {
	for _, uid := range slices.Sorted(maps.Keys(syntaxes)) {
		all = append(all, lookup(uid))
	}
	return all
}
