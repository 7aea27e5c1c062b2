//go:build unix && !(linux && amd64)

package crashtest

import "testing"

// callTests is empty: calls are counted on Linux on amd64 only.
func (b *bench) callTests() map[string]func(t *testing.T) { return nil }
