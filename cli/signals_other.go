//go:build !unix

package cli

import "os"

var batchSignals []os.Signal
