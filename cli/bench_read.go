package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
)

type readBenchOptions struct {
	Repeat int                 `yaml:"repeat" help:"times that it is read" range:"[1,)"`
	Read   dataset.ReadOptions `yaml:"read"`
}

// readBenchLine is what reading took. Nothing is written: a peer that converts files writes the
// volume, too.
type readBenchLine struct {
	Impl      string  `json:"impl"`
	Task      string  `json:"task"`
	Format    string  `json:"format"` // NIfTI or DICOM
	Syntax    string  `json:"syntax"` // gzip or uncompressed, or DICOM's transfer syntax
	Files     int     `json:"files"`
	FilesMiB  float64 `json:"files_mib"`
	Threads   int     `json:"threads"`
	Voxels    int     `json:"voxels"`
	VoxelsMiB float64 `json:"voxels_mib"`
	Median    float64 `json:"median_s"`
	Min       float64 `json:"min_s"`
	CPU       float64 `json:"cpu_s"` // of all threads, a reading; 0 where the system does not say
	MiBs      float64 `json:"mib_s"` // of voxels
	// of the least: finding the series among the files, by their headers
	Scan    float64 `json:"scan_s,omitempty"`
	PeakMiB int64   `json:"peak_mib"` // of the process, after it was read once
}

func runBenchRead(ctx context.Context, w io.Writer, path string, o readBenchOptions) error {
	if o.Repeat < 1 {
		return usagef("--repeat must be at least 1")
	}
	path, err := scanAt(path)
	if err != nil {
		return err
	}
	line := readBenchLine{Impl: "voxsaw " + voxsaw.Version(), Task: "read", Threads: runtime.GOMAXPROCS(0)}
	var times []time.Duration
	var cpu time.Duration
	for range o.Repeat {
		if err := ctx.Err(); err != nil {
			return err
		}
		start, before := time.Now(), cpuTime()
		v, _, err := dataset.ReadImage(path, o.Read)
		if err != nil {
			return err
		}
		times, cpu = append(times, time.Since(start)), cpu+cpuTime()-before
		line.Voxels = v.Len()
		line.VoxelsMiB = round(float64(2*len(v.Int16)+4*len(v.Float32))/(1<<20), 1)
		if len(times) == 1 {
			line.PeakMiB = peakMemory() >> 20 // later it may be that of two volumes
		}
		v = nil
		// the next one gets this one's memory, as where scans are read one after the other
		runtime.GC()
	}
	slices.Sort(times)
	median := times[len(times)/2].Seconds()
	line.Median, line.Min, line.MiBs = round(median, 5), round(times[0].Seconds(), 5), round(line.VoxelsMiB/median, 1)
	line.CPU = round(cpu.Seconds()/float64(o.Repeat), 5)
	failed := line.describe(path, o.Repeat)
	if err := printJSONLine(w, line); err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	return failed
}

// scanAt is the scan at a path: a file, a folder of DICOM images, which are looked for in all
// folders below it, or the only other file of a scan there.
func scanAt(path string) (string, error) {
	if info, err := os.Stat(path); err != nil || !info.IsDir() {
		return path, nil // what is wrong with it is said by who reads it
	}
	d, err := dataset.Detect(path, dataset.Options{Layout: dataset.LayoutScans, Unlabelled: true, PatientPerCase: true})
	if err != nil || slices.ContainsFunc(d.Cases, dataset.Case.IsDICOM) {
		return path, nil
	}
	if len(d.Cases) > 1 {
		return "", withHint(usagef("%s holds %d scans, and one is read", path, len(d.Cases)), "voxsaw bench read %s",
			hint.Word(d.Cases[0].Image))
	}
	return d.Cases[0].Image, nil
}

// describe says what was read.
func (line *readBenchLine) describe(path string, repeat int) error {
	files := []string{path}
	var times []time.Duration
	for range repeat {
		start := time.Now()
		series, _, err := dicom.Scan(path)
		if err != nil {
			return err
		}
		if len(series) == 0 {
			break
		}
		chosen, _, err := dicom.Choose(series, "")
		if err != nil {
			return err
		}
		times = append(times, time.Since(start))
		files, line.Format, line.Syntax = chosen.Files, "DICOM", chosen.Syntax
	}
	if len(times) > 0 {
		line.Scan = round(slices.Min(times).Seconds(), 5)
	} else {
		line.Format, line.Syntax = "NIfTI", "uncompressed"
		if packed, err := isGzip(path); err != nil {
			return err
		} else if packed {
			line.Syntax = "gzip"
		}
	}
	bytes := int64(0)
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return err
		}
		bytes += info.Size()
	}
	line.Files, line.FilesMiB = len(files), round(float64(bytes)/(1<<20), 1)
	return nil
}

// isGzip says whether a file begins as gzip's do.
func isGzip(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	var magic [2]byte
	_, err = io.ReadFull(f, magic[:])
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return false, err
	}
	return magic == [2]byte{0x1F, 0x8B}, nil
}
