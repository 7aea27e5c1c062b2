package checkpoint

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml"

	"github.com/voxsaw/voxsaw/internal/config"
)

// Format 1 had no version. Its metadata hold, each under a key of its own, what a description says;
// the configuration of the whole command stands for the settings of the task. `cases` is there a
// selection in one command and a list of names in another, and a mistyped key was passed over.

// ErrForeign is wrapped by the error for a safetensors file without a description: most likely
// another program's weights.
var ErrForeign = errors.New("not a checkpoint of this program")

// oldKinds are the kinds of format 1 and what they are called now.
var oldKinds = map[string]string{"pretrain": "jigsaw", "finetune": Segmentation}

// Kind is the kind that a checkpoint or a run calls itself, by today's name.
func Kind(name string) string {
	if now, old := oldKinds[name]; old {
		return now
	}
	return name
}

// oldRunKeys are the keys of format 1 that belong to the command and not to the task.
var oldRunKeys = []string{"data", "cases", "held", "test", "trained_on", "machine", "init", "inference", "metrics"}

// migrate reads the metadata of format 1.
func migrate(path string, meta map[string]string) (Description, error) {
	d := Description{Kind: oldKinds[meta["kind"]], Run: meta["config"], Version: meta["version"],
		Device: meta["device"], Fingerprint: meta["fingerprint"], path: path}
	if d.Kind == "" {
		return d, fmt.Errorf("%s: %w: its metadata have no kind: voxsaw did not write it", path, ErrForeign)
	}
	for _, number := range []struct {
		key string
		to  *int
	}{{"step", &d.Step}, {"validated", &d.Validated}, {"best_step", &d.BestStep}} {
		n, err := strconv.Atoi(meta[number.key])
		if err != nil || n < 0 {
			return d, fmt.Errorf("%s: not a checkpoint of this program: its metadata has no usable %q",
				path, number.key)
		}
		*number.to = n
	}
	var err error
	if d.Best, err = strconv.ParseFloat(meta["best"], 64); err != nil {
		return d, fmt.Errorf("%s: not a checkpoint of this program: its metadata has no usable \"best\"", path)
	}
	if d.Settings, d.TrainedOn, err = splitOld(meta["config"]); err != nil {
		return d, fmt.Errorf("%s: configuration: %w", path, err)
	}
	return d, nil
}

// splitOld takes the task's settings out of a configuration of format 1, and the names of the cases
// that were trained on.
func splitOld(text string) (settings string, trainedOn []string, err error) {
	var all yaml.MapSlice
	if err := config.Unmarshal("configuration", []byte(text), &all); err != nil {
		return "", nil, err
	}
	if len(all) == 0 {
		return "", nil, errors.New("it is empty")
	}
	for _, item := range all { // an experiment lists the cases, a command says how to select them
		names, isList := item.Value.([]any)
		if item.Key != "trained_on" && item.Key != "cases" || !isList {
			continue
		}
		trainedOn = []string{}
		for _, name := range names {
			trainedOn = append(trainedOn, fmt.Sprint(name))
		}
	}
	all = slices.DeleteFunc(
		all,
		func(item yaml.MapItem) bool { return slices.Contains(oldRunKeys, fmt.Sprint(item.Key)) },
	)
	out, err := yaml.Marshal(all)
	return string(out), trainedOn, err
}
