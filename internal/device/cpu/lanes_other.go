//go:build !amd64 && !arm64

package cpu

func laneTables() map[string]*laneKernels { return nil }
