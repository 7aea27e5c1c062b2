//go:build unix && !(linux && amd64)

package torture

import "testing"

func (b *bench) testEachCall(t *testing.T) { t.Skip("calls are counted on Linux on amd64 only") }
