package cli

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/nnunet"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/unet"
	"github.com/voxsaw/voxsaw/volume"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

// planned puts the network of nnU-Net's plans in the place of their name, which plans or the kind
// of network says, and gives the plan; nil where neither is one.
func planned(n *voxsaw.Network, plans string) (*nnunet.Plan, error) {
	if plans == "" {
		if plans = n.Kind; !nnunet.IsPlans(plans) {
			return nil, nil
		}
	}
	p, err := nnunet.PlanOf(plans)
	if err != nil {
		return nil, err
	}
	n.Kind, n.Architecture = unet.Kind, string(p.Network.Architecture())
	return p, nil
}

// cropOfPlan makes the patch of a plan the crop, unless the user says one.
func cropOfPlan(cmd *cobra.Command, p *nnunet.Plan, crop *[3]int) {
	if p != nil && !givenNow(cmd, cmd.Flags().Lookup("crop")) {
		*crop = p.PatchSize()
	}
}

// sayUnlike tells in what cases were prepared in another way than nnU-Net's plan says, by which a
// network's weights have learnt, or will be used.
func sayUnlike(w io.Writer, p *nnunet.Plan, store *prepared.Store) {
	if p == nil {
		return
	}
	now := store.Preparation()
	of := now
	of.Foreground = [4]float64{} // the plans have their own
	want, err := p.Preparation(of)
	if err != nil {
		sayNote(w, fmt.Sprintf("WARNING: nnU-Net's plans prepare scans in a way of which there is none here: %v", err))
		return
	}
	var unlike []string
	for _, d := range now.Differences(want) {
		if d.Key != "masks" && d.Key != "relabel" { // of no plan
			unlike = append(unlike, fmt.Sprintf("%s %s, in the plans %s", d.Key, d.New, d.Old))
		}
	}
	if len(unlike) > 0 {
		sayNote(w, fmt.Sprintf("WARNING: cases were not prepared by nnU-Net's plans, so that its networks see them in "+
			"another way: %s. voxsaw prepare SCANS --plans plans.json prepares them so", strings.Join(unlike, "; ")))
	}
}

// sayChannels tells where the channels of scans are called otherwise than those of nnU-Net's model
// that a run starts from, or come in another order.
func sayChannels(w io.Writer, path string, here []string) {
	if len(here) < 2 || !nnunet.IsModel(path) {
		return
	}
	m, err := nnunet.Open(path, nil)
	if err != nil { // a file of weights alone
		return
	}
	alike := func(a, b string) bool { return safetext.Fold(a) == safetext.Fold(b) }
	if there := m.Labels.Channels; !slices.EqualFunc(here, there, alike) {
		sayNote(w, fmt.Sprintf("WARNING: the channels %s are taken for %s of %s, in this order; "+
			"voxsaw prepare --channels makes another", safetext.List(here), safetext.List(there), path))
	}
}

// likePlan makes the preparation that of nnU-Net's plans, as far as they say it; settings
// beside it are mistakes.
func likePlan(cmd *cobra.Command, plans string, how *volume.Preparation) error {
	if plans == "" {
		return nil
	}
	for _, name := range []string{"axcodes", "spacing", "intensity", "window", "foreground", "interpolation",
		"crop", "modality"} {
		if f := cmd.Flags().Lookup(name); f != nil && givenNow(cmd, f) {
			return usagef("--%s beside --plans, which says it already: leave one of them out", name)
		}
	}
	p, err := planned(&voxsaw.Network{}, plans)
	if err != nil {
		return err
	}
	if *how, err = p.Preparation(*how); err != nil {
		return fmt.Errorf("%s: %w", plans, err)
	}
	return nil
}

// startNNUNet resolves the options of a run that starts from a model of nnU-Net, a folder or one
// checkpoint: its network is that of --plans, or of the plans beside it.
func (o *finetuneOptions) startNNUNet(cmd *cobra.Command) error {
	path, given := o.Init, o.Plans != "" || nnunet.IsPlans(o.Network.Kind)
	if (given || resumed(cmd) != "") && checkpoint.IsPyTorch(path) {
		return nil // a run that is resumed does without the model, which may be gone
	}
	m, err := nnunet.Open(path, nil)
	if err != nil {
		return withHint(err, "--plans plans.json says what network it is of")
	}
	if m.Flat {
		return withHint(usagef("%s is a 2D network, which predicts here, but is not trained", path),
			"go on with a 3d_fullres or 3d_lowres of nnU-Net's")
	}
	if o.Init = m.First(); o.Init != path {
		say(cmd.ErrOrStderr(), "%s: taking %s", path, o.Init)
	}
	if given || resumed(cmd) != "" {
		return nil
	}
	o.Network.Kind, o.Network.Architecture = unet.Kind, string(m.Network.Architecture())
	cropOfPlan(cmd, m.Plan, &o.Crop)
	o.like = m.Plan
	return nil
}
