package cli

import (
	"cmp"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

type versionOptions struct {
	JSON bool `yaml:"json" help:"print as JSON"`
}

func newVersion() *cobra.Command {
	o := &versionOptions{}
	return verb(
		"version",
		"What this program was built from, and for what",
		`Tells the version, the commit, the platform, the tags of the build, and the kernels that this
processor gets: what a report of a fault needs.`,
		"  voxsaw version\n  voxsaw version --json",
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runVersion(cmd, *o) },
	)
}

func runVersion(cmd *cobra.Command, o versionOptions) error {
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Close()
	b := struct {
		voxsaw.Build
		CPU string `json:"cpu"`
	}{voxsaw.BuiltFrom(), dev.Describe()}
	if o.JSON {
		return printJSON(cmd.OutOrStdout(), b)
	}
	commit := cmp.Or(b.Commit, "not recorded")
	if b.Modified {
		commit += ", with changes"
	}
	return terminal.Table(cmd.OutOrStdout(), terminal.TableData{Header: []string{"voxsaw", b.Version}, Rows: [][]string{
		{"commit", commit},
		{"date", cmp.Or(b.Date, "not recorded")},
		{"platform", b.OS + "/" + b.Arch},
		{"Go", b.Go},
		{"tags", cmp.Or(strings.Join(b.Tags, ", "), "none: no CUDA, no MPI")},
		{"processor", b.CPU},
	}})
}
