package photostudy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/outdir"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/train"
	"github.com/voxsaw/voxsaw/puzzle2d"
	"github.com/voxsaw/voxsaw/puzzle2d/photos"
)

// A Result is what one arm with one seed found.
type Result struct {
	Arm     string        `json:"arm"`
	Seed    uint64        `json:"seed"`
	Task    string        `json:"task"` // empty: random weights
	Steps   int           `json:"steps"`
	Elapsed time.Duration `json:"elapsed_ns"` // of the training
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
	// Chance is the share that guessing tells right; 0 in results of versions that did not say.
	Chance float64         `json:"chance,omitempty"`
	Draws  []puzzle2d.Draw `json:"draws"`
	// Interval is the 95 % bootstrap interval, over the tested photographs, of the share that is
	// told right, averaged over draws; absent where the draws test different ones
	Interval *[2]float64 `json:"interval,omitempty"`
}

// Found is what a comparison found, so far.
type Found struct {
	Results   []Result
	Elsewhere int // as many as [experiment.Sharing] says
}

// Run carries out a plan, or what is left of it, as [experiment.Sharing] has it: an arm that fails
// does not keep the others from being carried out. What is finished is returned with the errors of
// those that are not.
func Run(ctx context.Context, plan Plan, s experiment.Setting) (found Found, err error) {
	r, err := newRunner(plan, s)
	if err != nil {
		return found, err
	}
	defer r.close()
	release, err := atomicfile.EnterAll(s.Out)
	if err != nil {
		return found, err
	}
	defer release()
	if err := owner.Take(s.Out); err != nil {
		return found, err
	}
	parts := plan.parts(s.Out)
	results := make([]*Result, len(parts))
	sharing := &experiment.Sharing{Setting: s, Parts: parts, Arms: "arms", Done: done,
		Compare: func(folder string) error { return atomicfile.CompareFiles(filepath.Join(folder, resultFile)) },
		Run: func(ctx context.Context, n int) error {
			result, err := r.arm(ctx, plan.Arms[n/len(plan.Seeds)], plan.Seeds[n%len(plan.Seeds)], parts[n].Folder)
			if results[n] = &result; err != nil {
				results[n] = nil
				if last := train.Last(parts[n].Folder); exists(last) {
					err = fmt.Errorf("%w (its weights are safe in %s)", err, last)
				}
			}
			return err
		}}
	err = sharing.All(ctx)
	for _, result := range results {
		if result != nil {
			found.Results = append(found.Results, *result)
		}
	}
	found.Elsewhere = len(sharing.Elsewhere)
	return found, err
}

// newRunner opens the photographs, and says what is wrong with the plan before anything is trained.
func newRunner(plan Plan, s experiment.Setting) (r *runner, err error) {
	if err := plan.Check(); err != nil {
		return nil, err
	}
	store, err := experiment.Open(s, photos.Open, plan.Photos)
	if err != nil {
		return nil, err
	}
	r = &runner{Setting: s, plan: plan, data: puzzle2d.Split(store), own: map[string]puzzle2d.Data{}}
	if err := r.openFinetune(); err != nil {
		r.close()
		return nil, err
	}
	for _, a := range plan.Arms {
		if _, open := r.own[a.Photos]; a.Photos != "" && !open {
			if store, err = experiment.Open(s, photos.Open, a.Photos); err != nil {
				r.close()
				return nil, fmt.Errorf("arm %s: photos: %w", a.Name, err)
			}
			r.own[a.Photos] = puzzle2d.Split(store)
		}
	}
	for _, t := range plan.Transfer {
		if store, err = experiment.Open(s, photos.Open, t.Data); err == nil {
			r.targets = append(r.targets, puzzle2d.Split(store))
			err = t.measure().Check(r.targets[len(r.targets)-1])
		}
		if err != nil {
			r.close()
			return nil, fmt.Errorf("transfer %s: %w", t.Name, err)
		}
	}
	return r, nil
}

// Needs rehearses the training of each arm on a device. Nothing is trained.
func (p Plan) Needs(ctx context.Context, dev voxsaw.Device) (n cluster.Needs, err error) {
	r, err := newRunner(p, experiment.Setting{Device: dev})
	if err != nil {
		return n, err
	}
	defer r.close()
	for _, arm := range p.Arms {
		chosen, err := p.settings(arm)
		if err != nil || arm.Random {
			continue // Check has found no fault with the settings
		}
		task := chosen.Value().(Task)
		var need cluster.Needs
		if err = task.Resolve(r.of(arm)); err == nil {
			need, err = experiment.Rehearse(task.Shared().Train.Steps, func(o voxsaw.RunOptions) error {
				_, err := task.Train(ctx, dev, r.of(arm), o)
				return err
			})
		}
		if err != nil {
			return n, fmt.Errorf("arm %s: %w", arm.Name, err)
		}
		n.Memory, n.FLOPs = max(n.Memory, need.Memory), max(n.FLOPs, need.FLOPs)
	}
	return n, nil
}

// parts are the arms with each of their seeds.
func (p Plan) parts(out string) (parts []experiment.Part) {
	for _, arm := range p.Arms {
		for _, seed := range p.Seeds {
			parts = append(parts, experiment.Part{Name: fmt.Sprintf("%s, seed %d", arm.Name, seed), Arm: arm.Name,
				Folder: filepath.Join(out, armsFolder, arm.Name, fmt.Sprintf("seed-%d", seed))})
		}
	}
	return parts
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// done says whether an arm with a seed has its result.
func done(folder string) bool {
	result, err := readResult(filepath.Join(folder, resultFile))
	return err == nil && result.Settings != nil && !result.Unfinished
}

type runner struct {
	experiment.Setting
	plan    Plan
	data    puzzle2d.Data
	own     map[string]puzzle2d.Data // of arms that are trained on others
	targets []puzzle2d.Data
	stores  []*photos.Store   // of the tasks of fine-tuning
	marked  []puzzle2d.Marked // likewise
}

// of are the photographs that an arm is trained on.
func (r *runner) of(a Arm) puzzle2d.Data {
	if own, ok := r.own[a.Photos]; ok {
		return own
	}
	return r.data
}

func (r *runner) close() {
	r.data.Photos.Close()
	for _, own := range r.own {
		own.Photos.Close()
	}
	for _, s := range r.stores {
		s.Close()
	}
	for _, t := range r.targets {
		t.Photos.Close()
	}
}

// What a comparison leaves in its folder, and each arm with each seed in its own below armsFolder.
const (
	armsFolder = "arms"
	resultFile = "result.json"
)

// What the command of a comparison makes in the same folder.
const (
	ConfigFile = "config.yaml"
	ReportName = "report" // of report.html, report.md, and the folder report_files
)

// owner has the files of a comparison.
var owner = outdir.Owner{Name: "voxsaw 2d compare", Old: armsFolder + "/*/seed-*/*.json",
	Files: []string{armsFolder, ConfigFile, ReportName + ".html", ReportName + ".md", ReportName + "_files"}}

// arm is one arm with one seed: what an earlier run found, or found now.
func (r *runner) arm(ctx context.Context, arm Arm, seed uint64, folder string) (Result, error) {
	chosen, err := r.plan.settings(arm)
	if err != nil {
		return Result{}, err
	}
	task := chosen.Value().(Task)
	task.Shared().Train.Seed = seed
	if err := task.Resolve(r.of(arm)); err != nil {
		return Result{}, err
	}
	result := Result{Arm: arm.Name, Seed: seed}
	if result.Settings, err = r.settings(arm, &chosen); err != nil {
		return result, err
	}
	old, err := readResult(filepath.Join(folder, resultFile))
	if err != nil {
		return old, err
	}
	if r.same(old.Settings, result.Settings, chosen.Chosen) {
		if !old.Unfinished {
			return old, nil
		}
		result.Solved, result.Transfer, result.Finetuned = old.Solved, old.Transfer, old.Finetuned
	}
	if r.Finished {
		return result, fmt.Errorf("%s: the settings are not those that it was found with", folder)
	}
	checkpoint := ""
	if !arm.Random {
		result.Task = chosen.Chosen
		if checkpoint, err = r.train(ctx, r.of(arm), &result, task, folder); err != nil {
			return result, err
		}
		if result.Solved != nil || result.Transfer != nil || result.Finetuned != nil {
			result.Elapsed = old.Elapsed // of the training, which ended in an earlier run
		}
	}
	// another process must not measure the same network meanwhile
	release, err := outdir.Hold(folder, func() error { return nil })
	if err != nil {
		return result, err
	}
	defer release()
	if !arm.Random {
		if puzzles, ok := task.(*Puzzles); ok && result.Solved == nil {
			if err := r.solve(ctx, r.of(arm), &result, puzzles.Config, checkpoint); err != nil {
				return result, fmt.Errorf("solving puzzles: %w", err)
			}
			if err := result.write(folder, true); err != nil {
				return result, err
			}
		}
	}
	for k, target := range r.plan.Transfer {
		if k < len(result.Transfer) { // an earlier run came so far
			continue
		}
		m, err := r.measure(ctx, target, r.targets[k], checkpoint, seed, *task.Shared().Network, *task.Shared().Input)
		if err != nil {
			return result, fmt.Errorf("transfer to %s: %w", target.Name, err)
		}
		result.Transfer = append(result.Transfer, m)
		if err := result.write(folder, true); err != nil {
			return result, err
		}
	}
	for k := len(result.Finetuned); k < len(r.plan.Finetune); k++ {
		f, err := r.finetune(ctx, k, &result, checkpoint, *task.Shared().Network, folder)
		if err != nil {
			return result, fmt.Errorf("finetune %s: %w", r.plan.Finetune[k].Name, err)
		}
		result.Finetuned = append(result.Finetuned, f)
		if err := result.write(folder, true); err != nil {
			return result, err
		}
	}
	return result, result.write(folder, false)
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

// same says whether an earlier result is of these settings. One that the earlier program did not
// know counts as what it is by default.
func (r *runner) same(old, now map[string]string, task string) bool {
	if len(old) == 0 {
		return false
	}
	defaults := Tasks()
	defaults.Chosen = task
	known, err := leaves("pretrain.", &Pretrain{defaults})
	if err != nil {
		return false
	}
	filled := maps.Clone(old)
	for key, value := range known {
		if _, ok := old[key]; !ok && now[key] == value {
			filled[key] = value
		}
	}
	return maps.Equal(filled, now)
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

// settings are what a result depends on, by their dotted keys: the arm's, how it is measured, and
// the data.
func (r *runner) settings(arm Arm, chosen *config.OneOf) (map[string]string, error) {
	all := map[string]string{
		"random": strconv.FormatBool(arm.Random), "photos": r.of(arm).Photos.Fingerprint(),
		"rounds": fmt.Sprint(r.plan.Rounds), "only": strconv.Itoa(r.plan.Only), "solve": strconv.Itoa(r.plan.Solve),
	}
	parts, err := leaves("pretrain.", &Pretrain{*chosen})
	if err != nil {
		return nil, err
	}
	maps.Copy(all, parts)
	for k, t := range r.plan.Transfer {
		t.Data = r.targets[k].Photos.Fingerprint()
		if parts, err = leaves(fmt.Sprintf("transfer.%d.", k+1), &t); err != nil {
			return nil, err
		}
		maps.Copy(all, parts)
	}
	for k := range r.plan.Finetune {
		if parts, err = r.finetuneSettings(k); err != nil {
			return nil, err
		}
		maps.Copy(all, parts)
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

// train trains an arm, from where an earlier run has stopped.
func (r *runner) train(ctx context.Context, data puzzle2d.Data, result *Result, task Task,
	folder string) (checkpoint string, err error) {
	items, _ := task.Names()
	observer := r.Console.Training(fmt.Sprintf("%s, seed %d", result.Arm, result.Seed), items)
	summary, err := task.Train(ctx, r.Device, data, voxsaw.RunOptions{Folder: folder, Mode: voxsaw.ModeResume,
		Observer: observer, Memory: r.Memory})
	r.Console.Trained()
	result.Steps, result.Elapsed, result.Score = summary.Step, summary.Elapsed, summary.Validation.Score
	return filepath.Join(folder, "last.safetensors"), err
}

// solve solves the puzzles of held-out photographs in the ways that the network knows.
func (r *runner) solve(ctx context.Context, data puzzle2d.Data, result *Result, c puzzle2d.Config,
	checkpoint string) error {
	if len(data.Validate) == 0 {
		return nil
	}
	result.Solved = map[string]puzzle2d.Evaluation{}
	rounds := 1
	if len(r.plan.Rounds) > 0 {
		rounds = slices.Max(r.plan.Rounds)
	}
	ways := map[string]puzzle2d.PlayOptions{"unary": {Rounds: rounds, Unary: c.Binary}}
	if c.Head == puzzle2d.HeadKWay {
		ways = map[string]puzzle2d.PlayOptions{"only": {}}
	} else {
		if c.Binary {
			ways["binary"] = puzzle2d.PlayOptions{Rounds: rounds}
		}
		if r.plan.Only > 0 {
			ways["only"] = puzzle2d.PlayOptions{Only: r.plan.Only}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(ways)) {
		o := ways[name]
		if name == "only" && r.plan.Only > 0 && c.Grid[0]*c.Grid[1] < 9 {
			continue // four patches have 24 orders
		}
		o.Memory = r.Memory
		player, err := puzzle2d.Open(r.Device, checkpoint, o)
		if err != nil {
			return err
		}
		result.Solved[name], err = player.Evaluate(ctx, data.Photos, puzzle2d.Spread(data.Validate, r.plan.Solve))
		player.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// measure measures the features of a checkpoint, or of random weights.
func (r *runner) measure(ctx context.Context, t Target, data puzzle2d.Data, checkpoint string, seed uint64,
	n puzzle2d.Network, in puzzle2d.Input) (Measured, error) {
	width, height := data.Photos.Size()
	o := puzzle2d.FeatureOptions{Random: n, Seed: seed, Input: in, Layer: t.Layer, Side: t.Side, Memory: r.Memory}
	if o.Side == 0 {
		o.Side = min(width, height)
	}
	f, err := puzzle2d.OpenFeatures(r.Device, checkpoint, o)
	if err != nil {
		return Measured{}, err
	}
	defer f.Close()
	m := Measured{Target: t.Name, Width: f.Width(), Chance: 1 / float64(len(data.Photos.Classes()))}
	if m.Draws, err = t.measure().Run(ctx, f, data); err != nil {
		return m, err
	}
	if !t.Mix {
		m.Interval = interval(m.Draws)
	}
	return m, nil
}
