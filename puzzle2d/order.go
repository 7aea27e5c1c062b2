package puzzle2d

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw/internal/puzzle"
)

// An order of patches as text, such as "0 2 1 3".

func formatOrder(c puzzle.Configuration) string {
	words := make([]string, len(c))
	for s, patch := range c {
		words[s] = strconv.Itoa(patch)
	}
	return strings.Join(words, " ")
}

func parseOrder(text string) (puzzle.Configuration, error) {
	var c puzzle.Configuration
	for _, word := range strings.Fields(text) {
		patch, err := strconv.Atoi(word)
		if err != nil {
			return nil, fmt.Errorf("order %q: want numbers of patches, such as \"0 2 1 3\"", text)
		}
		c = append(c, patch)
	}
	return c, nil
}
