//go:build !linux

package atomicfile

import "os"

// ofNetwork is not known here: folders are taken to be those of one machine.
func ofNetwork(*os.File) bool { return false }
