package prepared

import "math"

// Where nothing is known of a limit, so many cases are mapped at once.
const usualMappings = 1 << 15

// mappingsWithin leaves half of what the system allows to the rest of the program. A limit of 0 is
// none that is known.
func mappingsWithin(count, bytes int64) (most int, mostBytes int64) {
	most, mostBytes = usualMappings, math.MaxInt64
	if count > 0 {
		most = int(max(min(count/2, usualMappings), 1))
	}
	if bytes > 0 {
		mostBytes = bytes / 2
	}
	return most, mostBytes
}
