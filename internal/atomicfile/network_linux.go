package atomicfile

import (
	"os"
	"slices"
	"syscall"
)

// networks are file systems that several machines may have, by their numbers in statfs(2). On NFS
// the lock of a folder is unknown to other machines, and that of a file is known to all; the others
// were not tried, and are taken to be no better.
var networks = []uint32{
	0x6969,     // NFS
	0xff534d42, // CIFS
	0xfe534d42, // SMB 2
	0x517b,     // SMB
	0x0bd00bd0, // Lustre
	0x47504653, // GPFS
	0x19830326, // BeeGFS
	0x01021997, // 9p
	0x5346414f, // AFS
	0x65735546, // FUSE, at times over a network
}

// ofNetwork says whether an open folder may be one that several machines have.
func ofNetwork(f *os.File) bool {
	var s syscall.Statfs_t
	return syscall.Fstatfs(int(f.Fd()), &s) == nil && slices.Contains(networks, uint32(s.Type))
}
