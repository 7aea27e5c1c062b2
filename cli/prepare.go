package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/quality"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/triage"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/dicom"
	"github.com/voxsaw/voxsaw/volume/prepare"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

type prepareOptions struct {
	Out         string             `yaml:"out" help:"folder for the prepared cases"`
	Dataset     dataset.Options    `yaml:"dataset"`
	Plans       string             `yaml:"plans,omitempty" help:"plans.json of nnU-Net, by which scans are prepared: axes, spacing, intensities; plans.json:3d_lowres chooses a configuration"`
	Preparation volume.Preparation `yaml:"preparation"`
	Work        prepare.Options    `yaml:"work"`
	Memory      gibibytes          `yaml:"memory" help:"limit: 16GiB, 512MiB, or a number of GiB; 0: what the machine has, of which the cases prepared at once take 4 GiB, or one case alone what it needs. A case that needs more than the limit fails, and the others go on"`
	JSON        bool               `yaml:"json" help:"print the summary as JSON"`
}

func newPrepare() *cobra.Command {
	o := &prepareOptions{Preparation: volume.DefaultPreparation(), Work: prepare.DefaultOptions()}
	o.Preparation.Spacing = volume.AllMedian()
	return verb(
		"prepare SCANS...",
		"Turn a data set into prepared cases that crops are read from",
		`Reads a data set in any of these layouts and writes prepared cases: canonical orientation, one
spacing for all (the median of the scans along each axis, or the one given; --spacing own leaves each
scan its own), HU window.

  NIH Pancreas-CT      PANCREAS_00XX/.../*.dcm and label00XX.nii.gz
  MSD                  imagesTr, labelsTr, imagesTs, dataset.json
  nnU-Net raw          imagesTr/CASE_0000.nii.gz, labelsTr/CASE.nii.gz
  TotalSegmentator     CASE/ct.nii.gz, CASE/segmentations/ORGAN.nii.gz
  anything else        a tree of NIfTI, NRRD and MetaImage files and DICOM series; labels paired by name, DICOM SEG, RTSTRUCT, BIDS;
                       --pairs says what belongs together where names do not

Several folders make one data set, such as labelled scans and unlabelled ones. A second run with the same
settings does nothing; new and changed scans are added, with the spacing of those that are there; an
interrupted run is taken up again. Prepared cases of other scans are only removed with --force, and cases
that were prepared with other settings, or that would lose labels, structures or their image, are only
replaced with --force.

--part 3/16 prepares the third of 16 parts: all parts may run at once, on one machine or on many that
share the folder. The last one finishes the folder, which is the same as one run makes. --plans prepares
for the networks of an nnU-Net: the axes of the files as the plans order them, their spacing and
intensities. A part that was killed is run again; --merge finishes where the last one was killed.`,
		`  voxsaw prepare Task07_Pancreas --out prepared --spacing 1x1x1 --window=-125,275 --relabel 2:1
  voxsaw prepare labelled unlabelled --out prepared`,
		cobra.MinimumNArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runPrepare(cmd, *o, args) },
	)
}

func runPrepare(cmd *cobra.Command, o prepareOptions, roots []string) error {
	if o.Out == "" {
		return withHint(usagef("no folder for the prepared cases"), "add --out FOLDER")
	}
	if err := likePlan(cmd, o.Plans, &o.Preparation); err != nil {
		return err
	}
	if err := o.Preparation.Choose([3]float64{}).Check(); err != nil {
		return config.Mistaken(err)
	}
	part, err := dataset.ParsePart(o.Work.Part)
	if err = cmp.Or(err, dicom.CheckWanted(o.Dataset.Series)); err != nil {
		return config.Mistaken(err)
	}
	if part.Of > 0 && o.Work.Merge {
		return usagef("--part prepares a part, --merge finishes a folder of parts: choose one")
	}
	planned := o.Memory.planned()
	if o.Memory > 0 {
		o.Work.Memory = planned
	}
	stderr := cmd.ErrOrStderr()
	o.Dataset.Channels = o.Preparation.ChannelsAsked()
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
	sayFound(stderr, d, roots)
	if err := checkStructures(stderr, d, o.Dataset); err != nil {
		return err
	}
	if err := checkOrder(stderr, d, o.Work.Read); err != nil {
		return err
	}
	var note string
	if d, o.Preparation, note, err = d.ChooseModality(o.Preparation, o.Work.Read, o.Work.Memory); err != nil {
		return explainPrepare(cmd.Context(), err, nil, d)
	}
	if note != "" {
		say(stderr, "%s", note)
	}
	if o.Preparation, note, err = d.ChooseSpacing(o.Out, o.Preparation, o.Work.Force); err != nil {
		return err
	}
	if note != "" {
		say(stderr, "%s", note)
	}
	if !o.Work.Merge {
		if need, free, err := prepare.Room(d, o.Out, o.Preparation, part); err == nil {
			sayNote(stderr, tooFull("prepared cases may take", need, free, o.Out, "goes on from there"))
		}
	}
	progress := terminal.NewProgress(stderr, "prepare", part.Len(len(d.Cases)))
	defer progress.Finish()
	summary, err := prepare.Run(cmd.Context(), d, o.Out, o.Preparation, o.Work, func(r prepare.Result) {
		for _, note := range r.Record.Notes {
			if !r.Kept {
				progress.Note(r.Case.ID + ": " + note)
			}
		}
		if r.Kept {
			progress.Skip(1)
		} else {
			progress.Add(1)
		}
	})
	progress.Finish()
	if summary != nil && summary.Fingerprint != "" && summary.Prepared > 0 && summary.Labelled >= quality.Fewest {
		summary.Notes = append(summary.Notes, unusualLabels(cmd.Context(), o.Out)...)
	}
	if summary != nil && (summary.Fingerprint != "" || len(summary.Waiting) > 0) {
		if printErr := printPrepared(cmd.OutOrStdout(), o, d, summary); printErr != nil {
			return printErr
		}
	}
	return explainPrepare(cmd.Context(), err, summary, d)
}

// tooFull warns of a disk that may not have room for what is written, before anything is; "" where
// it has, or its system does not tell.
func tooFull(what string, need, free int64, dir, again string) string {
	if free < 0 || need <= free {
		return ""
	}
	return fmt.Sprintf("WARNING: the %s %s, and the disk of %s has %s free: where no room is left the run stops, and "+
		"the same command %s", what, terminal.Bytes(need), dir, terminal.Bytes(free), again)
}

// unusualLabels warns of labels that are unlike those of the other cases.
func unusualLabels(ctx context.Context, dir string) []string {
	store, err := prepared.Open(dir)
	if err == nil {
		defer store.Close()
		var ranking *triage.Ranking
		if ranking, err = triage.Rank(ctx, store, triage.Options{Drawn: true}); err == nil {
			if warning := ranking.Warning(); warning != "" {
				return []string{warning}
			}
			return nil
		}
	}
	return []string{fmt.Sprintf("the labels were not compared with one another: %v", err)}
}

// sayFound says what the data set is, and what is odd about it.
func sayFound(stderr io.Writer, d *dataset.Dataset, roots []string) {
	say(stderr, "%s", d)
	sayNote(stderr, d.Told)
	sayNotes(stderr, slices.Concat(d.Notes, d.PassedOver), "voxsaw inspect "+hint.Words(roots...))
}

// checkStructures says which of the structures to take are met nowhere. Names of some hospitals may
// be missing where others have them; that all are missing is a mistake.
func checkStructures(stderr io.Writer, d *dataset.Dataset, o dataset.Options) error {
	unmet := d.Unmet(o.Structures)
	switch {
	case len(unmet) == 0:
	case len(d.Structures) == 0:
		say(stderr,
			"WARNING: --structures %s chooses nothing: no scan here has a file, or a contour, for each structure; "+
				"--relabel chooses among labels that are numbers in one file", strings.Join(o.Structures, ","))
	case len(unmet) == len(o.Structures):
		return withHint(usagef("--structures: %s", noStructure(d.Structures, unmet)),
			"voxsaw inspect shows the structures of each case; leave the flag out to take all")
	default:
		say(stderr, "WARNING: --structures: %s", noStructure(d.Structures, unmet))
	}
	return nil
}

// checkOrder says which names in an order of structures no structure has. That none is met is a
// mistake.
func checkOrder(stderr io.Writer, d *dataset.Dataset, o dataset.ReadOptions) error {
	order, names := o.Overlap.Order(), d.StructureNames()
	if len(order) == 0 || len(names) == 0 {
		return nil
	}
	var unmet []string
	for _, name := range order {
		if !slices.ContainsFunc(names, func(other string) bool { return safetext.Fold(other) == safetext.Fold(name) }) {
			unmet = append(unmet, name)
		}
	}
	switch {
	case len(unmet) == len(order):
		return withHint(usagef("--segment-overlap: %s", noStructure(names, unmet)),
			"voxsaw inspect shows the structures of each case")
	case len(unmet) > 0:
		say(stderr, "WARNING: --segment-overlap: %s", noStructure(names, unmet))
	}
	return nil
}

// noStructure says that structures are met nowhere, and what may have been meant.
func noStructure(structures, unmet []string) string {
	lines := make([]string, len(unmet))
	for n, name := range unmet {
		lines[n] = fmt.Sprintf("there is no %q", name)
		if near := config.Nearest(name, structures); len(near) > 0 && !strings.Contains(name, "*") {
			lines[n] += fmt.Sprintf(", did you mean %s?", safetext.List(near))
		}
	}
	return fmt.Sprintf("%s (the structures are %s)", strings.Join(lines, "; "), safetext.List(structures))
}

// explainPrepare adds to an error what the user can do about it.
func explainPrepare(ctx context.Context, err error, summary *prepare.Summary, d *dataset.Dataset) error {
	var others *prepare.OthersError
	var settings *prepare.SettingsError
	var loss *prepare.LossError
	var names *dataset.NamesError
	var mixed *dataset.MixedError
	switch stopped := ctx.Err(); {
	case errors.As(err, &names):
		return withHint(err, "%s", names.Hint)
	case errors.As(err, &mixed):
		return withHint(err, "%s", mixed.Hint())
	case errors.As(err, &others):
		return withHint(err,
			"choose another --out; or name all folders of scans in one command; "+
				"or say --force, which removes these cases")
	case errors.As(err, &settings):
		return withHint(err,
			"choose another --out; or give the settings of before, to go on where that run stopped; or say "+
				"--force, which prepares these cases anew")
	case errors.As(err, &loss):
		return withHint(err,
			"choose another --out; or give the flags of before, such as --pairs, --structures or --volume, and put "+
				"back files that were moved; or say --force, which prepares these cases anew")
	case stopped != nil && err != nil:
		if summary != nil {
			err = fmt.Errorf("stopped after %d of %s: %w", summary.Prepared+summary.Kept,
				numbers.Count(len(d.Cases), "case"), stopped)
		}
		return withHint(err, "the same command goes on from there")
	case atomicfile.NoRoom(err) || summary != nil && slices.ContainsFunc(summary.Failed,
		func(r prepare.Result) bool { return atomicfile.NoRoom(r.Err) }):
		return withHint(err, "make room; then the same command goes on from there")
	case summary != nil && len(summary.Failed) > 0:
		return withHint(err, "put these scans right, or take them away; the same command does what is missing")
	}
	return err
}

func printPrepared(w io.Writer, o prepareOptions, d *dataset.Dataset, s *prepare.Summary) error {
	if o.JSON {
		failed := map[string]string{}
		for _, r := range s.Failed {
			failed[r.Case.ID] = r.Err.Error()
		}
		result := map[string]any{
			"layout": d.Layout, "prepared": s.Prepared, "kept": s.Kept, "labelled": s.Labelled, "failed": failed,
			"unused_labels": d.Unused, "notes": slices.Concat(d.Notes, s.Notes), "without_foreground": s.Empty,
			"structures": s.Structures, "undrawn": s.Undrawn, "emptied": s.Emptied,
			"resampled_labels": s.Resampled, "removed": s.Removed,
			"cropped": s.Cropped, "cropped_share": s.Share, "fingerprint": s.Fingerprint, "out": o.Out,
			"spacing":  o.Preparation.Spacing,
			"modality": s.Preparation.ModalityName(), "intensity": s.Preparation.Scheme(),
		}
		if s.Part.Of > 0 {
			result["part"], result["waiting_for_parts"] = s.Part.String(), append([]int{}, s.Waiting...)
		}
		return printJSON(w, result)
	}
	if len(s.Waiting) > 0 {
		say(w, "%s: part %s: %s prepared, %d kept from before, %d failed; parts that are not done yet: %s", o.Out,
			s.Part, numbers.Count(s.Prepared, "case"), s.Kept, len(s.Failed), join(s.Waiting, "%d", ", "))
		return nil
	}
	say(w, "%s: %s prepared, %d kept from before, %d failed (layout %s, fingerprint %.12s)", o.Out,
		numbers.Count(s.Prepared, "case"), s.Kept, len(s.Failed), d.Layout, s.Fingerprint)
	if s.Cropped > 0 {
		say(w,
			"%s cropped to the patient, %.0f %% of their voxels: predictions return to the "+
				"whole scan (--crop none prepares all of it)", numbers.Count(s.Cropped, "case"), 100*s.Share)
	}
	say(w, "%s with labels, %d without", numbers.Count(s.Labelled, "case"), s.Prepared+s.Kept-s.Labelled)
	if text := s.DescribeStructures(); text != "" {
		say(w, "%s", text)
	}
	if len(d.Unused) > 0 {
		say(w, "seen and NOT used: %s of labels: %s", numbers.Count(len(d.Unused), "file"), list(d.Unused))
	}
	if d.AllLost() && !o.Dataset.Unlabelled {
		say(w, "WARNING: no case has labels, though there are some: the lines above say why each is not used")
	}
	for _, note := range s.Notes {
		say(w, "%s", note)
	}
	if len(s.Removed) > 0 {
		say(w, "removed, because they are not in this data set: %s", list(s.Removed))
	}
	if len(s.Empty) > 0 {
		say(w, "labels without any foreground, used as background: %s", list(s.Empty))
	}
	return nil
}
