// Package predict makes the label maps of many scans: which scans there are, where each label map
// goes and in which format, what must not be written over, and how a batch is taken up again.
//
// Start at [New] and [Batch.Run]. What the voxels of one scan are, package segment says.
package predict

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/folders"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/provenance"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

// The formats of label maps.
const (
	NIfTI    = "nifti"
	DICOMSEG = "dicom-seg"
	RTSTRUCT = "rtstruct"
)

var extensions = map[string]string{NIfTI: ".nii.gz", DICOMSEG: ".dcm", RTSTRUCT: ".dcm"}

// Options say what to make.
type Options struct {
	Out    string // a folder, or the one file to write
	Format string
	// Known are label maps of the same model whose DSC is known, by which that of others is
	// estimated.
	Known []quality.Case
	Force bool // write over label maps that are there already
	Maps  segment.MapOptions
	Find  dataset.Options
	Read  dataset.ReadOptions
	Part  dataset.Part // of the scans, whose label maps are made; the zero value: all
	Ranks voxsaw.Ranks // that share out the scans, or the part; nil: this process has all
	// Channels names those of a scan that the model wants, where these are several.
	Channels []string
	// Series are the words by which the DICOM series were chosen that the model has learnt from; ""
	// where nobody chose. Find.Series wins.
	Series string
	// Unlike says why nothing is known of the series to take, though somebody chose; it is returned
	// where DICOM comes in and Find.Series is empty.
	Unlike error
}

// A RefusedError says that what was asked for cannot be done, and what can.
type RefusedError struct {
	message, Hint string
}

func (e *RefusedError) Error() string { return e.message }

func refuse(hint, format string, args ...any) error {
	return &RefusedError{fmt.Sprintf(format, args...), hint}
}

// A Batch is scans with the files that their label maps go into.
type Batch struct {
	Notes []string // what was chosen, and passed over

	options Options
	scans   []dataset.Case
	targets []string
	digests map[int]string       // of scans, as far as they were needed
	learnt  map[int]lesson       // by the number of the scan: what the weights have learnt from it
	cases   map[int]quality.Case // by the number of the scan: what its label map measures
	before  []quality.Case       // of the table that was there already
}

// Len is the number of scans, of several ranks that of this one's.
func (b *Batch) Len() (n int) {
	for k := range b.scans {
		if b.mine(k) {
			n++
		}
	}
	return n
}

// New finds the scans at the paths, and says where their label maps go. Nothing is written yet.
func New(paths []string, o Options) (*Batch, error) {
	b := &Batch{options: o, digests: map[int]string{}, cases: map[int]quality.Case{}}
	if err := b.find(paths); err != nil {
		return nil, err
	}
	if err := b.place(); err != nil {
		return nil, err
	}
	if err := cmp.Or(b.spareScans(), b.partFiles()); err != nil {
		return nil, err
	}
	return b, cmp.Or(b.checkPart(), b.keepApart(paths))
}

// find lists the scans at the paths.
func (b *Batch) find(paths []string) error {
	o := b.options.Find
	o.Layout, o.Unlabelled, o.PatientPerCase = dataset.LayoutScans, true, true
	if len(b.options.Channels) > 1 {
		o.Channels = b.options.Channels
		if o.Volume > 0 {
			return refuse("leave --volume out", "--volume %d, where the model takes all of %s", o.Volume,
				safetext.List(o.Channels))
		}
	}
	for _, path := range paths {
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("%s: there is no such file or folder", path)
		case err == nil && !info.Mode().IsRegular() && !info.IsDir(): // a pipe would be waited for
			return fmt.Errorf("%s: neither a file nor a folder", path)
		}
	}
	asked := o.Series
	for _, group := range b.groups(paths) {
		path := group[0]
		o := o
		if words := b.options.Series; asked == "" && words != "" && (dataset.Case{Image: path}).IsDICOM() {
			o = o.OfEveryStudy(words)
		}
		d, err := dataset.DetectAll(group, o)
		switch {
		case err != nil && len(o.Channels) > 0:
			return refuse("", "%v", err)
		case err != nil && asked == "" && o.Series != "":
			return refuse("--series WORDS chooses others, --series all takes each",
				"%v (of DICOM the series %s are taken, as for training)", err, safetext.Quote(o.Series))
		case err != nil:
			return err
		}
		if b.options.Unlike != nil && asked == "" && slices.ContainsFunc(d.Cases, dataset.Case.IsDICOM) {
			return refuse("choose by --series, or --series all", "%v", b.options.Unlike)
		}
		b.noteSeries(d)
		b.Notes = append(b.Notes, append(d.Notes, d.PassedOver...)...)
		if note := dataset.NameAsCases(d.Cases, path, o); note != "" {
			b.Notes = append(b.Notes, note)
		}
		b.scans = append(b.scans, d.Cases...)
	}
	if o.Channels == nil {
		scans, err := dataset.OneChannel(b.scans, o.Volume)
		if err != nil {
			return refuse("", "%v", err)
		}
		b.scans = scans
	}
	if b.options.Channels != nil && slices.ContainsFunc(b.scans, dataset.Case.IsDICOM) {
		b.Notes = append(b.Notes,
			"DICOM: rows are in the order in which dcm2niix writes them (LAS), and a model of nnU-Net knows the "+
				"order of the files that it was trained on: where another program made those, convert the "+
				"series with it")
	}
	dropChannel(b.scans)
	return nil
}

// noteSeries tells, once, that series are chosen as those that the model has learnt from.
func (b *Batch) noteSeries(d *dataset.Dataset) {
	if b.options.Find.Series == "" && d.Series != "" {
		b.options.Find.Series = d.Series
		b.Notes = append(b.Notes, fmt.Sprintf("of each DICOM study the series %s is taken, as for training: --series "+
			"chooses another, --series all takes each", safetext.Quote(d.Series)))
	}
}

// groups are the paths that are looked at together: each by itself, and where a scan has several
// channels, all files, which may be those of one.
func (b *Batch) groups(paths []string) (all [][]string) {
	var files []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && !info.IsDir() && len(b.options.Channels) > 1 {
			files = append(files, path)
		} else {
			all = append(all, []string{path})
		}
	}
	if files != nil {
		all = append(all, files)
	}
	return all
}

// dropChannel names label maps as nnU-Net does: CASE_0000.nii.gz is the only channel of CASE. Scans
// that are numbered from 0000 keep their numbers, and so does one beside CASE.nii.gz. What else is
// predicted with it does not change a name.
func dropChannel(cases []dataset.Case) {
	called := map[string]int{} // by the name without a number
	for _, c := range cases {
		called[numberAtEnd.ReplaceAllString(c.ID, "")]++
	}
	for n := range cases {
		if name, cut := strings.CutSuffix(cases[n].ID, "_0000"); cut && name != "" && called[name] == 1 {
			cases[n].ID = name
		}
	}
}

// numberAtEnd is one of four digits, as nnU-Net's channels have.
var numberAtEnd = regexp.MustCompile(`_\d{4}$`)

// place says which file each label map goes into.
func (b *Batch) place() error {
	out, format := b.options.Out, b.options.Format
	if format != NIfTI && nifti.IsName(out) {
		return refuse("", "%s is a NIfTI file's name: with --format %s label maps are .dcm files", out, format)
	}
	if nifti.IsName(out) && !strings.HasSuffix(out, ".nii") && !strings.HasSuffix(out, extensions[NIfTI]) {
		return refuse("", "%s: a label map is one file, whose name ends in .nii or .nii.gz, in small letters", out)
	}
	if format == NIfTI && isDICOM(out) {
		return refuse("add --format "+DICOMSEG, "%s is a DICOM file's name", out)
	}
	if at := slices.IndexFunc(b.scans, func(c dataset.Case) bool { return !c.IsDICOM() }); format != NIfTI &&
		at >= 0 {
		return refuse("--format "+NIfTI+" writes NIfTI",
			"%s is not DICOM: with --format %s the file refers to the DICOM series that was segmented",
			b.scans[at].Image, format)
	}
	oneFile := nifti.IsName(out) || isDICOM(out)
	if stat, err := os.Stat(out); !oneFile && (err == nil && !stat.IsDir() || err != nil && isOtherFile(out)) {
		return refuse(fmt.Sprintf("give a folder, or a name that ends in %s for the label map of a single scan",
			extensions[format]),
			"%s is the name of a file that no label map can be written to", out)
	}
	if oneFile && len(b.scans) > 1 {
		return refuse("", "%d scans cannot be written to the one file %s: give a folder", len(b.scans), out)
	}
	if oneFile && b.options.Known != nil {
		return refuse("give a folder: --out FOLDER",
			"--calibration is for quality.csv, which lies beside label maps in "+
				"a folder, and not beside the one file %s",
			out)
	}
	for _, c := range b.scans {
		if oneFile {
			b.targets = append(b.targets, out)
		} else {
			b.targets = append(b.targets, filepath.Join(out, c.ID+extensions[format]))
		}
	}
	return nil
}

// otherFiles are the extensions of files that are no label maps of this program. Any other dot may
// be part of a folder's name: labels.v2, 2026.11.23.
var otherFiles = strings.Fields(".nrrd .nhdr .mha .mhd .img .raw .gz .gipl .mgz .mgh .mnc .vtk .vti .stl .obj .tif " +
	".tiff .png .jpg .jpeg .pdf .html .htm .txt .md .log .csv .tsv .xlsx .json .yaml .yml .xml .npy .npz .mat .h5 " +
	".hdf5 .pt .pth .safetensors .pkl .zip .tar .tgz .7z .bz2 .xz .zst")

// isOtherFile tells whether a path has the name of a file that is no label map of this program.
func isOtherFile(path string) bool {
	return slices.Contains(otherFiles, strings.ToLower(filepath.Ext(path)))
}

// isLabels tells whether a DICOM file holds labels.
func isLabels(path string) bool { return dicom.IsSegmentation(path) || dicom.IsStructureSet(path) }

func isDICOM(path string) bool { return strings.EqualFold(filepath.Ext(path), ".dcm") }

// The maps that lie beside a label map, by what their names end in.
const (
	probabilities = "probabilities"
	logits        = "logits"
)

// mapPath is the file of maps beside a label map.
func mapPath(target, kind string) string {
	for _, ext := range []string{".nii.gz", ".nii", filepath.Ext(target)} {
		if stem, ok := strings.CutSuffix(target, ext); ok {
			target = stem
			break
		}
	}
	return target + "_" + kind + ".nii.gz"
}

// files are all files of a scan, the label map last.
func (b *Batch) files(target string) (all []string) {
	if b.options.Maps.Probabilities {
		all = append(all, mapPath(target, probabilities))
	}
	if b.options.Maps.Logits {
		all = append(all, mapPath(target, logits))
	}
	return append(all, target)
}

// complete reports whether all files of a scan are there, with all that they are to say: an
// agreement that a label map has no room for is in the table, unless the process that measured it
// was killed before it wrote that.
func (b *Batch) complete(n int) bool {
	target := b.targets[n]
	if made, _ := readProvenance(target); b.options.Maps.Agreement && made.Agreement == nil &&
		!(made.Elsewhere && (b.table() == "" || b.agreedBefore(b.scans[n].ID) != nil)) {
		return false
	}
	return !slices.ContainsFunc(b.files(target), func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// partFiles makes sure that no file would be written for two scans. Names that differ in capital
// letters alone are refused wherever they are written: label maps are copied to systems to which
// these are the same, and one of them would be lost there without a word.
func (b *Batch) partFiles() error {
	of := map[string]int{}
	for n, target := range b.targets {
		for _, path := range b.files(target) {
			key := safetext.FoldCase(path)
			if other, twice := of[key]; twice {
				return fmt.Errorf("%s and %s would both be written as %s%s: predict them into different folders",
					b.scans[other].Image, b.scans[n].Image, filepath.Base(path), b.folded(other, path))
			}
			of[key] = n
		}
	}
	return nil
}

// folded says why a file of another scan has the name of a path, where it differs in its letters.
func (b *Batch) folded(other int, path string) string {
	if slices.Contains(b.files(b.targets[other]), path) {
		return ""
	}
	return ", where capital and small letters are the same (Windows, macOS, many network drives)"
}

// spareScans refuses to write label maps over what is no label map: a scan, by whatever path or
// link, or a DICOM file that is no SEG object.
func (b *Batch) spareScans() error {
	var files []string
	for _, target := range b.targets {
		files = append(files, b.files(target)...)
	}
	for _, target := range files {
		there, err := os.Stat(target)
		if err != nil {
			continue
		}
		for _, c := range b.scans {
			if scan, err := os.Stat(c.Image); err == nil && os.SameFile(scan, there) {
				return refuse("choose another --out", "%s is the scan %s: its label map would be written over it",
					target, c.Image)
			}
		}
		if isDICOM(target) && !isLabels(target) {
			return refuse("choose another --out",
				"%s is there already and no DICOM SEG object or RT structure set: it would be written over", target)
		}
	}
	return nil
}

// keepApart refuses to write label maps among the scans: whoever reads the folder next would find
// them there.
func (b *Batch) keepApart(paths []string) error {
	for _, path := range paths {
		stat, err := os.Stat(path)
		if err != nil || !stat.IsDir() || len(b.targets) == 0 || !folders.Within(filepath.Dir(b.targets[0]), path) {
			continue
		}
		return refuse("choose a folder outside of it, such as --out "+hint.Word(besideFolder(path)),
			"label maps in %s would lie among the scans of %s", filepath.Dir(b.targets[0]), path)
	}
	return nil
}

// besideFolder is the name of a folder for predictions beside a folder of scans.
func besideFolder(scans string) string {
	name := "scans"
	if full, err := filepath.Abs(scans); err == nil {
		name = filepath.Base(full)
	}
	return filepath.Join(scans, "..", name+"-predictions")
}

// spareLabels refuses to write label maps into a folder that holds others, which somebody may have
// drawn: --force writes there all the same.
func (b *Batch) spareLabels() error {
	if b.options.Force || len(b.targets) == 0 || b.targets[0] == b.options.Out {
		return nil
	}
	dir := filepath.Dir(b.targets[0])
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !nifti.IsName(path) && !(isDICOM(path) && isLabels(path)) {
			continue
		}
		if _, stamped := provenance.Read(path); !stamped {
			return refuse("choose an empty folder for --out; --force writes there all the same",
				"%s holds %s, which voxsaw predict did not write: label maps that "+
					"somebody drew and predictions would lie together", dir, e.Name())
		}
	}
	return err
}

// An Observer is told how a batch gets on.
type Observer interface {
	Window(scan string, done, total int)
	Comparing(scan string) // with the scan that its label map was made of
	Note(text string)
	Passed()             // a scan whose label map is there already
	Written(path string) // a label map
	Failed(err error)    // a scan of which none could be made
	// Elsewhere tells, at the end, of the label maps that another rank has written.
	Elsewhere(paths []string)
}

// noting keeps what is noted.
type noting struct {
	Observer
	notes *[]string
}

func (w noting) Note(text string) {
	*w.notes = append(*w.notes, text)
	w.Observer.Note(text)
}

// uncoded says which labels SEG objects have no code for; "" for none.
func (b *Batch) uncoded(p Model) string {
	if b.options.Format != DICOMSEG {
		return ""
	}
	var names []string
	for _, label := range p.Labels() {
		if name := p.LabelNames()[label]; !dicom.HasCode(name) {
			if number := strconv.Itoa(int(label)); cmp.Or(name, number) == number {
				name = "label " + number
			}
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return fmt.Sprintf("no SNOMED code is known for %s: coded as Tissue in the SEG "+
		"objects, whose segments have the labels' names", safetext.List(names))
}

// Run segments the scans one by one. Label maps that are there already are passed over if they say
// that this predictor made them of these scans, with these settings; others are refused before
// anything is done. One that fails does not keep the others from being segmented, unless the
// failure is the machine's: a full disk, say, ends the batch. So does a context that ends. What is
// written stays, and is passed over the next time.
func (b *Batch) Run(ctx context.Context, p Model, watch Observer) error {
	made := b.origin(p)
	facts, err := b.facts(made)
	if err != nil {
		return err
	}
	group := train.GroupOf(voxsaw.RunOptions{Ranks: b.options.Ranks})
	if err := group.Same(facts); err != nil {
		return err
	}
	if len(b.targets) > 0 {
		if err := group.Shares(filepath.Dir(b.targets[0])); err != nil {
			return err
		}
	}
	if err := b.checkOthers(ctx, made, watch); err != nil {
		return err
	}
	if err := errors.Join(b.spareLabels(), b.spareTable(), b.sparePage()); err != nil {
		return err
	}
	if note := b.uncoded(p); note != "" {
		watch.Note(note)
	}
	if b.before, err = b.readTable(); err != nil {
		return err
	}
	leave, err := b.enter() // rather than after the first scan
	if err != nil {
		return err
	}
	defer leave()
	heard := watch
	var notes []string
	if group.Rank > 0 { // rank 0 alone speaks
		heard = noting{watch, &notes}
	}
	own, err := b.segment(ctx, p, made, heard)
	if err != nil {
		sayMet(b.learnt, watch)
		return err
	}
	own.Cases, own.Notes, own.Learnt = b.cases, notes, b.learnt
	all, err := b.together(own, watch)
	sayMet(all.Learnt, watch)
	if err == nil && group.Rank == 0 {
		b.sayEmpty(all, watch)
		if b.whole() {
			err = errors.Join(b.writeTable(all, watch), b.writePage(all, p, watch))
		} else {
			b.sayPart(watch)
		}
		err = errors.Join(err, b.seal(all))
	}
	if err != nil {
		return err
	}
	if all.Stopped {
		return &StoppedError{all.Done, b.total(), cmp.Or(ctx.Err(), context.Canceled)}
	}
	if len(all.Failed) == 0 {
		return nil
	}
	failed := FailedError{Of: b.total(), Left: b.total() - all.Done}
	for _, f := range all.Failed {
		failed.Names, failed.errs = append(failed.Names, b.scans[f.Scan].ID), append(failed.errs, f.err)
	}
	return &failed
}

// seal keeps the digests of the files of all label maps that are there, but for those of scans that
// could not be segmented, which are of an earlier run.
func (b *Batch) seal(all outcome) error {
	if len(b.targets) == 0 {
		return nil
	}
	var names []string
	for n, target := range b.targets { // of one folder
		if !b.options.Part.Has(n) || slices.ContainsFunc(all.Failed, func(f failure) bool { return f.Scan == n }) {
			continue
		}
		for _, path := range b.files(target) {
			names = append(names, filepath.Base(path))
		}
	}
	if path := b.table(); path != "" && b.whole() {
		names = append(names, filepath.Base(path))
	}
	if b.page() != "" && b.whole() {
		names = append(names, pageFile)
	}
	return atomicfile.Seal(filepath.Dir(b.targets[0]), names...)
}

// segment makes the label maps of this rank's scans.
func (b *Batch) segment(ctx context.Context, p Model, made origin, watch Observer) (own outcome, err error) {
	for n, c := range b.scans {
		if !b.mine(n) {
			continue
		}
		if ctx.Err() != nil {
			own.Stopped = true
			return own, nil
		}
		target := b.targets[n]
		// another process may have written it meanwhile
		if err := b.checkOther(n, made, watch); err != nil {
			return own, err
		}
		// of a scan that cannot be read nobody knows whether it is this one: segmenting says why
		digest, unread := "", error(nil)
		if complete := !b.options.Force && b.complete(n); complete {
			digest, unread = b.digest(n)
		}
		if digest != "" && unread == nil {
			if how := provenance.LearntFrom(target); how != "" {
				b.met(n, how, c.ID)
			}
			watch.Note(target + " is there already: passed over (--force writes it again)")
			b.measureAgain(n, p, watch)
			watch.Passed()
			own.Done++
			continue
		}
		p.Watch(func(done, total int) { watch.Window(c.ID, done, total) },
			func(text string) { watch.Note(c.ID + ": " + text) })
		before, _ := os.Stat(target)
		err := b.one(ctx, p, n, watch)
		if err != nil && ctx.Err() != nil {
			own.Stopped = true
			return own, nil
		}
		own.Done++
		if err != nil {
			err = fmt.Errorf("%s: %w", c.ID, err)
			if after, _ := os.Stat(target); before != nil && os.SameFile(before, after) {
				err = fmt.Errorf("%w (the label map in %s is of an earlier run)", err, target)
			}
			own.Failed = append(own.Failed, failure{n, err.Error(), err})
			watch.Failed(err)
			if own.Machine = atomicfile.OfMachine(err); own.Machine { // so does the next
				return own, nil
			}
			continue
		}
		own.Written = append(own.Written, target)
		watch.Written(target)
	}
	return own, nil
}

// enter holds the folder of the label maps until leave is called, which removes a folder that was
// made for nothing.
func (b *Batch) enter() (leave func(), err error) {
	if len(b.targets) == 0 {
		return func() {}, nil
	}
	dir := filepath.Dir(b.targets[0])
	_, missing := os.Stat(dir)
	release, err := atomicfile.Enter(dir, func(name string) bool {
		return nifti.IsName(name) || isDICOM(name) || name == quality.File || name == pageFile
	})
	if err != nil {
		return nil, err
	}
	return func() {
		release()
		if missing != nil {
			os.Remove(dir) // fails where something lies in it, as it should
		}
	}, nil
}

// A FailedError names the scans that could not be segmented. The observer was told why; so is who
// unwraps it.
type FailedError struct {
	Names []string
	Of    int // all scans of the batch
	Left  int // scans that were not begun

	errs []error
}

func (e *FailedError) Error() string {
	text := fmt.Sprintf("%d of %s could not be segmented: %s", len(e.Names), numbers.Count(e.Of, "scan"),
		safetext.List(e.Names))
	if e.Left > 0 {
		text += fmt.Sprintf("; %d not begun", e.Left)
	}
	return text
}

// Unwrap gives what was wrong with each.
func (e *FailedError) Unwrap() []error { return e.errs }

// A StoppedError says that a batch was stopped by its context.
type StoppedError struct {
	done, of int
	cause    error
}

func (e *StoppedError) Error() string {
	return fmt.Sprintf("stopped after %d of %s: %v", e.done, numbers.Count(e.of, "scan"), e.cause)
}

// Unwrap gives the context's error.
func (e *StoppedError) Unwrap() error { return e.cause }

// writeMaps writes the network's numbers beside a label map: 4D files, a volume for each class.
func (b *Batch) writeMaps(target string, m *segment.Maps, c dataset.Case, made origin) error {
	if m == nil {
		return nil
	}
	extensions, err := made.ofMaps(b.options.Maps).extension()
	if err != nil {
		return err
	}
	for n, values := range [][]float32{m.Probabilities, m.Logits} {
		kind := []string{probabilities, logits}[n]
		if values == nil {
			continue
		}
		err := nifti.WriteChannels(mapPath(target, kind), m.Grid, values, nifti.HeaderOf(c.Image), extensions)
		if err != nil {
			return err
		}
	}
	return nil
}

// checkSpacing refuses a scan whose voxels the network does not know, unless the options say that
// it is to be segmented all the same.
func (b *Batch) checkSpacing(p Model, g volume.Grid) error {
	err := p.CheckSpacing(g)
	if err == nil || b.options.Force {
		return nil
	}
	return fmt.Errorf("%w (--force segments it all the same)", err)
}

// A lesson is that weights have learnt from a scan.
type lesson struct {
	How  provenance.Learnt `json:"how"`
	Name string            `json:"name"` // of the scan, and what it was called then
}

// met notes that weights have learnt from scan n of the batch.
func (b *Batch) met(n int, how provenance.Learnt, name string) {
	if b.learnt == nil {
		b.learnt = map[int]lesson{}
	}
	b.learnt[n] = lesson{how, name}
}

// sayMet says which scans of the batch the weights have learnt from.
func sayMet(learnt map[int]lesson, watch Observer) {
	names := map[provenance.Learnt][]string{}
	for _, n := range slices.Sorted(maps.Keys(learnt)) {
		names[learnt[n].How] = append(names[learnt[n].How], learnt[n].Name)
	}
	for _, how := range []provenance.Learnt{provenance.WithLabels, provenance.WithoutLabels} {
		if names := names[how]; len(names) > 0 {
			watch.Note(fmt.Sprintf("WARNING: the model has learnt from %d of these scans, %s: %s; how well it does "+
				"there says nothing about others", len(names), how, safetext.List(names)))
		}
	}
}

// one reads a scan, segments it and writes its label map.
func (b *Batch) one(ctx context.Context, p Model, n int, watch Observer) error {
	c, target := b.scans[n], b.targets[n]
	var series *dicom.Series
	if b.options.Format != NIfTI { // before the work: not every series can be referred to
		var err error
		if series, err = c.DICOM(); err != nil {
			return err
		}
		if err := series.Referable(); err != nil {
			return err
		}
	}
	grid, bytes, known := c.Extent()
	if known { // before the scan is read
		for _, channel := range c.More {
			if _, of, known := channel.Extent(); known {
				bytes = max(bytes, of)
			}
		}
		if m, ok := p.(*foreign); ok {
			if h := nifti.HeaderOf(c.Image); h != nil {
				grid = m.Plan.Seen(grid, h.Pixdim())
			}
		}
		if err := p.Fits(grid, bytes, b.options.Maps); err != nil {
			return cmp.Or(b.checkSpacing(p, grid), err)
		}
	}
	made := b.origin(p)
	var err error
	// before reading: a scan that changes meanwhile is another one
	if made.Digest, err = b.digest(n); err != nil {
		return err
	}
	if p.AsStored() {
		c = c.AsStored()
	}
	scan, notes, err := c.TakenFor(p.Modality()).ReadImage(b.options.Read)
	if err != nil {
		return err
	}
	if err := c.CheckModality(scan, p.Modality(), p.AboveHU()); err != nil && p.Modality() != "" {
		if !b.options.Force {
			return fmt.Errorf("%w, which the network was trained on: --force segments it all the same", err)
		}
		watch.Note(fmt.Sprintf("WARNING: %s: %v, which the network was trained on", c.ID, err))
	}
	if p.AboveHU() && p.Modality() == volume.ModalityCT {
		if why := dataset.WhereAbove(scan); why != "" {
			watch.Note(fmt.Sprintf("WARNING: %s %s", c.ID, why))
		}
	}
	for _, note := range notes {
		watch.Note(c.ID + ": " + note)
	}
	if err := b.checkSpacing(p, scan.Grid); err != nil {
		return err
	}
	if err := p.CheckSpacing(scan.Grid); err != nil {
		watch.Note(fmt.Sprintf("WARNING: %s: %v", c.ID, err))
	}
	voxels, err := scan.Digest()
	if err != nil {
		return err
	}
	if lesson, found := p.LearntFrom(c.ID, voxels); found {
		made.Learnt = provenance.WithoutLabels
		if lesson.Labels {
			made.Learnt = provenance.WithLabels
		}
		b.met(n, made.Learnt, checkpoint.Scan{Name: lesson.Name}.Called(c.ID))
	}
	more, notes, err := c.ReadMore(scan.Grid, b.options.Read)
	if err != nil {
		return err
	}
	for _, note := range notes {
		watch.Note(c.ID + ": " + note)
	}
	channels := append([]*volume.Volume{scan}, more...)
	labels, maps, err := p.Predict(ctx, channels, b.options.Maps)
	if err != nil {
		return err
	}
	measured := measure(c.ID, labels, p)
	if maps != nil {
		made.Agreement, measured.Agreement = maps.Agreement, maps.Agreement
	}
	if err := b.removeOutdated(target); err != nil {
		return err
	}
	wrong := b.writeMaps(target, maps, c, made)
	if wrong != nil { // which must not cost the label map
		wrong = fmt.Errorf("%w (the label map is safe in %s)", wrong, target)
	}
	if series == nil {
		extensions, err := made.extension()
		if err == nil {
			err = nifti.WriteLabelsWith(target, labels, nifti.HeaderOf(c.Image), extensions)
		}
		if err == nil {
			b.cases[n] = measured
		}
		return cmp.Or(err, wrong)
	}
	parameters, err := made.inDICOM()
	if err != nil {
		return err
	}
	write := dicom.WriteSegmentation
	if b.options.Format == RTSTRUCT {
		write = dicom.WriteStructureSet
	}
	err = write(target, labels, series, dicom.WriteOptions{
		Algorithm: "Voxsaw", Version: voxsaw.Version(), Parameters: parameters, Labels: p.Labels(),
		Read: dicom.Options{Tilt: b.options.Read.Tilt, Gaps: b.options.Read.Gaps},
	})
	if err == nil {
		b.cases[n] = measured
	}
	return cmp.Or(err, wrong)
}
