// Package torture tries what happens to a user's work when things go wrong: the process is killed
// or asked to stop at a random moment, the disk is full or fails, two processes want the same
// folder.
//
// It holds tests alone. Start at [TestTorture]: it builds the program and runs it on phantoms.
// Whatever happened, the same command must then come to the very files of a run that nothing
// happened to, with nothing left over. go test runs a short form; the long one is run by hand:
//
//	go test ./internal/torture -args -kills 500 -faults 400
//
// Faults of the system's calls are made by strace, and are passed over where there is none. Power
// cuts are left out: they need a disk that forgets what was not synced.
package torture
