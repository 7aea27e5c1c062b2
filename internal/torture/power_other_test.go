//go:build unix && !linux

package torture

import "testing"

func (b *bench) testPower(t *testing.T) { t.Skip("power is cut on Linux only") }

func (b *bench) testForgets(t *testing.T) { t.Skip("power is cut on Linux only") }
