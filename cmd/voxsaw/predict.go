package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/nifti"
)

type predictOptions struct {
	Checkpoint []string            `yaml:"checkpoint" help:"checkpoint of voxsaw finetune; several are averaged"`
	Out        string              `yaml:"out" help:"folder for the label maps, or the one file to write"`
	Format     string              `yaml:"format" help:"of the label maps: nifti, or dicom-seg, which refers to the DICOM series that was segmented, so that a PACS files it with the study" oneof:"nifti dicom-seg"`
	Inference  segment.Inference   `yaml:"inference"`
	Series     string              `yaml:"series" help:"which DICOM series to take of each study: its number, number.part or UID, or all; empty: the largest axial CT"`
	Volume     int                 `yaml:"volume" help:"which volume of 4D files, 1 for the first; 0: there must be only one"`
	Masks      bool                `yaml:"labels_as_scans" help:"segment NIfTI files in folders, too, that hold labels by their values"`
	Read       dataset.ReadOptions `yaml:"read"`
	Force      bool                `yaml:"force" help:"write over label maps that are there already"`
	Machine    deviceOptions       `yaml:"machine"`
	Memory     gibibytes           `yaml:"memory" help:"limit in GiB for the network, the scan and the sums over it; 0: what the machine has"`
}

func newPredict() *cobra.Command {
	o := &predictOptions{Format: formatNIfTI, Inference: segment.DefaultInference(), Read: dataset.DefaultReadOptions(), Machine: defaultDevice()}
	return verb("predict SCANS...", "Make label maps in the geometry of the scans",
		`Segments scans: NIfTI files, folders of a DICOM series, or folders of either. Each label map is NIfTI on exactly the grid of its scan,
or with --format dicom-seg a DICOM SEG object on the slices of its series, which shows the patient and the study as the series does.
Names are those of the scans, without the _0000 that nnU-Net's images end in. The scan is prepared as the training cases were; a window slides over it, overlapping windows are weighted by a Gaussian.
Scans whose label map is there already are passed over, so that a batch can be taken up again.`,
		`  voxsaw predict imagesTs/ --checkpoint runs/organs/last.safetensors --out labels --largest-component`,
		cobra.MinimumNArgs(1), o, func(cmd *cobra.Command, args []string) error { return runPredict(cmd, *o, args) })
}

func runPredict(cmd *cobra.Command, o predictOptions, paths []string) error {
	if len(o.Checkpoint) == 0 {
		return withHint(usagef("no checkpoint to predict with"), "add --checkpoint FILE, the last.safetensors of voxsaw finetune")
	}
	if o.Out == "" {
		return withHint(usagef("nowhere to write"), "add --out FOLDER")
	}
	cases, notes, err := findScans(paths, dataset.Options{Series: o.Series, Volume: o.Volume, LabelsAsScans: o.Masks})
	if err != nil {
		return err
	}
	for _, note := range notes {
		fmt.Fprintln(cmd.ErrOrStderr(), note)
	}
	oneFile := nifti.IsName(o.Out)
	if o.Format == formatSEG {
		if oneFile {
			return usagef("%s is a NIfTI file's name: with --format %s label maps are .dcm files", o.Out, formatSEG)
		}
		oneFile = isDICOM(o.Out)
		if at := slices.IndexFunc(cases, func(c dataset.Case) bool { return !c.IsDICOM() }); at >= 0 {
			return withHint(usagef("%s is not DICOM: a DICOM SEG object refers to the DICOM series that was segmented", cases[at].Image), "--format %s writes NIfTI", formatNIfTI)
		}
	} else if isDICOM(o.Out) {
		return withHint(usagef("%s is a DICOM file's name", o.Out), "add --format %s", formatSEG)
	}
	if oneFile && len(cases) > 1 {
		return usagef("%d scans cannot be written to the one file %s: give a folder", len(cases), o.Out)
	}
	targets := make([]string, len(cases))
	for n, c := range cases {
		targets[n] = o.Out
		if !oneFile {
			targets[n] = filepath.Join(o.Out, c.ID+extensions[o.Format])
		}
	}
	if err := spareScans(cases, targets); err != nil {
		return err
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	predictor, err := segment.NewPredictor(dev, o.Checkpoint, o.Inference, o.Memory.limitAll())
	if err != nil {
		return err
	}
	folder := o.Out
	if oneFile {
		folder = filepath.Dir(o.Out)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil { // rather than after the first scan
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintf(stderr, "the network takes %s\n", terminal.Bytes(predictor.Bytes()))
	progress := terminal.NewProgress(stderr, "predict", len(cases))
	defer progress.Finish()
	var failed []error
	for n, c := range cases {
		target := targets[n]
		if _, err := os.Stat(target); err == nil && !o.Force {
			progress.Note(target + " is there already: passed over (--force writes it again)")
			progress.Skip(1)
			continue
		}
		predictor.Progress = func(done, total int) { progress.Describe(fmt.Sprintf("%s: window %d of %d", c.ID, done, total)) }
		err := predictOne(cmd, predictor, c, o, target, progress)
		if cmd.Context().Err() != nil {
			return withHint(fmt.Errorf("stopped after %d of %d scans: %w", n, len(cases), cmd.Context().Err()), "the same command goes on from there")
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", c.ID, err))
			progress.Note(failed[len(failed)-1].Error())
		}
		progress.Add(1)
	}
	progress.Finish()
	if peak := peakMemory(); peak > 0 {
		fmt.Fprintf(stderr, "the most memory in use was %s\n", terminal.Bytes(peak))
	}
	if len(failed) > 0 {
		err := fmt.Errorf("%d of %d scans could not be segmented:\n%w", len(failed), len(cases), errors.Join(failed...))
		if atomicfile.NoRoom(err) {
			return withHint(err, "make room; then the same command goes on from there")
		}
		return err
	}
	return nil
}

// spareScans refuses to write label maps over what is no label map: a scan, by whatever path or
// link, or a DICOM file that is no SEG object.
func spareScans(cases []dataset.Case, targets []string) error {
	for _, target := range targets {
		there, err := os.Stat(target)
		if err != nil {
			continue
		}
		for _, c := range cases {
			if scan, err := os.Stat(c.Image); err == nil && os.SameFile(scan, there) {
				return withHint(usagef("%s is the scan %s: its label map would be written over it", target, c.Image), "choose another --out")
			}
		}
		if isDICOM(target) && !dicom.IsSegmentation(target) {
			return withHint(usagef("%s is there already and no DICOM SEG object: it would be written over", target), "choose another --out")
		}
	}
	return nil
}

func predictOne(cmd *cobra.Command, p *segment.Predictor, c dataset.Case, o predictOptions, target string, progress terminal.Progress) error {
	var series *dicom.Series
	if o.Format == formatSEG { // before the work: not every series can be referred to
		var err error
		if series, err = c.DICOM(); err != nil {
			return err
		}
		if err := series.Referable(); err != nil {
			return err
		}
	}
	scan, notes, err := c.ReadImage(o.Read)
	if err != nil {
		return err
	}
	for _, note := range notes {
		progress.Note(c.ID + ": " + note)
	}
	labels, err := p.Predict(cmd.Context(), scan)
	if err != nil {
		return err
	}
	if o.Format == formatSEG {
		err = dicom.WriteSegmentation(target, labels, series, dicom.WriteOptions{
			Algorithm: "Voxsaw", Version: version(), Labels: p.Labels(), Read: dicom.Options{Tilt: o.Read.Tilt, Gaps: o.Read.Gaps},
		})
	} else {
		err = nifti.WriteLabels(target, labels)
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), target)
	return err
}

// findScans lists the scans at the paths; notes say what was chosen and passed over. Two of one
// name would be written to one file: that is an error.
func findScans(paths []string, o dataset.Options) (cases []dataset.Case, notes []string, err error) {
	o.Layout, o.Unlabelled, o.PatientPerCase = dataset.LayoutScans, true, true
	from := map[string]string{}
	for _, path := range paths {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("%s: there is no such file or folder", path)
		}
		d, err := dataset.Detect(path, o)
		if err != nil {
			return nil, nil, err
		}
		notes = append(notes, append(d.Notes, d.PassedOver...)...)
		for _, c := range d.Cases {
			if other, twice := from[c.ID]; twice {
				return nil, nil, fmt.Errorf("%s and %s would both be written as %s: predict them into different folders", other, c.Image, c.ID)
			}
			from[c.ID] = c.Image
			cases = append(cases, c)
		}
	}
	dropChannel(cases)
	return cases, notes, nil
}

// dropChannel names label maps as nnU-Net does where the scans follow its layout: CASE_0000.nii.gz
// is the only channel of CASE. Scans that are numbered from 0000 keep their numbers.
func dropChannel(cases []dataset.Case) {
	const channel = "_0000"
	if slices.ContainsFunc(cases, func(c dataset.Case) bool { return !strings.HasSuffix(c.ID, channel) || c.ID == channel }) {
		return
	}
	for n := range cases {
		cases[n].ID = strings.TrimSuffix(cases[n].ID, channel)
	}
}

// The formats of label maps.
const (
	formatNIfTI = "nifti"
	formatSEG   = "dicom-seg"
)

var extensions = map[string]string{formatNIfTI: ".nii.gz", formatSEG: ".dcm"}

func isDICOM(path string) bool { return strings.EqualFold(filepath.Ext(path), ".dcm") }
