// Package crashtest tries what happens to a user's work when things go wrong: the process is killed
// or asked to stop at a random moment, the disk is full or fails, the power is cut, two processes
// want the same folder.
//
// It holds tests alone. Start at [TestTorture]: it runs every verb that writes a folder, on made-up
// scans and photographs. The tests' own program is the command, see [TestMain]. Whatever happened,
// the same command must then come to the very files of a run that nothing happened to, with nothing
// left over and no gap in a log. go test runs a short form; the long one is run by hand:
//
//	go test ./internal/crashtest -timeout 12h -v -args -kills 500 -faults 400 -each 0 -cuts 100 -memory
//
// Faults of the system's calls are made by strace, at random, and by a tracer of the package's own,
// which fails single calls that write below the folder, one a run, in their order. -each 0 takes
// every call of every verb: an hour or two.
//
// Power is cut on Linux, by root: a file system in a file is mounted through a loop device and
// stopped at once, so that whatever it had not written is lost. It is ext4, mounted so that it
// keeps as little as it may, and XFS where mkfs.xfs is installed. What is not allowed or not
// installed is passed over, and the test says so.
//
// A file system promises less than each of these two keeps. So the calls of every verb are
// recorded, too, and compared with what POSIX promises: contents last from the file's fsync on,
// names from that of their folder. Disks that lie about what they have written are left out.
package crashtest
