package cli

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/checkpoint"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/report"
	"github.com/voxsaw/voxsaw/internal/table"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/sample"
	"github.com/voxsaw/voxsaw/volume/prepared"
)

type solveOptions struct {
	Data       string   `yaml:"data" help:"folder of prepared cases"`
	Checkpoint string   `yaml:"checkpoint" help:"checkpoint of voxsaw pretrain, or the folder of its run (its best one)"`
	Cases      []string `yaml:"cases" help:"cases to solve puzzles of; empty: those that the checkpoint was not trained on"`
	All        bool     `yaml:"all" help:"solve puzzles of all cases, those that the checkpoint was trained on among them"`
	Rounds     int      `yaml:"rounds" help:"rounds at most; 0: as in training"`
	Shuffles   int      `yaml:"shuffles" help:"puzzles made of each case; 0: as in training"`
	// OnlyClasses and Unary are of puzzles.
	OnlyClasses int           `yaml:"only_classes,omitempty" help:"shuffle by this many orders alone and look for the answer among them, as a K-way puzzle; 0: all orders"`
	Unary       bool          `yaml:"unary,omitempty" help:"leave out the binary terms of a network that was trained with them"`
	Picture     string        `yaml:"picture" help:"file for a puzzle of the first case, round by round: .png or .jpg"`
	JSON        bool          `yaml:"json" help:"print as JSON"`
	Machine     deviceOptions `yaml:"machine"`
}

func newSolve() *cobra.Command {
	o := &solveOptions{Machine: defaultDevice()}
	cmd := verb(
		"solve",
		"Solve puzzles with a pretrained network: accuracy round by round, and a picture",
		`Makes puzzles of prepared cases (patches of the centre crop, from the middle of their cells) and
solves them: Correct, D<=2 and the share of patches in their place after each round, beside chance. The
picture shows one puzzle being solved, as the paper's Figure 3: the number of each patch is that of its
place, misplaced ones are marked, and under each round stands what became of all puzzles. Checkpoints of
other pretext tasks are put to their own task.

--only-classes K compares a network with a K-way one: both choose among the same K orders, if they were
trained with the same seed.`,
		`  voxsaw solve --data prepared --checkpoint runs/puzzles --cases pt_001,pt_002 --picture puzzle.png
  voxsaw solve --data prepared --checkpoint runs/puzzles --only-classes 1000`,
		cobra.NoArgs,
		o,
		func(cmd *cobra.Command, _ []string) error { return runSolve(cmd, *o) },
	)
	cmd.Annotations = map[string]string{asRanks: "yes"}
	return cmd
}

func runSolve(cmd *cobra.Command, o solveOptions) error {
	ranks := jobOf(cmd.Context())
	encode, err := openSolving(cmd.ErrOrStderr(), "voxsaw pretrain", &o.Checkpoint, o.Picture)
	if err != nil {
		return err
	}
	if len(o.Cases) > 0 && o.All {
		return usagef("--cases names cases, --all takes all: choose one")
	}
	store, err := openStore(o.Data)
	if err != nil {
		return err
	}
	defer store.Close()
	dev, closeDevice, err := o.Machine.open()
	if err != nil {
		return err
	}
	defer closeDevice()
	task, description, evaluator, err := pretext.Scans.Open(cmd.Context(), dev, o.Checkpoint,
		pretext.OpenOptions{Rounds: o.Rounds, Items: o.Shuffles, Only: o.OnlyClasses, Unary: o.Unary,
			Memory: memory.Available() / int64(memorySharers),
			Ranks:  ranks.ranks()})
	if err != nil {
		return err
	}
	defer evaluator.Close()
	stderr := cmd.ErrOrStderr()
	for _, note := range evaluator.Notes() {
		say(stderr, "%s", note)
	}
	if how, err := description.Preparation(); err != nil {
		return err
	} else if how != store.Preparation() {
		prepared := store.Preparation()
		if a, b := max(how.Inputs(), 1), max(prepared.Inputs(), 1); a != b {
			names := ""
			if b > 1 {
				names = " (" + strings.Join(prepared.ChannelNames(), ", ") + ")"
			}
			return fmt.Errorf("%s was trained on scans of %s, and those of %s have %d%s: prepare the same channels",
				o.Checkpoint, numbers.Count(a, "channel"), o.Data, b, names)
		}
		say(stderr, "the cases were prepared in another way than those that the network was trained on: %s",
			config.Unlike(&prepared, &how))
	}
	ids, trained, err := chooseToSolve(stderr, store, description, o)
	if err != nil {
		return err
	}
	if how, err := description.Preparation(); err == nil && how == store.Preparation() {
		for _, line := range description.Mismatches(how, store.Spacings(ids), voxsaw.Network{}) {
			say(stderr, "WARNING: %s", line)
		}
	}
	var cases []sample.Sample
	wanted := among(ids)
	for info := range store.Records() {
		if !wanted(info.ID) {
			continue
		}
		opened, err := store.Sample(info.ID)
		if err != nil {
			return err
		}
		cases = append(cases, opened)
	}
	if err := sameSolving(ranks, o, description, store, cases); err != nil {
		return err
	}
	e, err := evaluator.Evaluate(cmd.Context(), cases)
	if err != nil || ranks.silent() { // rank 0 writes
		return err
	}
	if o.JSON {
		err = printRecord(cmd.OutOrStdout(), e.Record, trained)
	} else {
		err = printEvaluation(cmd.OutOrStdout(), task, e, trained)
	}
	if encode == nil || len(cases) == 0 {
		return err
	}
	picture, wrong := evaluator.Picture(cases[0])
	return errors.Join(err, savePicture(stderr, o.Picture, encode, picture.Image, wrong))
}

// sameSolving makes sure that all ranks are about to solve the same puzzles with the same network.
func sameSolving(j *job, o solveOptions, d checkpoint.Description, store *prepared.Store, cases []sample.Sample) error {
	names := sha256.New()
	for _, c := range cases {
		fmt.Fprintln(names, c.Name())
	}
	weights, err := checkpoint.Digest(o.Checkpoint)
	if err != nil {
		return err
	}
	return train.GroupOf(voxsaw.RunOptions{Ranks: j.ranks()}).Same(map[string]string{
		"version": voxsaw.Version(),
		"puzzles": fmt.Sprintf("%d rounds, %d of each case, %d orders, unary %v", o.Rounds, o.Shuffles, o.OnlyClasses,
			o.Unary),
		"checkpoint": fmt.Sprintf("%s, step %d, weights %.16s", d.Kind, d.Step, weights),
		"data set":   "fingerprint " + store.Fingerprint(), "cases": fmt.Sprintf("%d, digest %.16x", len(cases),
			names.Sum(nil)),
	})
}

// openSolving finds the checkpoint that puzzles are solved with, which maker makes, and how the
// picture is written; nil where none is wanted.
func openSolving(stderr io.Writer, maker string, path *string,
	picture string) (encode func(io.Writer, image.Image) error, err error) {
	if *path == "" {
		return nil, withHint(usagef("no checkpoint"), "add --checkpoint FILE, as %s makes it", maker)
	}
	if *path, err = checkpointOf(stderr, *path); err != nil || picture == "" {
		return nil, err
	}
	if encode, err = report.PictureFormat(picture); err != nil {
		return nil, &usageError{err}
	}
	return encode, spare(picture, aPicture)
}

// savePicture writes a picture, unless drawing it failed, and says so. The figures are printed by
// then, and an error says that.
func savePicture(stderr io.Writer, path string, encode func(io.Writer, image.Image) error, drawn image.Image,
	err error) error {
	if err == nil {
		err = writeFile(path, func(w io.Writer) error { return encode(w, drawn) })
	}
	if err != nil {
		return fmt.Errorf("the picture: %w (the figures are printed)", err)
	}
	say(stderr, "picture: %s", path)
	return nil
}

// printRecord prints an evaluation for a program: its own keys, and on how many of the cases the
// network was trained; null if the checkpoint does not say.
func printRecord(w io.Writer, evaluation any, trained *int) error {
	data, err := json.Marshal(evaluation)
	if err != nil {
		return err
	}
	more, err := json.Marshal(struct {
		TrainedOn *int `json:"trained_on"`
	}{trained})
	if err != nil {
		return err
	}
	return printJSON(w, json.RawMessage(string(data[:len(data)-1])+","+string(more[1:])))
}

// chooseToSolve lists the cases to solve puzzles of, and counts those that the checkpoint was
// trained on: nil if it does not say.
func chooseToSolve(w io.Writer, store *prepared.Store, d checkpoint.Description, o solveOptions) (ids []string,
	trained *int, err error) {
	var all, seen []string
	learnt, known := d.Seen(), d.Known() || len(d.TrainedOn) > 0
	for info := range store.Records() {
		all = append(all, info.ID)
		if _, found := learnt.Find(info.ID, info.Scan); found {
			seen = append(seen, info.ID)
		}
	}
	for _, id := range o.Cases {
		if !slices.Contains(all, id) {
			return nil, nil, usagef("%s has no case %s", o.Data, id)
		}
	}
	ids = o.Cases
	if len(ids) == 0 {
		if ids = all; !o.All && known {
			ids = slices.DeleteFunc(slices.Clone(all), among(seen))
		}
		if len(ids) == 0 {
			fmt.Fprintln(w, "the checkpoint was trained on every case: taking all")
			ids = all
		}
		if !o.All && !known {
			fmt.Fprintln(w, "the checkpoint does not say which cases it was trained on: taking all")
		}
	}
	if known {
		n := len(common(ids, seen))
		trained = &n
	}
	return ids, trained, nil
}

func printEvaluation(w io.Writer, task pretext.Task, e pretext.Evaluation, trained *int) error {
	of := "the checkpoint does not say which of them it was"
	if trained != nil {
		of = fmt.Sprintf("%d of them", *trained)
	}
	return printTable(w, solved(e, fmt.Sprintf("%s of %s, %s trained on, in percent",
		numbers.Count(e.Items, strings.TrimSuffix(task.Items, "s")), numbers.Count(e.Cases, "case"), of)))
}

// solved is how well a task was done, for a person.
func solved(e pretext.Evaluation, title string) table.Table {
	t := table.Table{Title: title, Columns: []table.Column{{Key: "round", Title: "after round"}}, Notes: e.Notes}
	for _, m := range e.Measures {
		t.Columns = append(t.Columns, table.Column{Key: m.Key, Title: m.Title, Digits: 2})
	}
	row := func(name string, shares []float64) {
		cells := []any{name}
		for _, s := range shares {
			cells = append(cells, 100*s)
		}
		t.Rows = append(t.Rows, cells)
	}
	row("chance", e.Chance)
	for i, shares := range e.Rounds {
		row(fmt.Sprint(i+1), shares)
	}
	if e.Ceiling != nil {
		row("at most", e.Ceiling)
	}
	return t
}
