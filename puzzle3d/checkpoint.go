package puzzle3d

import (
	"fmt"

	"github.com/goccy/go-yaml"

	"github.com/voxsaw/voxsaw/internal/train"
)

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
