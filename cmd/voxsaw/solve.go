package main

import (
	"errors"
	"fmt"
	"image"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/puzzle3d"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

type solveOptions struct {
	Data       string        `yaml:"data" help:"folder of prepared cases"`
	Checkpoint string        `yaml:"checkpoint" help:"checkpoint of voxsaw pretrain"`
	Cases      []string      `yaml:"cases" help:"cases to solve puzzles of; empty: those that the checkpoint was not trained on"`
	All        bool          `yaml:"all" help:"solve puzzles of all cases, those that the checkpoint was trained on among them"`
	Rounds     int           `yaml:"rounds" help:"rounds at most; 0: as in training"`
	Shuffles   int           `yaml:"shuffles" help:"puzzles made of each case; 0: as in training"`
	Picture    string        `yaml:"picture" help:"file for a puzzle of the first case, round by round: .png or .jpg"`
	JSON       bool          `yaml:"json" help:"print as JSON"`
	Machine    deviceOptions `yaml:"machine"`
}

func newSolve() *cobra.Command {
	o := &solveOptions{Machine: defaultDevice()}
	return verb("solve", "Solve puzzles with a pretrained network: accuracy round by round, and a picture",
		`Makes puzzles of prepared cases (patches of the centre crop, from the middle of their cells) and solves them: Correct, D<=2 and the share of patches in
their place after each round, beside chance. The picture shows one puzzle being solved; misplaced patches are marked.`,
		`  voxsaw solve --data prepared --checkpoint runs/puzzles/best.safetensors --cases pt_001,pt_002 --picture puzzle.png`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error { return runSolve(cmd, *o) })
}

func runSolve(cmd *cobra.Command, o solveOptions) error {
	if o.Checkpoint == "" {
		return withHint(usagef("no checkpoint"), "add --checkpoint FILE, as voxsaw pretrain makes it")
	}
	var encode func(io.Writer, image.Image) error
	if o.Picture != "" {
		var err error
		if encode, err = report.PictureFormat(o.Picture); err != nil {
			return &usageError{err}
		}
	}
	cache, err := openCache(o.Data)
	if err != nil {
		return err
	}
	defer cache.Close()
	c, err := puzzle3d.ReadConfig(o.Checkpoint)
	if err != nil {
		return err
	}
	if len(o.Cases) > 0 && o.All {
		return usagef("--cases names cases, --all takes all: choose one")
	}
	if o.Rounds > 0 {
		c.Rounds = o.Rounds
	}
	if o.Rounds > 1 && c.Head == puzzle3d.Symmetric {
		fmt.Fprintln(cmd.ErrOrStderr(), "the symmetric head gives the same answer every round: one is played")
	}
	ids, trained, err := chooseToSolve(cmd.ErrOrStderr(), cache, o)
	if err != nil {
		return err
	}
	if o.Shuffles > 0 {
		c.ValidateShuffles = o.Shuffles
	}
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	player, _, err := puzzle3d.Open(dev, c, o.Checkpoint, availableMemory())
	if err != nil {
		return err
	}
	if c.Preparation != cache.Preparation() {
		fmt.Fprintf(cmd.ErrOrStderr(), "the cases were prepared in another way than those that the network was trained on:\n  %+v\n  %+v\n", cache.Preparation(), c.Preparation)
	}
	var cases []*prepared.Case
	for info := range cache.Records() {
		if !slices.Contains(ids, info.ID) {
			continue
		}
		opened, err := cache.Open(info.ID)
		if err != nil {
			return err
		}
		cases = append(cases, opened)
	}
	e, err := player.Evaluate(cmd.Context(), cases)
	if err != nil {
		return err
	}
	if encode != nil && len(cases) > 0 {
		play, err := player.Play(cases[0], 0)
		if err != nil {
			return err
		}
		if err := writeFile(o.Picture, func(w io.Writer) error { return encode(w, play.Picture()) }); err != nil {
			return err
		}
	}
	if o.JSON {
		return printJSON(cmd.OutOrStdout(), struct {
			puzzle3d.Evaluation
			TrainedOn *int `json:"trained_on"` // of the cases; null if the checkpoint does not say
		}{e, trained})
	}
	return printEvaluation(cmd.OutOrStdout(), e, trained)
}

// chooseToSolve lists the cases to solve puzzles of, and counts those that the checkpoint was
// trained on: nil if it does not say.
func chooseToSolve(w io.Writer, cache *prepared.Store, o solveOptions) (ids []string, trained *int, err error) {
	var all []string
	for info := range cache.Records() {
		all = append(all, info.ID)
	}
	for _, id := range o.Cases {
		if !slices.Contains(all, id) {
			return nil, nil, usagef("%s has no case %s", o.Data, id)
		}
	}
	seen, err := puzzle3d.TrainedOn(o.Checkpoint)
	if err != nil {
		return nil, nil, err
	}
	ids = o.Cases
	if len(ids) == 0 {
		if ids = all; !o.All && len(seen) > 0 {
			ids = slices.DeleteFunc(slices.Clone(all), func(id string) bool { return slices.Contains(seen, id) })
		}
		if len(ids) == 0 {
			fmt.Fprintln(w, "the checkpoint was trained on every case: taking all")
			ids = all
		}
		if !o.All && len(seen) == 0 {
			fmt.Fprintln(w, "the checkpoint does not say which cases it was trained on: taking all")
		}
	}
	if len(seen) > 0 {
		n := len(common(ids, seen))
		trained = &n
	}
	return ids, trained, nil
}

func printEvaluation(w io.Writer, e puzzle3d.Evaluation, trained *int) error {
	of := "nobody knows how many of them"
	if trained != nil {
		of = fmt.Sprintf("%d of them", *trained)
	}
	t := table.Table{
		Title:   fmt.Sprintf("%d puzzles of %d cases, %s trained on, in percent", e.Puzzles, e.Cases, of),
		Columns: []table.Column{{Key: "round", Title: "after round"}, {Key: "correct", Title: "correct", Digits: 2}, {Key: "near", Title: "D<=2", Digits: 2}, {Key: "patches", Title: "patches in place", Digits: 2}},
	}
	row := func(name string, m puzzle3d.Metrics) {
		t.Rows = append(t.Rows, []any{name, 100 * m.Correct, 100 * m.Near, 100 * m.Patches})
	}
	row("chance", e.Chance)
	for i, m := range e.Rounds {
		row(fmt.Sprint(i+1), m)
	}
	if e.Ceiling.Patches < 1 {
		row("at most", e.Ceiling)
		t.Notes = append(t.Notes, "at most: some patches are identical, such as those of nothing but air; nobody can tell which of them goes where.")
	}
	_, err := fmt.Fprintf(w, "%.2f rounds played, on average\n", e.Mean)
	return errors.Join(printTable(w, t), err)
}
