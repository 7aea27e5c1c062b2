package cli

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/volume/dataset"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// completeFlags lets the shell complete the values of a command's flags: words to choose from, the
// names of prepared cases, folders of runs.
func completeFlags(cmd *cobra.Command) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		complete := valuesOf(f)
		if complete == nil {
			return
		}
		if err := cmd.RegisterFlagCompletionFunc(f.Name, complete); err != nil {
			panic(err) // two completions of one flag
		}
	})
}

// valuesOf is how a flag's values are completed; nil: as the shell does it.
func valuesOf(f *pflag.Flag) cobra.CompletionFunc {
	words := config.Choices(f)
	switch key := config.Key(f); key[strings.LastIndex(key, ".")+1:] {
	case "kind":
		words = backbone.Kinds()
	case "norm":
		words = []string{backbone.NormNone, backbone.NormInstance, backbone.NormBatch, backbone.NormGroup}
	case "preset":
		words = []string{"paper", "caffe", "monai"}
	case "layout":
		words = []string{dataset.LayoutNIH, dataset.LayoutMSD, dataset.LayoutNNUNet, dataset.LayoutScans}
	case "cases":
		return completeCases
	case "labels":
		return completeLabels
	case "checkpoint", "init":
		return completeRuns
	}
	if len(words) == 0 {
		return nil
	}
	return cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)
}

// completeCases offers the cases of the folder that --data names, each once.
func completeCases(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	return completeFrom(cmd, typed, func(c prepared.Record) []string { return []string{c.ID} })
}

// completeLabels offers the names of the labels in the folder that --data names, each once; the
// numbers of labels without names.
func completeLabels(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	if cmd.Flags().Lookup("data") == nil { // labels are files here
		return nil, cobra.ShellCompDirectiveDefault
	}
	return completeFrom(cmd, typed, func(c prepared.Record) (names []string) {
		for _, label := range slices.Sorted(maps.Keys(c.LabelCounts)) {
			names = append(names, cmp.Or(c.LabelNames[label], strconv.Itoa(int(label))))
		}
		return names
	})
}

// completeFrom completes a list of names that the prepared cases of --data have.
func completeFrom(cmd *cobra.Command, typed string, has func(prepared.Record) []string) ([]string,
	cobra.ShellCompDirective) {
	data := cmd.Flags().Lookup("data")
	if data == nil || data.Value.String() == "" {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	store, err := prepared.Open(data.Value.String())
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	defer store.Close()
	before := typed[:strings.LastIndex(typed, ",")+1] // of a list
	var offered []string
	seen := map[string]bool{}
	for c := range store.Records() {
		for _, word := range has(c) {
			if !seen[word] && !strings.Contains(","+before, ","+word+",") {
				seen[word] = true
				offered = append(offered, before+word)
			}
		}
	}
	return offered, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

// completeRuns offers the folders of runs here, two levels deep, before files.
func completeRuns(_ *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
	var runs []string
	base := filepath.Dir(typed + "x") // the folder of what is typed
	for _, pattern := range []string{"*", filepath.Join("*", "*")} {
		// a pattern that is wrong matches nothing
		found, _ := filepath.Glob(filepath.Join(base, pattern))
		for _, folder := range found {
			if _, err := os.Stat(train.Last(folder)); err == nil {
				runs = append(runs, folder)
			}
		}
	}
	return runs, cobra.ShellCompDirectiveDefault
}
