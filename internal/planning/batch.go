package planning

import "github.com/voxsaw/voxsaw"

// mostBatch is the largest batch that [LargestBatch] takes.
const mostBatch = 1024

// LargestBatch is the largest batch that fits, and what it needs; the least one where not even that
// fits: then the run itself saves memory, or says what is missing. The least is 1, or 2 of networks
// that cannot take one alone, as batch normalisation of one voxel cannot. The need grows with the
// batch almost by a line, along which the next guess lies.
func LargestBatch(need func(batch int) (voxsaw.MemoryNeed, error)) (int, voxsaw.MemoryNeed, error) {
	least := 1
	first, err := need(least)
	if err != nil {
		if two, wrong := need(2); wrong == nil {
			least, first, err = 2, two, nil
		}
	}
	if err != nil || !first.Fits() || first.Limit <= 0 {
		return least, first, err
	}
	fits, atFits, tooLarge := least, first, mostBatch+1
	for guess, tries := least+1, 0; fits+1 < tooLarge; tries++ {
		n, err := need(guess)
		if err != nil {
			return least, n, err
		}
		each := max(1, (n.Bytes-first.Bytes)/int64(guess-least))
		if n.Fits() {
			fits, atFits = guess, n
		} else {
			tooLarge = guess
		}
		guess = (fits + tooLarge) / 2
		if tries < 6 {
			guess = int(min(mostBatch, int64(least)+(first.Limit-first.Bytes)/each))
		}
		guess = max(fits+1, min(guess, tooLarge-1))
	}
	return fits, atFits, nil
}
