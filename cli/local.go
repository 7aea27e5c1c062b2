package cli

import (
	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/sample"
)

// localFlags say where the machine keeps copies of prepared data of its own.
type localFlags struct {
	folder string
	size   gibibytes
}

func (l *localFlags) bind(cmd *cobra.Command) {
	cmd.Flags().StringVar(&l.folder, "local", "",
		"folder on this machine's own disk for copies of prepared cases or photographs, each made when it is first "+
			"read: for data on a disk that many machines share")
	cmd.Flags().Var(&l.size, "local-size",
		"limit of the copies in --local: 16GiB, 512MiB, or a number of GiB; those of other data give way, and what "+
			"finds no room is read where it lies; 0: nine tenths of what the disk has free")
}

// keep makes the store read local copies, if there is a folder for them, and says where they will
// not all fit.
func (l localFlags) keep(cmd *cobra.Command, store interface {
	KeepLocal(sample.Local) (fits bool, err error)
}) error {
	if l.folder == "" {
		if l.size != 0 {
			return withHint(usagef("--local-size without a folder for copies"), "add --local FOLDER")
		}
		return nil
	}
	fits, err := store.KeepLocal(sample.Local{Dir: l.folder, Bytes: l.size.bytes()})
	if err == nil && !fits {
		say(cmd.ErrOrStderr(), "%s has no room for copies of all: the others are read where they lie", l.folder)
	}
	return err
}
