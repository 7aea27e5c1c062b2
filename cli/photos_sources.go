package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/experiment/photostudy"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// This file: 2d compare --data-root, which looks for the data sets of a plan before anything is
// done.

// findPhotos says what is there of the plan's data sets in a folder and how long its trainings
// take, and prepares what is there as published, unless it is only to look.
func findPhotos(cmd *cobra.Command, o photoCompareOptions, root string, look bool) error {
	found, err := o.Plan.Find(cmd.Context(), root)
	if err != nil {
		return err
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	rehearsal, err := o.Plan.Rehearse(cmd.Context(), dev)
	if err != nil {
		return err
	}
	t := dataSets(root, "photographs")
	var missing, raw []string
	for _, s := range found {
		where, count := s.Data, fmt.Sprintf("%d of %d", s.There, s.Photos)
		switch s.State {
		case experiment.SourceMissing:
			where = fmt.Sprintf("neither %s nor a folder with %s", s.Data, strings.Join(s.Holds, ", "))
			missing = append(missing, s.What)
		case experiment.SourceRaw:
			where, count = s.Raw+", for "+s.Data, fmt.Sprint(s.Photos)
			raw = append(raw, s.Data)
		}
		t.Rows = append(t.Rows, []string{s.What, s.State, count, where, s.Note})
	}
	t.Notes = []string{
		fmt.Sprintf("%s: %.3g TFLOP, without fine-tuning, features and solving.", numbers.Count(rehearsal.Trainings,
			"training"), rehearsal.FLOPs/1e12),
		fmt.Sprintf("Here: about %s, at the %.0f GFLOP/s that were just measured in a few small steps.",
			longTime(rehearsal.Time()), rehearsal.Rate/1e9),
		"The paper, for each of its trainings on four V100s: 10 hours of AlexNet, 20 of ResNet-18, 60 of ResNet-50. No GPU was measured here.",
	}
	if err := terminal.Table(cmd.ErrOrStderr(), t); err != nil {
		return err
	}
	if err := missingSources(root, missing); err != nil {
		return err
	}
	if look {
		say(cmd.ErrOrStderr(), "all is there: --out FOLDER runs the comparison%s", andPrepares(raw))
		return nil
	}
	for _, s := range found {
		if s.State != experiment.SourceRaw {
			continue
		}
		if err := preparePhotos(cmd, s); err != nil {
			return fmt.Errorf("preparing %s: %w", s.Data, err)
		}
	}
	return nil
}

// preparePhotos prepares a data set as voxsaw 2d prepare does, or proposes boxes as voxsaw 2d
// propose does.
func preparePhotos(cmd *cobra.Command, s photostudy.Location) error {
	out := cmd.OutOrStdout()
	cmd.SetOut(cmd.ErrOrStderr()) // what is printed is no part of the comparison's tables
	defer cmd.SetOut(out)
	section := "sources: " + s.Data
	prepare := photoPrepareOptions{Options: photos.DefaultOptions()}
	propose := photoProposeOptions{ProposeOptions: puzzle2d.DefaultProposeOptions()}
	if err := errors.Join(s.Prepare.Apply(section+": prepare", &prepare),
		s.Propose.Apply(section+": propose", &propose)); err != nil {
		return &usageError{err}
	}
	if prepare.Out, propose.Out = s.Data, s.Data; !s.Propose.IsZero() {
		return runPhotoPropose(cmd, propose, s.Raw)
	}
	return runPhotoPrepare(cmd, prepare, s.Raw)
}
