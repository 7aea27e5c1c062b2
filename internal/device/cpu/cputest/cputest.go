// Package cputest opens the device of package cpu in tests.
//
// Start at [New], which is all there is to it.
package cputest

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/device/cpu"
)

// New opens one, which is closed when the test ends.
func New(t testing.TB, o cpu.Options) *cpu.CPU {
	t.Helper()
	dev, err := cpu.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}
