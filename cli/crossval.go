package cli

import (
	"context"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

type crossvalOptions struct {
	experiment.Plan `yaml:",inline"`
	Machine         deviceOptions `yaml:"machine"`
	Memory          gibibytes     `yaml:"memory" help:"limit for the networks, 32 MiB and 3 % of it for the program itself; scoring a scan is not counted: up to 50 bytes a voxel: 16GiB, 512MiB, or a number of GiB; 0: what the machine has"`
}

func newCrossval() *cobra.Command {
	o := &crossvalOptions{Plan: experiment.DefaultPlan(), Machine: defaultDevice()}
	f := studyFlags{of: "experiment", printed: "the table, or the plan,",
		plans: "list the trials, who trains, who tests and who pretrains, and stop"}
	cmd := verb(
		"crossval",
		"Run a whole experiment: folds x fractions x initialisations x seeds",
		`Runs the experiment of the paper's Table 3 from one YAML file: for each fold, fraction of the
training cases, initialisation and seed a fine-tuning run, predictions of the test cases and their
scores. It ends in the table (mean ± sd, difference to scratch run by run with its interval) and a
report. Encoders are pretrained on the way, on cases that the fold does not test on.

Run it again to go on where it stopped; finished runs are not repeated. An experiment may grow by folds,
fractions, seeds and initialisations; anything else is another experiment, in a folder of its own.

Run it several times at once, on one machine or on many that share the folder: each process takes the
next trial that no other is at work on. With --ranks 4 the four ranks of an MPI job carry out each trial
together: mpirun -n 4 voxsaw crossval ... --ranks 4.

--write slurm writes the script of a Slurm job array, --write kubernetes an Indexed Job, a trial each.
With --ranks, trials of so many ranks: srun in each task of the array, or an MPIJob of Kubeflow's
mpi-operator for each trial.

--data-root FOLDER looks for the data sets of a plan with a section sources, such as
configs/paper-table3.yaml: what is there, prepared or as published, what is missing, and how long all
will take. Without --out that is all. What is missing stops the command; what is not prepared is
prepared, unless --plan asks for the plan alone.

Without any size, those of all trainings are planned for the data and this machine, an hour for each:
docs/planning.md. A study.yaml, of which every key but data may be left out:

`+exampleStudy,
		`  voxsaw crossval --config study.yaml --plan
  voxsaw crossval --config study.yaml --out runs/study
  voxsaw crossval --config configs/paper-table3.yaml --data-root /data`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error {
			if err := f.where(); err != nil {
				return err
			}
			if err := o.plan(cmd, &f); err != nil {
				return err
			}
			return runCrossval(cmd, o, f)
		},
	)
	f.bind(cmd)
	return cmd
}

// exampleStudy is the plan that the help shows.
const exampleStudy = `  data: prepared              # of voxsaw prepare
  folds: 4
  fractions: [0.1, 1]         # shares of each fold's training cases
  seeds: [1, 2]
  initialisations:
    - name: scratch           # random weights
    - name: puzzles           # an encoder that is pretrained without labels
      pretrain: {}            # with the settings of the section pretrain
  pretrain:
    network: {channels: 8}
    train: {steps: 2000}
    crop: 120x120x120
  finetune:
    network: {channels: 8}    # the same network
    train: {steps: 1000}
    crop: 64x64x64`

const ranksFlag = "ranks"

// trialsOfRanks says whether this process is to carry out trials together with other ranks, from
// flags alone: it is asked before settings are read.
func trialsOfRanks(cmd *cobra.Command) bool {
	ranks, plan, write := cmd.Flags().Lookup(ranksFlag), cmd.Flags().Lookup("plan"), cmd.Flags().Lookup("write")
	if ranks == nil {
		return false
	}
	n, ok := ranks.Value.(*count)
	return ok && n.n > 1 && plan.Value.String() != "true" && write.Value.String() == ""
}

// runCrossval runs an experiment, whose plan the flags have completed.
func runCrossval(cmd *cobra.Command, o *crossvalOptions, f studyFlags) error {
	if err := checkFolds(cmd, &o.Plan); err != nil {
		return err
	}
	o.Plan.Follow()
	return f.run(cmd, study{Study: &o.Plan, title: "Cross-validation", settings: o, machine: o.Machine,
		memory: o.Memory, show: func(w io.Writer) error {
			return printPlan(cmd.Context(), w, o, f)
		}})
}

// checkFolds refuses a file of folds beside settings that say how folds are made. What a flag
// overrules is put back to its default, so that the plan says nothing that does not hold.
func checkFolds(cmd *cobra.Command, p *experiment.Plan) error {
	if err := checkSplits(settingOf(cmd, "splits"), settingOf(cmd, "folds"),
		settingOf(cmd, "fold-scheme")); err != nil {
		return err
	}
	if defaults := experiment.DefaultPlan(); p.Splits != "" {
		p.Folds, p.FoldScheme = defaults.Folds, defaults.FoldScheme
	}
	return nil
}

// printPlan tells what would run, in a folder or in a new one (""): the trials, then who tests in
// each fold, who pretrains, and what the arms take.
func printPlan(ctx context.Context, w io.Writer, o *crossvalOptions, f studyFlags) error {
	p := o.Plan
	preview, err := experiment.Look(p, f.out)
	if err != nil {
		return err
	}
	var costs []experiment.Cost
	if preview.CanRun {
		// it counts the same on any machine
		dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: o.Machine.Threads, Conv: o.Machine.Conv})
		if err != nil {
			return err
		}
		defer dev.Close()
		if costs, err = p.Costs(ctx, dev); err != nil {
			preview.Doubts = append(preview.Doubts, fmt.Sprintf("WARNING: what trials take is not known: %v", err))
		}
	}
	if f.asJSON {
		return printJSON(w, struct {
			experiment.Preview
			Costs []experiment.Cost `json:"costs,omitempty"`
		}{preview, costs})
	}
	trials := terminal.TableData{Title: numbers.Count(len(preview.Trials), "trial"),
		Header: []string{"trial", "training cases", "test cases", "trained on"},
		Right:  []bool{false, true, true, false}}
	for _, x := range preview.Trials {
		trials.Rows = append(trials.Rows, []string{x.Name(), fmt.Sprint(len(x.Train)), fmt.Sprint(len(x.Test)),
			list(x.Train)})
	}
	trials.Notes = []string{fmt.Sprintf("post-processing, the same in every arm (inference.components): %s",
		preview.Components)}
	if preview.Unlabelled != "" {
		trials.Notes = append(trials.Notes, preview.Unlabelled)
	}
	if err := terminal.Table(w, trials); err != nil {
		return err
	}
	tests := terminal.TableData{Title: "Tested on", Header: []string{"fold", "cases", "names"},
		Right: []bool{true, true, false}}
	for _, f := range preview.Cases.Folds {
		tests.Rows = append(tests.Rows, []string{fmt.Sprint(f.Fold), fmt.Sprint(len(f.Test)), list(f.Test)})
	}
	if err := terminal.Table(w, shownLabels(preview.Labels)); err != nil {
		return err
	}
	tests.Notes = preview.Doubts
	if err := terminal.Table(w, tests); err != nil {
		return err
	}
	if set := preview.Cases.Unlabelled; len(set) > 0 {
		if _, err := fmt.Fprintf(w, "set aside for pretraining, never trained or tested on with labels: %s\n\n",
			list(set)); err != nil {
			return err
		}
	}
	if len(costs) > 0 {
		if err := terminal.Table(w, costTable(costs)); err != nil {
			return err
		}
	}
	if len(preview.Encoders) == 0 {
		return nil
	}
	encoders := terminal.TableData{Title: "Pretrained on, without labels", Header: []string{"initialisation", "fold",
		"cases", "names"}, Right: []bool{false, true, true, false}}
	for _, e := range preview.Encoders {
		fold := "all"
		if e.Fold > 0 {
			fold = fmt.Sprint(e.Fold)
		}
		if p.Encoders > 1 {
			fold += fmt.Sprintf(", encoder %d", e.Number)
		}
		encoders.Rows = append(encoders.Rows, []string{e.Init, fold, fmt.Sprint(len(e.Cases)), list(e.Cases)})
		if len(e.Left) > 0 {
			encoders.Notes = append(encoders.Notes,
				fmt.Sprintf("%s: left out of %s, for folds test on them or their patients: %s", e.Init, e.Data,
					list(e.Left)))
		}
	}
	return terminal.Table(w, encoders)
}

// costTable is the table of the arithmetic in a trial of each initialisation.
func costTable(costs []experiment.Cost) terminal.TableData {
	t := terminal.TableData{Title: "TFLOP of a trial", Header: []string{"initialisation", "its encoder", "fine-tuning",
		"label maps of teachers", "all of these", "predictions of test cases"},
		Right: []bool{false, true, true, true, true, true}}
	for _, c := range costs {
		row, sum := []string{c.Init}, 0.0
		for _, kind := range []string{experiment.OfPretraining, experiment.OfFinetuning, experiment.OfLabelling} {
			row, sum = append(row, teraflops(c.FLOPs[kind])), sum+c.FLOPs[kind]
		}
		t.Rows = append(t.Rows, append(row, teraflops(sum), teraflops(c.FLOPs[experiment.OfTesting])))
	}
	t.Notes = []string{"of the trial with the most scans to predict; an encoder is counted in full, though trials " +
		"may share it, fine-tuning with all networks and teachers of a run. Validations are not counted"}
	return t
}

func teraflops(flops float64) string {
	if flops == 0 {
		return ""
	}
	return fmt.Sprintf("%.4g", flops/1e12)
}

// shownLabels is the table of how many cases of each fold show each label: of the training cases,
// of the fewest of them that a run has, and of the test cases.
func shownLabels(labels []experiment.ShownLabel) terminal.TableData {
	t := terminal.TableData{Title: "Cases that show each label", Header: []string{"label", "name"},
		Right: []bool{true, false}}
	for n, l := range labels {
		row := []string{l.Label, l.Name}
		for _, f := range l.Folds {
			if n == 0 {
				fold := fmt.Sprintf("fold %d: ", f.Fold)
				t.Header, t.Right = append(t.Header, fold+"train", "fewest", "test"), append(t.Right, true, true, true)
			}
			fewest := f.Train
			for _, count := range f.Fractions {
				fewest = min(fewest, count)
			}
			row = append(row, fmt.Sprint(f.Train), fmt.Sprint(fewest), fmt.Sprint(f.Test))
		}
		t.Rows = append(t.Rows, row)
	}
	t.Notes = []string{"fewest: of the training cases of a run, with the fraction and seed that has the fewest of them"}
	return t
}
