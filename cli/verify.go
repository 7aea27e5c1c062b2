package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/verify"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

type verifyOptions struct {
	Part string `yaml:"part" help:"read this part of the prepared cases only, such as 3/16 for the third of 16: parts may be read at once, on many machines"`
	JSON bool   `yaml:"json" help:"print a list of {path, kind, problems, note}"`
}

func newVerify() *cobra.Command {
	o := &verifyOptions{}
	return verb(
		"verify PATH...",
		"Compare all that voxsaw has written with what was written",
		`Reads all that voxsaw has written at the paths, and below them: prepared cases and photographs,
checkpoints, runs, studies, scores and predictions. Voxels, pixels and weights are compared with their
checksums, the files of a run with each other, and every file with its digest, byte by byte. One line
each says what is wrong; the exit code is 1 if anything is. What cannot be compared is named: files
without a digest, such as those of a run that was killed.

The digests of a folder's files lie in its .voxsaw.sums, which is written when the program has finished
there. A file that was deleted is not damage. Who has changed a file on purpose deletes .voxsaw.sums
beside it.

Training checks each case when it is first read, and each checkpoint, without being asked; resuming,
crossval, compare, report and evaluate compare the files that they read. This is for archives and copies.`,
		`  voxsaw verify prepared/ runs/
  voxsaw verify --json runs/organs/last.safetensors`,
		cobra.MinimumNArgs(1),
		o,
		func(cmd *cobra.Command, args []string) error { return runVerify(cmd, *o, args) },
	)
}

func runVerify(cmd *cobra.Command, o verifyOptions, paths []string) error {
	part, err := dataset.ParsePart(o.Part)
	if err != nil {
		return config.Mistaken(err)
	}
	stdout := cmd.OutOrStdout()
	findings, wrong := []verify.Finding{}, 0
	var printErr error
	err = verify.Paths(cmd.Context(), paths, part, func(f verify.Finding) {
		findings = append(findings, f)
		if len(f.Problems) > 0 {
			wrong++
		}
		if !o.JSON && printErr == nil {
			printErr = printFinding(stdout, f)
		}
	})
	if isCases := func(f verify.Finding) bool { return f.Kind == verify.PreparedCases }; err == nil && part.Of > 0 &&
		!slices.ContainsFunc(findings, isCases) {
		say(cmd.ErrOrStderr(), "--part %s did nothing: there are no prepared cases here, and all else is read whole",
			o.Part)
	}
	if o.JSON && (err == nil || len(findings) > 0) {
		printErr = printJSON(stdout, findings)
	}
	switch {
	case err != nil:
		return errors.Join(err, printErr)
	case printErr != nil:
		return printErr
	case wrong > 0:
		return fmt.Errorf("%d of %d are not what was written", wrong, len(findings))
	}
	return nil
}

// printFinding writes a line for each problem, or one that says that there is none.
func printFinding(w io.Writer, f verify.Finding) error {
	lines := f.Problems
	if len(lines) == 0 {
		lines = []string{cmp.Or(f.Note, "is what was written")}
	}
	for _, line := range lines {
		if _, err := fmt.Fprintf(w, "%s (%s): %s\n", safetext.Text(f.Path), f.Kind, safetext.Text(line)); err != nil {
			return err
		}
	}
	return nil
}
