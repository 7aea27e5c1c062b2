// Package cluster writes what a cluster's own scheduler needs to run the trials of an experiment: a
// Slurm job array, a Kubernetes Job or MPIJobs. A person reads it, changes it, and submits it.
//
// Start at [Schedulers] and [Scheduler.Files].
package cluster

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"text/template"
	"unicode"

	"github.com/voxsaw/voxsaw/internal/hint"
	"github.com/voxsaw/voxsaw/internal/memory"
	"github.com/voxsaw/voxsaw/internal/numbers"
	"github.com/voxsaw/voxsaw/internal/terminal"
)

// slurmScript is a job array with a task for each trial, on one process or on several ranks.
var slurmScript = template.Must(template.New("sbatch").Parse(`#!/bin/bash
# The trials of an experiment, a task each. Read this, change it, and submit it:
#
#   cd {{.Folder}}
#   sbatch {{.Script}}
#
# Trials that start from the same encoder wait for the first of them to pretrain it. When all tasks
# have ended, the same command{{if .Together}} on one process{{else}} without --trial{{end}} makes the table and the report:
#
#   {{.Again}}
#
{{.Estimate}}
#
#SBATCH --job-name={{.Label}}
#SBATCH --array=1-{{.Trials}}
{{- if .Together}}
# the ranks of a trial, on as many nodes as that takes; --nodes says how many
#SBATCH --ntasks={{.Ranks}}
#SBATCH --cpus-per-task={{.Cores}}
{{- else}}
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task={{.Cores}}
{{- end}}
{{- if .PerCore}}
#SBATCH --mem-per-cpu={{.PerCore}}
{{- else}}
# on each node
#SBATCH --mem={{.Memory}}
{{- end}}
# at most so long; a task that was stopped goes on where it stopped when it is submitted again
#SBATCH --time={{.Hours}}:00:00
#SBATCH --requeue
# two minutes before the end the program is told to save
#SBATCH --signal={{if .Together}}USR1{{else}}B:TERM{{end}}@120
#SBATCH --output={{.Logs}}
#SBATCH --open-mode=append

{{if .Together -}}
# pmi2 is for MPICH and what descends from it; for Open MPI it is --mpi=pmix
exec srun --mpi=pmi2 --kill-on-bad-exit=1 --cpus-per-task="$SLURM_CPUS_PER_TASK" \
  {{.Again}} --threads "$SLURM_CPUS_PER_TASK" --ranks {{.Ranks}} --trial "$SLURM_ARRAY_TASK_ID"
{{- else -}}
exec {{.Again}} --threads "${SLURM_CPUS_PER_TASK:-{{.Cores}}}" --trial "$SLURM_ARRAY_TASK_ID"
{{- end}}
`))

// A Scheduler is one that a script can be written for.
type Scheduler struct {
	one, ranks scriptFile // for trials of one process, and of several ranks
	Submit     string     // the command before the script's name
	unit       string     // of memory, in MiB
	// FolderAlone: the folder that the command is run in is all that trials have of this machine.
	FolderAlone bool
}

// A scriptFile is a script, and how its name ends.
type scriptFile struct {
	template *template.Template
	ending   string
}

// Schedulers are all that there are, by name.
var Schedulers = map[string]Scheduler{
	"slurm": {scriptFile{slurmScript, ".sbatch"}, scriptFile{slurmScript, ".sbatch"}, "sbatch", "M", false},
	"kubernetes": {scriptFile{kubernetesJob, ".job.yaml"}, scriptFile{kubernetesMPIJobs, ".mpijobs.yaml"},
		"kubectl apply -f", "Mi", true},
}

// A Job is the trials of an experiment, and what each process of them needs.
type Job struct {
	Program  string      // its name: "voxsaw", or that of a program of one's own
	Verb     string      // of the program: "crossval"
	Folder   string      // that the command is run in
	Out      string      // the experiment's folder
	Settings []byte      // of all trials, which --config reads
	Flags    []string    // more flags of the command, as a shell reads them
	Paths    [][2]string // that the settings name: what each is, and the path
	Trials   int
	Ranks    int // that carry out a trial together; 1: none
	Cores    int
	Limit    int64 // of a process's memory in bytes, by --memory; 0: none
	Needs
}

// Needs are what each process that carries out a trial needs at most.
type Needs struct {
	// Memory is that of a training: the network, a step and the state of the optimiser, in bytes,
	// where nothing is computed twice to save some.
	Memory int64
	// FLOPs is the arithmetic of a trial, its predictions included. The pretraining of its encoder
	// is in it, though other trials may share that.
	FLOPs float64
	// Voxels is the number of voxels of the largest scan that may be predicted and scored.
	Voxels int
}

// A File is a path below the folder of the command, and what is written there.
type File struct {
	Path string
	Text []byte
}

// Check refuses paths that trials would not find, and such as a script cannot hold.
func (s Scheduler) Check(j Job) error {
	if strings.ContainsFunc(j.Out, unicode.IsControl) {
		return fmt.Errorf("--out %q: a script cannot hold the name: take one without line breaks and tabs", j.Out)
	}
	for _, p := range append([][2]string{{"--out", j.Out}}, j.Paths...) {
		if s.FolderAlone && p[1] != "" && !filepath.IsLocal(p[1]) {
			return hint.Addf(fmt.Errorf("%s is %s: pods have the folder that this command is "+
				"run in, and nothing else of this machine", p[0], p[1]),
				"run it in the folder that holds all of the study, and name what "+
					"lies there by its path below that folder")
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

// estimate is the memory in bytes and the hours that a process of a trial is given, and how they
// came about, as comments of a script.
func (j Job) estimate() (bytes int64, hours int, how string) {
	scoring := int64(j.Voxels) * voxelBytes
	if j.Limit > 0 {
		bytes, how = j.Limit+j.Limit/5, "--memory, and a fifth more for scans"
		if scoring > j.Limit/5 {
			bytes, how = j.Limit+scoring, fmt.Sprintf("--memory, and %s for scoring the largest scan",
				terminal.Bytes(scoring))
		}
	} else {
		bytes = max((j.Memory+memory.Own+scoring)/5*6, leastBytes)
		how = fmt.Sprintf("%s for a training, %s for scoring the largest scan, and a\n# fifth more; %s at least",
			terminal.Bytes(j.Memory), terminal.Bytes(scoring), terminal.Bytes(leastBytes))
	}
	computing := j.FLOPs / coreRate / float64(j.Cores) / 3600
	return bytes, int(math.Ceil(1 + slack*computing)), fmt.Sprintf(`# Memory of a process: %s.
# Time: the largest trial, with its encoder, teachers and predictions, is %.1f TFLOP for a process. At %.0f
# GFLOP/s a core, with %s, that is %.1f hours. It is given %d times that, for slower machines and
# validations, and an hour for reading and scoring. Both are estimates, change them where you know
# better: a trial that was stopped goes on where it stopped when it is started again.`,
		how, j.FLOPs/1e12, coreRate/1e9, numbers.Count(j.Cores, "core"), computing, slack)
}

// Files are a job's script and the settings that it names.
func (s Scheduler) Files(j Job) (script, settings File, err error) {
	file := s.one
	if j.Ranks > 1 {
		file = s.ranks
	}
	name := strings.TrimPrefix(j.Verb, "2d ")
	settings = File{filepath.Join(j.Out, name+".yaml"), j.Settings}
	again := append([]string{hint.ShellWord(j.Program), j.Verb, "--config", hint.ShellWord(settings.Path), "--out",
		hint.ShellWord(j.Out)},
		j.Flags...)
	bytes, hours, how := j.estimate()
	perCore := ""
	if j.Limit <= 0 && j.Ranks > 1 { // nobody knows how many ranks a node has
		perCore = fmt.Sprintf("%d%s", bytes>>20/int64(j.Cores)+1, s.unit)
	}
	trials := make([]int, j.Trials)
	for n := range trials {
		trials[n] = n + 1
	}
	script.Path = filepath.Join(j.Out, name+file.ending)
	var b strings.Builder
	err = file.template.Execute(&b, map[string]any{
		"Program": j.Program, "Label": label(j.Program), "Name": name, "Verb": j.Verb,
		"Folder": hint.ShellWord(
			j.Folder,
		), "Script": hint.ShellWord(script.Path), "Trials": j.Trials, "Numbers": trials,
		"Cores": j.Cores, "Memory": fmt.Sprintf("%d%s", bytes>>20, s.unit), "PerCore": perCore,
		"Hours": hours, "Seconds": hours * 3600, "Estimate": how,
		"Ranks": j.Ranks, "Together": j.Ranks > 1,
		"Logs": slurmLogs(j.Out), "Again": strings.Join(again, " "),
	})
	script.Text = []byte(b.String())
	return script, settings, err
}

// label is a name of a program as schedulers take it for an object: small letters, digits and
// dashes.
func label(program string) string {
	return cmp.Or(strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(program)), "-"), "job")
}

// slurmLogs is the name of a task's log as sbatch reads it: between double quotes a backslash makes
// the next character an ordinary one, and a percent sign stands for itself where there are two.
func slurmLogs(out string) string {
	name := strings.NewReplacer(`\`, `\\`, `"`, `\"`, `%`, `%%`).Replace(out)
	name = filepath.Join(name, "slurm-%A_%a.log")
	if hint.ShellWord(out) == out {
		return name
	}
	return `"` + name + `"`
}
