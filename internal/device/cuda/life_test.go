//go:build gpu

package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"gorgonia.org/cu"

	"github.com/voxsaw/voxsaw/internal/device"
)

// The device's life, and what the simulated GPU makes of those who do not keep to the rules.

// TestOpenErrors: what is missing is said, with where it was looked for.
func TestOpenErrors(t *testing.T) {
	empty := t.TempDir() + "/empty.so"
	c := exec.Command("g++", "-shared", "-x", "c++", "/dev/null", "-o", empty)
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for path, want := range map[string]string{"/nowhere/libcuda.so.1": "no NVIDIA driver: " +
		"looked for /nowhere/libcuda.so.1", empty: "is no CUDA driver: it has no cuInit"} {
		if got := openedWith(path); !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	if _, err := Open(Options{Precision: "int8"}); err == nil ||
		!strings.Contains(err.Error(), "want fp32, tf32 or bf16") {
		t.Errorf("precision int8: %v", err)
	}
}

// TestOneContext: devices of a process share the GPU's primary context, and one that is closed
// gives back what it has taken while another one goes on.
func TestOneContext(t *testing.T) {
	first, second := openSimulated(t, fp32), openSimulated(t, fp32)
	if first.ctx() != second.ctx() {
		t.Error("two devices of a process have contexts of their own")
	}
	free, _, err := second.Memory()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := first.Alloc(1 << 20); err != nil {
		t.Fatal(err)
	}
	if taken, _, _ := second.Memory(); taken > free-1<<20 {
		t.Fatalf("%d bytes are free after 1 MiB was taken of %d", taken, free)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if left, _, err := second.Memory(); err != nil || left < free {
		t.Errorf("%d bytes are free after closing, %d were before: %v", left, free, err)
	}
	b := onGPU(t, second, 8, []float32{1, 2})
	if got := make([]float32, 2); second.DownloadPlain(got, b, 0) != nil || got[1] != 2 {
		t.Errorf("the other device has %v", got)
	}
}

// TestRecord: a recording gives the bits of the direct run, again and again, and running it
// allocates nothing.
func TestRecord(t *testing.T) {
	d := openSimulated(t, bf16)
	s := device.ConvSpec{N: 1, In: 16, Out: 16, Size: [3]int{3, 6, 10}, Kernel: [3]int{5, 5, 5},
		Stride: [3]int{1, 1, 1}, Pad: [3]int{2, 2, 2}, Type: device.BFloat16}
	k, err := d.Conv(s)
	if err != nil {
		t.Fatal(err)
	}
	values := make([]float32, s.XShape().Elements())
	for i := range values {
		values[i] = float32(i%17) - 8
	}
	weights := slices.Repeat([]float32{0.5, -0.25}, s.WShape().Elements()/2)
	y, x, w, scratch := activations(t, d, s.YShape(), nil), activations(t, d, s.XShape(), values),
		onGPU(t, d, 4*int64(len(weights)), weights), onGPU(t, d, k.Scratch(), nil)
	result := device.Tensor{Shape: s.YShape(), Type: s.Type}
	k.Run([]device.Buffer{y}, []device.Buffer{x, w}, scratch)
	want := downloaded(t, d, y, result)
	r, err := d.Record(func() { k.Run([]device.Buffer{y}, []device.Buffer{x, w}, scratch) })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for range 2 {
		if err := d.Upload(y, result, make([]float32, len(want))); err != nil {
			t.Fatal(err)
		}
		if err := r.Run(); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(downloaded(t, d, y, result), want) {
			t.Error("a recording gives other bits than the direct run")
		}
	}
	if n := testing.AllocsPerRun(5, func() { r.Run() }); n > 0 {
		t.Errorf("running a recording allocates %v times", n)
	}
	if seconds, err := d.Time(func() { r.Run() }); err != nil || !(seconds > 0) {
		t.Errorf("a run takes %v s, %v", seconds, err)
	}
	if _, err := d.Record(func() { d.Sync() }); err == nil {
		t.Error("waiting for the GPU was recorded")
	}
}

// TestOutOfMemory: the error says how much was wanted and how much there is, and the device goes
// on.
func TestOutOfMemory(t *testing.T) {
	d := openSimulated(t, bf16)
	_, err := d.Alloc(1 << 50)
	if !errors.Is(err, errOutOfMemory) || !strings.Contains(err.Error(), "GiB are free") {
		t.Errorf("got %v", err)
	}
	if _, err := d.Alloc(1 << 20); err != nil {
		t.Error(err)
	}
}

// TestUploadsDoNotWait: uploads from memory of any kind do not wait for the work before them, and
// what they had is there at Sync, whatever the host has done with its memory since.
func TestUploadsDoNotWait(t *testing.T) {
	d := openSimulated(t, fp32)
	const n, uploads = 1000, 7
	var buffers []device.Buffer
	for range uploads {
		buffers = append(buffers, onGPU(t, d, 4*n, nil))
	}
	// both stages are there
	if err := errors.Join(d.UploadPlain(buffers[0], 0, make([]float32, n)),
		d.UploadPlain(buffers[0], 0, make([]float32, n)), d.Sync()); err != nil {
		t.Fatal(err)
	}
	values, before := make([]float32, n), d.Calls(t)
	for u, b := range buffers {
		for i := range values {
			values[i] = float32(n*u + i)
		}
		if err := d.UploadPlain(b, 0, values); err != nil {
			t.Fatal(err)
		}
	}
	if c := d.Calls(t).Sub(before); c.Waits != 0 || c.TakesOrGives != 0 {
		t.Errorf("%d uploads waited for the stream %d times, took or gave back %d resources", uploads, c.Waits,
			c.TakesOrGives)
	}
	for u, b := range buffers {
		for i, v := range downloaded(t, d, b, device.Tensor{Shape: device.Shape{n}}) {
			if v != float32(n*u+i) {
				t.Fatalf("upload %d, element %d: %v, want %d", u, i, v, n*u+i)
			}
		}
	}
}

// TestAnyThread: the device works from whatever thread a goroutine is on; the driver would not.
func TestAnyThread(t *testing.T) {
	d := openSimulated(t, bf16)
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		var err error
		// as on a thread that has never seen a context: one is taken from its stack at a time
		for range 100 {
			err = errors.Join(err, cu.SetCurrentContext(cu.CUContext{}))
		}
		if _, refused := cu.MemAlloc(16); refused == nil {
			done <- errors.New("a thread without a context could allocate")
			return
		}
		b, e := d.Alloc(16)
		if e == nil {
			e = d.UploadPlain(b, 0, []float32{1, 2, 3, 4})
		}
		done <- errors.Join(err, e, d.Sync())
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestHostCannotReadTheGPU: an address of the device is none of the host.
func TestHostCannotReadTheGPU(t *testing.T) {
	d := openSimulated(t, bf16)
	b := onGPU(t, d, 64, nil).(*Buffer)
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if recover() == nil {
			t.Error("the host read memory of the device")
		}
	}()
	t.Log(*(*float32)(*(*unsafe.Pointer)(unsafe.Pointer(&b.address))))
}

// TestUseAfterFree: a kernel that is still to run when its memory is freed fails, and Sync says so
// from then on.
func TestUseAfterFree(t *testing.T) {
	d := openSimulated(t, fp32)
	k, err := d.Add(device.Tensor{Shape: device.Shape{64}})
	if err != nil {
		t.Fatal(err)
	}
	a, err := d.Alloc(256)
	if err != nil {
		t.Fatal(err)
	}
	y := onGPU(t, d, 256, nil)
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	k.Run([]device.Buffer{y}, []device.Buffer{a, a}, nil)
	// Free would wait
	if err := d.locked(func() error { return cu.MemFree(cu.DevicePtr(a.(*Buffer).address)) }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := d.Sync(); err == nil || !strings.Contains(err.Error(), "illegal memory access") {
			t.Errorf("got %v", err)
		}
	}
	d.Close() // says it, too
}

// TestNothingIsHeld: a device that is closed has given back pinned memory, events and graphs, those
// of feeds and recordings that are still open, too. Others go on in the same context.
func TestNothingIsHeld(t *testing.T) {
	other := openSimulated(t, fp32)
	before := other.Held(t)
	d := openUnclosed(t, fp32)
	f, err := d.NewFeed(device.Tensor{Shape: device.Shape{2, 3}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(24)
	if err == nil {
		err = errors.Join(f.Send(make([]float32, 6)), f.Deliver(b), d.UploadPlain(b, 0, make([]float32, 6)))
	}
	if err != nil {
		t.Fatal(err)
	}
	k, err := d.newTranspose(device.Tensor{Shape: device.Shape{1, 6}}, false)
	if err != nil {
		t.Fatal(err)
	}
	run := func() { k.Run([]device.Buffer{b}, []device.Buffer{b}, nil) }
	r, err := d.Record(run)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Time(run); err != nil {
		t.Fatal(err)
	}
	// pinned memory and two events of each of two slots, one of an upload with its event, a graph
	if n := other.Held(t) - before; n != 2*3+2+1 {
		t.Errorf("%d pieces are held", n)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if n := other.Held(t) - before; n != 0 {
		t.Errorf("%d pieces are held by a device that is closed", n)
	}
	f.Close() // once more is nothing
	r.Close()
	if n := other.Held(t) - before; n != 0 {
		t.Errorf("%d pieces after closing twice", n)
	}
}

// TestRace: of two streams that nothing orders, one is sometimes too early. With an event it never
// is.
func TestRace(t *testing.T) {
	d := openSimulated(t, fp32)
	const n = 64
	early := func(ordered bool) (times int) {
		for range 20 {
			a := onGPU(t, d, 4*n, make([]float32, n))
			ones := slices.Repeat([]float32{1}, n)
			err := d.locked(func() error {
				other, err := cu.MakeStream(cu.NonBlocking)
				if err != nil {
					return err
				}
				event, err := cu.MakeEvent(cu.DefaultEvent)
				if err != nil {
					return err
				}
				got := make([]float32, n)
				p := cu.DevicePtr(a.(*Buffer).address)
				err = errors.Join(d.Sync(), cu.MemcpyHtoDAsync(p, unsafe.Pointer(&ones[0]), 4*n, d.stream),
					event.Record(d.stream))
				if ordered {
					err = errors.Join(err, other.Wait(event, 0))
				}
				err = errors.Join(err, cu.MemcpyDtoHAsync(unsafe.Pointer(&got[0]), p, 4*n, other), other.Synchronize(),
					d.Sync(), other.Destroy())
				if got[0] != 1 {
					times++
				}
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		return times
	}
	if n := early(false); n == 0 {
		t.Error("streams that nothing orders were always in order")
	}
	if n := early(true); n != 0 {
		t.Errorf("a stream that waits for an event was too early %d times", n)
	}
}

// TestMemoryLimit: no more is taken of the GPU's memory than is allowed, what is given back may be
// taken again, and what is said to be free is what may be taken.
func TestMemoryLimit(t *testing.T) {
	library, err := simulator()
	if err != nil {
		t.Fatal(err)
	}
	opened, err := Open(Options{Driver: cmp.Or(os.Getenv("VOXSAW_CUDA_DRIVER"), library), Memory: 3 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer opened.Close()
	d := opened.(*Device)
	free, _, err := d.Memory()
	if err != nil || free > 3<<20 || free < 2<<20 {
		t.Fatalf("%d bytes are free, %v", free, err)
	}
	b, err := d.Alloc(2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if after, _, _ := d.Memory(); after != free-2<<20 {
		t.Errorf("%d bytes are free, of %d before", after, free)
	}
	if _, err := d.Alloc(2 << 20); !errors.Is(err, errOutOfMemory) ||
		!strings.Contains(err.Error(), "2.0 MiB were asked for, 2.0 of the 3.0 MiB are taken that it may use") {
		t.Errorf("more than the limit: %v", err)
	}
	d.Free(b)
	again, err := d.Alloc(2 << 20)
	if err != nil {
		t.Fatal(err)
	}
	d.Free(again)
}

// openedWith is what opening the device with another driver says, in a process of its own.
func openedWith(library string) string {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), openVariable+"="+library)
	text, _ := c.CombinedOutput()
	return string(text)
}

// runOpen opens a driver, prints the error, and returns the process's exit code.
func runOpen(library string) int {
	d, err := Open(Options{Driver: library})
	fmt.Println(err)
	if err != nil {
		return 1
	}
	d.Close()
	return 0
}

// TestDriverTooOld: a driver of CUDA 11.4 is refused before anything is asked of it. Here it is a
// library that knows no more than its version.
func TestDriverTooOld(t *testing.T) {
	library := filepath.Join(t.TempDir(), "libcuda.so.1")
	c := exec.Command("gcc", "-shared", "-fPIC", "-x", "c", "-o", library, "-")
	c.Stdin = strings.NewReader("int cuInit(unsigned flags) { return 0; }\nint " +
		"cuDriverGetVersion(int *v) { *v = 11040; return 0; }\n")
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	const want = "the NVIDIA driver is too old: it is of CUDA 11.4, and at least " +
		"12.0 is wanted: update it to 525.60 or newer"
	if got := openedWith(library); !strings.Contains(got, want) {
		t.Errorf("the driver of CUDA 11.4: %q, want %q", got, want)
	}
}

// TestPTXDriver: the PTX in the program is of a version that drivers read from some CUDA on, and
// that is what is asked for.
func TestPTXDriver(t *testing.T) {
	text, err := readBuilt(ptxImage)
	if err != nil {
		t.Fatal(err)
	}
	// NVIDIA's PTX ISA, "Release Notes": 8.8 came with CUDA 12.9
	if !strings.Contains(string(text), "\n.version 8.8\n") {
		t.Errorf("the PTX is of another version than 8.8: oldestPTXDriver must follow")
	}
	const want = "it is of CUDA 12.8, and at least 12.9 is wanted: update it to 575.51 or newer"
	if err := oldestPTXDriver.tooOld(12080); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a driver of CUDA 12.8: %v, want %q", err, want)
	}
	if err := oldestPTXDriver.tooOld(12090); err != nil {
		t.Error(err)
	}
}

// TestMostTaken: what is given back is not forgotten.
func TestMostTaken(t *testing.T) {
	d := openSimulated(t, fp32)
	_, before := d.MostTaken(), d.taken
	for _, bytes := range []int64{1 << 20, 3 << 20, 2 << 20} {
		b, err := d.Alloc(bytes)
		if err != nil {
			t.Fatal(err)
		}
		d.Free(b)
	}
	if d.MostTaken() != before+3<<20 || d.taken != before {
		t.Errorf("%d bytes were taken at most, %d are; want %d and %d", d.MostTaken(), d.taken, before+3<<20, before)
	}
}

// TestDriverWithoutGPU: NVIDIA's own driver on a machine without a GPU says that there is none.
// VOXSAW_TEST_LIBCUDA names its library; scripts/cuda-toolchain.py --driver fetches Debian's.
func TestDriverWithoutGPU(t *testing.T) {
	library := os.Getenv("VOXSAW_TEST_LIBCUDA")
	if library == "" {
		t.Skip("VOXSAW_TEST_LIBCUDA names no driver: python3 scripts/cuda-toolchain.py --driver fetches one")
	}
	const want = "the NVIDIA driver is there, but it shows no GPU (no CUDA-capable " +
		"device is detected (CUDA_ERROR_NO_DEVICE))"
	switch got := openedWith(library); {
	case strings.Contains(got, "<nil>"), strings.Contains(got, "does not fit the driver that the kernel runs"):
		t.Skip("there is a GPU here")
	case !strings.Contains(got, want):
		t.Errorf("%s says %q, want %q", library, got, want)
	}
}
