package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

// GarbageLimit is how many bytes of garbage there may be before they are collected. About as many
// does the program itself take beside what it plans.
const GarbageLimit = 96 << 20

// BoundGarbage makes the garbage collector run after every GarbageLimit bytes of new memory. Go's
// default is to run when as much has been allocated as is in use: beside a gigabyte of weights and
// activations that is another gigabyte. Each collection sets the goal of the next one. A collection
// is cheap where memory holds no pointers, as that of a training. Where much of it does, as the
// entries of a hundred thousand scans do, as much as has to be looked through is allowed as
// garbage: otherwise time would grow with the square of the entries.
func BoundGarbage() {
	if there := Available(); there > 0 { // a control group kills for garbage, too
		debug.SetMemoryLimit(there)
	}
	type sentinel struct{ _ *int }
	var tune func(*sentinel)
	tune = func(*sentinel) {
		heap := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
		metrics.Read(heap)
		live, scanned := heap[0].Value.Uint64(), heap[1].Value.Uint64()
		debug.SetGCPercent(int(min(100, max(1, 100*max(GarbageLimit, scanned)/max(live, 1)))))
		runtime.SetFinalizer(&sentinel{}, tune)
	}
	runtime.SetFinalizer(&sentinel{}, tune)
}
