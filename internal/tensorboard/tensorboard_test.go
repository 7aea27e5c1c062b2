package tensorboard

import (
	"bytes"
	"encoding/hex"
	"math"
	"os"
	"testing"
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
	if n := Whole(file); n != len(file) {
		t.Errorf("%d of %d bytes are whole", n, len(file))
	}
	last := Whole(file[:len(file)-1])
	if last == 0 || last >= len(file)-1 || Whole(file[:last+5]) != last {
		t.Errorf("%d bytes of a file that was cut short are whole", last)
	}
	file[last-2] ^= 1
	if n := Whole(file); n >= last {
		t.Errorf("a changed byte before %d, and %d are whole", last, n)
	}
}
