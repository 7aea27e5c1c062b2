package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/puzzle2d"
)

type photoSolveOptions struct {
	Data        string        `yaml:"data" help:"folder of prepared photographs"`
	Checkpoint  string        `yaml:"checkpoint" help:"checkpoint of voxsaw 2d pretrain, or the folder of its run (its best one)"`
	All         bool          `yaml:"all" help:"solve puzzles of all photographs, those to train on among them"`
	Photos      int           `yaml:"photos" help:"photographs to solve puzzles of, spread evenly; 0: all of them"`
	Rounds      int           `yaml:"rounds" help:"rounds at most; 0: as in training"`
	Shuffles    int           `yaml:"shuffles" help:"puzzles made of each photograph; 0: as in training"`
	OnlyClasses int           `yaml:"only_classes" help:"shuffle by this many orders alone and look for the answer among them, as a K-way puzzle; 0: all orders"`
	Unary       bool          `yaml:"unary" help:"leave out the binary terms of a network that was trained with them"`
	Picture     string        `yaml:"picture" help:"file for a puzzle of the first photograph, round by round: .png or .jpg"`
	JSON        bool          `yaml:"json" help:"print as JSON"`
	Machine     deviceOptions `yaml:"machine"`
}

func newPhotoSolve() *cobra.Command {
	o := &photoSolveOptions{Machine: defaultDevice()}
	return verb("solve",
		"Solve puzzles of photographs with a pretrained network: accuracy round by round, and a picture",
		`Makes puzzles of held-out photographs (the middle of each, patches from the middle of their cells) and solves them: Correct, D<=2 and the share of patches
in their place after each round, beside chance. The picture shows one puzzle being solved, as the paper's Figure 3: the number of each patch is that of its place,
misplaced ones are marked, and under each round stands what became of all puzzles.

--only-classes K compares a network with a K-way one: both choose among the same K orders, if they were trained with the same seed.`,
		`  voxsaw 2d solve --data photos --checkpoint runs/photos --picture puzzle.png
  voxsaw 2d solve --data photos --checkpoint runs/photos --only-classes 1000 --json`,
		cobra.NoArgs, o, func(cmd *cobra.Command, _ []string) error { return runPhotoSolve(cmd, *o) })
}

func runPhotoSolve(cmd *cobra.Command, o photoSolveOptions) error {
	encode, err := openSolving(cmd.ErrOrStderr(), "voxsaw 2d pretrain", &o.Checkpoint, o.Picture)
	if err != nil {
		return err
	}
	store, err := openPhotos(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	player, err := puzzle2d.Open(dev, o.Checkpoint, puzzle2d.PlayOptions{
		Rounds: o.Rounds, Shuffles: o.Shuffles, Only: o.OnlyClasses, Unary: o.Unary, Memory: memory.Available(),
	})
	if err != nil {
		return err
	}
	defer player.Close()
	data := puzzle2d.Split(store)
	numbers := data.Validate
	if o.All || len(numbers) == 0 {
		if !o.All {
			fmt.Fprintln(cmd.ErrOrStderr(), "no photographs are held out: taking all")
		}
		numbers = append(data.Train, data.Validate...)
	}
	numbers = puzzle2d.Spread(numbers, o.Photos)
	e, err := player.Evaluate(cmd.Context(), store, numbers)
	if err != nil {
		return err
	}
	if o.JSON {
		err = printJSON(cmd.OutOrStdout(), e)
	} else {
		err = printTable(cmd.OutOrStdout(), photoSolveTable(e))
	}
	if encode == nil {
		return err
	}
	play, wrong := player.Play(store, numbers[0])
	if wrong == nil {
		play.All = &e
		wrong = savePicture(cmd.ErrOrStderr(), o.Picture, func(w io.Writer) error { return encode(w, play.Picture()) })
	}
	return errors.Join(err, withoutPicture(wrong))
}

// photoSolveTable is an evaluation for a person.
func photoSolveTable(e puzzle2d.Evaluation) table.Table {
	t := table.Table{
		Title: fmt.Sprintf("%s of %s, in percent", numbers.Count(e.Puzzles, "puzzle"),
			numbers.Count(e.Photos, "photograph")),
		Columns: []table.Column{
			{Key: "round", Title: "after round"}, {Key: "correct", Title: "correct", Digits: 2},
			{Key: "near", Title: "D<=2", Digits: 2}, {Key: "patches", Title: "patches in place", Digits: 2},
		},
		Notes: []string{fmt.Sprintf("%.2f rounds played, on average", e.Mean)},
	}
	row := func(name string, m puzzle2d.Metrics) {
		t.Rows = append(t.Rows, []any{name, 100 * m.Correct, 100 * m.Near, 100 * m.Patches})
	}
	row("chance", e.Chance)
	for i, m := range e.Rounds {
		row(fmt.Sprint(i+1), m)
	}
	if len(e.Grids) > 0 {
		t.Notes = append(t.Notes,
			"these are the means over the grids, each of which counts the same; the last round of each:")
		for _, g := range e.Grids {
			row("grid "+g.Grid, g.Rounds[len(g.Rounds)-1])
		}
	}
	return t
}
