//go:build !linux && !darwin

package localcopy

import "errors"

// freeBytes cannot be asked for here.
func freeBytes(string) (int64, error) {
	return 0,
		errors.New("how much room the disk has is not known on this system: say " +
			"how much copies may take, with --local-size")
}
