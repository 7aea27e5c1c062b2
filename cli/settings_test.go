package cli

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/config"
)

var update = flag.Bool("update", false, "write docs/settings.md anew")

// settingsPage lists the flags of every verb with the YAML key that each stands for.
func settingsPage() string {
	var b strings.Builder
	b.WriteString(`# Settings: every flag and its YAML key

A setting is a flag on the command line, or a key of the file that ` + "`--config`" + ` names; flags win. Nested keys are written with dots here:
` + "`train.lr`" + ` is the key ` + "`lr`" + ` in the section ` + "`train`" + `. A flag without a key is for one command line, and no part of the configuration.

This page is made from the program: ` + "`go test ./cli -run TestSettingsPage -update`" + ` writes it anew.
`)
	cell := func(text string) string { return strings.ReplaceAll(strings.ReplaceAll(text, "|", `\|`), "\n", " ") }
	for _, cmd := range verbs(newRoot())[1:] {
		if !cmd.HasAvailableLocalFlags() || cmd.HasSubCommands() {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s.\n\n| flag | key | default | |\n|---|---|---|---|\n", cmd.CommandPath(),
			cmd.Short)
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Name == "help" || f.Name == helpAllFlag || f.Hidden {
				return
			}
			key, standard := "", ""
			if k := config.Key(f); k != "" {
				key = "`" + k + "`"
			}
			if f.DefValue != "" {
				standard = "`" + cell(f.DefValue) + "`"
			}
			fmt.Fprintf(&b, "| `--%s` | %s | %s | %s |\n", f.Name, key, standard, cell(f.Usage))
		})
	}
	return b.String()
}

// docs/settings.md is what the program says of itself.
func TestSettingsPage(t *testing.T) {
	path := filepath.Join("..", "docs", "settings.md")
	want := settingsPage()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.ReplaceAll(string(got), "\r\n", "\n") != want {
		t.Error("docs/settings.md is not what the flags are now: go test ./cli -run TestSettingsPage -update")
	}
	for _, line := range []string{"| `--lr` | `train.lr` |", "| `--network` | `network.kind` |",
		"| `--inference-window` | `inference.window` |", "| `--resume` |  |"} {
		if !strings.Contains(want, line) {
			t.Errorf("no line %s", line)
		}
	}
}
