//go:build linux

package crashtest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// A volatile disk is a file system in a file, mounted through a loop device, whose power can be
// cut: what was not synced is lost then, as far as the file system does not keep it.
type volatileDisk struct {
	image, mount, options string
	stop                  chan struct{} // ends commits
	done                  sync.WaitGroup
}

// A format is a kind of file system, and how it is mounted. These keep as little as they may of
// what was not synced: a name that was not synced comes before the contents that it stands for.
type format struct {
	make    []string
	options string
}

var formats = []format{
	{[]string{"mkfs.ext4", "-q", "-F"}, "data=writeback,noauto_da_alloc,commit=1"},
	{[]string{"mkfs.ext4", "-q", "-F"}, "noauto_da_alloc,commit=1"},
	{[]string{"mkfs.ext4", "-q", "-F"}, "data=journal"},
	{[]string{"mkfs.xfs", "-q", "-f"}, "noatime"},
}

// newVolatileDisk makes a disk and mounts it. Where that is not allowed the test is passed over.
func newVolatileDisk(t *testing.T, f format) *volatileDisk {
	t.Helper()
	dir := t.TempDir()
	d := &volatileDisk{image: filepath.Join(dir, "image"), mount: filepath.Join(dir, "disk"),
		options: "loop," + f.options}
	if err := errors.Join(os.WriteFile(d.image, nil, 0o600), os.Truncate(d.image, 320<<20),
		os.Mkdir(d.mount, 0o777)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(f.make[0], append(f.make[1:], d.image)...).CombinedOutput(); err != nil {
		t.Skipf("%s: %v %s", f.make[0], err, out)
	}
	if out, err := exec.Command("mount", "-o", d.options, d.image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("mounting a loop device needs root: %v %s", err, out)
	}
	t.Cleanup(d.unmount)
	d.commit()
	return d
}

// commit keeps the journal on the move by syncing a file of no account: the file system then writes
// down names, whose contents it has not written yet.
func (d *volatileDisk) commit() {
	d.stop = make(chan struct{})
	d.done.Go(func() {
		f, err := os.Create(filepath.Join(d.mount, "other"))
		if err != nil {
			return
		}
		defer f.Close()
		for {
			select {
			case <-d.stop:
				return
			case <-time.After(3 * time.Millisecond):
				_, _ = f.WriteAt([]byte(time.Now().String()), 0)
				_ = f.Sync() // fails when the power is cut
			}
		}
	})
}

// shutdown is FS_IOC_SHUTDOWN, and noFlush its way of stopping at once: include/uapi/linux/fs.h.
const (
	shutdown = 0x8004587d
	noFlush  = 2
)

// cut cuts the power: nothing reaches the disk any more.
func (d *volatileDisk) cut() error {
	f, err := os.Open(d.mount)
	if err != nil {
		return err
	}
	defer f.Close()
	how := uint32(noFlush)
	if _, _, code := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), shutdown, uintptr(unsafe.Pointer(&how))); code != 0 {
		return code
	}
	return nil
}

// boot mounts the disk again, after a cut. No process may have a file open there.
func (d *volatileDisk) boot() error {
	close(d.stop)
	d.done.Wait()
	for _, args := range [][]string{{"umount", d.mount}, {"mount", "-o", d.options, d.image, d.mount}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w %s", strings.Join(args, " "), err, out)
		}
	}
	d.commit()
	return nil
}

func (d *volatileDisk) unmount() {
	close(d.stop)
	d.done.Wait()
	_ = exec.Command("umount", d.mount).Run()
}

// powerTests are the tests that cut the power.
func (b *bench) powerTests() map[string]func(t *testing.T) {
	return map[string]func(t *testing.T){"Forgets": b.testForgets, "Power": b.testPower}
}

// testPower cuts the power at random moments. What a verb had said was done is there afterwards, no
// file is cut short, and the verb goes on to its end.
func (b *bench) testPower(t *testing.T) {
	r := rand.New(rand.NewPCG(*start, 3))
	for done, round := 0, int(*start%100); done < *cuts; round++ {
		f, s := formats[round%len(formats)], b.stories[round%len(b.stories)]
		if _, err := exec.LookPath(f.make[0]); err != nil {
			f = formats[0]
		}
		before := done
		t.Run(fmt.Sprintf("%s on %s %s", s.name, f.make[0], f.options), func(t *testing.T) {
			done += b.cutDuring(t, r, newVolatileDisk(t, f), s, min(1+r.IntN(3), *cuts-done))
		})
		if done == before { // not allowed here
			return
		}
	}
}

// cutDuring runs a story while the power is cut several times, then without. It says how often the
// power was cut.
func (b *bench) cutDuring(t *testing.T, r *rand.Rand, d *volatileDisk, s story, times int) (cuts int) {
	t.Helper()
	var history []string
	for range times {
		args := s.args
		if _, err := os.Stat(filepath.Join(d.mount, "out")); err == nil {
			args = s.again()
		}
		cmd := b.command(d.mount, args)
		var said bytes.Buffer
		cmd.Stdout, cmd.Stderr = &said, &said
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		after := time.Duration(r.Float64() * 1.3 * float64(s.took)) // perhaps when it has ended
		well := false
		select {
		case err := <-ended:
			if well = err == nil; !well {
				t.Fatalf("%v after %q\n%s", err, history, said.String())
			}
			ended <- nil
		case <-time.After(after):
		}
		if err := d.cut(); err != nil {
			t.Skipf("this kernel cannot cut the power of a file system: %v", err)
		}
		cuts++
		_ = cmd.Process.Kill() // it has lost its machine, too
		<-ended
		history = append(history, fmt.Sprintf("cut after %v, when it had ended: %v", after.Round(time.Millisecond),
			well))
		if err := d.boot(); err != nil {
			t.Fatal(err)
		}
		b.checkBooted(t, d, s, well, fmt.Sprint(history))
	}
	t.Log(strings.Join(history, "; "))
	b.end(t, s, d.mount, strings.Join(history, "; "))
	return cuts
}

// checkBooted looks at what is there after a cut, before anything mends it.
func (b *bench) checkBooted(t *testing.T, d *volatileDisk, s story, well bool, history string) {
	t.Helper()
	got := map[string]string{}
	if _, err := os.Stat(filepath.Join(d.mount, "out")); err == nil || !errors.Is(err, fs.ErrNotExist) {
		got = outcome(t, d.mount)
	}
	if well {
		for name, want := range s.want {
			if got[name] != want {
				t.Errorf("%s: %s was done, and is lost or changed after %s", s.name, name, history)
			}
		}
	}
	if _, there := got["last.safetensors"]; there && s.verified {
		if out, err := b.command(d.mount, []string{"verify", "out"}).CombinedOutput(); err != nil {
			t.Errorf("%s after %s, before it is resumed: %v\n%s", s.name, history, err, out)
		}
	}
}

// The disk forgets: otherwise the cuts would prove nothing.
func (b *bench) testForgets(t *testing.T) {
	d := newVolatileDisk(t, formats[0])
	synced, hasty := filepath.Join(d.mount, "synced"), filepath.Join(d.mount, "hasty")
	for _, path := range []string{synced, hasty} {
		f, err := os.Create(path + ".tmp")
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(make([]byte, 1<<20))
		if path == synced {
			err = errors.Join(err, f.Sync())
		}
		if err = errors.Join(err, f.Close(), os.Rename(path+".tmp", path)); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(100 * time.Millisecond) // the names reach the disk
	if err := errors.Join(d.cut(), d.boot()); err != nil {
		t.Skipf("this kernel cannot cut the power of a file system: %v", err)
	}
	if info, err := os.Stat(synced); err != nil || info.Size() != 1<<20 {
		t.Errorf("what was synced is lost: %v", err)
	}
	if info, err := os.Stat(hasty); err == nil && info.Size() == 1<<20 {
		t.Error("what was not synced is there: the disk does not forget")
	}
}
