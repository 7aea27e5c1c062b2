//go:build unix

package torture

import "testing"

// Killed or stopped at random moments, several times in a row, every verb ends as if nothing had
// happened.
func TestTorture(t *testing.T) {
	b := work(t)
	t.Run("Kills", b.testKills)
	t.Run("Faults", b.testFaults)
	t.Run("EachCall", b.testEachCall)
	t.Run("Folders", b.testFolders)
	t.Run("Order", b.testOrder)
	t.Run("TwoProcesses", b.testTwoProcesses)
	for name, test := range b.powerTests() {
		t.Run(name, test)
	}
}
