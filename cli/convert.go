package cli

import (
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/device/cpu"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/unet"
	"github.com/voxsaw/voxsaw/segment"
	"github.com/voxsaw/voxsaw/vnet"
	"github.com/voxsaw/voxsaw/volume"
)

type convertOptions struct {
	To   string `yaml:"to" help:"what the weights are for" oneof:"monai nnunet nnunet-pretrained"`
	Out  string `yaml:"out" help:"file to write; nnunet: folder to write"`
	Fold int    `yaml:"fold" help:"nnunet: which fold_N of the folder; further folds go beside those of the same plans and labels"`
}

// What weights are converted to.
const (
	toMONAI      = "monai"
	toNNUNet     = "nnunet"
	toPretrained = "nnunet-pretrained"
)

func newConvert() *cobra.Command {
	o := &convertOptions{To: toMONAI}
	return verb("convert CHECKPOINT", "Write a checkpoint's weights for MONAI or nnU-Net",
		`Writes the weights of a checkpoint in the files of another program. Of a run with a moving average,
that is what is written, as predictions use it.

monai: a safetensors file for monai.networks.nets.VNet, of networks of --preset monai --norm batch;
load_state_dict(safetensors.torch.load_file(FILE), strict=True) takes it. PyTorch's counts of batches are
left out, which it fills with zeros.

nnunet: a folder of nnUNet_results, which nnUNetv2_predict runs, of networks that nnU-Net planned
(finetune --plans) and of --network resenc. Scans must have been prepared as nnU-Net can prepare them;
what it does in another way is told.

nnunet-pretrained: one file of such a network, pretrained or fine-tuned, for nnUNetv2_train
-pretrained_weights and for nnUNetv2_train_pretrained.`,
		`  voxsaw convert runs/organs --to monai --out vnet.safetensors
  voxsaw convert runs/organs --to nnunet --out nnUNet_results/Dataset001_Organs/nnUNetTrainer__nnUNetPlans__3d_fullres
  voxsaw convert runs/puzzles --to nnunet-pretrained --out puzzles.pth`,
		cobra.ExactArgs(1), o, func(cmd *cobra.Command, args []string) error {
			if o.Out == "" {
				return withHint(usagef("nowhere to write"), "add --out FILE, or with --to nnunet a folder")
			}
			path, err := checkpointOf(cmd.ErrOrStderr(), args[0])
			if err != nil {
				return err
			}
			if err := checkConvertOut(path, o.Out); err != nil {
				return err
			}
			if o.Fold < 0 || o.Fold > 0 && o.To != toNNUNet {
				return withHint(usagef("--fold %d with --to %s", o.Fold, o.To),
					"--fold is for --to nnunet, a number from 0 on")
			}
			write := map[string]func(*cobra.Command, string, string) error{
				toMONAI: convertToMONAI, toPretrained: convertToPretrained,
				toNNUNet: func(cmd *cobra.Command, path, out string) error {
					return convertToNNUNet(cmd, path, out, o.Fold)
				},
			}[o.To]
			if err := write(cmd, path, o.Out); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), o.Out)
			return err
		})
}

func convertToMONAI(cmd *cobra.Command, path, out string) error {
	var n voxsaw.Network
	err := place(out, func() (err error) {
		n, err = vnet.ToMONAI(path, out)
		return err
	})
	if err != nil {
		return err
	}
	if n.Channels != 16 {
		fmt.Fprintf(cmd.ErrOrStderr(),
			"MONAI's VNet has 16 channels, this one has %d: its blocks take them, VNet itself does not\n", n.Channels)
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "for "+ofMONAI(n))
	return nil
}

// ofMONAI is how MONAI makes a network.
func ofMONAI(n voxsaw.Network) string {
	return fmt.Sprintf("VNet(spatial_dims=3, in_channels=%d, out_channels=%d, act=%q)", n.InputChannels(), n.Classes,
		n.Activation)
}

// plannedOf reads what a checkpoint's network and scans are in nnU-Net's words.
func plannedOf(path string, d checkpoint.Description) (s unet.Settings, how volume.Preparation, err error) {
	n, err := d.Network()
	if err != nil {
		return s, how, err
	}
	b, err := backbone.Of(n)
	if err != nil {
		return s, how, fmt.Errorf("%s: %w", path, err)
	}
	p, ok := b.(unet.Planned)
	if !ok {
		return s, how, withHint(usagef("%s holds a %s, which nnU-Net does not have", path, b.Describe()),
			"its networks are trained by --plans plans.json and --network resenc")
	}
	if s, err = p.Planned(); err != nil {
		return s, how, fmt.Errorf("%s holds a %s, which nnU-Net does not have: %w", path, b.Describe(), err)
	}
	how, err = d.Preparation()
	return s, how, err
}

// loadPlanned makes the parameters of nnU-Net's network, and gives those that it wants of the
// checkpoint. Of these all must be there; others keep their first values, and are returned.
func loadPlanned(dev device.Device, path string, s unet.Settings, wanted func(name string) bool) (params *nn.Params,
	first []string, err error) {
	const seed = 1 // the same checkpoint gives the same file
	if params, err = nnunet.Parameters(dev, s, seed); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	loaded, err := checkpoint.Load(path, params)
	for _, name := range loaded.Missing {
		if wanted(name) && err == nil {
			err = fmt.Errorf("%s has no %s: it has not all weights of its network", path, name)
		}
	}
	if err != nil {
		params.Close()
		return nil, nil, err
	}
	return params, loaded.Missing, nil
}

func convertToNNUNet(cmd *cobra.Command, path, out string, fold int) error {
	d, err := checkpoint.ReadKind(path, "nnU-Net predicts with a whole network, as voxsaw finetune makes it; "+
		"--to "+toPretrained+" is for others", checkpoint.Segmentation)
	if err != nil {
		return err
	}
	s, how, err := plannedOf(path, d)
	if err != nil {
		return err
	}
	c := segment.DefaultConfig()
	if err := d.Parse(&c); err != nil {
		return err
	}
	plan, others, err := nnunet.PlanLike(how, c.Crop, s)
	if err != nil {
		return withHint(fmt.Errorf("%s: %w", path, err),
			"voxsaw prepare --plans plans.json prepares scans as nnU-Net does: train on such ones")
	}
	r := nnunet.Results{Plan: plan, Labels: c.Names, Channels: how.ChannelNames(), Cases: len(d.TrainedOn),
		Fold: fold}
	if how.Channels == "" {
		r.Channels = []string{how.ModalityName()}
	}
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Close()
	last := fmt.Sprintf("decoder.seg_layers.%d.", len(s.Features)-2)
	r.Params, _, err = loadPlanned(dev, path, s,
		func(name string) bool { return !nnunet.IsHead(name) || strings.HasPrefix(name, last) })
	if err != nil {
		return err
	}
	defer r.Params.Close()
	release, err := outdir.Owner{Name: "voxsaw convert", Files: r.Files()}.Hold(out)
	if err != nil {
		return err
	}
	defer release()
	if err := r.Write(out); err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	var least [3]float64 // mm
	for a, n := range c.Crop {
		least[a] = math.Ceil(float64(n) * how.Spacing[a])
	}
	others = append(others, fmt.Sprintf("a scan of less than %gx%gx%g mm, the window, is padded by 0 in nnU-Net, and "+
		"by air in voxsaw predict: much of its label map may differ",
		least[0], least[1], least[2]))
	for _, other := range append(others, otherLabels(c, d.Largest)...) {
		say(stderr, "WARNING: %s", other)
	}
	say(stderr, "WARNING: nnU-Net's label maps have other borders than those of voxsaw predict with the "+
		"checkpoint: it averages logits, and resamples in its own way; voxsaw predict --checkpoint %s makes the "+
		"label maps of nnU-Net, to see them first", hint.Word(out))
	say(stderr, "nnUNetv2_predict_from_modelfolder -m %s -f %d predicts with it; nnUNetv2_predict, where its folder "+
		"is nnUNet_results/DatasetXXX_NAME/nnUNetTrainer__PLANS__CONFIGURATION", out, fold)
	return nil
}

// otherLabels says where label maps of nnU-Net have other labels than those of voxsaw predict.
func otherLabels(c segment.Config, largest string) (lines []string) {
	var renumbered []string
	for n, label := range c.Labels {
		if first, _, _ := strings.Cut(label, "+"); first != fmt.Sprint(n+1) {
			renumbered = append(renumbered, fmt.Sprintf("%s becomes %d", first, n+1))
		}
	}
	if len(renumbered) > 0 {
		lines = append(lines, "nnU-Net numbers labels from 1 on, and its label maps have other numbers: "+
			safetext.List(renumbered))
	}
	if largest != "" {
		lines = append(lines, fmt.Sprintf("voxsaw predict keeps the largest connected component "+
			"alone of %s, and nnUNetv2_predict keeps all",
			c.DescribeLabels(largest)))
	}
	return lines
}

func convertToPretrained(cmd *cobra.Command, path, out string) error {
	d, err := checkpoint.Read(path)
	if err != nil {
		return err
	}
	s, how, err := plannedOf(path, d)
	if err != nil {
		return err
	}
	var of struct {
		Crop [3]int `yaml:"crop"`
	}
	if err := config.Unmarshal(path+": settings", []byte(d.Settings), &of); err != nil {
		return err
	}
	dev, err := cpu.New(cpu.Options{})
	if err != nil {
		return err
	}
	defer dev.Close()
	params, first, err := loadPlanned(dev, path, s,
		func(name string) bool { return strings.HasPrefix(name, backbone.EncoderPrefix) })
	if err != nil {
		return err
	}
	defer params.Close()
	if err := place(out, func() error {
		return nnunet.Pretrained{Network: s, Params: params, Spacing: how.Spacing, Crop: of.Crop}.Write(out)
	}); err != nil {
		return err
	}
	drawn := 0
	for _, name := range first {
		if !nnunet.IsHead(name) {
			drawn++
		}
	}
	stderr := cmd.ErrOrStderr()
	decoder := "the encoder and the decoder"
	if drawn > 0 {
		decoder = fmt.Sprintf("the encoder; %s of the decoder that the checkpoint does not have begin as in nnU-Net",
			numbers.Count(drawn, "tensor"))
	}
	say(stderr, "a %s: %s; heads are left out", s.Describe(), decoder)
	say(stderr, "it learnt from scans of the axes %s at %s, %s: nnU-Net prepares its own by its plans, so pretrain "+
		"on what voxsaw prepare --plans has made by these",
		how.Axcodes, volume.SpacingText(how.Spacing), how.DescribeIntensities())
	say(stderr, "nnUNetv2_train DATASET CONFIGURATION FOLD -p PLANS -pretrained_weights %s", out)
	return nil
}
