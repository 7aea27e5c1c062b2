package train

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
)

// Compare compares what is read of a run for tables and pages with the digests that were written
// with it. Checkpoints have digests of their own, which are compared when they are read.
func Compare(folder string) error {
	_, err := atomicfile.Compare(folder, configFile, runFile, metricsFile, validationFile, resultsFile)
	return err
}

// Own lists the files of a run that are in its folder or may be there, for [atomicfile.Compare].
func Own(path string) ([]string, error) { return own(path) }

// Verify says what is wrong with a run's folder: what is missing, cannot be read or does not belong
// together. A run that was killed has nothing wrong with it: it can be resumed. The weights in the
// checkpoints are compared with their digests by [checkpoint.Verify], and the files with theirs by
// [atomicfile.Compare].
func Verify(path string) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	r, err := readRecord(path)
	if err != nil {
		add("%v", err)
		return problems
	}
	if _, err := os.Stat(filepath.Join(path, configFile)); err != nil {
		add("%v", err)
	}
	last, err := checkpoint.Read(filepath.Join(path, lastFile))
	switch {
	case errors.Is(err, fs.ErrNotExist) && r.Step == 0:
		return problems // nothing was saved yet
	case err != nil:
		add("%v", err)
		return problems
	case last.Step < r.Step || r.Finished && last.Step != r.Step:
		add("%s is of step %d, and %s says that step %d was saved", lastFile, last.Step, runFile, r.Step)
	case last.Fingerprint != r.Fingerprint:
		add("%s is of a run on the data %.12s, and %s of one on %.12s", lastFile, last.Fingerprint, runFile,
			r.Fingerprint)
	}
	if t, err := readTable(filepath.Join(path, metricsFile), last.Step); err != nil {
		add("%v", err)
	} else if missing := t.missing(last.Step); len(missing) > 0 {
		add("%s lacks the steps %s", metricsFile, strings.Join(missing, ", "))
	}
	if last.BestStep == 0 {
		return problems
	}
	if t, err := readTable(filepath.Join(path, validationFile), last.Validated); err != nil {
		add("%v", err)
	} else if t.step < last.Validated {
		add("%s ends at step %d, and step %d was validated", validationFile, t.step, last.Validated)
	}
	if best, err := checkpoint.Read(filepath.Join(path, bestFile)); err != nil {
		add("%v", err)
	} else if best.Step != last.BestStep && best.Step <= last.Validated { // later: it was killed
		add("%s is of step %d, and the highest score was that of step %d", bestFile, best.Step, last.BestStep)
	}
	return problems
}
