package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/hint"
)

// flagMistake says in a user's words what is wrong with a flag.
func flagMistake(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // the verb is wrong, and the flags are its
		return verbMistake(cmd, cmd.Flags().Args())
	}
	var unknown *pflag.NotExistError
	var value *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		name := unknown.GetSpecifiedName()
		if letters := unknown.GetSpecifiedShortnames(); letters != "" { // -o, or -out with one dash
			name = letters
		}
		if _, wanted, _ := strings.Cut(cmd.Use, " "); wanted != "" && slices.Contains(inputs, strings.ToLower(name)) {
			return withHint(&usageError{err}, "name it without a flag: %s %s", cmd.CommandPath(), wanted)
		}
		if name == "hours" && cmd.Name() == "crossval" {
			return withHint(&usageError{err}, "voxsaw plan PREPARED --hours H --out plan.yaml plans each training for "+
				"so long, and %s --config plan.yaml takes it", cmd.CommandPath())
		}
		if near := meant(name, flagNames(cmd)); len(near) > 0 {
			err = fmt.Errorf("%w: did you mean --%s?", err, strings.Join(near, " or --"))
		}
	case errors.As(err, &value):
		name, given := value.GetFlag().Name, value.GetValue()
		err = fmt.Errorf("--%s %s: %w", name, given, errors.Unwrap(value))
		if ours := devices[strings.ToLower(given)]; ours != "" && name == "device" {
			err = fmt.Errorf("--device %s: unknown value: did you mean %q?", given, ours)
		}
	}
	return withHint(&usageError{err}, "run %s --help for the flags and an example", cmd.CommandPath())
}

// fileMistake says of a configuration file that cannot be read as this command's whose it is
// instead, or which commands know a key that this one does not.
func fileMistake(cmd *cobra.Command, err error) error {
	file := cmd.Flags().Lookup(config.FileFlag)
	if file == nil || !file.Changed {
		return &usageError{err}
	}
	path := file.Value.String()
	// a pipe has been read
	if info, statErr := os.Stat(path); statErr != nil || !info.Mode().IsRegular() {
		return &usageError{err}
	}
	var unknown *config.UnknownKeyError
	isKey := errors.As(err, &unknown)
	var whole, some []string // of these, the commands that know the most keys of the file
	keys, most := config.Keys(path), 0
	eachCommand(newRoot(), func(c *cobra.Command) {
		switch {
		case c.Flags().Lookup(config.FileFlag) == nil:
		case config.TryRead(c.Flags(), section(c), path) == nil:
			whole = append(whole, c.CommandPath())
		case isKey && config.Has(c.Flags(), unknown.Key):
			count := 0
			for _, key := range keys {
				if config.Has(c.Flags(), key) {
					count++
				}
			}
			if count > most {
				some, most = nil, count
			}
			if count == most {
				some = append(some, c.CommandPath())
			}
		}
	})
	switch {
	case slices.Contains(whole, cmd.CommandPath()): // it is not the file that is wrong
	case len(whole) > 0:
		return withHint(&usageError{err}, "it can be read as a file of %s", list(whole))
	case len(some) > 0:
		return withHint(&usageError{err}, "%q is a key of %s", unknown.Key, list(some))
	}
	return &usageError{err}
}

// whence names the file that impossible settings come from, if there is one, and the flags beside
// it.
func whence(cmd *cobra.Command, err error) error {
	wrong, is := errors.AsType[*config.Mistake](err)
	if !is {
		return err
	}
	from := wrong.From
	if file := cmd.Flags().Lookup(config.FileFlag); from == "" && file != nil && file.Changed {
		from = file.Value.String()
	}
	if from = cmp.Or(from, resumed(cmd)); from == "" {
		return err
	}
	of := from
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		key := config.Key(f)
		about := key != "" && !strings.HasPrefix(key, "machine.") &&
			!slices.Contains([]string{"data", "init", "json", "memory", "out", "teacher"}, key)
		if f.Changed && about {
			if from == of {
				from += " with"
			}
			from += fmt.Sprintf(" --%s %v", f.Name, f.Value)
		}
	})
	return fmt.Errorf("%s: %w", from, err)
}

// elsewhere is what MONAI, nnU-Net and PyTorch's scripts call what a flag is for. A command takes
// the first flag that it has.
var elsewhere = map[string]string{
	"epoch": "steps", "epochs": "steps", "max-epochs": "steps", "num-epochs": "steps", "iterations": "steps",
	"max-iterations": "steps", "num-steps": "steps",
	"learning-rate": "lr", "batch-size": "batch", "roi-size": "window crop", "patch-size": "crop window",
	"output": "out", "output-dir": "out", "o": "out",
	"input": "data", "i": "data", "num-workers": "loaders", "weights": "init checkpoint", "model": "checkpoint init",
	"ckpt": "checkpoint init", "folds": "fold", "pretrained": "init checkpoint",
	"pretrained-weights": "init checkpoint",
	"pretext":            "task", "pretext-task": "task", "gpu": "device", "gpus": "device", "pixdim": "spacing",
	"spatial-size": "crop window", "val-interval": "validate-every", "sw-batch-size": "batch", "amp": "precision",
}

// inputs are what others call the flag for what our commands take without a flag.
var inputs = []string{"data", "input", "i", "in", "images", "image", "scans", "folder", "dir", "predictions"}

// devices is what PyTorch's scripts call a device.
var devices = map[string]string{"gpu": "cuda", "cuda:0": "cuda", "0": "cuda", "nvidia": "cuda"}

// meant lists the flags that somebody may have meant who wrote a name.
func meant(name string, flags []string) []string {
	name = strings.ReplaceAll(name, "_", "-")
	if slices.Contains(flags, name) {
		return []string{name}
	}
	for _, ours := range strings.Fields(elsewhere[strings.ToLower(name)]) {
		if slices.Contains(flags, ours) {
			return []string{ours}
		}
	}
	if len(name) == 1 {
		return nil // one letter is near to nothing
	}
	return config.Nearest(name, flags)
}

// flagNames lists the flags of a command.
func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// verbMistake says that a group of commands has none of the first argument's name; nil if there are
// no arguments.
func verbMistake(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	err := fmt.Errorf("there is no command %q", args[0])
	if near := meantVerbs(args[0], names); len(near) > 0 {
		err = fmt.Errorf("%w: did you mean %s?", err, strings.Join(near, " or "))
	}
	return withHint(&usageError{err}, "run %s --help for the list", cmd.CommandPath())
}

// helpOnVerbs makes voxsaw help refuse the name of no command, as voxsaw itself does.
func helpOnVerbs(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	help, _, err := root.Find([]string{"help"})
	if err != nil || help == root {
		return
	}
	help.RunE = func(_ *cobra.Command, args []string) error {
		found, rest, err := root.Find(args)
		if err != nil {
			return err
		}
		if err := verbMistake(found, rest); err != nil {
			return err
		}
		found.InitDefaultHelpFlag()
		return found.Help()
	}
}

// verbsElsewhere is what nnU-Net's commands, MONAI's bundles and many scripts call what a command
// is for. Of nnU-Net's, the first word after nnUNetv2_ counts.
var verbsElsewhere = map[string][]string{
	"train": {"pretrain", "finetune"}, "fit": {"pretrain", "finetune"}, "training": {"pretrain", "finetune"},
	"infer": {"predict"}, "inference": {"predict"}, "segment": {"predict"}, "apply": {"predict"},
	"ensemble":   {"predict"},
	"preprocess": {"prepare"}, "plan_and_preprocess": {"plan", "prepare"}, "plan_experiment": {"plan"},
	"convert-dataset": {"prepare"}, "convert_dataset": {"prepare"}, "convert_msd_dataset": {"prepare"},
	"import":              {"prepare"},
	"extract_fingerprint": {"inspect"}, "analyze": {"inspect"}, "info": {"inspect"}, "benchmark": {"bench"},
	"eval": {"evaluate"}, "test": {"evaluate"}, "validate": {"evaluate"}, "score": {"evaluate"},
	"metrics":         {"evaluate"},
	"evaluate_folder": {"evaluate"}, "evaluate_simple": {"evaluate"},
	"find_best_configuration": {"crossval"}, "cross-validate": {"crossval"}, "cv": {"crossval"},
	"plot": {"report"},
}

// meantVerbs lists the commands that somebody may have meant who wrote a word.
func meantVerbs(word string, names []string) []string {
	lower := strings.ToLower(word)
	for _, prefix := range []string{"nnunetv2_", "nnunet_"} {
		lower = strings.TrimPrefix(lower, prefix)
	}
	ours := slices.DeleteFunc(slices.Clone(verbsElsewhere[lower]),
		func(verb string) bool { return !slices.Contains(names, verb) })
	switch {
	case len(ours) > 0:
		return ours
	case slices.Contains(names, lower):
		return []string{lower}
	}
	return config.Nearest(lower, names)
}

// bareFlag says that one of the arguments is a flag without its dashes, or the value of --device,
// where no file or folder is called so; nil otherwise.
func bareFlag(cmd *cobra.Command, args []string) error {
	for n, arg := range args {
		name, value, both := strings.Cut(arg, "=")
		if _, err := os.Lstat(arg); err == nil || both && strings.Contains(cmd.Use, "NAME=") {
			continue
		}
		if kind := cmp.Or(devices[strings.ToLower(arg)], arg); kind == "cpu" || kind == "cuda" {
			name, value, both = "device", kind, true
		}
		flag := cmd.Flags().Lookup(strings.ReplaceAll(name, "_", "-"))
		if flag == nil {
			continue
		}
		given := "--" + flag.Name
		switch {
		case both:
			given += " " + hint.Word(value)
		case flag.NoOptDefVal == "" && n+1 < len(args):
			given += " " + hint.Word(args[n+1])
		}
		return withHint(usagef("%s was given %q, and there is no file or folder of that name", cmd.CommandPath(), arg),
			"flags begin with two dashes: %s", given)
	}
	return nil
}

// argumentMistake says that a command was given too many arguments or too few.
func argumentMistake(cmd *cobra.Command, args []string) error {
	_, wanted, _ := strings.Cut(cmd.Use, " ")
	var err error
	switch n := len(strings.Fields(wanted)); {
	case n == 0:
		err = fmt.Errorf("%s takes flags alone, and was given %q", cmd.CommandPath(), args[0])
		if resume := cmd.Flags().Lookup("resume"); resume != nil && resume.Changed {
			return withHint(&usageError{err}, "--resume takes no value, --out names the run: %s --resume --out %s",
				cmd.CommandPath(), hint.Word(args[0]))
		}
		if cmd.Flags().Lookup("data") != nil {
			return withHint(&usageError{err}, "prepared cases are named with --data: %s --data %s", cmd.CommandPath(),
				hint.Word(args[0]))
		}
	case len(args) > n:
		err = fmt.Errorf("%s takes %s and nothing more, and was given %q, too", cmd.CommandPath(), wanted, args[n])
	case len(args) == 0:
		err = fmt.Errorf("%s takes %s, and was given none", cmd.CommandPath(), wanted)
	default:
		err = fmt.Errorf("%s takes %s, and was given %q alone", cmd.CommandPath(), wanted, strings.Join(args, " "))
	}
	return withHint(&usageError{err}, "run %s --help for an example", cmd.CommandPath())
}
