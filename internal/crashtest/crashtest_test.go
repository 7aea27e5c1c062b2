//go:build unix

package crashtest

import "testing"

// Killed or stopped at random moments, several times in a row, every verb ends as if nothing had
// happened.
func TestTorture(t *testing.T) {
	b := work(t)
	t.Run("Kills", b.testKills)
	t.Run("Leftovers", b.testLeftovers)
	t.Run("Faults", b.testFaults)
	t.Run("Folders", b.testFolders)
	t.Run("Order", b.testOrder)
	t.Run("TwoProcesses", b.testTwoProcesses)
	for _, tests := range []map[string]func(t *testing.T){b.callTests(), b.powerTests()} {
		for name, test := range tests {
			t.Run(name, test)
		}
	}
}
