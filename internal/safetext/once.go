package safetext

import "strings"

// An Ending is what several texts end in.
type Ending struct {
	Text  string
	Count int // of the texts
}

// Once takes what many texts end in out of them, so that it can be said once: an advice that
// follows a semicolon, a colon or a comma with "and". It returns the texts without their endings,
// the number of each text's ending, -1 for none, and the endings in the order of their first text.
// A text that is all ending becomes "". Few texts, and short endings, stay as they are.
func Once(texts []string) (rest []string, of []int, endings []Ending) {
	const (
		least = 4  // texts of one ending
		short = 24 // bytes
	)
	counts := map[string]int{}
	for _, text := range texts {
		for _, at := range breaks(text) {
			counts[text[at[1]:]]++
		}
	}
	rest, of = make([]string, len(texts)), make([]int, len(texts))
	numbers := map[string]int{}
	for n, text := range texts {
		rest[n], of[n] = text, -1
		for _, at := range breaks(text) { // the longest ending first
			ending := text[at[1]:]
			if len(ending) < short || counts[ending] < least {
				continue
			}
			number, known := numbers[ending]
			if !known {
				number = len(endings)
				numbers[ending], endings = number, append(endings, Ending{Text: ending})
			}
			endings[number].Count++
			rest[n], of[n] = text[:at[0]], number
			break
		}
	}
	return rest, of, endings
}

// breaks are the places where an ending may begin, the first first: where the text before it ends,
// and where it begins itself.
func breaks(text string) (all [][2]int) {
	all = append(all, [2]int{0, 0})
	for at := range len(text) {
		for _, between := range []string{": ", "; ", ", and "} {
			if strings.HasPrefix(text[at:], between) {
				all = append(all, [2]int{at, at + len(between)})
			}
		}
	}
	return all
}
