package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/voxsaw/voxsaw"
	"github.com/voxsaw/voxsaw/internal/atomicfile"
	"github.com/voxsaw/voxsaw/internal/cluster"
	"github.com/voxsaw/voxsaw/internal/config"
	"github.com/voxsaw/voxsaw/internal/experiment"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// This file: crossval --write, which leaves what a cluster's own scheduler needs in the
// experiment's folder. A person reads it, changes it, and submits it.

// checkWrite refuses what --write would leave out of account.
func (f crossvalFlags) checkWrite(j *job) error {
	if _, known := cluster.Schedulers[f.write]; !known {
		return usagef("--write %s: there are slurm and kubernetes", f.write)
	}
	for _, other := range []struct {
		flag  string
		given bool
	}{{"plan", f.dry}, {"trial", f.trial > 0}, {"json", f.asJSON}} {
		if other.given {
			return usagef("--write makes a script for all trials, and takes no --%s: leave one of the two out",
				other.flag)
		}
	}
	if j.launch.Ranks > 1 {
		return withHint(usagef("%d processes were started (%s), and --write is the work of one", j.launch.Ranks,
			j.launch.By), "run it without a launcher: the script that it writes starts the ranks")
	}
	return nil
}

// checkPaths refuses paths that trials would not find, and such as a script cannot hold.
func checkPaths(to cluster.Scheduler, o crossvalOptions, out string) error {
	if strings.ContainsFunc(out, unicode.IsControl) {
		return usagef("--out %q: a script cannot hold the name: take one without line breaks and tabs", out)
	}
	if !to.FolderAlone {
		return nil
	}
	paths := [][2]string{{"--out", out}, {"data", o.Data}, {"splits", o.Splits}}
	for _, i := range o.Inits {
		paths = append(paths, [2]string{"checkpoint of initialisation " + i.Name, i.Checkpoint},
			[2]string{"data of initialisation " + i.Name, i.Data})
	}
	for _, p := range paths {
		if p[1] != "" && !filepath.IsLocal(p[1]) {
			return withHint(usagef("%s is %s: pods have the folder that this command is run in, and nothing else of this machine", p[0], p[1]), "run it in the folder that holds all of the study, and name what lies there by its path below that folder")
		}
	}
	return nil
}

// What an estimate is made of.
const (
	// coreRate is the arithmetic of training that a core does in a second: a slow one, or one with
	// a small network. docs/benchmarks.md has 700 to 1300 GFLOP/s with 16 channels; with 4, on
	// crops of 32^3, a core that other programs shared did 30.
	coreRate = 100e9
	// slack is for slower machines, validations and reading.
	slack = 3
	// voxelBytes are for scoring a scan, see --memory.
	voxelBytes = 50
	leastBytes = 2 << 30
)

// size is the resources of one process of a trial.
type size struct {
	cores    int
	memory   int64 // bytes
	hours    int
	estimate string // how it came about, a comment for a script
}

// sizeOf estimates what a process of a trial needs.
func sizeOf(ctx context.Context, o crossvalOptions, ranks int) (s size, err error) {
	s.cores = cmp.Or(o.Machine.Threads, 8)
	// A processor's memory is planned by the same rules on any machine.
	dev, err := voxsaw.Open("cpu", voxsaw.DeviceOptions{Threads: s.cores, Conv: o.Machine.Conv})
	if err != nil {
		return s, err
	}
	defer dev.Close()
	needs, err := o.Plan.Needs(ctx, dev, ranks)
	if err != nil {
		return s, err
	}
	if limit := o.Memory.bytes(); limit > 0 {
		s.memory = limit + limit/5
		s.estimate = "--memory, and a fifth more for scans"
	} else {
		scoring := int64(needs.Voxels) * voxelBytes
		s.memory = max((needs.Memory+memory.Own+scoring)/5*6, leastBytes)
		s.estimate = fmt.Sprintf("%s for a training, %s for scoring the largest scan, and a\n# fifth more; %s at least",
			terminal.Bytes(needs.Memory), terminal.Bytes(scoring), terminal.Bytes(leastBytes))
	}
	computing := needs.FLOPs / coreRate / float64(s.cores) / 3600
	s.hours = int(math.Ceil(1 + slack*computing))
	s.estimate = fmt.Sprintf(`# Memory of a process: %s.
# Time: the largest trial, with the pretraining of its encoder, is %.1f TFLOP for a process. At %.0f
# GFLOP/s a core, with %s, that is %.1f hours. It is given %d times that, for slower machines and
# validations, and an hour for reading and predictions. Both are estimates, change them where you know
# better: a trial that was stopped goes on where it stopped when it is started again.`,
		s.estimate, needs.FLOPs/1e12, coreRate/1e9, numbers.Count(s.cores, "core"), computing, slack)
	return s, nil
}

// writeCluster writes the script for a scheduler, and the settings that it names.
func writeCluster(ctx context.Context, w io.Writer, o crossvalOptions, f crossvalFlags) error {
	to := cluster.Schedulers[f.write]
	if err := checkPaths(to, o, f.out); err != nil {
		return err
	}
	preview, err := experiment.Look(o.Plan, f.out)
	if err != nil {
		return err
	}
	size, err := sizeOf(ctx, o, f.together())
	if err != nil {
		return err
	}
	if err := atomicfile.MakeFolder(f.out); err != nil {
		return err
	}
	settings, err := config.Marshal(&o)
	if err != nil {
		return err
	}
	path := filepath.Join(f.out, "crossval.yaml")
	here, err := filepath.Abs(".")
	if err != nil {
		return err
	}
	again := []string{"voxsaw", "crossval", "--config", cluster.Quoted(path), "--out", cluster.Quoted(f.out)}
	if f.local.folder != "" {
		again = append(again, "--local", cluster.Quoted(f.local.folder), "--local-size", f.local.size.String())
	}
	if o.Memory > 0 {
		again = append(again, "--memory", o.Memory.String())
	}
	script, text, err := to.Script(cluster.Job{Folder: here, Out: f.out, Again: again, Trials: len(preview.Trials),
		Ranks: f.together(), Cores: size.cores, Memory: size.memory, PerCore: o.Memory <= 0 && f.together() > 1,
		Hours: size.hours, Estimate: size.estimate})
	if err != nil {
		return err
	}
	if err := cmp.Or(spare(path, theText(settings)), spare(script, theText([]byte(text)))); err != nil {
		return err
	}
	if err := errors.Join(atomicfile.WriteBytes(path, settings),
		atomicfile.WriteBytes(script, []byte(text))); err != nil {
		return err
	}
	say(w, "%s: %s; %s %s", script, numbers.Count(len(preview.Trials), "trial"), to.Submit, cluster.Quoted(script))
	return nil
}
