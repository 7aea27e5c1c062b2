package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

type photoProposeOptions struct {
	Out                     string `yaml:"out" help:"file of the proposals, CSV in gzip"`
	puzzle2d.ProposeOptions `yaml:",inline"`
}

func newPhotoPropose() *cobra.Command {
	o := &photoProposeOptions{ProposeOptions: puzzle2d.DefaultProposeOptions()}
	return verb("propose PHOTOS", "Propose boxes that may hold objects, for finetune --task detect: selective search",
		`Divides each photograph, at its own size, into regions that look alike, joins those that are most alike again and again, and writes the box of every region
that there was, the most promising first: selective search (Uijlings et al., IJCV 2013), its fast version. A photograph of 500x375 pixels takes a core about
a second.

The folder is the data set as it is published, as voxsaw 2d prepare reads it. An interrupted run is taken up again by the same command.`,
		"  voxsaw 2d propose VOCdevkit/VOC2007 --out proposals.csv.gz",
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error {
			return runPhotoPropose(cmd, *o, args[0])
		})
}

func runPhotoPropose(cmd *cobra.Command, o photoProposeOptions, root string) error {
	if o.Out == "" {
		return withHint(usagef("no file for the proposals"), "add --out proposals.csv.gz")
	}
	set, err := photos.Find(root, 0, 0)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	fmt.Fprintln(stderr, describePhotos(set))
	progress := terminal.NewProgress(stderr, "propose", len(set.Photos))
	defer progress.Finish()
	boxes, fresh, kept, failed := 0, 0, 0, 0
	err = puzzle2d.Propose(cmd.Context(), set, o.Out, o.ProposeOptions, func(p puzzle2d.Proposed) {
		switch {
		case p.Err != nil:
			progress.Note(safetext.Text(fmt.Sprintf("skipped: %s: %v", p.Path, p.Err)))
			progress.Add(1)
			failed++
		case p.Kept:
			progress.Skip(1)
			kept++
		default:
			progress.Add(1)
			boxes, fresh = boxes+p.Boxes, fresh+1
		}
	})
	progress.Finish()
	if stopped := cmd.Context().Err(); stopped != nil && err != nil {
		return withHint(fmt.Errorf("stopped after %d of %s: %w", fresh+kept, numbers.Count(len(set.Photos), "photograph"),
			stopped), "the same command goes on from there")
	}
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, %.0f boxes each, %d kept from before, %d failed\n",
		safetext.Text(o.Out), numbers.Count(fresh, "photograph"), float64(boxes)/float64(max(fresh, 1)), kept, failed)
	return err
}
