//go:build gpu

package cuda

/*
#include <stdlib.h>
#include "nccl.h"
*/
import "C"

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"
	"unsafe"

	"github.com/voxsaw/voxsaw/internal/device"
)

// NCCL 2, which is optional: sums over the GPUs of several processes, without a way through their
// hosts' memory. It is opened when ranks ask whether they can sum so.

// ncclFolders are where NCCL lies beside where the system's loader looks: patterns.
var ncclFolders = []string{
	"$VIRTUAL_ENV/lib/python3*/site-packages/nvidia/nccl/lib",
	"$CONDA_PREFIX/lib/python3*/site-packages/nvidia/nccl/lib", "$CONDA_PREFIX/lib",
	"$HOME/.local/lib/python3*/site-packages/nvidia/nccl/lib", "/usr/local/lib/python3*/*-packages/nvidia/nccl/lib",
	"/opt/conda/lib/python3*/site-packages/nvidia/nccl/lib",
}

// oldestNCCL is 2.13, which first tells of its last error.
const (
	ncclLibrary  = "libnccl.so.2"
	ncclVariable = "VOXSAW_NCCL"
	oldestNCCL   = 21300
)

// loadNCCL loads the library: the one that VOXSAW_NCCL names, or the one that is found. It returns
// its version.
func loadNCCL() (int, error) {
	named := os.Getenv(ncclVariable)
	if named == "none" {
		return 0, &libraryError{ncclVariable + " is none"}
	}
	paths := []string{cmp.Or(named, ncclLibrary)}
	if named == "" {
		for _, folder := range ncclFolders {
			found, _ := filepath.Glob(filepath.Join(expanded(folder), ncclLibrary))
			paths = append(paths, found...)
		}
	}
	var message [1024]C.char
	var first error
	for _, path := range paths {
		name := C.CString(path)
		r := C.vs_nccl_open(name, &message[0], C.int(len(message)))
		C.free(unsafe.Pointer(name))
		if r != 0 {
			first = cmp.Or(first, error(&libraryError{C.GoString(&message[0])}))
			continue
		}
		version := int(C.vs_nccl_version())
		if version < oldestNCCL {
			return version, &libraryError{fmt.Sprintf("NCCL %s (%s) is too old: 2.13 is wanted", ncclVersion(version),
				C.GoString(C.vs_nccl_file()))}
		}
		return version, nil
	}
	return 0, &libraryError{fmt.Sprintf("looked for %s: %v; install NCCL 2, or name its library in %s",
		cmp.Or(named, ncclLibrary+" where the system's loader looks and in Python's folders nvidia/nccl/lib"), first,
		ncclVariable)}
}

// ncclVersion writes NCCL's number of a version as people do.
func ncclVersion(v int) string { return fmt.Sprintf("%d.%d.%d", v/10000, v/100%100, v%100) }

// peers are the GPUs that this one sums with.
type peers struct {
	comm    unsafe.Pointer
	mu      sync.Mutex
	failure error // of a sum; comm is aborted then
	stop    chan struct{}
	stopped sync.WaitGroup

	addresses []C.ulonglong
	counts    []C.longlong
}

// MeetPeers implements [device.Peers].
func (d *Device) MeetPeers() (device.Peer, error) {
	version, err := loadNCCL()
	if err != nil {
		return device.Peer{}, err
	}
	id, err := d.gpu.UUID()
	if err != nil {
		return device.Peer{}, fmt.Errorf("asking the GPU for its number: %w", err)
	}
	return device.Peer{Library: "NCCL " + ncclVersion(version), GPU: id.String()}, nil
}

// PeerID implements [device.Peers].
func (d *Device) PeerID() ([]byte, error) {
	id := make([]byte, C.vs_nccl_id_bytes)
	return id, check(C.vs_nccl_id((*C.char)(unsafe.Pointer(&id[0]))))
}

// JoinPeers implements [device.Peers].
func (d *Device) JoinPeers(rank, size int, id []byte) error {
	if len(id) != C.vs_nccl_id_bytes {
		return fmt.Errorf("an id of %d bytes, %d are wanted", len(id), C.vs_nccl_id_bytes)
	}
	// Each training of a process joins anew, and the library keeps buffers for each group.
	d.peers.close(d)
	d.peers = nil
	p := &peers{stop: make(chan struct{})}
	if err := check(C.vs_nccl_join(d.ctx(), &p.comm, C.int(size), C.int(rank),
		(*C.char)(unsafe.Pointer(&id[0])))); err != nil {
		return err
	}
	d.peers = p
	p.stopped.Go(p.watch)
	return nil
}

// SumPeers implements [device.Peers].
func (d *Device) SumPeers(buffers []device.Buffer) error {
	if d.peers == nil {
		return errors.New("the GPU has joined no others")
	}
	if d.recording {
		d.misused = true
		return errRecording
	}
	if len(buffers) == 0 {
		return nil
	}
	p := d.peers
	p.addresses, p.counts = p.addresses[:0], p.counts[:0]
	for _, b := range buffers {
		m := b.(*Buffer)
		p.addresses, p.counts = append(p.addresses, C.ulonglong(m.address)), append(p.counts, C.longlong(m.bytes/4))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.failure != nil {
		return p.failure
	}
	return check(C.vs_nccl_sum(d.ctx(), d.queue(), p.comm, &p.addresses[0], &p.counts[0], C.int(len(buffers))))
}

// ncclPeriod is how often a sum that is under way is asked whether it has failed.
const ncclPeriod = 200 * time.Millisecond

// watch ends sums that have failed: the network between hosts is gone, say. Without that, the
// stream would wait for them for ever. Ranks that are gone end the whole job by themselves.
func (p *peers) watch() {
	for {
		select {
		case <-p.stop:
			return
		case <-time.After(ncclPeriod):
		}
		err := check(C.vs_nccl_failed(p.comm))
		if err == nil {
			continue
		}
		p.mu.Lock()
		p.failure = fmt.Errorf("summing between the GPUs: %w", err)
		p.mu.Unlock()
		C.vs_nccl_abort(p.comm)
		return
	}
}

// failed is the error of the sums so far.
func (p *peers) failed() error {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}

// close leaves the others. The context must still be there.
func (p *peers) close(d *Device) {
	if p == nil {
		return
	}
	close(p.stop)
	p.stopped.Wait()
	if p.failure == nil {
		d.fail("leaving the other GPUs", check(C.vs_nccl_leave(d.ctx(), p.comm)))
	}
}
