package pretext

import (
	"fmt"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
)

// A Model is the settings of a task as [Restore] needs them.
type Model interface {
	// Check says what is wrong with the settings.
	Check() error
}

// Restore reads a checkpoint of a task: its settings into m, a pointer to a struct that holds the
// defaults, and its weights into parameters, which the caller closes. Errors name the file.
func Restore(dev voxsaw.Device, path, task string, m Model,
	declare func(*nn.Params) error) (device.Device, *nn.Params, error) {
	d, err := device.From(dev)
	if err != nil {
		return nil, nil, err
	}
	use := fmt.Sprintf("this takes one of kind %s, as voxsaw pretrain --task %s makes it", task, task)
	description, err := checkpoint.ReadKind(path, use, task)
	if err != nil {
		return nil, nil, err
	}
	if err := description.Parse(m); err != nil {
		return nil, nil, err
	}
	if err := m.Check(); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	params := nn.NewParams(d, 0) // every initial weight is replaced
	if err = declare(params); err == nil {
		_, err = checkpoint.LoadAll(path, params,
			func(string) string { return "it is not a checkpoint of this network" })
	}
	if err != nil {
		params.Close()
		return nil, nil, err
	}
	return d, params, nil
}
