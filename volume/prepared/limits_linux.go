package prepared

import (
	"math"
	"strconv"
	"strings"
	"syscall"

	"github.com/voxsaw/voxsaw/internal/smallfile"
)

// mappingLimits are how many cases may be mapped at once, and how many bytes of them:
// vm.max_map_count counts the process's mappings, and RLIMIT_AS (ulimit -v) bounds its address
// space.
func mappingLimits() (most int, mostBytes int64) {
	var count, bytes int64
	if text, err := smallfile.Read("/proc/sys/vm/max_map_count", smallfile.Settings); err == nil {
		// 0 where it says nothing
		count, _ = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	}
	var limit syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &limit) == nil && uint64(limit.Cur) < math.MaxInt64 {
		bytes = int64(limit.Cur)
	}
	return mappingsWithin(count, bytes)
}
