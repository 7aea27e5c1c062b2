package prepared

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/volume"
)

// Writer prepares cases into a folder. Its methods may be called from any number of
// goroutines.
//
// The voxels of a case are renamed into place, then its record is, once both are on the disk; the
// manifest is removed before the first case that it describes changes and written by
// [Writer.Finish]. So a run that is killed leaves finished cases, which the next run keeps, and the
// earlier store as it was, or none.
type Writer struct {
	// Series are the words that the DICOM series of the cases were chosen by: networks that learn
	// from them predict the same series. "" where nobody chose.
	Series string

	dir         string
	preparation volume.Preparation

	mutex sync.Mutex
	cases map[string]Record
	many  int // cases from which on they have a table

	described map[string]bool // by the manifest of an earlier run; nil: not read
	replacing bool            // that manifest is gone
	sums      atomicfile.List // digests of the records of an earlier run
	unsealed  bool            // that list is gone: records are written

	fingerprint string
	removed     []string
	labels      map[uint16]bool // of the scans, before they were relabelled
	reread      []string        // cases of unchanged files that are read in another way than before
	renamed     []string        // kept cases whose labels are called otherwise than before
}

// Input is a case to be prepared.
type Input struct {
	ID, Group string
	Patient   string // what the cases of one patient have in common, if anything is known
	Image     *volume.Volume
	More      []*volume.Volume // further channels, on the voxels of Image
	Labels    *volume.LabelMap // nil: unlabelled
	Predicted bool             // the labels are what a network predicted
	Sources   []Source         // the files it came from, to notice when they change
	Origin    string           // how they were read: a case read in another way is prepared again
	Notes     []string         // what was repaired on the way, for the record
	// Undrawn are labels, as they are called once prepared, that other cases have and that nobody
	// drew in this one. Those of which it has voxels all the same are none. What Labels says is
	// undrawn need not be here.
	Undrawn []uint16
	// Names are what a data set calls the labels now, once they are prepared, for a case that is
	// kept: its record takes them over. Nil: the files themselves name the labels, or nothing is
	// known; empty: they have no names. [Writer.Add] takes the names that Labels has.
	Names map[uint16]string
}

// inUTF8 is an input whose texts can be written and read again: records are UTF-8.
func (in Input) inUTF8() Input {
	in.Group, in.Patient, in.Origin = safetext.Name(in.Group), safetext.Name(in.Patient), safetext.Name(in.Origin)
	in.Notes = slices.Clone(in.Notes)
	for n, note := range in.Notes {
		in.Notes[n] = safetext.Name(note)
	}
	in.Names = maps.Clone(in.Names)
	for label, name := range in.Names {
		in.Names[label] = safetext.Name(name)
	}
	return in
}

// undrawn are the labels that a case with these voxels of each label lacks: those of the input, and
// those that reading its labels has found.
func (in Input) undrawn(counts map[uint16]int, found []uint16) []uint16 {
	left := slices.DeleteFunc(slices.Concat(in.Undrawn, found), func(label uint16) bool { return counts[label] > 0 })
	if len(left) == 0 {
		return nil
	}
	slices.Sort(left)
	return slices.Compact(left)
}

// recordFile is the content of cases/ID.json.
type recordFile struct {
	Version     int                `json:"version"`
	Preparation volume.Preparation `json:"preparation"`
	Case        Record             `json:"case"`
	// labels of the scan, as they were before Relabel changed them; nil where it changes none
	Labels []uint16 `json:"labels,omitempty"`
	// labels that its own files turned out not to have drawn, whatever other cases have
	Undrawn []uint16 `json:"undrawn,omitempty"`
}

// NewWriter opens a folder to prepare cases into, and makes it where there is none. What lies
// there must be prepared cases, because [Writer.Finish] removes others than those of its run.
func NewWriter(dir string, p volume.Preparation) (*Writer, error) {
	w, err := NewSharedWriter(dir, p)
	if err != nil {
		return nil, err
	}
	// of a run that was killed
	if err := errors.Join(atomicfile.Clean(dir, nil), atomicfile.Clean(filepath.Join(dir, casesFolder),
		nil)); err != nil {
		return nil, err
	}
	return w, nil
}

// NewSharedWriter is [NewWriter] for a folder that several processes prepare cases into at once,
// each its own cases. It leaves alone what looks half-written, which may be another's work.
// [Writer.Finish] is for one who has the folder alone.
func NewSharedWriter(dir string, p volume.Preparation) (*Writer, error) {
	p = p.WithMasks()
	if err := p.Check(); err != nil {
		return nil, err
	}
	if err := checkOwn(dir); err != nil {
		return nil, err
	}
	if err := owner.Mark(dir); err != nil {
		return nil, err
	}
	if err := atomicfile.MakeFolder(filepath.Join(dir, casesFolder)); err != nil {
		return nil, err
	}
	sums, err := atomicfile.Sums(filepath.Join(dir, casesFolder))
	if damaged := (*atomicfile.DamagedError)(nil); err != nil && !errors.As(err, &damaged) {
		return nil, err
	}
	return &Writer{dir: dir, preparation: p, cases: map[string]Record{}, labels: map[uint16]bool{}, many: manyCases,
		sums: sums}, nil
}

// owner has the cases of a folder.
var owner = outdir.Owner{Name: "voxsaw prepare", Files: []string{casesFolder}}

// checkOwn refuses a folder whose manifest, records or voxels somebody else has written.
func checkOwn(dir string) error {
	foreign := func(path string) error {
		return fmt.Errorf("%s is no part of prepared cases, and would be lost: choose an empty folder", path)
	}
	path := filepath.Join(dir, manifestName)
	if data, err := smallfile.Read(path, smallfile.List); err == nil {
		var m struct {
			Version     *int
			Preparation *json.RawMessage
		}
		if json.Unmarshal(data, &m); m.Version != nil && m.Preparation != nil {
			return nil
		}
		// a damaged one has our words, and after a crash there may be nothing in it
		if !bytes.Contains(data, []byte(`"preparation"`)) && len(bytes.Trim(data, "\x00")) > 0 {
			return foreign(path)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// Without a manifest: a run was killed, or has not begun.
	entries, err := os.ReadDir(filepath.Join(dir, casesFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, casesFolder, e.Name())
		if e.Name()[0] == '.' {
			continue // systems leave such files everywhere, and those are not removed
		}
		if id, isRecord := strings.CutSuffix(e.Name(), ".json"); isRecord {
			var r recordFile
			data, err := smallfile.Read(path, smallfile.List)
			if err != nil {
				return err
			}
			// a crash may leave an empty one
			if json.Unmarshal(data, &r); r.Case.ID != id && len(bytes.Trim(data, "\x00")) > 0 {
				return foreign(path)
			}
		} else if ext := filepath.Ext(e.Name()); ext != ".vox" && ext != ".tmp" {
			return foreign(path)
		} else if _, err := os.Stat(strings.TrimSuffix(path, ext) + ".json"); ext == ".vox" && err != nil &&
			owner.Check(dir) != nil {
			return foreign(path) // voxels without a record: not those of a run that was killed
		}
	}
	return nil
}

// Keep takes over a case that an earlier run prepared with the same settings, in the same way, from
// the same files or folders, and reports whether there was one. Its voxels must have the checksum
// that they were written with.
// What else the input says, whose voxels and sources are not looked at, is recorded anew.
func (w *Writer) Keep(in Input, paths []string) (Record, bool) {
	return w.keep(in, paths, verifyVoxels)
}

// Take is [Writer.Keep] of a case that was prepared just now, by a process that saw it to the disk:
// its voxels are not read again, only their number is compared.
func (w *Writer) Take(in Input, paths []string) (Record, bool) {
	return w.keep(in, paths, checkVoxels)
}

func (w *Writer) keep(in Input, paths []string, verify func(dir string, r Record) error) (Record, bool) {
	in = in.inUTF8()
	r, ok := w.earlier(in.ID, in.Group)
	if !ok || !unchanged(r.Case.Sources, paths) || verify(w.dir, r.Case) != nil {
		return Record{}, false
	}
	renamed := r.Case.HasLabels && in.Names != nil && !maps.Equal(r.Case.LabelNames, in.Names)
	// Relabelling depends on which labels are ignored, and so on their names.
	merged := renamed && w.preparation.Relabel != "" &&
		!slices.Equal(volume.IgnoredLabels(r.Case.LabelNames), volume.IgnoredLabels(in.Names))
	if r.Case.Origin != in.Origin || merged {
		w.mutex.Lock()
		defer w.mutex.Unlock()
		w.reread = append(w.reread, in.ID)
		return Record{}, false
	}
	// another case of the patient has come, or gone; or one with other labels; or names are others;
	// or somebody has corrected the labels
	predicted := in.Predicted && r.Case.HasLabels
	if undrawn := in.undrawn(r.Case.LabelCounts, r.Undrawn); r.Case.Patient != in.Patient || renamed ||
		r.Case.Predicted != predicted || !slices.Equal(r.Case.Undrawn, undrawn) {
		r.Case.Patient, r.Case.Undrawn, r.Case.Predicted = in.Patient, undrawn, predicted
		if renamed {
			r.Case.LabelNames = in.Names
		}
		if w.unseal(in.ID) != nil || writeJSON(recordPath(w.dir, in.ID), r) != nil {
			return Record{}, false
		}
	}
	if renamed {
		w.mutex.Lock()
		w.renamed = append(w.renamed, in.ID)
		w.mutex.Unlock()
	}
	w.done(r)
	return r.Case, true
}

// Retain takes over a case that an earlier run prepared with the same settings, whatever has become
// of its files, and reports whether there was one.
func (w *Writer) Retain(id, group string) (Record, bool) {
	r, ok := w.earlier(id, group)
	if !ok || verifyVoxels(w.dir, r.Case) != nil {
		return Record{}, false
	}
	w.done(r)
	return r.Case, true
}

// earlier is the record of a case that an earlier run prepared with the same settings. One that is
// not what was written is none.
func (w *Writer) earlier(id, group string) (r recordFile, ok bool) {
	data, err := smallfile.Read(recordPath(w.dir, id), smallfile.Record)
	if err != nil || json.Unmarshal(data, &r) != nil {
		return r, false
	}
	if w.sums.Differs(filepath.Base(recordPath(w.dir, id)), data) {
		return r, false
	}
	return r, r.Version == formatVersion && reflect.DeepEqual(r.Preparation, w.preparation) &&
		r.Case.ID == id && r.Case.Group == group && r.Case.check() == nil
}

// done takes note of a case.
func (w *Writer) done(r recordFile) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.cases[r.Case.ID] = r.Case
	for _, label := range r.Labels {
		w.labels[label] = true
	}
}

// NotRelabelled lists the labels that the preparation relabels and no case has, and those that
// cases have.
func (w *Writer) NotRelabelled() (missing, there []uint16) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	missing = slices.DeleteFunc(w.preparation.Relabelled(), func(label uint16) bool { return w.labels[label] })
	return missing, slices.Sorted(maps.Keys(w.labels))
}

// Add prepares a case and writes it.
func (w *Writer) Add(s Input) (Record, error) {
	id := s.ID
	record, err := w.add(s)
	if err != nil {
		return record, fmt.Errorf("preparing case %s: %w", id, err)
	}
	return record, nil
}

func (w *Writer) add(s Input) (Record, error) {
	s = s.inUTF8()
	if err := checkID(s.ID); err != nil {
		return Record{}, err
	}
	bounds, err := w.preparation.Bounds(s.Image, s.More...)
	if err != nil {
		return Record{}, err
	}
	scans, own := append([]*volume.Volume{s.Image}, s.More...), s.Image.Grid
	s.Image, s.More = nil, nil // voxels are let go of as soon as there are others
	record := Record{
		ID: s.ID, Group: s.Group, Patient: s.Patient, Original: own, HasLabels: s.Labels != nil, Sources: s.Sources,
		Origin: s.Origin, Notes: s.Notes, Predicted: s.Predicted && s.Labels != nil,
	}
	channels, how, err := w.channels(scans, bounds, &record)
	if err != nil {
		return Record{}, err
	}
	if !bounds.IsWhole() {
		record.Box = &bounds.Box
	}
	file := recordFile{Version: formatVersion, Preparation: w.preparation}
	var labels []uint16
	var original []byte
	if s.Labels != nil {
		prepared, err := w.preparation.ApplyLabels(s.Labels, bounds)
		if err != nil {
			return Record{}, err
		}
		labels = prepared.Labels
		record.LabelsBy, record.LabelCounts = labelsByShare, countLabels(labels)
		for label, name := range prepared.Names {
			prepared.Names[label] = safetext.Name(name)
		}
		record.LabelNames = prepared.Names
		file.Undrawn, record.Emptied = prepared.Undrawn, prepared.Emptied
		record.Undrawn = s.undrawn(record.LabelCounts, file.Undrawn)
		var beyond int
		var inside map[uint16]int
		if original, inside, beyond, err = w.original(s, record); err != nil {
			return Record{}, err
		}
		if err := w.noteResampling(s.Labels, inside, &record); err != nil {
			return Record{}, err
		}
		if beyond > 0 {
			record.Notes = append(record.Notes,
				fmt.Sprintf("outside the patient's box: %s, which no network sees and scores count as "+
					"missed; --crop none keeps the whole scan", numbers.Count(beyond, "labelled voxel")))
		}
		record.OriginalBytes = int64(len(original))
	}
	if s.Labels != nil && w.preparation.Relabel != "" {
		file.Labels = append([]uint16{}, slices.Sorted(maps.Keys(countLabels(s.Labels.Labels)))...)
	}
	layout := newCaseLayout(record)
	blocks, body := countBody(channels[0], record.Shape, layout.blockCount, how.Air)
	record.Air = 1 - float64(body)/float64(record.Len())
	record.Bytes = layout.end
	if err := record.check(); err != nil {
		return Record{}, err
	}

	voxels := atomicfile.File{Path: voxelPath(w.dir, s.ID), Write: func(f io.Writer) error {
		sum := sha256.New()
		err := buffered(f, func(f io.Writer) error {
			return writeVoxels(io.MultiWriter(f, sum), record, layout, channels, labels, blocks, original)
		})
		record.Checksum = hex.EncodeToString(sum.Sum(nil))
		return err
	}}
	about := atomicfile.File{Path: recordPath(w.dir, s.ID), Write: func(f io.Writer) error {
		file.Case = record
		data, err := encodeJSON(file)
		if err != nil {
			return err
		}
		_, err = f.Write(data)
		return err
	}}
	err = atomicfile.WriteTogether(func() error { // there is room: what was there before may go
		if err := errors.Join(w.unseal(s.ID), w.start(s.ID)); err != nil {
			return err
		}
		return atomicfile.Remove(recordPath(w.dir, s.ID))
	}, voxels, about)
	if err != nil {
		return Record{}, err
	}
	w.done(file)
	return record, nil
}

// channels prepares the channels of a scan, which it lets go of, and records what is known of them.
// The intensities are those of the first.
func (w *Writer) channels(scans []*volume.Volume, bounds volume.Bounds, r *Record) (all [][]int16,
	first volume.Intensities, err error) {
	names := w.preparation.ChannelNames()
	if len(scans) != len(names) {
		return nil, first, fmt.Errorf("%s, where %d are prepared", numbers.Count(len(scans), "channel"), len(names))
	}
	mask := w.preparation.Mask(bounds, scans...)
	for n, scan := range scans {
		p, named := w.preparation.Channel(n), func(err error) error {
			if len(names) > 1 {
				return fmt.Errorf("channel %s: %w", names[n], err)
			}
			return err
		}
		if !scan.Same(r.Original, sameVoxels) {
			return nil, first, named(errors.New("lies on other voxels than the first channel"))
		}
		digest, err := scan.Digest()
		if err != nil {
			return nil, first, named(err)
		}
		was := scan.Statistics()
		image, err := p.ApplyMasked(scan, bounds, mask)
		if err != nil {
			return nil, first, named(err)
		}
		scans[n], scan = nil, nil
		how := p.Intensities(image.Levels)
		odd, err := lookAt(was, r.Original.Len(), image.Int16, p, how)
		if err != nil {
			return nil, first, named(err)
		}
		for _, note := range odd {
			if len(names) > 1 {
				note = "channel " + names[n] + ": " + note
			}
			r.Notes = append(slices.Clip(r.Notes), note)
		}
		if n == 0 {
			r.Grid, r.Spacing, r.Scan, r.Levels, first = image.Grid, image.Spacing(), digest, image.Levels, how
		} else {
			r.More = append(r.More, Channel{image.Levels, digest})
		}
		all = append(all, image.Int16)
	}
	return all, first, nil
}

// sameVoxels is how far grids of channels may be apart, in mm: what rounding in headers does.
const sameVoxels = 1e-3

// noteResampling records how many voxels labels had as they were drawn, where they came onto
// others, and warns of those that have none left. What lies in the part that was prepared is
// counted on the scan's voxels; nil: it is the whole scan.
func (w *Writer) noteResampling(drawn *volume.LabelMap, inside map[uint16]int, r *Record) error {
	if exact, err := r.Original.Match(drawn.Grid); err != nil || exact && !r.resampled() {
		return err
	}
	merged, err := w.preparation.Merge(drawn)
	if err != nil {
		return err
	}
	r.DrawnCounts = countLabels(merged.Labels)
	var gone []string
	for _, label := range slices.Sorted(maps.Keys(r.DrawnCounts)) {
		if r.LabelCounts[label] == 0 && (inside == nil || inside[label] > 0) {
			name := cmp.Or(merged.Names[label], fmt.Sprintf("label %d", label))
			gone = append(gone, fmt.Sprintf("%s (%s)", name, numbers.Count(r.DrawnCounts[label], "voxel")))
		}
	}
	if gone != nil {
		r.Notes = append(r.Notes, "WARNING: no prepared voxel is left of "+safetext.List(gone))
	}
	return nil
}

// writeVoxels writes the parts of a case's file, in the order of its layout.
func writeVoxels(out io.Writer, record Record, layout caseLayout, channels [][]int16, labels, blocks []uint16,
	original []byte) error {
	for _, values := range channels {
		if err := writeInts(out, values); err != nil {
			return err
		}
	}
	if err := writeLabels(out, labels, layout.labelBytes); err != nil {
		return err
	}
	if err := writeInts(out, blocks); err != nil {
		return err
	}
	for _, sample := range sampleForeground(labels, record.LabelCounts, record.ID) {
		if err := binary.Write(out, binary.LittleEndian, sample); err != nil {
			return err
		}
	}
	_, err := out.Write(original)
	return err
}

// original is the labels on the scan's own voxels, where those are to be kept, how many voxels of
// each lie in the part that was prepared, and how many that scores count lie beyond it.
func (w *Writer) original(s Input, r Record) (runs []byte, within map[uint16]int, beyond int, err error) {
	if !keepsOriginal(r.Grid, r.Original, r.HasLabels) {
		return nil, nil, 0, nil
	}
	own := w.preparation
	own.Axcodes, own.Spacing = r.Original.Axcodes(), [3]float64{}
	labels, err := own.ApplyLabels(s.Labels, r.Original.Whole())
	if err != nil {
		return nil, nil, 0, err
	}
	bounds := r.Bounds()
	inside, err := labels.Crop(bounds.Origin, bounds.Size)
	if err != nil {
		return nil, nil, 0, err
	}
	return encodeRuns(labels.Labels), countLabels(inside.Labels), foreground(labels) - foreground(inside), nil
}

// foreground counts the voxels that have a label which scores count.
func foreground(l *volume.LabelMap) (n int) {
	counts := countLabels(l.Labels)
	for _, ignored := range volume.IgnoredLabels(l.Names) {
		delete(counts, ignored)
	}
	for _, voxels := range counts {
		n += voxels
	}
	return n
}

// Finish writes the manifest of all cases kept and added, and removes what earlier runs left of
// others. Where nothing changed it touches nothing.
func (w *Writer) Finish() error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	cases := make([]Record, 0, len(w.cases))
	for _, id := range slices.Sorted(maps.Keys(w.cases)) {
		cases = append(cases, w.cases[id])
	}
	m := manifest{Preparation: w.preparation, Series: w.Series}
	if err := m.write(w.dir, cases, w.many); err != nil {
		return fmt.Errorf("writing the manifest of prepared cases: %w", err)
	}
	w.fingerprint = m.Fingerprint
	if err := m.seal(w.dir, cases); err != nil {
		return fmt.Errorf("writing the digests of prepared cases: %w", err)
	}
	if err := w.reopen(); err != nil {
		return fmt.Errorf("what was prepared cannot be read again: %w", err)
	}
	entries, err := os.ReadDir(filepath.Join(w.dir, casesFolder))
	if err != nil {
		return err
	}
	var others []string
	for _, e := range entries {
		if e.Name()[0] == '.' {
			continue
		}
		ext := filepath.Ext(e.Name())
		if _, known := w.cases[strings.TrimSuffix(e.Name(), ext)]; !known && (ext == ".vox" || ext == ".json") {
			others = append(others, e.Name())
			if ext == ".json" {
				w.removed = append(w.removed, strings.TrimSuffix(e.Name(), ext))
			}
		}
	}
	return atomicfile.RemoveFrom(filepath.Join(w.dir, casesFolder), others...)
}

// reopen reads what was written as whoever uses it does, before anybody is told of success.
func (w *Writer) reopen() error {
	m, records, err := readManifest(w.dir)
	if err != nil {
		return err
	}
	if got := fingerprint(m.Preparation, records.all()); got != w.fingerprint || records.len() != len(w.cases) {
		return fmt.Errorf("%d cases with the fingerprint %.12s, not %d with %.12s", records.len(), got, len(w.cases),
			w.fingerprint)
	}
	if w.sums, err = atomicfile.Sums(filepath.Join(w.dir, casesFolder)); err != nil {
		return err
	}
	for r := range records.all() {
		if _, ok := w.earlier(r.ID, r.Group); !ok {
			return fmt.Errorf("the record of case %q differs from what was written", r.ID)
		}
	}
	return nil
}

// Removed lists the cases of earlier runs that [Writer.Finish] has removed.
func (w *Writer) Removed() []string { return w.removed }

// Reread lists the cases that are prepared again, because their unchanged files are read in another
// way than by the earlier run.
func (w *Writer) Reread() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Sorted(slices.Values(w.reread))
}

// Renamed lists the cases that were kept and whose labels are called otherwise than before.
func (w *Writer) Renamed() []string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return slices.Sorted(slices.Values(w.renamed))
}

// Fingerprint is that of the store, once [Writer.Finish] has written it.
func (w *Writer) Fingerprint() string { return w.fingerprint }

// unseal removes the digests of the records of an earlier run, once, before the first of these
// records is replaced.
func (w *Writer) unseal(id string) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if _, listed := w.sums[filepath.Base(recordPath(w.dir, id))]; w.unsealed || !listed {
		return nil
	}
	w.unsealed = true
	return atomicfile.Remove(filepath.Join(w.dir, casesFolder, atomicfile.SumsFile))
}

// start removes the manifest of an earlier run, once, before the first case that it describes
// changes. Cases that it does not describe are none of its business.
func (w *Writer) start(id string) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.described == nil {
		w.described = map[string]bool{}
		switch _, records, err := readManifest(w.dir); {
		case errors.Is(err, ErrNotPrepared):
		case err != nil: // it is of no use to anybody
			w.described[id] = true
		default:
			for r := range records.all() {
				w.described[r.ID] = true
			}
		}
	}
	if w.replacing || !w.described[id] {
		return nil
	}
	w.replacing = true
	return atomicfile.Remove(filepath.Join(w.dir, manifestName))
}

// Standing says in words what has become of the cases that an earlier run prepared, for the error
// of a run that could not go on; "" where there were none.
func (w *Writer) Standing() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if w.replacing {
		return "some cases that were prepared before are replaced already: prepare to the end before the folder is used"
	}
	if _, err := os.Stat(filepath.Join(w.dir, manifestName)); err != nil {
		return ""
	}
	return "the cases that were prepared before are untouched"
}

// checkID refuses names that are no file names on some system, or that would leave the store's
// folder.
func checkID(id string) error {
	if id == "" || len(id) > 200 || id[0] == '.' || strings.ContainsAny(id, `/\:*?"<>|`) ||
		strings.ContainsFunc(id, unicode.IsControl) || !utf8.ValidString(id) || strings.TrimSpace(id) != id {
		return fmt.Errorf("%q cannot be the name of a case: it must do as a file name", id)
	}
	return nil
}

func countLabels(labels []uint16) map[uint16]int {
	var table []int // by label, as long as the largest one asks for
	for _, label := range labels {
		if grow := int(label) + 1 - len(table); grow > 0 {
			table = append(table, make([]int, grow)...)
		}
		table[label]++
	}
	counts := map[uint16]int{}
	for label, n := range table {
		if label > 0 && n > 0 {
			counts[uint16(label)] = n
		}
	}
	return counts
}

// writeJSON leaves a file that says the same as it is.
func writeJSON(path string, value any) error {
	data, err := encodeJSON(value)
	if err != nil {
		return err
	}
	return atomicfile.Keep(path, data)
}

func encodeJSON(value any) ([]byte, error) {
	data, err := json.MarshalIndent(value, "", "  ")
	if err != nil {
		return nil, err
	}
	return append(safetext.JSON(data), '\n'), nil
}

// writeInts writes values as little-endian 16-bit integers.
func writeInts[T int16 | uint16](w io.Writer, values []T) error {
	whole := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(whole)
	for chunk := range slices.Chunk(values, 1<<15) {
		buffer := whole[:0]
		for _, v := range chunk {
			buffer = binary.LittleEndian.AppendUint16(buffer, uint16(v))
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
	}
	return nil
}

func writeLabels(w io.Writer, labels []uint16, width int) error {
	if width == 2 {
		return writeInts(w, labels)
	}
	whole := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(whole)
	for chunk := range slices.Chunk(labels, 1<<16) {
		buffer := whole[:0]
		for _, label := range chunk {
			buffer = append(buffer, byte(label))
		}
		if _, err := w.Write(buffer); err != nil {
			return err
		}
	}
	return nil
}
