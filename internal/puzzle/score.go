package puzzle

// A Score sums up answers to puzzles: the paper's two metrics and the share of patches in their
// place.
type Score struct {
	Puzzles int // answers added
	Correct int // of them wholly solved
	Near    int // of them within Hamming distance 2 of the truth: at most two patches misplaced
	Patches int // patches in all puzzles
	Placed  int // of them in their place
}

// Add counts one answer.
func (s *Score) Add(answer, truth Configuration) { s.AddDistance(answer.Distance(truth), len(truth)) }

// AddDistance counts one answer that places d of n patches wrong.
func (s *Score) AddDistance(d, n int) {
	s.Puzzles++
	if d == 0 {
		s.Correct++
	}
	if d <= 2 {
		s.Near++
	}
	s.Patches += n
	s.Placed += n - d
}

// Join counts the answers that another score has counted.
func (s *Score) Join(other Score) {
	s.Puzzles += other.Puzzles
	s.Correct += other.Correct
	s.Near += other.Near
	s.Patches += other.Patches
	s.Placed += other.Placed
}

// Shares are the metrics as shares in [0, 1]: Correct, D<=2, patch accuracy. They are 0 where
// nothing was counted.
func (s Score) Shares() (correct, near, patches float64) {
	if s.Puzzles == 0 {
		return 0, 0, 0
	}
	return float64(s.Correct) / float64(s.Puzzles), float64(s.Near) / float64(s.Puzzles),
		float64(s.Placed) / float64(s.Patches)
}

// AddPresent counts one answer to a puzzle where some patches are missing: only those that are
// there count. missing is by patch; nil: none is.
func (s *Score) AddPresent(answer, truth Configuration, missing []bool) {
	if missing == nil {
		s.Add(answer, truth)
		return
	}
	wrong, present := 0, 0
	for slot, patch := range truth {
		if missing[patch] {
			continue
		}
		present++
		if answer[slot] != patch {
			wrong++
		}
	}
	s.AddDistance(wrong, present)
}
