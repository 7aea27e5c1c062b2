//go:build !linux

package prepared

// mappingLimits are how many cases may be mapped at once, and how many bytes of them. These systems
// do not tell.
func mappingLimits() (most int, mostBytes int64) { return mappingsWithin(0, 0) }
