//go:build !linux

package cpu

import (
	"testing"

	"github.com/voxsaw/voxsaw/internal/device"
)

// guarded is the device itself: how to map memory that must not be touched, the tests know for
// Linux.
func guarded(_ testing.TB, c *CPU) device.Device { return c }
