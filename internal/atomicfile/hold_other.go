//go:build !unix || solaris || aix

package atomicfile

import "os"

// lock has no folder locks to take here.
func lock(*os.File, bool) error { return nil }
