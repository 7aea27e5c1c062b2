package cli

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/volume/dataset"
)

// checkSelection refuses settings of a selection that contradict each other, or that nothing would
// use. What a flag overrules is put back to its default, so that the run's configuration says
// nothing that does not hold.
func checkSelection(cmd *cobra.Command, s *dataset.Selection) error {
	fold, folds, scheme := settingOf(cmd, "fold"), settingOf(cmd, "folds"), settingOf(cmd, "fold-scheme")
	splits, share := settingOf(cmd, "splits"), settingOf(cmd, "hold-out")
	if s.Fold == 0 && foldZero(cmd) {
		return withHint(usagef("fold 0: folds are counted from 1 here"),
			"nnU-Net's fold 0 is --fold 1, its fold all is --hold-out 0; leave the fold out to hold "+
				"out a share of the patients (--hold-out)")
	}
	if err := checkSplits(splits, folds, scheme); err != nil {
		return err
	}
	against := []setting{splits, folds, scheme}
	if s.Fold != 0 { // --fold 0 --hold-out 0.2 agree
		against = append(against, fold)
	}
	for _, one := range against {
		if err := share.contradicts(one, "either a fold is held out, or a share of the patients"); err != nil {
			return err
		}
	}
	for _, one := range []setting{folds, scheme} {
		if s.Fold == 0 && s.Splits == "" && one.given() {
			return withHint(usagef("%v says how cases are divided into folds, but not which fold is held out", one),
				"name it, 1 for the first: --fold 1")
		}
	}
	defaults := dataset.DefaultSelection()
	if s.Splits != "" {
		s.Folds, s.FoldScheme = defaults.Folds, defaults.FoldScheme
	}
	if s.Fold != 0 {
		s.HoldOut = defaults.HoldOut
	}
	return nil
}

// foldZero tells whether the user asks for fold 0, as nnU-Net's first one is called, and not for a
// share to be held out. A resolved configuration has both keys.
func foldZero(cmd *cobra.Command) bool {
	fold, share := cmd.Flags().Lookup("fold"), cmd.Flags().Lookup("hold-out")
	if fold.Changed || share.Changed {
		return fold.Changed && !share.Changed
	}
	file := cmd.Flags().Lookup(config.FileFlag)
	return file.Changed && config.Gives(file.Value.String(), section(cmd), config.Key(fold)) &&
		!config.Gives(file.Value.String(), section(cmd), config.Key(share))
}

// checkSplits refuses a file of folds beside settings that say how folds are made.
func checkSplits(splits setting, others ...setting) error {
	for _, one := range others {
		if err := one.contradicts(splits, "the file has the folds"); err != nil {
			return err
		}
	}
	return nil
}

// setting is one of a command's settings, and where it comes from.
type setting struct {
	flag, key, value string
	byFlag           bool
	file             string // that of --config, where it gives another value than the default
}

// settingOf looks a setting up by its flag. What the configuration of a resumed run says is not
// given on this command line.
func settingOf(cmd *cobra.Command, flag string) setting {
	f := cmd.Flags().Lookup(flag)
	s := setting{flag: flag, key: config.Key(f), value: f.Value.String(), byFlag: f.Changed}
	if file := cmd.Flags().Lookup(config.FileFlag); file.Changed && s.value != f.DefValue &&
		config.Gives(file.Value.String(), section(cmd), s.key) {
		s.file = file.Value.String()
	}
	return s
}

// given tells whether the user said it.
func (s setting) given() bool { return s.byFlag || s.file != "" }

// String is the setting as the user gave it.
func (s setting) String() string {
	if s.byFlag {
		return "--" + s.flag + " " + s.value
	}
	return fmt.Sprintf("%s: %s in %s", s.key, s.value, s.file)
}

// contradicts is the error of two settings that exclude each other. There is none where the other
// is a flag and this one stands in a file, which the flag overrules.
func (s setting) contradicts(other setting, why string) error {
	if !s.given() || !other.given() || other.byFlag && !s.byFlag {
		return nil
	}
	return withHint(usagef("%v and %v contradict each other: %s", other, s, why), "leave one of the two out")
}

// noteLeftOut says which cases a file of folds leaves out of the fold.
func noteLeftOut(w io.Writer, s dataset.Selection, labelled, unlabelled []string) error {
	left, err := s.LeftOut(labelled, unlabelled)
	if len(left) > 0 {
		say(w, "WARNING: fold %d of %s leaves out %s, which the run neither trains nor validates on: %s", s.Fold,
			s.Splits, numbers.Count(len(left), "prepared case"), list(left))
	}
	return err
}
