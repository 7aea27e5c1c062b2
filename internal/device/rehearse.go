package device

// A Rehearser can make a device that makes the same kernels and takes no memory. Programs are
// compiled on it to learn what they would take; nothing can be computed on it.
type Rehearser interface {
	Device
	Rehearse() Device
}

// Rehearses says whether a device only makes kernels.
func Rehearses(d Device) bool {
	_, ok := d.(interface{ rehearses() })
	return ok
}

// NoMemory is the methods of a device that only rehearses, all those that would touch memory. A
// device embeds it above itself.
type NoMemory struct{}

// nowhere is a buffer that is not there, of so many bytes.
type nowhere int64

// Bytes implements [Buffer].
func (n nowhere) Bytes() int64 { return int64(n) }

func (NoMemory) rehearses() {}

// Alloc implements [Device].
func (NoMemory) Alloc(bytes int64) (Buffer, error) { return nowhere(bytes), nil }

// View implements [Device].
func (NoMemory) View(_ Buffer, _, bytes int64) Buffer { return nowhere(bytes) }

// Free implements [Device].
func (NoMemory) Free(Buffer) {}

// Sync implements [Device].
func (NoMemory) Sync() error { return nil }

// Close implements [Device]. The device that is stood in for stays open.
func (NoMemory) Close() error { return nil }

// Upload implements [Device], as do the other five: nothing is copied.
func (NoMemory) Upload(Buffer, Tensor, []float32) error { return nil }

// Download implements [Device].
func (NoMemory) Download([]float32, Buffer, Tensor) error { return nil }

// UploadPlain implements [Device].
func (NoMemory) UploadPlain(Buffer, int, []float32) error { return nil }

// DownloadPlain implements [Device].
func (NoMemory) DownloadPlain([]float32, Buffer, int) error { return nil }

// UploadWeights implements [Device].
func (NoMemory) UploadWeights(Buffer, Shape, int, []float32) error { return nil }

// DownloadWeights implements [Device].
func (NoMemory) DownloadWeights([]float32, Buffer, Shape, int) error { return nil }
