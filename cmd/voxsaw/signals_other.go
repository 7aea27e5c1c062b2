//go:build !unix

package main

import "os"

var batchSignals []os.Signal
