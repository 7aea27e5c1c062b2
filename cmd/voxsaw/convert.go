package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/vnet"
)

type convertOptions struct {
	To  string `yaml:"to" help:"program whose names the weights get" oneof:"monai"`
	Out string `yaml:"out" help:"safetensors file to write"`
}

func newConvert() *cobra.Command {
	o := &convertOptions{To: "monai"}
	return verb("convert CHECKPOINT", "Write a checkpoint's weights for MONAI",
		`Writes the weights of a checkpoint of voxsaw finetune to a safetensors file with the names of another program. Of a run with a moving average,
that is what is written, as predictions use it. monai: monai.networks.nets.VNet, for networks of --preset monai --norm batch;
load_state_dict(safetensors.torch.load_file(FILE), strict=True) takes it. PyTorch's counts of batches are left out, which it fills with zeros.`,
		`  voxsaw convert runs/organs --to monai --out vnet.safetensors`,
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error {
			if o.Out == "" {
				return withHint(usagef("nowhere to write"), "add --out FILE")
			}
			var err error
			if args[0], err = checkpointOf(cmd.ErrOrStderr(), args[0]); err != nil {
				return err
			}
			if from, err := os.Stat(args[0]); err == nil {
				if to, err := os.Stat(o.Out); err == nil && os.SameFile(from, to) {
					return usagef("%s is the checkpoint itself, which would be lost", o.Out)
				}
			}
			var n voxsaw.Network
			err = place(o.Out, func() (err error) {
				n, err = vnet.ToMONAI(args[0], o.Out)
				return err
			})
			if err != nil {
				return err
			}
			if n.Channels != 16 {
				fmt.Fprintf(cmd.ErrOrStderr(),
					"MONAI's VNet has 16 channels, this one has %d: its blocks take them, VNet itself does not\n",
					n.Channels)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "for VNet(spatial_dims=3, in_channels=1, out_channels=%d, act=%q)\n",
				n.Classes, n.Activation)
			_, err = fmt.Fprintln(cmd.OutOrStdout(), o.Out)
			return err
		})
}
