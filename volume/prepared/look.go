package prepared

import (
	"fmt"
	"math"

	"github.com/voxsaw/voxsaw/volume"
)

// This file looks at what a scan has become, before it is written: values of an unexpected unit may
// all be clipped or rounded to one.

const (
	leastScan   = 100  // voxels of which anything is said
	leastLooked = 1000 // voxels of which more is said than that all are alike
	fewValues   = 16   // so few different ones that a scan has more
	// shares of voxels at an end of the range that no scan is known to have: bone and metal are a
	// few percent, air around a masked head is much
	mostAbove = 0.4
	mostBelow = 0.995
)

// lookAt refuses a prepared scan of which nothing is left, and says what is odd about one of which
// little is. s describes the voxels of the scan, which were so many.
func lookAt(s volume.Statistics, voxels int, numbers []int16, p volume.Preparation,
	how volume.Intensities) (notes []string, err error) {
	if len(numbers) < leastScan {
		return nil, nil
	}
	counts := make([]int, 1<<16)
	for _, x := range numbers {
		counts[int(x)-math.MinInt16]++
	}
	different, most := 0, 0
	for _, n := range counts {
		if n > 0 {
			different++
		}
		most = max(most, n)
	}
	share := func(n int) float64 { return float64(n) / float64(len(numbers)) }
	if different == 1 {
		switch {
		case s.NonFinite == voxels:
			return nil, &volume.BlankError{None: true}
		case s.Min == s.Max:
			return nil, &volume.BlankError{Value: s.Min}
		}
		return nil,
			fmt.Errorf("nothing is left of its values, which go from %.4g to %.4g: all become %g, by %s. If they are "+
				"no HU, say what they are with --modality, or how they are prepared with --intensity",
				s.Min, s.Max, how.Of(numbers[0]), p.DescribeIntensities())
	}
	if len(numbers) < leastLooked {
		return nil, nil
	}
	if different <= fewValues {
		notes = append(notes,
			fmt.Sprintf("WARNING: only %d different values are left of it (%s), and %.1f %% of the "+
				"voxels have one of them: is the unit another?", different, p.DescribeIntensities(), 100*share(most)))
	}
	if cut := counts[0] + counts[1<<16-1]; how.Floor == math.MinInt16 && how.Ceiling == math.MaxInt16 && cut > 0 {
		notes = append(notes,
			fmt.Sprintf("%d of %d voxels lie further than %.0f standard "+
				"deviations off the mean, and are cut there (%s)",
				cut, len(numbers), how.Of(math.MaxInt16), p.DescribeIntensities()))
	}
	if above := share(counts[int(how.Ceiling)-math.MinInt16]); above > mostAbove {
		notes = append(notes,
			fmt.Sprintf("WARNING: %.1f %% of the voxels are clipped at the upper end (%s): is the unit another?",
				100*above, p.DescribeIntensities()))
	}
	if below := share(counts[int(how.Floor)-math.MinInt16]); below > mostBelow {
		notes = append(notes,
			fmt.Sprintf("WARNING: %.1f %% of the voxels are clipped at the lower end (%s): is the unit another?",
				100*below, p.DescribeIntensities()))
	}
	return notes, nil
}
