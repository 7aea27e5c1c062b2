package checkpoint

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/voxsaw/voxsaw/volume"
)

// Learnt lists the scans that weights have learnt from: in this run, and in the runs before it
// whose weights it began with.
type Learnt struct {
	// Spacings are the voxel sizes of the scans of this run, as it saw them, where each kept its
	// own along some axis; the zero value: they had one spacing, or nobody knows.
	Spacings volume.Range
	// Series are the words by which the DICOM series of this run's scans were chosen of each study;
	// "" where nobody chose.
	Series string
	// Scans are all scans, in the order of their names; nil where nobody knows.
	Scans []Scan
	// Lost says of which checkpoint before this one the list of scans was not there any more, so
	// that others may have been learnt from, too; empty: all are listed.
	Lost string
}

// A Scan is one that was learnt from.
type Scan struct {
	Name   string // of its case
	Voxels string // the digest of its voxels, [volume.Volume.Digest]; "" where nobody knows it
	Labels bool   // learnt with its labels; otherwise as a scan alone, in pretraining
}

// unknownVoxels stands for a digest that nobody knows.
const unknownVoxels = "-"

// How a scan was learnt from.
const (
	withLabels    = "labels"
	withoutLabels = "scan"
)

// line is a scan as a list has it: the digest, how it was learnt from, and the name, which may have
// blanks.
func (s Scan) line() string {
	how := withoutLabels
	if s.Labels {
		how = withLabels
	}
	return cmp.Or(s.Voxels, unknownVoxels) + " " + how + " " + s.Name
}

func parseScan(line string) (s Scan, err error) {
	parts := strings.SplitN(line, " ", 3)
	if len(parts) != 3 || parts[1] != withLabels && parts[1] != withoutLabels {
		return s, fmt.Errorf("%q is no scan that was learnt from", line)
	}
	if s = (Scan{Name: parts[2], Voxels: parts[0], Labels: parts[1] == withLabels}); s.Voxels == unknownVoxels {
		s.Voxels = ""
	}
	return s, nil
}

func scanLines(scans []Scan) []string {
	lines := make([]string, len(scans))
	for n, s := range scans {
		lines[n] = s.line()
	}
	return lines
}

func parseScans(lines []string) ([]Scan, error) {
	scans := make([]Scan, len(lines))
	for n, line := range lines {
		var err error
		if scans[n], err = parseScan(line); err != nil {
			return nil, err
		}
	}
	return scans, nil
}

// ScansOf are the cases of a run, with the digests of their voxels.
func ScansOf(names, voxels []string, labels bool) []Scan {
	scans := make([]Scan, len(names))
	for n, name := range names {
		scans[n] = Scan{Name: name, Voxels: voxels[n], Labels: labels}
	}
	return scans
}

// After are the scans that weights have learnt from which began as those of another checkpoint: its
// scans and these. One that was learnt from in both is listed once, with its labels if these were
// ever used. Of a checkpoint that lists no scans, the names of its cases alone are known. A list
// that is lost there is lost here, too.
func (l Learnt) After(d Description) Learnt {
	before := d.Learnt.Scans
	if before == nil {
		before = ScansOf(d.TrainedOn, make([]string, len(d.TrainedOn)), d.Kind == Segmentation)
	}
	l.Scans = merge(before, l.Scans)
	l.Lost = cmp.Or(l.Lost, d.Learnt.Lost)
	if d.Learnt.Scans == nil && d.Lost != "" && l.Lost == "" {
		l.Lost = d.path + ": " + d.Lost
	}
	return l
}

// merge lists the scans of both in the order of their names.
func merge(a, b []Scan) []Scan {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b Scan) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Voxels, b.Voxels), -cmp.Compare(a.line(), b.line()))
	})
	known := map[Scan]int{}
	var merged []Scan
	for _, s := range all {
		key := Scan{Name: s.Name, Voxels: s.Voxels}
		if at, twice := known[key]; twice {
			merged[at].Labels = merged[at].Labels || s.Labels
			continue
		}
		known[key] = len(merged)
		merged = append(merged, s)
	}
	return merged
}

// Seen tells of scans whether weights have learnt from them.
type Seen struct {
	byVoxels, byName map[string]Scan
	unknown          map[string]Scan // by name, of those whose voxels nobody knows
}

// Seen is what the checkpoint's weights have learnt from, where it lists no scans the names of
// cases.
func (d Description) Seen() Seen {
	s := Seen{map[string]Scan{}, map[string]Scan{}, map[string]Scan{}}
	for _, scan := range (Learnt{}).After(d).Scans {
		if scan.Voxels != "" && !s.byVoxels[scan.Voxels].Labels {
			s.byVoxels[scan.Voxels] = scan
		}
		if other, twice := s.byName[scan.Name]; !twice || scan.Labels && !other.Labels {
			s.byName[scan.Name] = scan
		}
		if scan.Voxels == "" { // listed once
			s.unknown[scan.Name] = scan
		}
	}
	return s
}

// Find is the scan that weights have learnt from, of a case of that name with these voxels. Voxels
// decide where both are known, whatever the names; else the names do. The digest may be empty.
func (s Seen) Find(name, voxels string) (scan Scan, found bool) {
	if scan, found = s.byVoxels[voxels]; found {
		return scan, true
	}
	if scan, found = s.byName[name]; voxels != "" {
		scan, found = s.unknown[name]
	}
	return scan, found
}

// Called names a case that is this scan, by both names where they differ.
func (s Scan) Called(name string) string {
	if s.Name == name {
		return name
	}
	return fmt.Sprintf("%s (there %s)", name, s.Name)
}

// Known says whether the checkpoint tells the voxels of the scans that its weights have learnt
// from, of any of them.
func (d Description) Known() bool {
	return slices.ContainsFunc(d.Learnt.Scans, func(s Scan) bool { return s.Voxels != "" })
}
