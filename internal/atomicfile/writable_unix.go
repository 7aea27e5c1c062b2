//go:build unix

package atomicfile

import "syscall"

// writable says why this process may make nothing in a folder; nil where it may.
func writable(dir string) error {
	const write, search = 2, 1
	return syscall.Access(dir, write|search)
}
