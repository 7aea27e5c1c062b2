//go:build linux || darwin

package localcopy

import "syscall"

// freeBytes is what the file system of a folder has free for this user.
func freeBytes(dir string) (int64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return 0, err
	}
	return int64(s.Bavail) * int64(s.Bsize), nil
}
