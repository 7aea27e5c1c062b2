//go:build linux && amd64

package crashtest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// A plant is a call of the system that is made to fail, once, or from which on no more fits.
// strace counts the calls of each thread for itself, and goroutines change threads. So this is a
// tracer of its own, which counts the calls of all threads together: what it fails can be said,
// and every call has its turn.
type plant struct {
	nth  int // which of the calls that write below the folder, from 1; 0: none
	code syscall.Errno
	full bool                   // all calls after it fail as well that need room
	of   func(path string) bool // the calls that count; nil: all
}

// An outbreak is how a traced process ended.
type outbreak struct {
	calls  int    // that write below the folder, and count
	call   string // the one that failed: "" where none did
	path   string // and its file, absolute, as the process wrote it
	exit   int    // code; -1: by a signal
	output string // standard output and standard error
}

// run runs a program in a folder with a call that fails. Nothing else is changed.
func (p plant) run(program, dir string, args []string) (outbreak, error) {
	said, err := os.CreateTemp("", "voxsaw-output-")
	if err != nil {
		return outbreak{}, err
	}
	defer os.Remove(said.Name())
	defer said.Close()
	runtime.LockOSThread() // it is a thread that traces, not a process
	defer runtime.UnlockOSThread()
	process, err := os.StartProcess(program, append([]string{program}, args...), &os.ProcAttr{
		Dir: dir, Env: append(os.Environ(), "GOMAXPROCS=1"), Files: []*os.File{nil, said, said},
		Sys: &syscall.SysProcAttr{Ptrace: true},
	})
	if err != nil {
		return outbreak{}, err
	}
	defer process.Release() // the tracer has waited for it
	t := tracing{plant: p, pid: process.Pid, dir: dir, known: map[int]bool{}, inside: map[int]bool{},
		failing: map[int]bool{}}
	if err := t.follow(); err != nil {
		_ = process.Kill()
		return outbreak{}, err
	}
	text, err := os.ReadFile(said.Name())
	t.output = string(text)
	return t.outbreak, err
}

// tracing is a process under way.
type tracing struct {
	plant
	outbreak
	pid     int
	dir     string
	known   map[int]bool // threads that have begun
	inside  map[int]bool // threads within a call
	failing map[int]bool // threads within a call that is to fail
}

// See ptrace(2) and wait(2).
const (
	exitKill    = 0x100000   // PTRACE_O_EXITKILL
	ownChildren = 0x20000000 // __WNOTHREAD: of this thread
	callStop    = syscall.SIGTRAP | 0x80
)

// follow traces the process to its end.
func (t *tracing) follow() error {
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(t.pid, &status, syscall.WALL|ownChildren, nil); err != nil {
		return fmt.Errorf("waiting for the program to begin: %w", err)
	}
	t.known[t.pid] = true
	if err := syscall.PtraceSetOptions(t.pid,
		syscall.PTRACE_O_TRACESYSGOOD|syscall.PTRACE_O_TRACECLONE|exitKill); err != nil {
		return err
	}
	thread := t.pid
	for pass := syscall.Signal(0); ; {
		if err := syscall.PtraceSyscall(thread, int(pass)); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		var err error
		if thread, pass, err = t.next(); err != nil || thread == 0 {
			return err
		}
	}
}

// next waits for a thread to stop, and looks at why. It returns the thread and the signal that it
// gets, or no thread at the end of the process.
func (t *tracing) next() (thread int, pass syscall.Signal, err error) {
	for {
		var status syscall.WaitStatus
		thread, err := syscall.Wait4(-1, &status, syscall.WALL|ownChildren, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 0, 0, err
		case status.Exited() || status.Signaled():
			if thread == t.pid { // the first thread is the last to be heard of
				t.exit = status.ExitStatus()
				return 0, 0, nil
			}
		case status.StopSignal() == callStop:
			return thread, 0, t.call(thread)
		case status.StopSignal() == syscall.SIGTRAP: // a thread was made
			return thread, 0, nil
		case !t.known[thread]: // and begins by stopping
			t.known[thread] = true
			return thread, 0, nil
		default:
			return thread, status.StopSignal(), nil
		}
	}
}

// call sees a thread begin or end a call.
func (t *tracing) call(thread int) error {
	var registers syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(thread, &registers); err != nil {
		return gone(err)
	}
	t.inside[thread] = !t.inside[thread]
	if !t.inside[thread] {
		if t.failing[thread] {
			t.failing[thread] = false
			registers.Rax = -uint64(t.code)
			return gone(syscall.PtraceSetRegs(thread, &registers))
		}
		return nil
	}
	name, path := t.written(thread, &registers)
	if name == "" || !strings.HasPrefix(path, t.dir+"/") {
		return nil
	}
	if t.full && t.outbreak.call != "" {
		if name != "write" && name != "open" && name != "mkdir" { // these need room
			return nil
		}
	} else {
		if t.of != nil && !t.of(path) {
			return nil
		}
		if t.calls++; t.calls != t.nth {
			return nil
		}
		t.outbreak.call, t.outbreak.path = name, path
	}
	t.failing[thread] = true
	registers.Orig_rax = ^uint64(0) // no such call: nothing is done
	return gone(syscall.PtraceSetRegs(thread, &registers))
}

// gone is nil for a thread that ended meanwhile.
func gone(err error) error {
	if errors.Is(err, syscall.ESRCH) {
		return nil
	}
	return err
}

// written names a call that changes what a disk holds, and the file; "" for other calls.
func (t *tracing) written(thread int, r *syscall.PtraceRegs) (name, path string) {
	switch r.Orig_rax {
	case syscall.SYS_WRITE, syscall.SYS_PWRITE64:
		return "write", t.opened(r.Rdi)
	case syscall.SYS_FTRUNCATE:
		return "ftruncate", t.opened(r.Rdi)
	case syscall.SYS_FSYNC:
		return "fsync", t.opened(r.Rdi)
	case syscall.SYS_OPENAT:
		if r.Rdx&syscall.O_CREAT != 0 {
			return "open", t.text(thread, r.Rsi)
		}
	case syscall.SYS_MKDIRAT:
		return "mkdir", t.text(thread, r.Rsi)
	case syscall.SYS_RENAMEAT:
		return "rename", t.text(thread, r.R10)
	case syscall.SYS_UNLINKAT:
		return "unlink", t.text(thread, r.Rsi)
	}
	return "", ""
}

// opened is the path of an open file.
func (t *tracing) opened(number uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", t.pid, number))
	if err != nil {
		return ""
	}
	return path
}

// text is a path in a thread's memory, made absolute.
func (t *tracing) text(thread int, at uint64) string {
	var path []byte
	for len(path) < 4096 {
		var word [8]byte
		if _, err := syscall.PtracePeekData(thread, uintptr(at)+uintptr(len(path)), word[:]); err != nil {
			return ""
		}
		for _, b := range word {
			if b == 0 {
				if filepath.IsAbs(string(path)) {
					return string(path)
				}
				return filepath.Join(t.dir, string(path))
			}
			path = append(path, b)
		}
	}
	return ""
}
