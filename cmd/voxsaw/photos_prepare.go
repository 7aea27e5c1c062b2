package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

type photoPrepareOptions struct {
	Out     string         `yaml:"out" help:"folder for the prepared photographs"`
	Options photos.Options `yaml:",inline"`
	JSON    bool           `yaml:"json" help:"print the summary as JSON"`
}

func newPhotoPrepare() *cobra.Command {
	o := &photoPrepareOptions{Options: photos.DefaultOptions()}
	return verb("prepare PHOTOS", "Decode a folder of photographs once, into one size",
		`Decodes photographs and writes their pixels, at one size, into a folder that training maps into memory.

  ImageNet             train/CLASS/*.JPEG and val/CLASS/*.JPEG, perhaps test
  Tiny ImageNet        the same, with val/val_annotations.txt
  Pascal VOC           JPEGImages, Annotations, ImageSets/Main
  Caltech              CLASS/*.jpg with train.txt and test.txt beside the classes
  anything else        a tree of photographs; subfolders are classes, and a tenth is held out

What a file is, its content says. Files that cannot be read are skipped and named; more than 5 % of them stop the command. A
photograph that is on two sides of the split is left out of the one that is held out. A second run does nothing; an interrupted
one is taken up again.`,
		`  voxsaw 2d prepare imagenette --out photos
  voxsaw 2d prepare holidays --out photos --size 129x129 --fit crop --hold-out 0.2 --seed 1`,
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error {
			return runPhotoPrepare(cmd, *o, args[0])
		})
}

func runPhotoPrepare(cmd *cobra.Command, o photoPrepareOptions, root string) error {
	if o.Out == "" {
		return withHint(usagef("no folder for the prepared photographs"), "add --out FOLDER")
	}
	if err := o.Options.Check(); err != nil {
		return &usageError{err}
	}
	stderr := cmd.ErrOrStderr()
	set, err := photos.Find(root, o.Options.HoldOut, o.Options.Seed)
	switch {
	case errors.Is(err, photos.ErrScans):
		return withHint(err, "voxsaw prepare %s --out %s", safetext.Text(root), safetext.Text(o.Out))
	case err != nil:
		return err
	}
	fmt.Fprintln(stderr, describePhotos(set))
	for _, note := range set.Notes {
		fmt.Fprintln(stderr, safetext.Text(note))
	}
	progress := terminal.NewProgress(stderr, "prepare", len(set.Photos))
	defer progress.Finish()
	summary, err := photos.Prepare(cmd.Context(), set, o.Out, o.Options, func(r photos.Result) {
		switch {
		case r.Err != nil:
			progress.Note(safetext.Text(fmt.Sprintf("skipped: %s: %v", r.Path, r.Err)))
			progress.Add(1)
		case r.Kept:
			progress.Skip(1)
		default:
			progress.Add(1)
		}
	})
	progress.Finish()
	if summary != nil && summary.Fingerprint != "" {
		if printErr := printPreparedPhotos(cmd.OutOrStdout(), o, set, summary); printErr != nil {
			return printErr
		}
		const most = 10 // lines that people read; all are in index.json
		for _, d := range summary.LeftOut[:min(len(summary.LeftOut), most)] {
			fmt.Fprintln(stderr, safetext.Text(fmt.Sprintf("left out: %s: the same photograph as %s", d.Path, d.Of)))
		}
		if more := len(summary.LeftOut) - most; more > 0 {
			fmt.Fprintf(stderr, "and %d more such lines: index.json lists all\n", more)
		}
	}
	if stopped := cmd.Context().Err(); stopped != nil && err != nil {
		return withHint(fmt.Errorf("stopped after %d of %s: %w", summary.Prepared+summary.Kept,
			numbers.Count(len(set.Photos), "photograph"), stopped), "the same command goes on from there")
	}
	var replaced *photos.ReplaceError
	switch {
	case errors.As(err, &replaced):
		return withHint(&usageError{err}, "choose another folder for --out; --force replaces them")
	case atomicfile.NoRoom(err):
		return withHint(err, "make room; then the same command goes on from there")
	case photos.Machine(err):
		return withHint(err,
			"this is the machine's fault, not a photograph's; once it is mended, the same command goes on from there")
	}
	return err
}

func printPreparedPhotos(w io.Writer, o photoPrepareOptions, set *photos.Set, s *photos.Summary) error {
	if o.JSON {
		failed, leftOut := s.Failed, s.LeftOut
		if failed == nil {
			failed = []photos.Failure{}
		}
		return printJSON(w, map[string]any{
			"layout": set.Layout, "prepared": s.Prepared, "kept": s.Kept, "failed": failed, "left_out": leftOut,
			"repeated": s.Repeated, "classes": len(set.Classes), "sides": s.Sides,
			"fingerprint": s.Fingerprint, "out": o.Out,
		})
	}
	fmt.Fprintf(w, "%s: %s prepared, %d kept from before, %d failed (layout %s, %s, %s, fingerprint %.12s)\n",
		safetext.Text(o.Out), numbers.Count(s.Prepared, "photograph"), s.Kept, len(s.Failed), set.Layout,
		classCount(set), sideCounts(s.Sides), s.Fingerprint)
	if len(s.LeftOut) > 0 {
		fmt.Fprintf(w, "left out of the held-out side, for being on the other, too: %s\n",
			numbers.Count(len(s.LeftOut), "photograph"))
	}
	if s.Repeated > 0 {
		fmt.Fprintf(w, "there more than once on their side: %s\n", numbers.Count(s.Repeated, "photograph"))
	}
	return nil
}
