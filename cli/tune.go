package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/device"
	"github.com/voxsaw/voxsaw/internal/nn"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/tuning"
)

// workload is what a network is run for: which convolutions there are follows from it.
type workload struct {
	Network voxsaw.Network `yaml:"network"`
	Inputs  int            `yaml:"inputs,omitempty" help:"channels of a scan; 0: 1" range:"[0,16]"`
	Task    string         `yaml:"task" help:"what the network does: segment (training), infer (windows of predictions) or pretrain" oneof:"segment infer pretrain"`
	Crop    [3]int         `yaml:"crop,flow" help:"size of crops, of windows, or of the patches of puzzles, in voxels" range:"[1,)"`
	Batch   int            `yaml:"batch" help:"crops, windows or patches in a step" range:"[1,)" most:"4096"`
}

func defaultWorkload() workload {
	return workload{Network: voxsaw.DefaultNetwork(), Task: "segment", Crop: [3]int{64, 64, 64}, Batch: 1}
}

// resolve completes the network and checks the rest.
func (l *workload) resolve() (err error) {
	if l.Batch < 1 {
		return usagef("--batch %d: must be at least 1", l.Batch)
	}
	l.Network.Inputs = cmp.Or(l.Inputs, l.Network.Inputs)
	b, err := backbone.Of(l.Network)
	if err != nil {
		return config.Mistaken(err)
	}
	if err := backbone.Fits(b, l.Crop); err != nil {
		return config.Mistaken(fmt.Errorf("crop: %w", err))
	}
	l.Network = b.Settings()
	return nil
}

type tuneOptions struct {
	workload  `yaml:",inline"`
	Device    string `yaml:"device" help:"what is measured" oneof:"cpu cuda"`
	Precision string `yaml:"precision,omitempty" help:"how a GPU multiplies: bf16, tf32 or fp32 (exact); empty: bf16"`
	Threads   int    `yaml:"threads" help:"CPU threads; 0: all cores" range:"[0,4096]"`
	Out       string `yaml:"out" help:"file to write; choices for other convolutions that it has stay"`
}

func newTune() *cobra.Command {
	o := &tuneOptions{workload: defaultWorkload(), Device: "cpu"}
	return verb(
		"tune",
		"Measure which convolution algorithms are the fastest here",
		`Times all algorithms for every convolution of a network, and writes the fastest ones into a
file. Every command that runs a network takes it with --tuning FILE; without, a cost model chooses.
Nothing is ever measured during a training: what is in force is part of the run's configuration, so that
it can be repeated to the bit. On a GPU the algorithms are the program's own and, where cuDNN 9 is
installed, its plans: each must first make what the program's own kernel makes. The machine should have
nothing else to do meanwhile.`,
		`  voxsaw tune --task segment --crop 64x64x64 --out tuning.yaml
  voxsaw tune --task pretrain --crop 32x32x32 --batch 27 --out tuning.yaml
  voxsaw tune --device cuda --task segment --crop 128x128x128 --batch 2 --out h200.yaml`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runTune(cmd, *o) },
	)
}

func runTune(cmd *cobra.Command, o tuneOptions) error {
	if o.Out == "" {
		return withHint(usagef("nowhere to write"), "add --out FILE")
	}
	if err := o.resolve(); err != nil {
		return err
	}
	choices := map[string]string{} // what Measure tries out
	opened, err := voxsaw.Open(o.Device, voxsaw.DeviceOptions{Threads: o.Threads, Precision: o.Precision,
		Choices: choices})
	if err != nil {
		return err
	}
	defer opened.Close()
	dev, ok := opened.(device.Chooser)
	if !ok {
		return fmt.Errorf("%s has one algorithm for each convolution: there is nothing to measure", opened.Name())
	}
	file := tuning.File{Processor: dev.MeasuredOn()}
	if _, err := os.Stat(o.Out); !errors.Is(err, fs.ErrNotExist) {
		if file, err = tuning.Load(o.Out, dev.MeasuredOn()); err != nil {
			return withHint(err, "choose another --out, or remove the file")
		}
	}
	wanted, err := tuning.Convolutions(dev, o.build)
	if err != nil {
		return err
	}
	stderr := cmd.ErrOrStderr()
	progress := terminal.NewProgress(stderr, "tune", len(wanted))
	defer progress.Finish()
	var rows [][]string
	var before, after time.Duration
	ms := func(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e3) }
	measured := 0
	var failed error
	for _, c := range wanted {
		if failed = cmd.Context().Err(); failed != nil {
			break
		}
		progress.Describe(c.Key())
		choice, err := tuning.Measure(dev, choices, c)
		if err == nil { // as far as it has come
			err = place(o.Out, func() error { return file.Add(o.Out, choice) })
		}
		if err != nil {
			failed = fmt.Errorf("%s: %w", c.Key(), err)
			break
		}
		measured++
		if before, after = before+choice.ModelTime, after+choice.Time; choice.Algorithm != choice.Model {
			rows = append(rows, []string{c.Key(), choice.Model, ms(choice.ModelTime), choice.Algorithm,
				ms(choice.Time)})
		}
		progress.Add(1)
	}
	progress.Finish()
	if failed != nil && measured == 0 {
		return failed
	}
	if failed != nil {
		failed = fmt.Errorf("%w (%d of %s are measured, and safe in %s)", failed, measured,
			numbers.Count(len(wanted), "convolution"), o.Out)
	}
	if teller, ok := dev.(device.EngineTeller); ok {
		if _, refused := teller.Engines(); len(refused) > 0 {
			fmt.Fprintln(stderr, "tune:", strings.Join(refused, "\ntune: "))
		}
	}
	note := fmt.Sprintf("%d different convolutions: %s ms with the device's own "+
		"choices, %s ms with these (each counted once)", measured, ms(before), ms(after))
	return errors.Join(terminal.Table(cmd.OutOrStdout(), terminal.TableData{
		Title: o.Out, Header: []string{"where the measurement overrules the device's own choice", "its choice", "ms",
			"fastest", "ms"}, Right: []bool{false, false, true, false, true}, Rows: rows, Notes: []string{note},
	}), failed)
}

// build compiles what the task runs, as far as its convolutions go.
func (l workload) build(dev device.Device) error {
	mode := nn.Train
	if l.Task == "infer" {
		mode = nn.Eval
	}
	network, err := backbone.Of(l.Network)
	if err != nil {
		return err
	}
	g := nn.NewGraph(mode, dev.Activations())
	stages := network.Encoder(g, g.Input("image", l.Batch, l.Network.InputChannels(), l.Crop[2], l.Crop[1], l.Crop[0]))
	if g.Err() != nil {
		return g.Err()
	}
	var options nn.Options
	switch l.Task {
	case "infer":
		options.Outputs = map[string]*nn.Node{"logits": network.Decoder(g, stages)[0]}
	case "segment":
		options.Loss = backbone.Supervise(g, network.Decoder(g, stages), l.Batch, l.Crop,
			nn.LossOptions{CE: 1, Dice: 1}).Loss
	case "pretrain":
		features := g.Flatten(stages[len(stages)-1])
		options.Loss, _ = g.Loss(g.Linear("head", features, 2, true), g.Input("truth", l.Batch), nn.LossOptions{CE: 1})
	}
	_, err = nn.Compile(dev, g, nn.NewParams(dev, 0), options)
	return err
}
