//go:build gpu

package cuda

/*
#include <stdlib.h>
#include "cudnn.h"
*/
import "C"

import (
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device"
)

// A Plan is what cuDNN would compute a graph with.
type Plan struct {
	Use       string // such as forward, by data, slices
	Graph     int    // of the use: slices have several, from the middle plane of taps outwards
	Engine    string // empty: none, and Why says why
	Workspace int64  // bytes
	Why       string
}

// PlanWithout asks cuDNN for the plans of a kernel of a convolution on a GPU that is not there:
// properties describe it in JSON. They are of the same graphs that a device runs, and by the same
// rules: the fastest by cuDNN's guess of those that are not refused (see badEngine). The library is
// loaded from a path, or found as a device finds it; version is its number.
func PlanWithout(properties, library, p string, s device.ConvSpec, kind device.ConvKind) (plans []Plan, version int,
	err error) {
	if _, version, err = loadCuDNN(library); err != nil {
		return nil, 0, err
	}
	json := C.CString(properties)
	defer C.free(unsafe.Pointer(json))
	for _, use := range usesOf(s, kind) {
		for i, g := range graphsOf(s, use) {
			plan := planFirst(json, version, precision(p), use, g)
			plan.Graph = i
			plans = append(plans, plan)
		}
	}
	return plans, version, nil
}

// planFirst is the first plan of a graph that would be used.
func planFirst(json *C.char, version int, p precision, use planUse, g C.vs_convolution) Plan {
	const most = 4
	plan := Plan{Use: string(use)}
	list, err := planGraph(nil, nil, json, g, nil, p, most)
	if err != nil {
		plan.Why = err.Error()
	}
	for i := range list {
		l := &list[i]
		if plan.Engine == "" {
			if plan.Why = badEngine(version, use, int(l.engine)); plan.Why == "" {
				plan.Engine, plan.Workspace = C.GoString(&l.name[0]), int64(l.workspace)
			}
		}
		C.vs_cudnn_free(l)
	}
	return plan
}
