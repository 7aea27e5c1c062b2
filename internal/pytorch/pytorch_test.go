package pytorch

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/volume"
)

// archive writes a zip file as torch.save does: nothing is compressed.
func archive(t testing.TB, files map[string]string) string {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, name := range []string{"data.pkl", "byteorder", "data/0", "data/1"} {
		text, ok := files[name]
		if !ok {
			continue
		}
		f, err := w.CreateHeader(&zip.FileHeader{Name: "archive/" + name, Method: zip.Store})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "checkpoint.pth")
	if err := os.WriteFile(path, out.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// str is a short string of a pickle.
func str(s string) string {
	return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(s)))) + s
}

// storageOf refers to storage 0, of so many float32.
func storageOf(kind string, count byte) string {
	return "(" + str(
		"storage",
	) + "ctorch\n" + kind + "\n" + str(
		"0",
	) + str(
		"cpu",
	) + "K" + string(
		[]byte{count},
	) + "tQ"
}

// rebuilt is a tensor of such a storage.
func rebuilt(storage string, offset byte, shape, strides string) string {
	return "ctorch._utils\n_rebuild_tensor_v2\n(" + storage + "K" + string(
		[]byte{offset},
	) + shape + strides + "\x89ccollections\nOrderedDict\n)RtR"
}

func TestTensor(t *testing.T) {
	var numbers []byte
	for i := range 12 {
		numbers, _ = binary.Append(numbers, binary.LittleEndian, float32(i)+0.5)
	}
	// (2, 3) with strides (1, 4) from 2 on: transposed, with gaps
	pickle := "\x80\x02}" + str(
		"w",
	) + rebuilt(
		storageOf("FloatStorage", 12),
		2,
		"K\x02K\x03\x86",
		"K\x01K\x04\x86",
	) + "s."
	f, err := Open(archive(t, map[string]string{"data.pkl": pickle, "data/0": string(numbers)}))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, ok := f.Root().(*Dict).Get("w").(*Tensor)
	if !ok {
		t.Fatalf("%#v", f.Root())
	}
	got, err := f.Read(w)
	if want := "[2.5 6.5 10.5 3.5 7.5 11.5]"; err != nil || fmt.Sprint(got) != want ||
		fmt.Sprint(w.Shape) != "[2 3]" {
		t.Errorf("%v of shape %v, %v; want %s", got, w.Shape, err, want)
	}
}

func TestTypes(t *testing.T) {
	for kind, raw := range map[string][]byte{
		"HalfStorage": {0, 0xc9}, "BFloat16Storage": {0x20, 0xc1}, "DoubleStorage": {0, 0, 0, 0, 0, 0, 0x24, 0xc0},
		"LongStorage": {0xf6, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
		"IntStorage":  {0xf6, 0xff, 0xff, 0xff}, "ShortStorage": {0xf6, 0xff}, "CharStorage": {0xf6},
	} {
		pickle := "\x80\x02" + rebuilt(storageOf(kind, 1), 0, "K\x01\x85", "K\x01\x85") + "."
		f, err := Open(archive(t, map[string]string{"data.pkl": pickle, "data/0": string(raw)}))
		if err != nil {
			t.Fatal(kind, err)
		}
		if got, err := f.Read(f.Root().(*Tensor)); err != nil || got[0] != -10 {
			t.Errorf("%s: %v, %v", kind, got, err)
		}
		f.Close()
	}
}

// A pickle that names functions to call is refused with their names, and none is called.
func TestRefused(t *testing.T) {
	mark := filepath.Join(t.TempDir(), "called")
	for name, pickle := range map[string]string{
		"os.system":         "\x80\x02cos\nsystem\n(" + str("touch "+mark) + "tR.",
		"posix.system":      "\x80\x04" + "\x8c\x05posix\x8c\x06system\x93(" + str("touch "+mark) + "tR.",
		"builtins.eval":     "\x80\x02cbuiltins\neval\n(" + str("1") + "tR.",
		"torch.load":        "\x80\x02ctorch\nload\n.",
		"subprocess.Popen":  "\x80\x02csubprocess\nPopen\n)\x81.",
		"builtins.getattr":  "\x80\x02cbuiltins\ngetattr\n.",
		"torch._utils.evil": "\x80\x02ctorch._utils\nevil\n.",
	} {
		_, err := Open(archive(t, map[string]string{"data.pkl": pickle}))
		var unsupported *volume.UnsupportedError
		var refused *RefusedError
		if !errors.As(err, &unsupported) || !errors.As(err, &refused) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := os.Stat(mark); err == nil {
		t.Error("it was called")
	}
	// a type of numbers may be named, and not be called
	if _, err := Open(archive(t,
		map[string]string{"data.pkl": "\x80\x02ctorch\nFloatStorage\n(K\x05tR."})); err == nil {
		t.Error("a storage was called")
	}
}

func TestDamaged(t *testing.T) {
	four := string(make([]byte, 16))
	for name, files := range map[string]map[string]string{
		"ends":              {"data.pkl": "\x80\x02}X\xff\xff\x00\x00w"},
		"absurd text":       {"data.pkl": "\x80\x02X\xff\xff\xff\xffw."},
		"nothing to take":   {"data.pkl": "\x80\x020."},
		"below a mark":      {"data.pkl": "\x80\x02K\x01(0."},
		"no such memory":    {"data.pkl": "\x80\x02h\x07."},
		"unknown operation": {"data.pkl": "\x80\x02\x01."},
		"protocol":          {"data.pkl": "\x80\x09."},
		"no numbers": {"data.pkl": "\x80\x02" + rebuilt(storageOf("FloatStorage", 4), 0, "K\x04\x85",
			"K\x01\x85") + "."},
		"too few numbers": {"data.pkl": "\x80\x02" + rebuilt(storageOf("FloatStorage", 5), 0, "K\x04\x85",
			"K\x01\x85") + ".", "data/0": four},
		"beyond the storage": {"data.pkl": "\x80\x02" + rebuilt(storageOf("FloatStorage", 4), 1, "K\x04\x85",
			"K\x01\x85") + ".", "data/0": four},
		"beyond, by strides": {"data.pkl": "\x80\x02" + rebuilt(storageOf("FloatStorage", 4), 0, "K\x02\x85",
			"K\x04\x85") + ".", "data/0": four},
		"huge by stride 0": {"data.pkl": "\x80\x02" + rebuilt(storageOf("FloatStorage", 4), 0,
			"J\xff\xff\xff\x7f\x85", "K\x00\x85") + ".", "data/0": four},
		"negative": {"data.pkl": "\x80\x02" + rebuilt(storageOf("FloatStorage", 4), 0,
			"J\xff\xff\xff\xff\x85", "K\x01\x85") + ".", "data/0": four},
		"key that is a list": {"data.pkl": "\x80\x02}]K\x01s."},
		"two sizes of storage": {"data.pkl": "\x80\x02" + storageOf("FloatStorage", 4) + storageOf("FloatStorage", 3) +
			".", "data/0": four},
	} {
		_, err := Open(archive(t, files))
		var damaged *volume.FormatError
		if !errors.As(err, &damaged) {
			t.Errorf("%s: %v", name, err)
		}
	}
	dir := t.TempDir()
	if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), "it is a folder") {
		t.Error(err)
	}
	old := filepath.Join(dir, "old.pth")
	if err := os.WriteFile(old, []byte("\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(old); err == nil || !strings.Contains(err.Error(), "since PyTorch 1.6") {
		t.Error(err)
	}
}

// A pickle that makes values for ever is stopped.
func TestEndless(t *testing.T) {
	_, err := Open(archive(t, map[string]string{"data.pkl": "\x80\x02" + strings.Repeat("N", mostValues+10) + "."}))
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Error(err)
	}
}

// Any bytes are read or refused with an error of this program's.
func FuzzPickle(f *testing.F) {
	f.Add([]byte("\x80\x02}" + str("w") + rebuilt(storageOf("FloatStorage", 4), 0, "K\x04\x85", "K\x01\x85") + "s."))
	f.Add([]byte("\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00]\x94(K\x01G\x00\x00\x00\x00\x00\x00\x00\x00e."))
	f.Add(
		[]byte(
			"\x80\x02cnumpy\ndtype\nq\x00(X\x02\x00\x00\x00f8\x89\x88tR(K\x03X\x01\x00\x00\x00<NNNJ" +
				"\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb.",
		),
	)
	f.Fuzz(func(t *testing.T, pickle []byte) {
		readAll(t, archive(t, map[string]string{"data.pkl": string(pickle), "data/0": string(make([]byte, 64))}), true)
	})
}

// FuzzArchive tries damaged and hostile archives: names, offsets, sizes and ways of compression.
func FuzzArchive(f *testing.F) {
	pickle := "\x80\x02}" + str("w") + rebuilt(storageOf("FloatStorage", 2), 0, "K\x02\x85", "K\x01\x85") + "s."
	for _, files := range []map[string]string{{"data.pkl": pickle, "data/0": "12345678"},
		{"data.pkl": pickle, "byteorder": "big", "data/0": "12345678", "data/1": ""}, {"data/0": "x"}} {
		whole, err := os.ReadFile(archive(f, files))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(whole)
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		path := filepath.Join(t.TempDir(), "checkpoint.pth")
		if err := os.WriteFile(path, file, 0o666); err != nil {
			t.Fatal(err)
		}
		readAll(t, path, false)
	})
}

// readAll reads a file that may be damaged: it is refused with an error that says so, or its tensor
// is read, which of a sound archive is always possible.
func readAll(t *testing.T, path string, sound bool) {
	t.Helper()
	c, err := Open(path)
	refused := func(err error) {
		t.Helper()
		var damaged *volume.FormatError
		var unsupported *volume.UnsupportedError
		if !errors.As(err, &damaged) && !errors.As(err, &unsupported) {
			t.Fatalf("%T: %v", err, err)
		}
	}
	if err != nil {
		refused(err)
		return
	}
	defer c.Close()
	root := c.Root()
	if d, ok := root.(*Dict); ok {
		root = d.Get("w")
	}
	if tensor, ok := root.(*Tensor); ok && tensor.Elements() < 1<<20 {
		if _, err := c.Read(tensor); sound && err != nil {
			t.Fatal(err)
		} else if err != nil {
			refused(err)
		}
	}
}

// A changed byte is noticed, in the pickle and in the numbers that are read.
func TestChecksums(t *testing.T) {
	numbers := make([]byte, 8)
	pickle := "\x80\x02}" + str("w") + rebuilt(storageOf("FloatStorage", 2), 0, "K\x02\x85", "K\x01\x85") + "s."
	path := archive(t, map[string]string{"data.pkl": pickle, "data/0": string(numbers)})
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	read := func(changed []byte) error {
		t.Helper()
		if err := os.WriteFile(path, changed, 0o666); err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = f.Read(f.Root().(*Dict).Get("w").(*Tensor))
		return err
	}
	if err := read(whole); err != nil {
		t.Fatal(err)
	}
	for what, at := range map[string]int{
		"pickle":  bytes.Index(whole, []byte("\x01\x85")), // the stride
		"numbers": bytes.Index(whole, []byte("archive/data/0")) + len("archive/data/0") + 3,
	} {
		changed := bytes.Clone(whole)
		changed[at] ^= 2
		if err := read(changed); !errors.Is(err, zip.ErrChecksum) {
			t.Errorf("%s: %v", what, err)
		}
	}
}
