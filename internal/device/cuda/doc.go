// Package cuda is the device that computes on an NVIDIA GPU. It is built under the tag gpu; without
// it, [Open] says how to get a program that has it.
//
// Start at [Open] (open.go). The rules of the package:
//
//   - Activations (rank 5) lie as (N, D, H, W, C), in float32 or bfloat16. All else lies row-major,
//     in float32; weights too, which the convolutions pack for themselves in scratch memory.
//   - A kernel of the device is a list of launches that is made once; running it writes the
//     operands' addresses into it and makes one call into C, which allocates nothing. See
//     launch.go.
//   - All work goes to one stream, in the order of the calls. What fails late comes out at Sync.
//     Batches alone come to the GPU on a second stream, beside the work: see feed.go.
//   - A CUDA context belongs to threads, a goroutine does not: every call into the driver first
//     makes the context current on the thread it happens to be on.
//   - No result depends on the order in which blocks run: sums over blocks are added in a fixed
//     order.
//
// The driver is opened when a device is (open.c): the program links and starts without one. Kernels
// are in kernels/*.cu, their machine code in kernels/built, made by kernels/build.py. sim is a GPU
// that a CPU plays, on which the tests run; nothing of it is part of the program.
package cuda

// Options of a CUDA device.
type Options struct {
	// Precision is how convolutions and products of matrices multiply: "fp32" (exact, on the
	// ordinary units), "tf32" (tensor cores, ten bits of fraction), "bf16" (tensor cores;
	// activations are bfloat16). Sums are float32 always, as are weights. "" is "bf16".
	Precision string
	// Memory limits the bytes that are taken of the GPU's memory; 0: all that is free.
	Memory int64
	// Driver is the path of libcuda.so.1, or of a simulator; "" looks where the system's loader
	// does.
	Driver string
	// CuDNN is the path of libcudnn.so.9, or of a simulator; "" looks in VOXSAW_CUDNN, where the
	// system's loader does, and where Python's packages have it.
	CuDNN string
	// Process is the number of this process, from 0, among those of a job that compute on this
	// machine's GPUs: each takes a GPU of its own as far as there are any, and can sum with the
	// others through NCCL ([device.Peers]). 0, as for a process that works alone, is the first GPU.
	Process int
	// Choices are variants of convolutions that were measured, see [device.Chooser].
	Choices map[string]string
}
