package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/commandtest"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// Before export writes, it says by the headers of the scans that the disk may be too small. These
// are headers alone, of files that are holes: nothing is exported, because nothing has labels.
func TestExportWarnsOfAFullDisk(t *testing.T) {
	folder := t.TempDir()
	free, err := atomicfile.Free(folder)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip("this system does not tell")
	}
	commandtest.Must(t, err)
	path := filepath.Join(folder, "plain.nii")
	g := volume.Grid{Shape: [3]int{2, 2, 2}, Affine: volume.Scaling([3]float64{1, 1, 1})}
	commandtest.Must(t, nifti.Write(path, &volume.Volume{Grid: g, Int16: make([]int16, 8)}))
	header, err := os.ReadFile(path)
	commandtest.Must(t, err)
	for axis := range 3 {
		binary.LittleEndian.PutUint16(header[42+2*axis:], 2048) // dim
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(header[:352])
	commandtest.Must(t, errors.Join(err, w.Close(), os.Mkdir(filepath.Join(folder, "scans"), 0o777)))
	const each = 2 << 33 // bytes, of int16
	for n := range 1 + free/each {
		scan := filepath.Join(folder, "scans", fmt.Sprintf("s%d.nii.gz", n))
		commandtest.Must(t, errors.Join(os.WriteFile(scan, packed.Bytes(), 0o666), os.Truncate(scan, each>>10)))
	}
	var said bytes.Buffer
	code := Run([]string{"export", filepath.Join(folder, "scans"), "--modality", "CT", "--out",
		filepath.Join(folder, "out")}, &said, &said)
	if text := said.String(); code != 1 || !strings.Contains(text, "WARNING: the files may take, before they are "+
		"compressed,") || !strings.Contains(text, "nothing to learn") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

func TestTooFull(t *testing.T) {
	const gib = 1 << 30
	text := tooFull("cases may take", 3*gib, 2*gib, "prepared", "goes on")
	if !strings.Contains(text, "may take 3.0 GiB") || !strings.Contains(text, "prepared has 2.0 GiB free") {
		t.Error(text)
	}
	for _, free := range []int64{-1, 2 * gib, 3 * gib} { // -1: unknown
		if text := tooFull("cases", 2*gib, free, "prepared", "goes on"); text != "" {
			t.Errorf("%d: %s", free, text)
		}
	}
}
