package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/export"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/nifti"
	"github.com/voxsaw/voxsaw/volume/prepare"
)

type exportOptions struct {
	To       string              `yaml:"to" help:"the program that is to take the data" oneof:"nnunet"`
	Out      string              `yaml:"out" help:"folder to write, such as nnUNet_raw/Dataset001_Organs"`
	Names    string              `yaml:"names" help:"numbered: case_0001 and so on, so that nothing of a patient is in the name of a file; keep: as cases are called" oneof:"numbered keep"`
	Regions  []string            `yaml:"regions" help:"what is learnt instead of labels, each a name and the labels that it takes together, the larger first: whole=edema+tumour,core=tumour"`
	Modality string              `yaml:"modality" help:"what the scans are: CT, MR, PT or another of DICOM's words; empty: as headers, dataset.json, names and values say"`
	Channels string              `yaml:"channels" help:"names of the channels of each scan, in their order, such as T1w,FLAIR or CT,PT: contrasts of BIDS, words of files' names, series, volumes of 4D files"`
	Folds    int                 `yaml:"folds" help:"folds of splits_final.json, whole patients" range:"[2,)"`
	Seed     uint64              `yaml:"seed" help:"number that the folds are drawn from"`
	Dataset  dataset.Options     `yaml:"dataset"`
	Read     dataset.ReadOptions `yaml:"read"`
	JSON     bool                `yaml:"json" help:"print the summary as JSON"`
}

func newExport() *cobra.Command {
	o := &exportOptions{To: "nnunet", Names: export.NamesNumbered, Folds: 5, Read: dataset.DefaultReadOptions()}
	o.Read.Shear = nifti.ShearResample // SimpleITK, by which nnU-Net reads, takes no others
	return verb(
		"export SCANS...",
		"Hand a data set over to nnU-Net: its raw folder, of whatever prepare reads",
		`Writes a data set as nnU-Net v2 wants it: imagesTr/CASE_0000.nii.gz (a file for each channel),
labelsTr/CASE.nii.gz, dataset.json, and splits_final.json with whole patients in a fold, which nnU-Net
looks for in nnUNet_preprocessed/DATASET. Scans without labels go to imagesTs, and so do labelled ones
that the data set holds back for testing, with their labels in labelsTs. SCANS are what prepare reads:
NIfTI, NRRD and MetaImage in any layout, DICOM series with SEG or RTSTRUCT. Voxels and values stay;
labels get the numbers 1, 2, ... in their order, one that is called ignore the highest. Files are called
case_0001 and so on: names.csv says which scan is which case, and stays with you.`,
		`  voxsaw export SCANS --out nnUNet_raw/Dataset001_Organs
  voxsaw export SCANS --out nnUNet_raw/Dataset002_Tumour --regions whole=edema+tumour,core=tumour`,
		cobra.MinimumNArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runExport(cmd, *o, args) },
	)
}

func runExport(cmd *cobra.Command, o exportOptions, roots []string) error {
	if o.Out == "" {
		return withHint(usagef("nowhere to write"), "add --out nnUNet_raw/Dataset001_NAME")
	}
	p := volume.DefaultPreparation()
	p.Modality, p.Channels = o.Modality, o.Channels
	o.Dataset.Channels = p.ChannelsAsked()
	if err := o.Dataset.Check(); err != nil {
		return config.Mistaken(err)
	}
	d, err := dataset.DetectAll(roots, o.Dataset)
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err != nil {
		return withHint(err, "voxsaw inspect %s shows what is there", hint.Words(roots...))
	}
	stderr := cmd.ErrOrStderr()
	sayFound(stderr, d, roots)
	if err := checkStructures(stderr, d, o.Dataset); err != nil {
		return err
	}
	var note string
	if err := d.CheckNames(); err != nil {
		return explainPrepare(cmd.Context(), err, nil, d)
	}
	if d, p, note, err = d.ChooseModality(p, o.Read, 0); err != nil {
		return err
	}
	if note != "" {
		say(stderr, "%s", note)
	}
	if free, err := prepare.Free(o.Out); err == nil {
		var need int64
		for _, c := range d.Cases {
			need += c.StoredBytes()
		}
		sayNote(stderr, tooFull("files may take, before they are compressed,", need, free, o.Out, "writes all anew"))
	}
	channels := d.Channels
	if len(channels) < 2 {
		channels = []string{p.ModalityName()}
	}
	progress := terminal.NewProgress(stderr, "export", len(d.Cases))
	defer progress.Finish()
	s, err := export.NNUNet(cmd.Context(), d, o.Out, export.Options{Names: o.Names, Read: o.Read, Channels: channels,
		Folds: o.Folds, Seed: o.Seed, Regions: o.Regions}, func(id string, notes []string) {
		for _, note := range notes {
			progress.Note(id + ": " + note)
		}
		progress.Add(1)
	})
	progress.Finish()
	if _, foreign := errors.AsType[*outdir.ForeignError](err); foreign {
		return withHint(err, "choose another --out")
	}
	var broken *export.CaseError
	switch {
	case errors.Is(err, context.Canceled):
		return withHint(err, "%s is no data set yet, for it has no dataset.json: the same command writes it anew",
			o.Out)
	case atomicfile.NoRoom(err):
		return withHint(err, "make room; then the same command writes %s anew", o.Out)
	case errors.As(err, &broken):
		return withHint(err, "voxsaw inspect %s lists all scans that cannot be read; the same command writes %s anew",
			hint.Words(roots...), o.Out)
	}
	if err != nil {
		return err
	}
	if o.JSON {
		return printJSON(cmd.OutOrStdout(), s)
	}
	for _, note := range s.Notes {
		say(stderr, "%s", note)
	}
	if name := filepath.Base(o.Out); !ofNNUNet.MatchString(name) {
		say(stderr, "nnU-Net finds data sets by the names of their folders, "+
			"such as Dataset001_Organs: call %s so before",
			name)
	}
	var names []string
	for n := range len(s.Labels) {
		names = append(names, fmt.Sprintf("%d %s", n+1, s.Labels[uint16(n+1)]))
	}
	held := ""
	if s.HeldBack > 0 {
		held = fmt.Sprintf(", %d held back for testing", s.HeldBack)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s with labels, %d without%s; channels %s; labels %s\n", o.Out,
		numbers.Count(s.Labelled, "case"), s.Unlabelled, held, strings.Join(s.Channels, ", "),
		strings.Join(names, ", "))
	return err
}

// ofNNUNet is how nnU-Net wants a data set's folder to be called.
var ofNNUNet = regexp.MustCompile(`^Dataset\d{3}_.`)
