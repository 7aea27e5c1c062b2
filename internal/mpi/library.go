//go:build mpi && linux && (amd64 || arm64)

package mpi

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Compiled says whether this build can join a job.
const Compiled = true

// An abi is what differs between the binary interfaces: the values of handles and of a special
// address, and the number of a thread level.
type abi struct {
	name                   string
	world, float, byte, op uintptr // op is the sum
	inPlace                uintptr
	funneled               int32
}

// The MPI 5.0 standard's interface (mpi_abi.h of MPICH 5) and MPICH's own (mpi.h of MPICH 4 and 5).
// Open MPI's handles are addresses of its symbols.
var (
	standardABI = abi{"MPI 5.0", 0x101, 0x210, 0x247, 0x21, 1, 1024}
	mpichABI    = abi{"MPICH", 0x44000000, 0x4c00040a, 0x4c00010d, 0x58000003, ^uintptr(0), 1}
)

// opened is a library with the functions that are used of it.
type opened struct {
	abi
	ranks      int
	initThread func(argc, argv unsafe.Pointer, want int32, have *int32) int32
	finalize   func() int32
	rank, size func(comm uintptr, out *int32) int32
	allreduce  func(send uintptr, recv unsafe.Pointer, n int32, typ, op, comm uintptr) int32
	bcast      func(data unsafe.Pointer, n int32, typ uintptr, root int32, comm uintptr) int32
	alltoall   func(send unsafe.Pointer, n int32, typ uintptr, recv unsafe.Pointer, m int32, typ2, comm uintptr) int32
	allgather  func(send unsafe.Pointer, n int32, typ uintptr, recv unsafe.Pointer, m int32, typ2, comm uintptr) int32
	version    func(text *byte, n *int32) int32
}

// open opens the first library that is there of those that fit the launcher.
func open(launch Launch) (library, error) {
	var tried []error
	for _, name := range launch.candidates() {
		handle, err := purego.Dlopen(name, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err != nil {
			tried = append(tried, err)
			continue
		}
		l, err := bind(name, handle)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return l, nil
	}
	var texts []string
	for _, err := range tried {
		texts = append(texts, err.Error())
	}
	return nil, fmt.Errorf("no MPI library that fits the launcher can be opened (%s): set LD_LIBRARY_PATH "+
		"to its folder, or VOXSAW_MPI to its file", strings.Join(texts, "; "))
}

// bind finds out which interface a library has, and its functions.
func bind(name string, handle uintptr) (*opened, error) {
	l := &opened{abi: mpichABI}
	switch world, err := purego.Dlsym(handle, "ompi_mpi_comm_world"); {
	case strings.Contains(name, "mpi_abi"):
		l.abi = standardABI
	case err == nil:
		l.abi = abi{name: "Open MPI", world: world, inPlace: 1, funneled: 1}
		for symbol, to := range map[string]*uintptr{"ompi_mpi_float": &l.float, "ompi_mpi_byte": &l.byte,
			"ompi_mpi_op_sum": &l.op} {
			if *to, err = purego.Dlsym(handle, symbol); err != nil {
				return nil, err
			}
		}
	}
	for symbol, function := range map[string]any{
		"MPI_Init_thread": &l.initThread, "MPI_Finalize": &l.finalize, "MPI_Comm_rank": &l.rank,
		"MPI_Comm_size": &l.size,
		"MPI_Allreduce": &l.allreduce, "MPI_Bcast": &l.bcast, "MPI_Alltoall": &l.alltoall,
		"MPI_Allgather": &l.allgather, "MPI_Get_library_version": &l.version,
	} {
		address, err := purego.Dlsym(handle, symbol)
		if err != nil {
			return nil, errors.New("it is no MPI library: " + err.Error())
		}
		purego.RegisterFunc(function, address)
	}
	return l, nil
}

// failed is the error of a call that has not returned MPI_SUCCESS.
func failed(call string, code int32) error {
	if code == 0 {
		return nil
	}
	return fmt.Errorf("%s has failed with code %d", call, code)
}

func (l *opened) start() (rank, size int, err error) {
	var have, r, s int32
	if err := failed("MPI_Init_thread", l.initThread(nil, nil, l.funneled, &have)); err != nil {
		return 0, 0, err
	}
	err = errors.Join(failed("MPI_Comm_rank", l.rank(l.world, &r)), failed("MPI_Comm_size", l.size(l.world, &s)))
	l.ranks = int(s)
	return int(r), int(s), err
}

func (l *opened) describe() string {
	text := make([]byte, 8192) // MPI_MAX_LIBRARY_VERSION_STRING at its largest
	var n int32
	if l.version(&text[0], &n) != 0 || n <= 0 || int(n) > len(text) {
		return "an MPI library with the interface of " + l.name
	}
	line, _, _ := strings.Cut(strings.TrimRight(string(text[:n]), "\x00"), "\n")
	line, _, _ = strings.Cut(line, ", package:") // Open MPI: by whom and where it was built
	return strings.Join(strings.Fields(line), " ")
}

func (l *opened) sum(values []float32) error {
	if len(values) == 0 {
		return nil
	}
	defer runtime.KeepAlive(values)
	return failed("MPI_Allreduce", l.allreduce(l.inPlace, unsafe.Pointer(&values[0]), int32(len(values)), l.float, l.op,
		l.world))
}

func (l *opened) broadcast(data []byte) error {
	if len(data) == 0 {
		return nil
	}
	defer runtime.KeepAlive(data)
	return failed("MPI_Bcast", l.bcast(unsafe.Pointer(&data[0]), int32(len(data)), l.byte, 0, l.world))
}

func (l *opened) exchange(mine, theirs []byte) error {
	if len(mine) == 0 {
		return nil
	}
	defer runtime.KeepAlive(theirs)
	defer runtime.KeepAlive(mine)
	n := int32(len(mine) / l.ranks)
	return failed("MPI_Alltoall", l.alltoall(unsafe.Pointer(&mine[0]), n, l.byte, unsafe.Pointer(&theirs[0]), n, l.byte,
		l.world))
}

func (l *opened) gather(mine, all []byte) error {
	defer runtime.KeepAlive(all)
	defer runtime.KeepAlive(mine)
	return failed("MPI_Allgather", l.allgather(unsafe.Pointer(&mine[0]), int32(len(mine)), l.byte,
		unsafe.Pointer(&all[0]), int32(len(mine)), l.byte, l.world))
}

func (l *opened) stop() error { return failed("MPI_Finalize", l.finalize()) }
