package auto

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/backbone"
	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/safetext"
	"github.com/voxsaw/voxsaw/internal/smallfile"
	"github.com/voxsaw/voxsaw/internal/terminal"
	"github.com/voxsaw/voxsaw/internal/train"
)

// This file remembers what of a job is done.

// state is what a job's folder says of it, in state.json of its folder auto.
type state struct {
	Version int      `json:"version"`
	Scans   []string `json:"scans"`
	Hours   float64  `json:"hours"`
	From    string   `json:"from"`              // where the job was begun; paths are from there
	Out     string   `json:"out"`               // how its own folder was named there
	Labels  []string `json:"labels,omitempty"`  // flags of the fine-tunings
	Machine []string `json:"machine,omitempty"` // flags of the commands that compute
	// Modality is what somebody has said that the scans are.
	Modality string `json:"modality,omitempty"`
	Plans    string `json:"plans,omitempty"`
	Network  string `json:"network,omitempty"`
	Data     string `json:"data,omitempty"`  // fingerprint of the prepared cases
	Files    int    `json:"files,omitempty"` // below the scans' paths, when they were prepared
	// Folds are decided on once the plan is there; nil: not yet.
	Folds     *Folds    `json:"folds,omitempty"`
	Stages    []*record `json:"stages"`
	Forgotten float64   `json:"forgotten,omitempty"` // seconds of stages that are to be done anew
}

// Folds are the fine-tunings of a job.
type Folds struct {
	Of     int    `json:"of"`               // folds of the labelled cases; 0: they are not divided
	Scheme string `json:"scheme,omitempty"` // of division, where there are folds
	One    bool   `json:"one"`              // of the folds the first alone is held out
	All    bool   `json:"all"`              // one network learns from all labelled cases
}

// Count is how many folds are held out in turn.
func (f Folds) Count() int {
	if f.One {
		return 1
	}
	return f.Of
}

// heldOut are the flags that hold out a fold, counted from 0.
func (f Folds) heldOut(fold int) []string {
	return []string{"--fold", strconv.Itoa(fold + 1), "--folds", strconv.Itoa(f.Of), "--fold-scheme", f.Scheme}
}

// names are those of the fine-tunings, the folds first.
func (f Folds) names() (names []string) {
	for n := range f.Count() {
		names = append(names, fmt.Sprintf("fold%d", n+1))
	}
	if f.All {
		names = append(names, allFolder)
	}
	return names
}

// record is a stage that has begun.
type record struct {
	Name    string   `json:"name"`
	Command []string `json:"command"` // once it is done, the one that makes the same bytes again
	Seconds float64  `json:"seconds"` // that it has taken so far
	Done    bool     `json:"done"`
	Plain   bool     `json:"plain,omitempty"` // a command of the system's, not of this program
}

// took is what a stage has taken; 0 for one that has not begun.
func (r *record) took() time.Duration {
	if r == nil {
		return 0
	}
	return time.Duration(r.Seconds * float64(time.Second))
}

// find is the record of a stage; nil: it has not begun.
func (s *state) find(name string) *record {
	if n := slices.IndexFunc(s.Stages, func(r *record) bool { return r.Name == name }); n >= 0 {
		return s.Stages[n]
	}
	return nil
}

// forget makes stages ones that have not begun. The time that they took is spent.
func (s *state) forget(names ...string) {
	s.Stages = slices.DeleteFunc(s.Stages, func(r *record) bool {
		gone := slices.Contains(names, r.Name)
		if gone {
			s.Forgotten += r.Seconds
		}
		return gone
	})
}

// members are the files in the folder of the model.
func (s *state) members() (files []string) {
	for _, r := range s.Stages {
		if name, ok := strings.CutPrefix(r.Name, "model "); ok && r.Done {
			files = append(files, name+filepath.Ext(train.Last("")))
		}
	}
	return files
}

func stateFolder(out string) string { return filepath.Join(out, "auto") }

func statePath(out string) string { return filepath.Join(stateFolder(out), "state.json") }

func readState(out string) (s state, err error) {
	path := statePath(out)
	text, err := smallfile.Read(path, smallfile.List)
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, hint.Addf(fmt.Errorf("%s is damaged: %w", path, err),
			"remove %s and run the command again: what is finished is found again by each stage, or choose "+
				"another --out", hint.Word(stateFolder(out)))
	}
	if s.Version != 1 {
		return s, fmt.Errorf("%s is of version %d, and this program knows version 1", path, s.Version)
	}
	s.texts(safetext.Unpack)
	return s, nil
}

// texts changes all words that a user has chosen.
func (s *state) texts(change func(string) string) {
	all := [][]string{s.Scans, s.Labels, s.Machine}
	for _, r := range s.Stages {
		all = append(all, r.Command)
	}
	for _, words := range all {
		for n := range words {
			words[n] = change(words[n])
		}
	}
	s.From, s.Out, s.Plans = change(s.From), change(s.Out), change(s.Plans)
}

// packed is a copy for JSON, which keeps bytes that are no UTF-8.
func (s *state) packed() state {
	p := *s
	p.Scans, p.Labels, p.Machine = slices.Clone(s.Scans), slices.Clone(s.Labels), slices.Clone(s.Machine)
	p.Stages = nil
	for _, r := range s.Stages {
		c := *r
		c.Command = slices.Clone(r.Command)
		p.Stages = append(p.Stages, &c)
	}
	p.texts(safetext.Pack)
	return p
}

// samePath says whether two paths name the same file here, each with what follows its name.
func samePath(a, b string) bool {
	x, err := filepath.Abs(a)
	y, err2 := filepath.Abs(b)
	return a != "" && b != "" && err == nil && err2 == nil && x == y
}

// unlessDefault is the kind of a network, "" of the default one.
func unlessDefault(kind string) string {
	if kind == backbone.Default {
		return ""
	}
	return kind
}

// open reads what is done, or begins.
func (j *Job) open() error {
	s, err := readState(j.Out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		from, err := os.Getwd()
		if err != nil {
			return err
		}
		j.Network = unlessDefault(j.Network)
		j.state = state{Version: 1, Scans: j.Scans, Hours: j.Hours, From: from, Out: j.Out, Labels: j.Labels,
			Machine: j.Machine, Modality: j.Modality, Plans: j.Plans, Network: j.Network}
		return j.save()
	case err != nil:
		return err
	case !slices.Equal(s.Scans, j.Scans):
		return hint.Addf(fmt.Errorf("%s is of other scans: %s", j.Out, safetext.List(s.Scans)),
			"choose another --out; voxsaw auto --resume --out %s goes on with those", hint.Word(j.Out))
	}
	if len(j.Labels) == 0 {
		j.Labels = s.Labels
	}
	if !slices.Equal(s.Labels, j.Labels) {
		was := "all"
		if len(s.Labels) > 0 {
			was = strings.Join(s.Labels, " ")
		}
		return hint.Addf(fmt.Errorf("the job in %s was begun with other labels: %s", j.Out, was),
			"leave --labels out to go on with those, or choose another --out")
	}
	for _, said := range []struct {
		flag     string
		now, was *string
		same     func(a, b string) bool
	}{
		{"modality", &j.Modality, &s.Modality, strings.EqualFold},
		{"plans", &j.Plans, &s.Plans, samePath},
		{"network", &j.Network, &s.Network, func(a, b string) bool { return unlessDefault(a) == b }},
	} {
		if *said.now == "" || said.same(*said.now, *said.was) {
			*said.now = *said.was
			continue
		}
		was := "without --" + said.flag
		if *said.was != "" {
			was = fmt.Sprintf("with --%s %s", said.flag, *said.was)
		}
		return hint.Addf(fmt.Errorf("the job in %s was begun %s", j.Out, was),
			"leave --%s out to go on so, or choose another --out", said.flag)
	}
	if j.Machine = overlaid(s.Machine, j.Machine); !slices.Equal(s.Machine, j.Machine) {
		before := "none"
		if len(s.Machine) > 0 {
			before = strings.Join(s.Machine, " ")
		}
		j.Say("what has not begun is computed with %s; flags about the machine were %s", strings.Join(j.Machine, " "),
			before)
		s.Machine = j.Machine
	}
	if here, err := os.Getwd(); err == nil && here != s.From {
		s.From = here // the folder was moved with all that is in it, or is called by another path
	}
	if s.Hours != j.Hours {
		j.Say("the job was begun for %g h; now there are %g", s.Hours, j.Hours)
		s.Hours = j.Hours
	}
	j.state = s
	return nil
}

// overlaid are flags, --name=value, with the values that others of the same names have, and with
// those others that they lack.
func overlaid(flags, others []string) []string {
	name := func(flag string) string { return flag[:strings.Index(flag+"=", "=")+1] }
	all := slices.Clone(flags)
	for _, flag := range others {
		n := slices.IndexFunc(all, func(f string) bool { return name(f) == name(flag) })
		if n < 0 {
			n, all = len(all), append(all, flag)
		}
		all[n] = flag
	}
	return all
}

// machine are the flags about the machine that a training was begun with: all else that has a value
// has it as a word of its own.
func (r *record) machine() (flags []string) {
	for _, word := range r.Command {
		if strings.HasPrefix(word, "--") && strings.Contains(word, "=") {
			flags = append(flags, word)
		}
	}
	return flags
}

// save writes the state, and the commands that are done.
func (j *Job) save() error {
	s := j.state
	text, err := json.MarshalIndent(s.packed(), "", "  ")
	if err != nil {
		return err
	}
	if err := atomicfile.WriteBytes(statePath(j.Out), append(text, '\n')); err != nil {
		return err
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# What voxsaw auto did, stage by stage. Where %s holds nothing but %s, these commands make "+
		"the same again.\n", hint.ShellWord(j.Out), planFile)
	fmt.Fprintf(&b, "%s\n", comment("Paths are from "+hint.ShellWord(s.From)+"."))
	made := false
	for _, r := range s.Stages {
		if r.Plain && !made {
			fmt.Fprintf(&b, "mkdir -p %s\n", hint.ShellWord(j.at(modelFolder)))
			made = true
		}
		line := r.line(hint.ShellWords)
		switch {
		case !r.Done:
			line = comment("not finished: " + line)
		case r.Command[0] == "plan" && r.Name != lookStage:
			// it measures, and might decide otherwise another time
			line = comment("what it decided on is kept: " + line)
		}
		fmt.Fprintf(&b, "%s\n", line)
	}
	return atomicfile.WriteBytes(j.at(script), b.Bytes())
}

// comment is one of the shell's, of as many lines as a text has.
func comment(text string) string { return "# " + strings.ReplaceAll(text, "\n", "\n# ") }

// line is the command as a person types it, its words in quotes where they have to be.
func (r *record) line(quoted func(words ...string) string) string {
	words := r.Command
	if !r.Plain {
		words = slices.Concat([]string{"voxsaw"}, words)
	}
	return quoted(words...)
}

func (j *Job) done(name string) bool {
	r := j.state.find(name)
	return r != nil && r.Done
}

// stage carries out a command of this program, unless it is done. again, where there is one, gives
// the command that makes the same bytes, once it is done.
func (j *Job) stage(ctx context.Context, name string, args []string, again func() ([]string, error)) error {
	return j.carryOut(ctx, name, record{Command: args}, func(begun bool) error {
		if begun {
			args = onceMore(args)
		}
		return j.Command(ctx, args)
	}, again)
}

// onceMore is a command that was begun before and not finished, as it goes on: a training goes on
// by its flag, a plan is made anew, and all else goes on by itself.
func onceMore(args []string) []string {
	switch args[0] {
	case "pretrain", "finetune":
		return slices.Concat(args, []string{"--resume"})
	case "plan":
		if !slices.Contains(args, "--force") {
			return slices.Concat(args, []string{"--force"})
		}
	}
	return args
}

// own carries out a command of the system's, which this program knows to do itself.
func (j *Job) own(ctx context.Context, name string, command []string, do func() error) error {
	return j.carryOut(ctx, name, record{Command: command, Plain: true}, func(bool) error { return do() }, nil)
}

// carryOut does a stage unless it is done, and counts its time.
func (j *Job) carryOut(ctx context.Context, name string, as record, do func(begun bool) error,
	again func() ([]string, error)) error {
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("before %s: %w", name, err)
	}
	r := j.state.find(name)
	if r != nil && r.Done {
		j.Say("%s: done before, in %s", name, terminal.Duration(r.took()))
		return nil
	}
	begun := r != nil
	if !begun {
		as.Name = name
		r = &as
		j.state.Stages = append(j.state.Stages, r)
	}
	r.Command = as.Command
	before := r.Seconds
	if err := j.save(); err != nil {
		return err
	}
	j.Say("%s: %s", name, r.line(hint.Words))
	began := train.Now()
	counted := j.count(r, before, began)
	err := do(begun)
	counted()
	if err == nil && again != nil {
		r.Command, err = again()
	}
	r.Seconds, r.Done = before+train.Now().Sub(began).Seconds(), err == nil
	return errors.Join(err, j.save())
}

// often is how often the time of a stage is written down.
var often = time.Minute

// count writes down every minute how long a stage has taken, so that a crash forgets no more of its
// time. Where that fails a stage goes on: what is saved at its end decides. Counting ends with the
// function that it gives.
func (j *Job) count(r *record, before float64, began time.Time) (end func()) {
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(often)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				r.Seconds = before + train.Now().Sub(began).Seconds()
				_ = j.save() // the next one may do
			}
		}
	}()
	return func() {
		close(stop)
		<-done
	}
}

// within is the time of the whole job, spent what of it is used, left the rest.
func (j *Job) within() time.Duration { return time.Duration(j.Hours * float64(time.Hour)) }

func (j *Job) spent() (d time.Duration) {
	d = time.Duration(j.state.Forgotten * float64(time.Second))
	for _, r := range j.state.Stages {
		d += r.took()
	}
	return d
}

func (j *Job) left() time.Duration { return max(j.within()-j.spent(), 0) }
