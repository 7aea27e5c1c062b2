//go:build unix && !linux

package crashtest

import "testing"

// powerTests is empty: power is cut on Linux only.
func (b *bench) powerTests() map[string]func(t *testing.T) { return nil }
