package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/puzzle2d"
)

type photoConvertOptions struct {
	Out     string           `yaml:"out" help:"safetensors file to write"`
	Network puzzle2d.Network `yaml:"network"`
	Patch   int              `yaml:"patch" help:"width and height of what the network looks at, which fc6 of AlexNet depends on: 64 in the context-free network" range:"[1,)"`
	JSON    bool             `yaml:"json" help:"print the report as JSON"`
	Machine deviceOptions    `yaml:"machine"`
}

func newPhotoConvert() *cobra.Command {
	o := &photoConvertOptions{Network: puzzle2d.DefaultConfig().Network, Patch: 64, Machine: defaultDevice()}
	return verb("convert FILE", "PyTorch's weights of a network on photographs to a checkpoint, and back",
		`Of a checkpoint it writes the network's weights as PyTorch has them: torchvision's resnet18 and resnet50 of --width 1 load the file with
load_state_dict(safetensors.torch.load_file(FILE), strict=False), which leaves what the file has not, such as fc, as it is.

Of a safetensors file of PyTorch's it makes a checkpoint of --backbone and --width: torchvision's names for a ResNet; for alexnet those of Caffe's layers
(conv1 to conv5, fc6) or of the context-free network in PyTorch. In Python: safetensors.torch.save_file(model.state_dict(), FILE). What was loaded, what was
not and why is told. The other commands take such a file as it is, too, with --checkpoint and --backbone.`,
		`  voxsaw 2d convert runs/photos --out resnet18_jigsaw.safetensors
  voxsaw 2d convert resnet50_torchvision.safetensors --backbone resnet50 --out resnet50.safetensors`,
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error {
			path, err := checkpointOf(cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if err := checkConvertOut(path, o.Out); err != nil {
				return err
			}
			source, err := puzzle2d.ReadSource(path, o.Network)
			if err != nil {
				return err
			}
			if !source.PyTorch {
				return toPyTorch(cmd, path, *o)
			}
			return fromPyTorch(cmd, path, *o)
		})
}

// checkConvertOut says whether a conversion may be written to a file.
func checkConvertOut(from, out string) error {
	if out == "" {
		return withHint(usagef("nowhere to write"), "add --out FILE")
	}
	if a, err := os.Stat(from); err == nil {
		if b, err := os.Stat(out); err == nil && os.SameFile(a, b) {
			return usagef("%s is the file itself, which would be lost", out)
		}
	}
	return nil
}

func toPyTorch(cmd *cobra.Command, path string, o photoConvertOptions) error {
	n, left, err := puzzle2d.ToPyTorch(path, o.Out)
	if err != nil {
		return err
	}
	if o.JSON {
		return printJSON(cmd.OutOrStdout(), map[string]any{"out": o.Out, "backbone": n.Backbone, "width": n.Width,
			"left_out": append([]string{}, left...)})
	}
	say(cmd.ErrOrStderr(), "%s of width %v, with PyTorch's names", n.Backbone, n.Width)
	if len(left) > 0 {
		say(cmd.ErrOrStderr(), "left out, because PyTorch's network has no such layer: %s", list(left))
	}
	_, err = fmt.Fprintln(cmd.OutOrStdout(), o.Out)
	return err
}

func fromPyTorch(cmd *cobra.Command, path string, o photoConvertOptions) error {
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	loaded, err := puzzle2d.FromPyTorch(dev, path, o.Out, o.Network, o.Patch)
	if err != nil {
		return err
	}
	if o.JSON {
		skipped := map[string]string{}
		for _, s := range loaded.Skipped {
			skipped[s.Name] = s.Reason
		}
		return printJSON(cmd.OutOrStdout(), map[string]any{
			"out": o.Out, "backbone": o.Network.Backbone, "width": o.Network.Width, "loaded": loaded.Loaded,
			"skipped": skipped, "missing": append([]string{}, loaded.Missing...),
		})
	}
	say(cmd.ErrOrStderr(), "%v", loaded)
	_, err = fmt.Fprintln(cmd.OutOrStdout(), o.Out)
	return err
}
