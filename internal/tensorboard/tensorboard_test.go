package tensorboard

import (
	"bytes"
	"encoding/hex"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/voxsaw/voxsaw"
)

// The same events are the same bytes as TensorBoard's own, checksums included.
func TestEventsAreTensorBoards(t *testing.T) {
	want, err := os.ReadFile("../../testdata/events.tfevents")
	if err != nil {
		t.Fatal(err)
	}
	png, err := hex.DecodeString("89504e470d0a1a0a0000000d4948445200000001000000010800000000" + "3a7e9b55" +
		"0000000a49444154789c636000000002000148afa471" + "0000000049454e44ae426082")
	if err != nil {
		t.Fatal(err)
	}
	var got Events
	got.Begin(1700000000.5)
	got.Scalar(1700000001, 0, "loss", 0)
	got.Scalar(1700000002.25, 300, "loss", 0.3)
	got.Scalar(1700000003, 1<<40, "Längstes", math.NaN())
	got.Picture(1700000004, 300, "cases", 1, 1, png)
	got.Resume(1700000005, 300)
	if !bytes.Equal(got, want) {
		t.Errorf("%x\nwant\n%x", []byte(got), want)
	}
}

// Records of TensorBoard's have the checksums that we compute, and one that was cut short is told.
func TestWhole(t *testing.T) {
	file, err := os.ReadFile("../../testdata/events.tfevents")
	if err != nil {
		t.Fatal(err)
	}
	whole := func(data []byte) int {
		n, err := Whole(bytes.NewReader(data))
		if err != nil {
			t.Error(err)
		}
		return int(n)
	}
	if n := whole(file); n != len(file) {
		t.Errorf("%d of %d bytes are whole", n, len(file))
	}
	last := whole(file[:len(file)-1])
	if last == 0 || last >= len(file)-1 || whole(file[:last+5]) != last {
		t.Errorf("%d bytes of a file that was cut short are whole", last)
	}
	file[last-2] ^= 1
	if n := whole(file); n >= last {
		t.Errorf("a changed byte before %d, and %d are whole", last, n)
	}
	failed := errors.New("the disk is gone")
	if n, err := Whole(io.MultiReader(bytes.NewReader(file[:20]), iotest.ErrReader(failed))); n != 0 || err != failed {
		t.Errorf("%d bytes, %v: want the error of reading", n, err)
	}
}

// A file grows with the training, and is not held in memory.
func TestWholeOfALargeFile(t *testing.T) {
	var picture Events
	picture.Picture(1, 1, "cases", 1, 1, make([]byte, 1<<20))
	const count = 300
	var parts []io.Reader
	for range count {
		parts = append(parts, bytes.NewReader(picture))
	}
	parts = append(parts, bytes.NewReader(picture[:100]))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := Whole(io.MultiReader(parts...))
	runtime.ReadMemStats(&after)
	if want := int64(count * len(picture)); n != want || err != nil {
		t.Errorf("%d bytes are whole, %v, want %d", n, err, want)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes of memory", used)
	}
}

// A resumed run goes on with the events that are whole; a run without any begins a file.
func TestBoardGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	record := func(step int) []byte {
		b, err := Open(path, step, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		err = errors.Join(b.Step(voxsaw.Progress{Step: step + 1, Loss: 1}), b.Close())
		content, unread := os.ReadFile(path)
		if err = errors.Join(err, unread); err != nil {
			t.Fatal(err)
		}
		return content
	}
	first := record(0)
	if err := os.WriteFile(path, append(slices.Clone(first), first[:len(first)-1]...), 0o666); err != nil {
		t.Fatal(err)
	}
	second := record(1)
	whole, err := Whole(bytes.NewReader(second))
	if err != nil || int(whole) != len(second) || !bytes.HasPrefix(second, first) {
		t.Errorf("%d of %d bytes are whole, %v", whole, len(second), err)
	}
}
