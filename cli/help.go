package cli

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// helpAllFlag shows every setting of a verb; --help shows those that people touch.
const helpAllFlag = "help-all"

// helpWidth is how many columns a help text has.
const helpWidth = 100

// helpAll is the value of --help-all: it asks for help as --help does, so that nothing is run.
type helpAll struct {
	cmd   *cobra.Command
	asked bool
}

func (h *helpAll) String() string { return fmt.Sprint(h.asked) }
func (h *helpAll) Type() string   { return "bool" }
func (h *helpAll) Set(text string) error {
	h.cmd.InitDefaultHelpFlag()
	if err := h.cmd.Flags().Lookup("help").Value.Set(text); err != nil {
		return err
	}
	h.asked = text == "true"
	return nil
}

// helpOf gives a command its help: --help-all beside --help.
func helpOf(cmd *cobra.Command) {
	cmd.Flags().VarPF(&helpAll{cmd: cmd}, helpAllFlag, "", "help with every setting").NoOptDefVal = "true"
	cmd.SetHelpFunc(showHelp)
}

// showHelp writes the help of a command.
func showHelp(cmd *cobra.Command, _ []string) {
	w := cmd.OutOrStdout()
	fmt.Fprintf(w, "%s\n\nUsage:\n", reflow(cmp.Or(cmd.Long, cmd.Short+".")))
	if cmd.Runnable() && !cmd.HasSubCommands() {
		fmt.Fprintf(w, "  %s\n", asCalled(cmd, cmd.UseLine()))
	} else {
		fmt.Fprintf(w, "  %s COMMAND [flags]\n", cmd.CommandPath())
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	showCommands(w, cmd)
	if cmd.HasSubCommands() {
		fmt.Fprintf(w, "\n%s COMMAND --help says more about a command.\n", cmd.CommandPath())
		return
	}
	all, _ := cmd.Flags().Lookup(helpAllFlag).Value.(*helpAll)
	if all != nil && all.asked {
		showSettings(w, everySetting(cmd))
		if cmd.Flags().Lookup(config.FileFlag) != nil {
			fmt.Fprintln(w,
				"\nA file of --config holds the same settings: docs/settings.md lists the key of each flag.")
		}
		return
	}
	groups, hidden := settingsTouched(cmd)
	showSettings(w, groups)
	if hidden {
		fmt.Fprintf(w, "\n%s --%s shows all %d settings, and says more about each.\n",
			asCalled(cmd, cmd.CommandPath()), helpAllFlag, len(settingsOf(cmd)))
	}
}

// showCommands lists the commands of a group, by their kind.
func showCommands(w io.Writer, cmd *cobra.Command) {
	kinds := []*cobra.Group{{Title: "Commands:"}}
	if named := cmd.Groups(); len(named) > 0 {
		kinds = append(slices.Clone(named), &cobra.Group{Title: "Help:"})
	}
	for _, kind := range kinds {
		title := "\n" + kind.Title
		for _, c := range cmd.Commands() {
			if c.GroupID != kind.ID || !c.IsAvailableCommand() && c.Name() != "help" {
				continue
			}
			if title != "" {
				fmt.Fprintln(w, title)
				title = ""
			}
			fmt.Fprintf(w, "  %-11s %s\n", c.Name(), c.Short)
		}
	}
}

// A row is a flag as the help shows it.
type row struct{ name, text string }

// A rowGroup is some rows with a title.
type rowGroup struct {
	title string
	rows  []row
}

// showSettings writes groups, all with the same columns.
func showSettings(w io.Writer, groups []rowGroup) {
	column := 0
	for _, g := range groups {
		for _, s := range g.rows {
			column = max(column, len(s.name))
		}
	}
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, s := range g.rows {
			text := strings.Join(terminal.Wrap(s.text, helpWidth-column-5), "\n"+strings.Repeat(" ", column+5))
			fmt.Fprintf(w, "  %-*s   %s\n", column, s.name, text)
		}
	}
}

// settingsOf lists the flags of a command, but for those that ask for help.
func settingsOf(cmd *cobra.Command) (flags []*pflag.Flag) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && f.Name != helpAllFlag && !f.Hidden {
			flags = append(flags, f)
		}
	})
	return flags
}

// settingsTouched are the settings that people touch, a line each, and whether --help-all has more
// to say.
func settingsTouched(cmd *cobra.Command) (groups []rowGroup, hidden bool) {
	all := settingsOf(cmd)
	shown := 0
	for _, g := range touchedBy(cmd) {
		var rows []row
		for _, f := range g.flags {
			text := oneLine(f)
			hidden = hidden || text != inFull(f)
			if text += onlyFor(f); !strings.Contains(text, "(default)") {
				text += standard(f.DefValue)
			}
			rows = append(rows, row{label(f), text})
		}
		groups, shown = append(groups, rowGroup{g.title, rows}), shown+len(rows)
	}
	return groups, hidden || shown < len(all)
}

// everySetting are all settings: first those that people touch, then the sections of a file, then
// what only some tasks have, under each of these.
func everySetting(cmd *cobra.Command) (groups []rowGroup) {
	add := func(title string, s row) {
		at := slices.IndexFunc(groups, func(g rowGroup) bool { return g.title == title })
		if at < 0 {
			at, groups = len(groups), append(groups, rowGroup{title: title})
		}
		groups[at].rows = append(groups[at].rows, s)
	}
	done := map[*pflag.Flag]bool{}
	for _, g := range touchedBy(cmd) {
		for _, f := range g.flags {
			if onlyFor(f) == "" {
				done[f] = true
				add(g.title, row{label(f), inFull(f) + standard(f.DefValue)})
			}
		}
	}
	rest := slices.DeleteFunc(settingsOf(cmd), func(f *pflag.Flag) bool { return done[f] })
	for _, f := range rest {
		if onlyFor(f) == "" {
			add(sectionTitle(f), row{label(f), inFull(f) + standard(f.DefValue)})
		}
	}
	for _, f := range rest {
		if onlyFor(f) == "" {
			continue
		}
		key, variants := config.Variants(f)
		for _, v := range variants {
			title := fmt.Sprintf("Only with --%s %s", flagOf(cmd, key), v.Option)
			add(title, row{label(f), withoutWords(f, v.Help) + standard(v.Default)})
		}
	}
	return groups
}

// sectionTitle is the title of the flags that are keys of one section of a file.
func sectionTitle(f *pflag.Flag) string {
	key := config.Key(f)
	if key == "" {
		return "This command line"
	}
	dot := strings.LastIndex(key, ".")
	if dot < 0 {
		return "More settings"
	}
	var words []string
	for part := range strings.SplitSeq(key[:dot], ".") {
		words = append(words, cmp.Or(sectionNames[part], part))
	}
	title := strings.Join(words, ", ")
	return fmt.Sprintf("%s%s (section %s of a file)", strings.ToUpper(title[:1]), title[1:], key[:dot])
}

// label is a flag with what it takes.
func label(f *pflag.Flag) string {
	text := "    --" + f.Name
	if f.Shorthand != "" {
		text = "-" + f.Shorthand + ", --" + f.Name
	}
	if f.NoOptDefVal != "" {
		return text
	}
	quoted, _ := pflag.UnquoteUsage(f)
	takes := shortOf(f).takes
	for _, kind := range []string{"folder", "file"} {
		if takes == "" && quoted == "string" && strings.HasPrefix(f.Usage, kind+" ") {
			takes = strings.ToUpper(kind)
		}
	}
	return text + " " + cmp.Or(takes, words(f), quoted)
}

// words are what a flag chooses from, as its label has them; "" where they are too long for it.
func words(f *pflag.Flag) string {
	if text := strings.Join(config.Choices(f), "|"); len(text) <= 16 {
		return text
	}
	return ""
}

// inFull is all that a flag's help says, but for its default.
func inFull(f *pflag.Flag) string {
	_, text := pflag.UnquoteUsage(f)
	return withoutWords(f, text)
}

// withoutWords is a help text without the words that the flag's label has.
func withoutWords(f *pflag.Flag, text string) string {
	if choices := " (" + strings.Join(config.Choices(f), ", ") + ")"; words(f) != "" {
		text = strings.Replace(text, choices, "", 1)
	}
	return text
}

// oneLine is the short help of a flag, but for its default: what the table has, or the first
// clause.
func oneLine(f *pflag.Flag) string {
	text := shortOf(f).text
	if text == "" {
		text, _, _ = strings.Cut(strings.TrimSuffix(inFull(f), onlyFor(f)), "; ")
		return text
	}
	return strings.Replace(text, "%s", strings.Replace(strings.Join(config.Choices(f), ", "), f.DefValue,
		f.DefValue+" (default)", 1), 1)
}

// shortOf is what the table says of a flag.
func shortOf(f *pflag.Flag) short {
	at := slices.IndexFunc(shorts, func(s short) bool { return strings.HasPrefix(f.Usage, s.long) })
	if at < 0 {
		return short{}
	}
	return shorts[at]
}

// standard is a flag's default in brackets; "" where that is nothing.
func standard(text string) string {
	switch text {
	case "", "0", "false", "[]", "0x0x0", "0x0":
		return ""
	}
	return " (default " + text + ")"
}

// onlyFor says which options have a flag, where not all have it.
func onlyFor(f *pflag.Flag) string {
	if at := strings.LastIndex(f.Usage, " ["); at >= 0 && strings.HasSuffix(f.Usage, "]") {
		if _, variants := config.Variants(f); variants != nil {
			return f.Usage[at:]
		}
	}
	return ""
}

// flagOf is the flag that stands for a key of a file.
func flagOf(cmd *cobra.Command, key string) (name string) {
	for _, f := range settingsOf(cmd) {
		if config.Key(f) == key {
			return f.Name
		}
	}
	return key
}

// A flagGroup is some flags with a title.
type flagGroup struct {
	title string
	flags []*pflag.Flag
}

// touchedBy are the flags of a command that people touch: those of the table, or all of a command
// that is not in it, but for how the machine computes.
func touchedBy(cmd *cobra.Command) (groups []flagGroup) {
	_, path, _ := strings.Cut(cmd.CommandPath(), " ")
	for line := range strings.Lines(strings.TrimSpace(touched[path])) {
		title, names, _ := strings.Cut(line, ":")
		g := flagGroup{title: title}
		for name := range strings.FieldsSeq(names) {
			f := cmd.Flags().Lookup(name)
			if f == nil {
				panic(fmt.Sprintf("help: %s has no flag --%s", path, name))
			}
			g.flags = append(g.flags, f)
		}
		groups = append(groups, g)
	}
	if groups != nil {
		return groups
	}
	g := flagGroup{title: "Flags"}
	for _, f := range append(settingsOf(cmd), cmd.Flags().Lookup(config.FileFlag)) {
		key := config.Key(f)
		last := len(g.flags) > 0 && f.Name == config.FileFlag
		if (f.Name != config.FileFlag || last) && (!strings.HasPrefix(key, "machine.") || key == "machine.device") {
			g.flags = append(g.flags, f)
		}
	}
	return append(groups, g)
}

// reflow wraps the paragraphs of a text, but for those with indented lines.
func reflow(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for n, p := range paragraphs {
		if !strings.Contains("\n"+p, "\n ") {
			paragraphs[n] = strings.Join(terminal.Wrap(strings.ReplaceAll(p, "\n", " "), helpWidth), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}
