//go:build !amd64 && !arm64

package svm

// fastest is the best that the processor has.
var fastest = &vectors{}
