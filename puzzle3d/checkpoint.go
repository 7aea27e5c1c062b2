package puzzle3d

import (
	"fmt"

	"github.com/goccy/go-yaml"

	"github.com/voxsaw/voxsaw/internal/train"
)

// TrainedOn lists the cases that a pretraining checkpoint was trained on, as far as the
// configuration in it says: under trained_on, or in a list under cases, as an experiment writes it.
// It is empty if the checkpoint does not say, or is of another kind.
func TrainedOn(checkpoint string) ([]string, error) {
	meta, err := train.ReadMeta(checkpoint)
	if err != nil || meta.Kind != Kind {
		return nil, err
	}
	var c struct {
		TrainedOn []string `yaml:"trained_on"`
		Cases     any      `yaml:"cases"`
	}
	if err := yaml.Unmarshal([]byte(meta.Config), &c); err != nil {
		return nil, fmt.Errorf("%s: configuration: %w", checkpoint, err)
	}
	if ids, isList := c.Cases.([]any); isList && len(c.TrainedOn) == 0 {
		for _, id := range ids {
			c.TrainedOn = append(c.TrainedOn, fmt.Sprint(id))
		}
	}
	return c.TrainedOn, nil
}

// ReadConfig reads the configuration that a pretraining checkpoint was made with.
func ReadConfig(checkpoint string) (Config, error) {
	c := DefaultConfig()
	meta, err := train.ReadMeta(checkpoint)
	if err != nil {
		return c, err
	}
	if meta.Kind != Kind {
		return c, fmt.Errorf("%s is a checkpoint of kind %q: puzzles are solved with one of kind %q, as voxsaw pretrain makes it", checkpoint, meta.Kind, Kind)
	}
	if err := yaml.Unmarshal([]byte(meta.Config), &c); err != nil {
		return c, fmt.Errorf("%s: configuration: %w", checkpoint, err)
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("%s: configuration: %w", checkpoint, err)
	}
	return c, nil
}
