//go:build linux || darwin

package atomicfile

import "syscall"

// Free is the bytes that the file system of a folder has free for this user.
func Free(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
