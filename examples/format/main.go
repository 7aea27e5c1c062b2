// Command format adds a format of scans to those that voxsaw reads, and prepares a scan of it.
//
// Start at [header]: a file is a line of text, the shape and the spacing, and 16-bit numbers.
package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/format"
	"github.com/voxsaw/voxsaw/volume/phantom"
	"github.com/voxsaw/voxsaw/volume/prepare"
)

const extension = ".vol"

func init() {
	format.Register(format.Format{Name: "VOL", Stem: stem, Header: header, Read: read, Labels: labels})
}

// stem takes the extension off, in whatever letters; hidden files have none.
func stem(path string) (string, bool) {
	at := len(path) - len(extension)
	if at < 1 || !strings.EqualFold(path[at:], extension) || strings.HasPrefix(filepath.Base(path), ".") ||
		filepath.Base(path) == path[at:] {
		return "", false
	}
	return path[:at], true
}

// open reads the first line of a file.
func open(path string) (*os.File, *bufio.Reader, *format.Header, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, nil, err
	}
	h := &format.Header{Path: path, Volumes: 1, VoxelBytes: 2, Kind: "VOL", Datatype: "int16"}
	var spacing float64
	in := bufio.NewReader(f)
	s := &h.Shape
	if _, err = fmt.Fscanf(in, "VOL %d %d %d %g\n", &s[0], &s[1], &s[2], &spacing); err == nil {
		h.Affine = volume.Affine{{spacing}, {0, spacing}, {0, 0, spacing}, {0, 0, 0, 1}}
		err = h.Grid.Check()
	}
	if info, wrong := f.Stat(); err == nil && (wrong != nil || info.Size() < 2*int64(h.Len())) {
		err = io.ErrUnexpectedEOF // before memory is taken for what is not there
	}
	if err != nil {
		f.Close()
		return nil, nil, nil, fmt.Errorf("%s is damaged, or no VOL file: %w", path, err)
	}
	h.Dims = s[:]
	return f, in, h, nil
}

func header(path string) (*format.Header, error) {
	f, _, h, err := open(path)
	if err == nil {
		f.Close()
	}
	return h, err
}

func read(h *format.Header, _ format.Options) (*volume.Volume, error) {
	f, in, h, err := open(h.Path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	v := &volume.Volume{Grid: h.Grid, Int16: make([]int16, h.Len())}
	if err := binary.Read(in, binary.LittleEndian, v.Int16); err != nil {
		return nil, fmt.Errorf("%s: %w", h.Path, err)
	}
	return v, nil
}

func labels(path string, o format.Options) (*volume.LabelMap, error) {
	v, err := read(&format.Header{Path: path}, o)
	if err != nil {
		return nil, err
	}
	l := &volume.LabelMap{Grid: v.Grid, Labels: make([]uint16, len(v.Int16))}
	for n, x := range v.Int16 {
		label, ok := volume.ToLabel(float64(x))
		if !ok {
			return nil, fmt.Errorf("%s: %d is no label", path, x)
		}
		l.Labels[n] = label
	}
	return l, nil
}

func main() {
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

// run writes the scan of a made-up patient, and prepares the folder as voxsaw prepare does.
func run() error {
	folder, err := os.MkdirTemp("", "format")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	scan, _, err := phantom.New(1, phantom.Options{Shape: [3]int{28, 24, 20}})
	if err != nil {
		return err
	}
	scans := filepath.Join(folder, "scans")
	if err := os.Mkdir(scans, 0o755); err != nil {
		return err
	}
	f, err := os.Create(filepath.Join(scans, "patient.vol"))
	if err != nil {
		return err
	}
	defer f.Close()
	fmt.Fprintf(f, "VOL %d %d %d %g\n", scan.Shape[0], scan.Shape[1], scan.Shape[2], 2.0)
	if err := binary.Write(f, binary.LittleEndian, scan.Int16); err != nil {
		return err
	}
	set, err := dataset.Detect(scans, dataset.Options{Layout: dataset.LayoutScans, Unlabelled: true})
	if err != nil {
		return err
	}
	summary, err := prepare.Run(context.Background(), set, filepath.Join(folder, "prepared"),
		volume.DefaultPreparation(), prepare.DefaultOptions(), nil)
	if err != nil {
		return err
	}
	fmt.Println(summary.Prepared, "scan prepared")
	return nil
}
