//go:build !linux && !darwin

package atomicfile

import "errors"

// Free is the bytes that the file system of a folder has free for this user, which cannot be asked
// for here: [errors.ErrUnsupported].
func Free(string) (int64, error) { return 0, errors.ErrUnsupported }
