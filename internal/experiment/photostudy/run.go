package photostudy

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/pretext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
	"github.com/voxsaw/voxsaw/sample"
)

// A Result is what one arm with one seed found.
type Result struct {
	Arm     string        `json:"arm"`
	Seed    uint64        `json:"seed"`
	Task    string        `json:"task"` // empty: random weights
	Steps   int           `json:"steps"`
	Elapsed time.Duration `json:"elapsed_ns"` // of the steps of the training, in all sittings
	Score   float64       `json:"score"`      // of the last validation
	// Solved are the puzzles of held-out photographs, by how they were solved: "unary", "binary"
	// (both of the same weights), "only" (among Plan.Only orders)
	Solved   map[string]puzzle2d.Evaluation `json:"solved,omitempty"`
	Transfer []Measured                     `json:"transfer"`
	// Finetuned are the scores of the plan's tasks of fine-tuning, in their order.
	Finetuned []Finetuned `json:"finetuned,omitempty"`
	// Unfinished says that a part is missing, which the next run computes.
	Unfinished bool `json:"unfinished,omitempty"`
	// Settings are what the result depends on, so that one of other settings is not taken for it.
	Settings map[string]string `json:"settings"`
}

// Measured is the features of an arm on one target.
type Measured struct {
	Target string `json:"target"`
	Width  int    `json:"width"` // of a feature
	// Chance is the share that guessing tells right.
	Chance float64         `json:"chance"`
	Draws  []puzzle2d.Draw `json:"draws"`
	// Interval is the 95 % bootstrap interval, over the tested photographs, of the share that is
	// told right, averaged over draws; absent where the draws test different ones
	Interval *[2]float64 `json:"interval,omitempty"`
}

// Found is what a comparison found, so far.
type Found struct {
	Plan    Plan
	Results []Result
	experiment.Left
}

// Start implements [experiment.Study].
func (p *Plan) Start(ctx context.Context, s experiment.Setting) (experiment.Outcome, error) {
	found, err := Run(ctx, *p, s)
	return &found, err
}

// Run carries out a plan, or what is left of it, as [experiment.Sharing] has it: an arm that fails
// does not keep the others from being carried out. What is finished is returned with the errors of
// those that are not.
func Run(ctx context.Context, plan Plan, s experiment.Setting) (found Found, err error) {
	found.Plan = plan
	r, err := newRunner(plan, s)
	if err != nil {
		return found, err
	}
	defer r.stores.Close()
	trials := plan.trials()
	results := make([]*Result, len(trials))
	sharing := &experiment.Sharing{Setting: s, Study: &plan, Arms: "arms", Done: done, Owner: owner,
		Compare: func(folder string) error { return atomicfile.CompareFiles(filepath.Join(folder, resultFile)) },
		Run: func(ctx context.Context, n int) error {
			folder := trials[n].folder(s.Out)
			result, err := r.arm(ctx, trials[n].arm, trials[n].Seed, folder)
			if err == nil {
				results[n] = &result
				return nil
			}
			// who was stopped says where they are
			last, stopped := train.Last(folder), new(voxsaw.InterruptedError)
			if _, gone := os.Stat(last); gone == nil && !errors.As(err, &stopped) {
				err = fmt.Errorf("%w (its weights are safe in %s)", err, last)
			}
			return err
		}}
	for _, t := range trials {
		sharing.Pieces = append(sharing.Pieces, experiment.Piece{Name: t.name(), Arm: t.Arm, Folder: t.folder(s.Out)})
	}
	err = sharing.All(ctx)
	for _, result := range results {
		if result != nil {
			found.Results = append(found.Results, *result)
		}
	}
	found.Left = sharing.Left
	return found, err
}

// newRunner opens the photographs, and says what is wrong with the plan before anything is trained.
func newRunner(plan Plan, s experiment.Setting) (r *runner, err error) {
	if err := plan.Check(); err != nil {
		return nil, config.Mistaken(err)
	}
	r = &runner{Setting: s, plan: plan, stores: experiment.NewStores(s, photos.Open)}
	if err = r.openAll(); err == nil {
		plan.Photos = "" // the fingerprint tells
		err = s.Alike(&plan, r.own[""].Store.Fingerprint())
	}
	if err != nil {
		r.stores.Close()
		return nil, err
	}
	return r, nil
}

// openAll opens what arms are trained on, and what they are evaluated on.
func (r *runner) openAll() error {
	r.own = map[string]sample.Data{}
	store, err := r.stores.Of(r.plan.Photos)
	if err != nil {
		return err
	}
	r.own[""] = puzzle2d.Split(store)
	for _, a := range r.plan.Arms {
		if _, open := r.own[a.Photos]; open {
			continue
		}
		if store, err = r.stores.Of(a.Photos); err != nil {
			return fmt.Errorf("%s: photos: %w", a.called(), err)
		}
		r.own[a.Photos] = puzzle2d.Split(store)
	}
	r.evaluations = []evaluation{&solving{r}}
	for n, t := range r.plan.Transfer {
		if store, err = r.stores.Of(t.Data); err == nil {
			e := &transferring{r, t, n, puzzle2d.Split(store), store}
			r.evaluations = append(r.evaluations, e)
			err = t.measure().Check(e.data)
		}
		if err != nil {
			return fmt.Errorf("transfer %s: %w", t.Name, err)
		}
	}
	for _, f := range r.plan.Finetune {
		e := &finetuning{runner: r, Finetune: f}
		if store, err = r.stores.Of(f.Data); err == nil {
			e.data, err = puzzle2d.SplitVOC(store, f.on())
		}
		if err != nil {
			return fmt.Errorf("finetune %s: %w", f.Name, err)
		}
		r.evaluations = append(r.evaluations, e)
	}
	return nil
}

// A Trial is an arm with a seed.
type Trial struct {
	arm      Arm
	Arm      string `json:"arm"`
	Seed     uint64 `json:"seed"`
	Task     string `json:"task,omitempty"` // none: random weights
	Photos   string `json:"photos"`
	Train    int    `json:"train"`    // photographs
	Validate int    `json:"validate"` // photographs held out
}

func (t Trial) name() string { return fmt.Sprintf("%s, seed %d", t.Arm, t.Seed) }

func (t Trial) folder(out string) string {
	return filepath.Join(out, armsFolder, t.Arm, fmt.Sprintf("seed-%d", t.Seed))
}

// trials are the arms with each of their seeds.
func (p Plan) trials() (all []Trial) {
	for _, arm := range p.Arms {
		for _, seed := range p.Seeds {
			all = append(all, Trial{arm: arm, Arm: arm.Name, Seed: seed})
		}
	}
	return all
}

// Trials implements [experiment.Study].
func (p *Plan) Trials(string) (int, error) { return len(p.trials()), nil }

// Look tells what a plan would run, without running any of it.
func (p Plan) Look() ([]Trial, error) {
	r, err := newRunner(p, experiment.Setting{})
	if err != nil {
		return nil, err
	}
	defer r.stores.Close()
	trials := p.trials()
	for n := range trials {
		t, arm := &trials[n], trials[n].arm
		t.Photos = cmp.Or(arm.Photos, p.Photos)
		if arm.Random {
			continue
		}
		chosen, err := p.settings(arm)
		if err != nil {
			return nil, err
		}
		data := r.own[arm.Photos]
		t.Task, t.Train, t.Validate = chosen.Chosen, len(data.Train), len(data.Validate)
	}
	return trials, nil
}

// done says whether an arm with a seed has its result.
func done(folder string) bool {
	result, err := readResult(filepath.Join(folder, resultFile))
	return err == nil && result.Settings != nil && !result.Unfinished
}

type runner struct {
	experiment.Setting
	plan        Plan
	own         map[string]sample.Data // to train on, by what arms name; "": the plan
	evaluations []evaluation
	stores      *experiment.Stores[*photos.Store]
}

// What a comparison leaves in its folder, and each arm with each seed in its own below armsFolder.
const (
	armsFolder = "arms"
	resultFile = "result.json"
	configFile = "config.yaml" // of the study
)

// owner has the files of a comparison.
var owner = outdir.Owner{Name: "voxsaw 2d compare", Old: armsFolder + "/*/seed-*/*.json",
	Files: append(experiment.PageFiles(), armsFolder, configFile)}

// arm is one arm with one seed: what an earlier run found, or found now.
func (r *runner) arm(ctx context.Context, arm Arm, seed uint64, folder string) (Result, error) {
	chosen, err := r.plan.settings(arm)
	if err != nil {
		return Result{}, err
	}
	task, settings := pretext.Photographs.Chosen(&chosen.OneOf)
	settings.Common().Train.Seed = seed
	if err := settings.Resolve(r.own[arm.Photos].Store); err != nil {
		return Result{}, config.Mistaken(err)
	}
	result := Result{Arm: arm.Name, Seed: seed}
	var old Result
	// the file of first weights may be on rank 0's node alone
	if err := r.Group().AtRoot(func() (err error) {
		if result.Settings, err = r.settings(arm, chosen); err != nil {
			return err
		}
		if old, err = readResult(filepath.Join(folder, resultFile)); err != nil {
			return err
		}
		if !train.Begun(folder) { // such as one whose first weights could not be read
			return nil
		}
		return otherWeights(folder, old.Settings, result.Settings)
	}); err != nil {
		return result, err
	}
	if err := r.Group().FromRoot(&result.Settings); err != nil {
		return result, err
	}
	if err := r.Group().FromRoot(&old); err != nil {
		return old, err
	}
	if same(old.Settings, result.Settings) {
		if !old.Unfinished {
			return old, nil
		}
		result.Solved, result.Transfer, result.Finetuned = old.Solved, old.Transfer, old.Finetuned
	}
	if r.Finished {
		return result, fmt.Errorf("%s: the settings are not those that it was found with", folder)
	}
	n := network{settings: settings, data: r.own[arm.Photos], folder: folder, result: &result}
	n.common, n.puzzles, _ = puzzle2d.SettingsOf(settings)
	if !arm.Random {
		result.Task = chosen.Chosen
		if n.checkpoint, err = r.train(ctx, task, n); err != nil {
			return result, err
		}
	}
	return result, r.Group().AtRoot(func() error {
		keep := func() error { return result.write(folder, true) }
		if err := experiment.Measure(ctx, r.alone(), folder, r.evaluations, n, keep); err != nil {
			return err
		}
		return result.write(folder, false)
	})
}

// alone is where rank 0 works while the others wait: trainings alone are divided.
func (r *runner) alone() experiment.Setting {
	s := r.Setting
	s.Ranks = nil
	return s
}

// write leaves what is known of an arm with a seed in its folder: all, or what a later step that
// fails must not lose.
func (r *Result) write(folder string, unfinished bool) error {
	r.Unfinished = unfinished
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(filepath.Join(folder, resultFile), append(text, '\n')); err != nil {
		return err
	}
	return atomicfile.Seal(folder, resultFile)
}

// same says whether an earlier result is of these settings.
func same(old, now map[string]string) bool {
	old, now = maps.Clone(old), maps.Clone(now)
	if old[weightsKey] != "" && now[weightsKey] != "" {
		old[checkpointKey] = now[checkpointKey] // wherever the file lies
	} else {
		delete(old, weightsKey) // the file is gone
		delete(now, weightsKey)
	}
	return maps.Equal(old, now)
}

// The settings of the first weights of an arm: the file, and its digest, which tells them from
// others.
const checkpointKey, weightsKey = "pretrain.checkpoint", "pretrain.checkpoint_digest"

// otherWeights refuses to go on with an arm that has begun with other first weights than are in the
// file now: its training would go on with those.
func otherWeights(folder string, old, now map[string]string) error {
	before, is := old[weightsKey], now[weightsKey]
	if before == "" || is == "" || before == is {
		return nil
	}
	return &voxsaw.ChangedError{Path: folder, Changes: []string{fmt.Sprintf("%s: %s has other weights than when the "+
		"arm was trained (SHA-256 %.12s then, %.12s now)", checkpointKey, now[checkpointKey], before, is)}}
}

// leaves are the settings of a part of a configuration, by their dotted keys.
func leaves(prefix string, cfg any) (map[string]string, error) {
	text, err := config.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	from, err := config.Differences("{}", string(text)) // from nothing: all of them
	for _, leaf := range from {
		all[prefix+leaf.Key] = leaf.New
	}
	return all, err
}

// settings are what a result depends on, by their dotted keys: the arm's, how it is evaluated, and
// the data.
func (r *runner) settings(arm Arm, chosen experiment.Pretrain) (map[string]string, error) {
	all, err := leaves("pretrain.", &chosen)
	if err != nil {
		return nil, err
	}
	if all[checkpointKey] != "" {
		switch digest, err := atomicfile.SHA256(*chosen.Settings().Common().Checkpoint); {
		case err == nil:
			all[weightsKey] = digest
		case !errors.Is(err, fs.ErrNotExist): // a training that begins with it says so
			return nil, err
		}
	}
	all["random"], all["photos"] = strconv.FormatBool(arm.Random), r.own[arm.Photos].Store.Fingerprint()
	count := map[string]int{}
	for _, e := range r.evaluations {
		kind, of, err := e.settings()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", e.What(), err)
		}
		if kind != "" {
			count[kind]++
			kind = fmt.Sprintf("%s.%d.", kind, count[kind])
		}
		for key, value := range of {
			all[kind+key] = value
		}
	}
	return all, nil
}

// readResult reads what an earlier run found; nothing if it found nothing.
func readResult(path string) (result Result, err error) {
	text, err := smallfile.Read(path, smallfile.List)
	if errors.Is(err, fs.ErrNotExist) {
		return result, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &result)
	}
	if err != nil {
		return result, fmt.Errorf("%s: %w: delete it to repeat the arm", path, err)
	}
	return result, nil
}

// A network is that of an arm with a seed.
type network struct {
	settings   pretext.Config   // resolved
	common     *puzzle2d.Common // of them
	puzzles    *puzzle2d.Config // those settings, where the task is puzzles; else nil
	data       sample.Data      // that it is trained on
	checkpoint string           // empty: random weights, those of the network and the seed
	folder     string           // of the arm with the seed
	result     *Result          // what is known of it
}

// noteWeights writes which first weights an arm begins with before it does: see otherWeights.
func (r *runner) noteWeights(n network) error {
	if n.result.Settings[weightsKey] == "" || train.Begun(n.folder) {
		return nil
	}
	if err := atomicfile.MakeFolder(n.folder); err != nil {
		return err
	}
	return n.result.write(n.folder, true)
}

// train trains an arm, from where an earlier run has stopped.
func (r *runner) train(ctx context.Context, task pretext.Task, n network) (checkpoint string, err error) {
	result := n.result
	observer := r.Console.Training(fmt.Sprintf("%s, seed %d", result.Arm, result.Seed), task.Items)
	o := r.Setting.Run(n.folder, nil, observer)
	if err := r.Group().AtRoot(func() error { return r.noteWeights(n) }); err != nil {
		return "", err
	}
	summary, err := n.settings.Pretrain(ctx, r.Device, n.data, o)
	r.Console.Trained()
	result.Steps, result.Score = summary.Step, summary.Validation.Score
	if err == nil {
		err = r.Group().AtRoot(func() error { // who writes the log, and the result
			status, err := train.ReadStatus(n.folder)
			result.Elapsed = status.Time
			return err
		})
	}
	return train.Last(n.folder), err
}
