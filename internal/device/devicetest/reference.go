// Package devicetest is the yardstick of every device: a naive device, a suite of checks and
// benchmarks.
//
// Start at [All], which a device's own test calls. [NewReference] is the oracle: plain loops in
// float64, checked against finite differences by the suite itself. The package leaves out speed in
// the oracle and tests of graphs, which are package nn's.
package devicetest

import (
	"fmt"

	"github.com/voxsaw/voxsaw/internal/device"
)

// NewReference makes the naive device. Its buffers hold float64 in row-major order, so that a
// difference quotient of its forward kernels is exact enough to judge its gradients.
func NewReference() device.Device { return reference{} }

type reference struct{}

var (
	_ device.Device        = reference{}
	_ device.WeightStepper = reference{}
	_ device.StepDecider   = reference{}
	_ device.Blender       = reference{}
)

// values is the reference's buffer.
type values []float64

// Bytes counts an element as float32, as the interface does.
func (v values) Bytes() int64 { return 4 * int64(len(v)) }

// kernel is an operator for fixed shapes: out <- in.
type kernel func(out, in []values)

func (k kernel) Scratch() int64 { return 0 }

func (k kernel) Run(out, in []device.Buffer, _ device.Buffer) { k(ofBuffers(out), ofBuffers(in)) }

func ofBuffers(b []device.Buffer) []values {
	v := make([]values, len(b))
	for i := range b {
		v[i] = b[i].(values)
	}
	return v
}

func (reference) Name() string             { return "reference" }
func (reference) Describe() string         { return "reference: naive loops in float64, one thread" }
func (reference) Activations() device.Type { return device.Float32 }
func (reference) Sync() error              { return nil }
func (reference) Close() error             { return nil }
func (reference) Free(device.Buffer)       {}
func (reference) Alignment() int64         { return 64 }

func (reference) Alloc(bytes int64) (device.Buffer, error) {
	if bytes < 0 || bytes%4 != 0 {
		return nil, fmt.Errorf("allocating %d bytes", bytes)
	}
	return make(values, bytes/4), nil
}

func (reference) View(b device.Buffer, offset, bytes int64) device.Buffer {
	first, n := offset/4, bytes/4
	return b.(values)[first : first+n : first+n]
}

// Size counts an element of any type as float32: the reference computes all types alike.
func (reference) Size(t device.Tensor) int64 { return 4 * int64(t.Shape.Elements()) }

func (r reference) Upload(dst device.Buffer, t device.Tensor, src []float32) error {
	if len(src) != t.Shape.Elements() {
		return fmt.Errorf("uploading %d elements as %v", len(src), []int(t.Shape))
	}
	return r.UploadPlain(dst, 0, src)
}

func (r reference) Download(dst []float32, src device.Buffer, t device.Tensor) error {
	if len(dst) != t.Shape.Elements() {
		return fmt.Errorf("downloading %d elements as %v", len(dst), []int(t.Shape))
	}
	return r.DownloadPlain(dst, src, 0)
}

func (reference) WeightsSize(s device.Shape) int64 { return 4 * int64(s.Elements()) }

func (r reference) UploadWeights(dst device.Buffer, s device.Shape, first int, src []float32) error {
	if err := s.CheckRows(first, len(src)); err != nil {
		return err
	}
	return r.UploadPlain(dst, first*s.Row(), src)
}

func (r reference) DownloadWeights(dst []float32, src device.Buffer, s device.Shape, first int) error {
	if err := s.CheckRows(first, len(dst)); err != nil {
		return err
	}
	return r.DownloadPlain(dst, src, first*s.Row())
}

func (reference) UploadPlain(dst device.Buffer, offset int, src []float32) error {
	d := dst.(values)
	if offset < 0 || offset+len(src) > len(d) {
		return fmt.Errorf("uploading %d elements at %d into a buffer of %d", len(src), offset, len(d))
	}
	for i, x := range src {
		d[offset+i] = float64(x)
	}
	return nil
}

func (reference) DownloadPlain(dst []float32, src device.Buffer, offset int) error {
	s := src.(values)
	if offset < 0 || offset+len(dst) > len(s) {
		return fmt.Errorf("downloading %d elements at %d from a buffer of %d", len(dst), offset, len(s))
	}
	for i := range dst {
		dst[i] = float32(s[offset+i])
	}
	return nil
}
